//! An operation: a request type with its method, path, role, status and errors.

use std::collections::BTreeSet;

use serde::{Serialize, de::DeserializeOwned};
use steadfast_core::{ResourceKind, Verb};
use utoipa::{
    ToSchema,
    openapi::{RefOr, Schema},
};

use crate::{Code, Role};

/// The method of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

steadfast_store::texts! {
    Method { Get = "GET", Post = "POST", Put = "PUT", Delete = "DELETE" }
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

/// The part of a route that tokens with limits may use: those with scopes, and those of an
/// organization. Each route declares it beside its role.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RouteScope {
    /// Nothing: the route uses no single resource, or names a second one in its body.
    None,
    /// One resource. Its name is the values of these parameters of the path, joined by `/`.
    Resource {
        /// The kind.
        kind: ResourceKind,
        /// The parameters.
        names: &'static [&'static str],
        /// The use that the route makes of it.
        verb: Verb,
    },
    /// The URL, as a resource of [`ResourceKind::Route`]. For routes outside of `/v1`.
    Url,
    /// The data of an organization, for its own tokens without scopes. The handler takes the
    /// organization from the caller.
    Organization,
    /// The data of the caller itself, for every token.
    Caller,
}

/// The facts about an operation that its server, its clients and `/openapi.json` need.
#[derive(Clone, Copy, Debug)]
pub struct OperationInfo {
    /// The method.
    pub method: Method,
    /// The path, with `{field}` for each of its fields.
    pub path: &'static str,
    /// The role that it needs.
    pub needs: Role,
    /// The part of it that limited tokens may use.
    pub scope: RouteScope,
    /// The status of the response.
    pub status: u16,
    /// Another status of a successful response.
    pub other_status: Option<u16>,
    /// The name of a field that is in the query although the request has a body.
    pub extra_query: Option<&'static str>,
    /// Whether it takes the header `Idempotency-Key`.
    pub takes_key: bool,
    /// Its own errors. [`OperationInfo::codes`] adds those of its form.
    pub errors: &'static [Code],
    /// The schema of the request.
    pub request: fn() -> TypeSchema,
    /// The schema of the response.
    pub response: fn() -> TypeSchema,
}

impl OperationInfo {
    /// The codes of its errors, without those that every request may get ([`Code::GENERAL`]).
    pub fn codes(&self) -> BTreeSet<Code> {
        let mut codes = BTreeSet::from_iter(self.errors.iter().copied());
        if self.method.has_body() {
            codes.insert(Code::TooLarge);
        }
        if self.takes_key {
            codes.extend([Code::InvalidKey, Code::KeyReused]);
        }
        if self.method != Method::Get && self.needs != Role::Viewer {
            codes.extend(Code::OF_CHANGES);
        }
        codes
    }
}

/// The schema of a type, and the schemas of the types that it names.
#[derive(Clone)]
pub struct TypeSchema {
    /// The name, which a generic type does not have.
    pub name: Option<String>,
    /// The schema.
    pub schema: RefOr<Schema>,
    /// The schemas of the types of its fields.
    pub parts: Vec<(String, RefOr<Schema>)>,
}

impl TypeSchema {
    /// The schema of a type.
    pub fn of<T: ToSchema>() -> Self {
        let mut parts = Vec::new();
        T::schemas(&mut parts);
        let is_generic = std::any::type_name::<T>().contains('<');
        let name = (!is_generic).then(|| T::name().into_owned());
        Self { name, schema: T::schema(), parts }
    }

    /// The description of an object.
    pub fn about(&self) -> Option<&str> {
        match &self.schema {
            RefOr::T(Schema::Object(object)) => object.description.as_deref(),
            RefOr::T(_) | RefOr::Ref(_) => None,
        }
    }
}

/// The parts of a request that a server has received.
#[derive(Clone, Debug, Default)]
pub struct ReceivedRequest {
    /// The fields of the path, in order.
    pub path: Vec<String>,
    /// The query.
    pub query: String,
    /// The body.
    pub body: bytes::Bytes,
    /// The idempotency key.
    pub key: Option<String>,
}

/// A request as a client sends it.
#[derive(Clone, Debug)]
pub struct RawRequest {
    /// The method.
    pub method: Method,
    /// The path and the query.
    pub uri: String,
    /// JSON, if the method has a body.
    pub body: Option<String>,
    /// The idempotency key.
    pub key: Option<String>,
}

/// A request that is not one of the operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidRequest {
    /// The cause.
    pub detail: String,
    /// The field, or `.` for the whole body.
    pub at: Option<String>,
}

/// A request and its response. Serde skips the fields of the path; the others are the query of GET
/// and DELETE, and the JSON body of POST and PUT. [`operation!`] writes the conversions here, so
/// that they are compiled once and not again by each crate that uses them.
pub trait Operation: Sized + Send + Sync + 'static {
    /// The response.
    type Response: Send + 'static;

    /// The facts about it.
    const INFO: OperationInfo;
    /// The role that it needs.
    const NEEDS: Role = Self::INFO.needs;

    /// Parses a request.
    fn parse(request: ReceivedRequest) -> Result<Self, InvalidRequest>;

    /// Writes a request.
    fn write(&self) -> Result<RawRequest, String>;

    /// Parses the JSON of a response.
    fn parse_response(text: &str) -> Result<Self::Response, serde_json::Error>;

    /// Writes a response as JSON.
    fn write_response(response: &Self::Response) -> Result<Vec<u8>, serde_json::Error>;

    /// The path of this request.
    fn path(&self) -> String {
        crate::path::fill(Self::INFO.path, &self.path_values())
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
        Self::INFO.status
    }
}

/// Parses the fields of a query.
pub(crate) fn of_query<T: DeserializeOwned>(query: &str) -> Result<T, InvalidRequest> {
    let fails = |query: &str| serde_urlencoded::from_str::<T>(query).err();
    serde_urlencoded::from_str(query).map_err(|error| invalid_query(query, &error, &fails))
}

/// Names the field of an invalid query: the first one that fails alone.
fn invalid_query(
    query: &str,
    error: &serde_urlencoded::de::Error,
    fails: &dyn Fn(&str) -> Option<serde_urlencoded::de::Error>,
) -> InvalidRequest {
    for field in query.split('&') {
        if let Some(error) = fails(field) {
            let (name, mut detail) =
                (field.split('=').next().unwrap_or_default(), error.to_string());
            if !detail.contains(name) {
                detail = format!("{name}: {detail}");
            }
            return InvalidRequest { detail, at: Some(name.into()) };
        }
    }
    InvalidRequest { detail: error.to_string(), at: None }
}

/// Parses the fields of a body. An empty one has the value `empty`.
pub(crate) fn of_body<T: DeserializeOwned>(body: &[u8], empty: &str) -> Result<T, InvalidRequest> {
    let invalid = |detail: String| InvalidRequest { detail, at: Some(".".into()) };
    let body = std::str::from_utf8(body);
    let body = body.map_err(|error| invalid(format!("the body is not JSON: {error}")))?;
    serde_json::from_str(if body.is_empty() { empty } else { body }).map_err(|error| {
        let fact = if error.is_data() { "cannot be read" } else { "is not JSON" };
        invalid(format!("the body {fact}: {error}"))
    })
}

/// The fields of the query of a request that has a body.
pub(crate) fn pairs_of(query: &str) -> Result<Vec<(String, String)>, InvalidRequest> {
    let invalid = |error: serde_urlencoded::de::Error| error.to_string();
    let pairs = serde_urlencoded::from_str(query).map_err(invalid);
    pairs.map_err(|detail| InvalidRequest { detail, at: None })
}

/// The request of an operation without a body.
pub(crate) fn with_query<T: Serialize>(
    path: String,
    it: &T,
) -> Result<(String, Option<String>), String> {
    let query = serde_urlencoded::to_string(it).map_err(|error| error.to_string())?;
    Ok((if query.is_empty() { path } else { format!("{path}?{query}") }, None))
}

/// The request of an operation with a body.
pub(crate) fn with_body<T: Serialize>(
    path: String,
    extra: Option<(&'static str, String)>,
    it: &T,
) -> Result<(String, Option<String>), String> {
    let body = serde_json::to_string(it).map_err(|error| error.to_string())?;
    let uri = match extra {
        Some((name, value)) => format!("{path}?{name}={value}"),
        None => path,
    };
    Ok((uri, Some(body)))
}

/// Makes a type an operation:
/// `operation!(EditRun => Run, Post "/v1/runs/{id}/edit" (id), Operator, scope None, errors []);`
macro_rules! operation {
    ($request:ty => $response:ty, $method:ident $path:literal ($($($field:ident).+),*), $role:ident,
        scope $scope:ident $(($($name:ident),+) $verb:ident)?
        $(, status $status:literal)? $(, key $key:ident)? $(, empty $empty:literal)?
        $(, query $query:ident)? $(, status_by $status_by:path)?, errors [$($code:ident),*]) => {
        impl $crate::Operation for $request {
            type Response = $response;
            const INFO: $crate::OperationInfo = $crate::OperationInfo {
                method: $crate::Method::$method,
                path: $path,
                needs: $crate::Role::$role,
                scope: operation!(@scope $scope $(($($name),+) $verb)?),
                status: operation!(@status $($status)?),
                other_status: operation!(@other $($status_by)?),
                extra_query: operation!(@query $($query)?),
                takes_key: operation!(@takes $($key)?),
                errors: &[$($crate::Code::$code),*],
                request: $crate::TypeSchema::of::<$request>,
                response: $crate::TypeSchema::of::<$response>,
            };

            fn parse(
                request: $crate::ReceivedRequest,
            ) -> Result<Self, $crate::InvalidRequest> {
                let invalid =
                    |detail: String| $crate::InvalidRequest { detail, at: None };
                let mut it: Self = operation!(@parse $method, request, ($($empty)?));
                it.set_path_values(request.path).map_err(invalid)?;
                it.set_key(request.key);
                Ok(it)
            }

            fn write(&self) -> Result<$crate::RawRequest, String> {
                let path = self.path();
                let (uri, body) = operation!(@write $method, self, path)?;
                let key = self.key().map(str::to_owned);
                Ok($crate::RawRequest { method: $crate::Method::$method, uri, body, key })
            }

            fn parse_response(text: &str) -> Result<Self::Response, serde_json::Error> {
                serde_json::from_str(text)
            }

            fn write_response(response: &Self::Response) -> Result<Vec<u8>, serde_json::Error> {
                serde_json::to_vec(response)
            }

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
    (@scope $kind:ident ($($name:ident),+) $verb:ident) => {
        $crate::RouteScope::Resource {
            kind: steadfast_core::ResourceKind::$kind,
            names: &[$(stringify!($name)),+],
            verb: steadfast_core::Verb::$verb,
        }
    };
    (@scope $scope:ident) => { $crate::RouteScope::$scope };
    (@status) => { 200 };
    (@status $status:literal) => { $status };
    (@other) => { None };
    (@other $status_by:path) => { Some(200) };
    (@query) => { None };
    (@query $query:ident) => { Some(stringify!($query)) };
    (@parse Get, $request:ident, $empty:tt) => {
        $crate::operation::of_query(&$request.query)?
    };
    (@parse Delete, $request:ident, $empty:tt) => {
        $crate::operation::of_query(&$request.query)?
    };
    (@parse $method:ident, $request:ident, ()) => { operation!(@parse $method, $request, ("{}")) };
    (@parse $method:ident, $request:ident, ($empty:literal)) => {{
        let mut it: Self = $crate::operation::of_body(&$request.body, $empty)?;
        for (name, value) in $crate::operation::pairs_of(&$request.query)? {
            it.set_extra_query(&name, &value).map_err(|detail| {
                $crate::InvalidRequest { detail, at: Some(name) }
            })?;
        }
        it
    }};
    (@write Get, $it:ident, $path:ident) => { $crate::operation::with_query($path, $it) };
    (@write Delete, $it:ident, $path:ident) => { $crate::operation::with_query($path, $it) };
    (@write $method:ident, $it:ident, $path:ident) => {
        $crate::operation::with_body($path, $it.extra_query(), $it)
    };
    (@takes) => { false };
    (@takes $key:ident) => { true };
}
pub(crate) use operation;

/// Declares operations whose fields are the parameters of their path, in order. A `keyed` one also
/// has an idempotency key, a `paged` one a limit and a cursor. Other fields follow after `with`.
macro_rules! requests {
    ($($(#[$meta:meta])* $kind:ident $name:ident {
        $($(#[$about:meta])* $field:ident: $type:ident,)*
    } $(with { $($more:tt)* })? => $response:ty, $method:ident $path:literal, $role:ident,
        scope $scope:ident $(($($part:ident),+) $verb:ident)?
        $(, status $status:literal)?, errors $codes:tt;)*) => { $(
        requests!(@$kind $name ($(#[$meta])*) {
            $($(#[$about])* #[serde(skip)] pub $field: $type,)*
            $($($more)*)?
        } (
            $response, $method $path ($($field),*), $role, scope $scope $(($($part),+) $verb)?
            $(, status $status)?
        ) $codes);
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
