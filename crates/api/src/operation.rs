//! An operation: one type that is the request, with everything that is known of it.

use serde::{Serialize, de::DeserializeOwned};
use utoipa::ToSchema;

/// The method of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Reads.
    Get,
    /// Acts.
    Post,
    /// Creates or replaces.
    Put,
    /// Deletes.
    Delete,
}

impl Method {
    /// The method as it is written.
    pub fn name(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Delete => "DELETE",
        }
    }

    /// Whether the fields of a request stand in its body, not in its query.
    pub fn has_body(self) -> bool {
        matches!(self, Self::Post | Self::Put)
    }
}

/// The role that a caller needs. Declared here, enforced by access control.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Reads.
    Viewer,
    /// Sends messages, calls objects, starts runs.
    Member,
    /// Pauses, purges, redrives, deletes.
    Operator,
    /// Makes tokens and keys.
    Admin,
}

impl Role {
    /// All roles; each may do what those before it may.
    pub const ALL: [Self; 4] = [Self::Viewer, Self::Member, Self::Operator, Self::Admin];

    /// The role as it is written.
    pub fn name(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::Member => "member",
            Self::Operator => "operator",
            Self::Admin => "admin",
        }
    }
}

/// A request, and what answers it. Fields that stand in the path are skipped by serde; the others
/// are the query of GET and DELETE, and the JSON body of POST and PUT.
pub trait Operation: Serialize + DeserializeOwned + ToSchema + Send + Sync + 'static {
    /// The answer.
    type Response: Serialize + DeserializeOwned + ToSchema + Send + 'static;

    /// How it is sent.
    const METHOD: Method;
    /// Where it is sent, with `{field}` for each field of the path.
    const PATH: &'static str;
    /// The role that it needs.
    const NEEDS: Role;
    /// The status of the answer.
    const STATUS: u16;
    /// Another status that a good answer may have.
    const STATUS_TOO: Option<u16>;
    /// The name of the field that stands in the query although the request has a body.
    const EXTRA_QUERY: Option<&'static str>;
    /// The body that an empty one stands for.
    const EMPTY_BODY: &'static str;
    /// Whether it takes the header `Idempotency-Key`.
    const TAKES_KEY: bool;

    /// The fields of the path, in their order.
    fn path_values(&self) -> Vec<String>;

    /// Takes the fields of the path, in their order. An error names the field.
    fn set_path_values(&mut self, values: Vec<String>) -> Result<(), String>;

    /// The idempotency key.
    fn key(&self) -> Option<&str> {
        None
    }

    /// Takes the idempotency key.
    fn set_key(&mut self, _: Option<String>) {}

    /// The field that stands in the query although the request has a body.
    fn extra_query(&self) -> Option<(&'static str, String)> {
        None
    }

    /// Takes that field. An error says why it cannot be.
    fn set_extra_query(&mut self, name: &str, _: &str) -> Result<(), String> {
        Err(format!("unknown field `{name}` in the query"))
    }

    /// The status of this answer.
    fn status(_: &Self::Response) -> u16 {
        Self::STATUS
    }

    /// The path of this request.
    fn path(&self) -> String {
        crate::path::fill(Self::PATH, &self.path_values())
    }

    /// The path and the query of this request.
    fn uri(&self) -> Result<String, serde_urlencoded::ser::Error> {
        let path = self.path();
        if Self::METHOD.has_body() {
            let extra = self.extra_query();
            return Ok(extra.map_or(path.clone(), |(name, value)| format!("{path}?{name}={value}")));
        }
        let query = serde_urlencoded::to_string(self)?;
        Ok(if query.is_empty() { path } else { format!("{path}?{query}") })
    }
}

/// Makes a type an operation:
/// `operation!(PauseQueue => Queue, Post "/v1/queues/{queue}/pause" (queue), Operator);`
macro_rules! operation {
    ($request:ty => $response:ty, $method:ident $path:literal ($($($field:ident).+),*), $role:ident
        $(, status $status:literal)? $(, key $key:ident)? $(, empty $empty:literal)?
        $(, query $query:ident)? $(, status_by $status_by:path)?) => {
        impl $crate::Operation for $request {
            type Response = $response;
            const METHOD: $crate::Method = $crate::Method::$method;
            const PATH: &'static str = $path;
            const NEEDS: $crate::Role = $crate::Role::$role;
            const STATUS: u16 = operation!(@status $($status)?);
            const STATUS_TOO: Option<u16> = operation!(@too $($status_by)?);
            const EXTRA_QUERY: Option<&'static str> = operation!(@query $($query)?);
            const EMPTY_BODY: &'static str = operation!(@empty $($empty)?);
            const TAKES_KEY: bool = operation!(@takes $($key)?);

            fn path_values(&self) -> Vec<String> {
                vec![$(self.$($field).+.to_string()),*]
            }

            fn set_path_values(&mut self, values: Vec<String>) -> Result<(), String> {
                let mut values = values.into_iter();
                $(
                    let value = values.next().unwrap_or_default();
                    self.$($field).+ = value.parse().map_err(|error| {
                        format!("`{value}` is not a {}: {error}", stringify!($($field).+))
                    })?;
                )*
                let _ = values.next();
                Ok(())
            }

            $(
                fn key(&self) -> Option<&str> {
                    self.$key.as_deref()
                }

                fn set_key(&mut self, key: Option<String>) {
                    self.$key = key;
                }
            )?

            $(
                fn extra_query(&self) -> Option<(&'static str, String)> {
                    self.$query.as_ref().map(|it| (stringify!($query), it.to_string()))
                }

                fn set_extra_query(&mut self, name: &str, value: &str) -> Result<(), String> {
                    if name != stringify!($query) {
                        return Err(format!("unknown field `{name}` in the query"));
                    }
                    self.$query = Some(value.parse().map_err(|error| format!("{error}"))?);
                    Ok(())
                }
            )?

            $(
                fn status(response: &Self::Response) -> u16 {
                    $status_by(response)
                }
            )?
        }
    };
    (@status) => { 200 };
    (@status $status:literal) => { $status };
    (@too) => { None };
    (@too $status_by:path) => { Some(200) };
    (@query) => { None };
    (@query $query:ident) => { Some(stringify!($query)) };
    (@empty) => { "{}" };
    (@empty $empty:literal) => { $empty };
    (@takes) => { false };
    (@takes $key:ident) => { true };
}
pub(crate) use operation;

/// Describes a request like the type that is its whole body.
macro_rules! like {
    ($request:ty, $body:ty, $about:expr) => {
        impl utoipa::PartialSchema for $request {
            fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
                let mut schema = <$body as utoipa::PartialSchema>::schema();
                if let utoipa::openapi::RefOr::T(utoipa::openapi::Schema::Object(it)) = &mut schema
                {
                    it.description = Some($about.into());
                }
                schema
            }
        }

        impl utoipa::ToSchema for $request {}
    };
}
pub(crate) use like;
