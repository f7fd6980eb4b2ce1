//! An operation: a request type with its method, path, role, status and errors.

use std::collections::BTreeSet;

use serde::{Serialize, de::DeserializeOwned};
use strum::IntoStaticStr;
use utoipa::ToSchema;

use crate::Code;

/// The method of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr)]
#[strum(serialize_all = "UPPERCASE")]
pub enum Method {
    /// Read.
    Get,
    /// Act.
    Post,
    /// Create or replace.
    Put,
    /// Delete.
    Delete,
}

impl Method {
    /// The method as text.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// Whether the fields of a request are in its body, not in its query.
    pub fn has_body(self) -> bool {
        matches!(self, Self::Post | Self::Put)
    }
}

/// A request and its response. Serde skips the fields of the path; the others are the query of GET
/// and DELETE, and the JSON body of POST and PUT.
pub trait Operation: Serialize + DeserializeOwned + ToSchema + Send + Sync + 'static {
    /// The response.
    type Response: Serialize + DeserializeOwned + ToSchema + Send + 'static;

    /// The method.
    const METHOD: Method;
    /// The path, with `{field}` for each of its fields.
    const PATH: &'static str;
    /// The role that it needs.
    const NEEDS: crate::Role;
    /// The status of the response.
    const STATUS: u16;
    /// Another status of a successful response.
    const STATUS_TOO: Option<u16>;
    /// The name of a field that is in the query although the request has a body.
    const EXTRA_QUERY: Option<&'static str>;
    /// The value of an empty body.
    const EMPTY_BODY: &'static str;
    /// Whether it takes the header `Idempotency-Key`.
    const TAKES_KEY: bool;
    /// Its own errors. [`Operation::codes`] adds those of its form.
    const ERRORS: &'static [Code];

    /// The codes of its errors, without those that every request may get ([`Code::GENERAL`]).
    fn codes() -> BTreeSet<Code> {
        let mut codes = BTreeSet::from_iter(Self::ERRORS.iter().copied());
        if Self::METHOD.has_body() {
            codes.insert(Code::TooLarge);
        }
        if Self::TAKES_KEY {
            codes.extend([Code::InvalidKey, Code::KeyReused]);
        }
        if Self::METHOD != Method::Get && Self::NEEDS != crate::Role::Viewer {
            codes.extend(Code::OF_CHANGES);
        }
        codes
    }

    /// The fields of the path, in order.
    fn path_values(&self) -> Vec<String>;

    /// Sets the fields of the path, in order. An error names the field.
    fn set_path_values(&mut self, values: Vec<String>) -> Result<(), String>;

    /// The idempotency key.
    fn key(&self) -> Option<&str> {
        None
    }

    /// Sets the idempotency key.
    fn set_key(&mut self, _: Option<String>) {}

    /// The field that is in the query although the request has a body.
    fn extra_query(&self) -> Option<(&'static str, String)> {
        None
    }

    /// Sets that field. An error names the reason.
    fn set_extra_query(&mut self, name: &str, _: &str) -> Result<(), String> {
        Err(format!("unknown field `{name}` in the query"))
    }

    /// The status of this response.
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
/// `operation!(EditRun => Run, Post "/v1/runs/{id}/edit" (id), Operator, errors [RunNotFound]);`
macro_rules! operation {
    ($request:ty => $response:ty, $method:ident $path:literal ($($($field:ident).+),*), $role:ident
        $(, status $status:literal)? $(, key $key:ident)? $(, empty $empty:literal)?
        $(, query $query:ident)? $(, status_by $status_by:path)?, errors [$($code:ident),*]) => {
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
            const ERRORS: &'static [$crate::Code] = &[$($crate::Code::$code),*];

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

/// Declares operations whose fields are the parameters of their path, in order. A `keyed` one also
/// has an idempotency key, a `paged` one a limit and a cursor. Other fields follow after `with`.
macro_rules! requests {
    ($($(#[$meta:meta])* $kind:ident $name:ident {
        $($(#[$about:meta])* $field:ident: $type:ident,)*
    } $(with { $($more:tt)* })? => $response:ty, $method:ident $path:literal, $role:ident
        $(, status $status:literal)?, errors $codes:tt;)*) => { $(
        requests!(@$kind $name ($(#[$meta])*) {
            $($(#[$about])* #[serde(skip)] pub $field: $type,)*
            $($($more)*)?
        } ($response, $method $path ($($field),*), $role $(, status $status)?) $codes);
    )* };
    (@plain $name:ident $about:tt $fields:tt ($response:ty, $($how:tt)*) $codes:tt) => {
        requests!(@struct $name $about $fields {});
        operation!($name => $response, $($how)*, errors $codes);
    };
    (@keyed $name:ident $about:tt $fields:tt ($response:ty, $($how:tt)*) $codes:tt) => {
        requests!(@struct $name $about $fields {
            /// Idempotency key: a repetition within 24 hours changes nothing and gets the first
            /// answer
            #[arg(long, env = "STEADFAST_IDEMPOTENCY_KEY", value_name = "KEY")]
            #[serde(skip)]
            pub idempotency_key: Option<String>,
        });
        operation!($name => $response, $($how)*, key idempotency_key, errors $codes);
    };
    (@paged $name:ident $about:tt $fields:tt ($response:ty, $($how:tt)*) $codes:tt) => {
        requests!(@struct $name $about $fields {
            /// Maximum number of rows
            #[arg(long, env = "STEADFAST_LIMIT", default_value_t)]
            pub limit: $crate::Limit,
            /// Continue after the page with this `next`
            #[arg(long, env = "STEADFAST_CURSOR")]
            pub cursor: Option<String>,
        });
        operation!($name => $response, $($how)*, errors $codes);
    };
    (@struct $name:ident ($($about:tt)*) { $($fields:tt)* } { $($more:tt)* }) => {
        $($about)*
        #[derive(Clone, Debug, Default, clap::Args, serde::Serialize, serde::Deserialize)]
        #[derive(utoipa::ToSchema)]
        #[serde(rename_all = "camelCase", deny_unknown_fields, default)]
        pub struct $name {
            $($fields)*
            $($more)*
        }
    };
}
pub(crate) use requests;

/// Gives a request the schema of the type that is its whole body.
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
