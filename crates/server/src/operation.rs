//! Routes of operations: parse the request into its type, handle it, respond with JSON.

use std::{
    collections::{BTreeMap, BTreeSet},
    future::ready,
    sync::Arc,
};

use axum::{
    Json,
    body::Bytes,
    extract::{FromRequest, FromRequestParts, Query, RawPathParams, Request, State},
    http::{Extensions, StatusCode},
    middleware::map_response,
    response::{IntoResponse, Response},
    routing::{MethodFilter, on},
};
use steadfast_api::{Code, Method, Operation, ProblemBody};
use steadfast_core::{RequestKey, object::Caller};
use steadfast_store::StoreError;
use steadfast_web::{IdempotencyKey, Problem};
use utoipa::{
    ToSchema,
    openapi::{
        ContentBuilder, HttpMethod, PathItem, Paths, Ref, RefOr, Required, ResponseBuilder, Schema,
        extensions,
        path::{OperationBuilder, Parameter, ParameterBuilder, ParameterIn},
        request_body::RequestBodyBuilder,
        schema::{ObjectBuilder, SchemaType, Type},
    },
};
use utoipa_axum::router::UtoipaMethodRouter;

use crate::server::Server;

/// The OpenAPI extension with the error codes of an operation.
pub(crate) const ERROR_CODES: &str = "x-error-codes";

/// Routes with their description, as `routes!` builds them.
type Routes<S = Arc<Server>> = UtoipaMethodRouter<S>;

/// The route of an operation.
pub(crate) fn operation<O, F, Fut>(handler: F) -> Routes
where
    O: Operation,
    F: Fn(Arc<Server>, O) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output = Result<O::Response, Problem>> + Send + 'static,
{
    operation_by(move |server, _, operation| handler(server, operation))
}

/// The route of an operation that depends on its caller.
pub(crate) fn operation_by<O, F, Fut>(handler: F) -> Routes
where
    O: Operation,
    F: Fn(Arc<Server>, Caller, O) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output = Result<O::Response, Problem>> + Send + 'static,
{
    let serve = async move |State(server): State<Arc<Server>>, request: Request| -> Response {
        let answered = async {
            let caller = caller_of(request.extensions());
            let operation = read::<O>(request).await?;
            let response = handler(server, caller, operation).await?;
            let status = StatusCode::from_u16(O::status(&response)).unwrap_or_default();
            Ok::<_, Problem>(match status {
                StatusCode::NO_CONTENT => status.into_response(),
                status => (status, Json(response)).into_response(),
            })
        };
        answered.await.unwrap_or_else(Problem::into_response)
    };
    let (method, filter) = match O::METHOD {
        Method::Get => (HttpMethod::Get, MethodFilter::GET),
        Method::Post => (HttpMethod::Post, MethodFilter::POST),
        Method::Put => (HttpMethod::Put, MethodFilter::PUT),
        Method::Delete => (HttpMethod::Delete, MethodFilter::DELETE),
    };
    let (schemas, item) = describe::<O>(method);
    let mut paths = Paths::new();
    paths.paths.insert(O::PATH.into(), item);
    fails_with(O::codes(), (schemas, paths, on(filter, serve)))
}

/// The caller of a request, which admission has found.
pub(crate) fn caller_of(extensions: &Extensions) -> Caller {
    extensions.get().cloned().unwrap_or(Caller::Anonymous)
}

/// Declares the errors of routes, besides those of every request. Debug builds panic on an
/// undeclared error, so that every test checks the lists.
pub(crate) fn fails_with<S: Clone + Send + Sync + 'static>(
    codes: impl IntoIterator<Item = Code>,
    (mut schemas, mut paths, mut methods): Routes<S>,
) -> Routes<S> {
    let codes: BTreeSet<Code> = codes.into_iter().collect();
    let problem = named::<ProblemBody>(&mut schemas);
    for item in paths.paths.values_mut() {
        let PathItem { get, put, post, delete, head, .. } = item;
        for operation in [get, put, post, delete, head].into_iter().flatten() {
            describe_errors(operation, &codes, &problem);
        }
    }
    if cfg!(debug_assertions) {
        methods = methods.layer(map_response(move |response: Response| {
            let problem = response.extensions().get::<Problem>();
            let code = problem.and_then(Problem::kind);
            let is_declared = |it: Code| codes.contains(&it) || Code::GENERAL.contains(&it);
            assert!(code.is_none_or(is_declared), "undeclared error: {problem:?}");
            ready(response)
        }));
    }
    (schemas, paths, methods)
}

/// Adds the errors to the description of an operation, by status.
fn describe_errors(
    operation: &mut utoipa::openapi::path::Operation,
    codes: &BTreeSet<Code>,
    problem: &RefOr<Schema>,
) {
    let tags: Vec<&str> = codes.iter().map(|it| it.tag()).collect();
    operation.extensions.get_or_insert_default().insert(ERROR_CODES.into(), tags.into());
    let mut texts = BTreeMap::<String, Vec<String>>::new();
    for code in codes {
        let texts = texts.entry(code.status().to_string()).or_default();
        texts.push(format!("`{}`: {}", code.tag(), code.meaning()));
    }
    let general: Vec<String> = Code::GENERAL.iter().map(|it| format!("`{}`", it.tag())).collect();
    let general = format!("Errors of every operation: {}", general.join(", "));
    texts.insert("default".into(), vec![general]);
    for (status, texts) in texts {
        let content = ContentBuilder::new().schema(Some(problem.clone())).build();
        let response =
            ResponseBuilder::new().description(texts.join(" ")).content(PROBLEM, content);
        operation.responses.responses.insert(status, response.build().into());
    }
}

/// Parses an operation: its path, its query or body, and its idempotency key.
async fn read<O: Operation>(request: Request) -> Result<O, Problem> {
    let (mut parts, body) = request.into_parts();
    let values = RawPathParams::from_request_parts(&mut parts, &()).await;
    let values = values.map_err(|error| Problem::of(Code::BadRequest, error.body_text()))?;
    let values = values.iter().map(|it| it.1.to_owned()).collect();
    // Reads that use POST ignore the header, as do GET, PUT and DELETE.
    let key = if O::TAKES_KEY { IdempotencyKey::of_request(&parts)? } else { Default::default() };
    let mut operation: O = if O::METHOD.has_body() {
        let query = parts.uri.query().unwrap_or_default().to_owned();
        let body = Bytes::from_request(Request::from_parts(parts, body), &()).await;
        let body = body.map_err(|error| match error.status() {
            StatusCode::PAYLOAD_TOO_LARGE => {
                Problem::of(Code::TooLarge, "the body is larger than 2 MiB")
            }
            _ => Problem::of(Code::BadRequest, error.body_text()),
        })?;
        let body = if body.is_empty() { O::EMPTY_BODY.as_bytes() } else { &body };
        let mut operation: O = serde_json::from_slice(body).map_err(|error| {
            let fact = if error.is_data() { "cannot be read" } else { "is not JSON" };
            Problem::of(Code::BadRequest, format!("the body {fact}: {error}")).at(".")
        })?;
        let query: Vec<(String, String)> = serde_urlencoded::from_str(&query)
            .map_err(|error| Problem::of(Code::BadRequest, error.to_string()))?;
        for (name, value) in query {
            let taken = operation.set_extra_query(&name, &value);
            taken.map_err(|error| Problem::of(Code::BadRequest, error).at(name))?;
        }
        operation
    } else {
        let Query(query) = Query::try_from_uri(&parts.uri)
            .map_err(|error| Problem::of(Code::BadRequest, error.body_text()))?;
        query
    };
    let wrong = |error: String| Problem::of(Code::BadRequest, error);
    operation.set_path_values(values).map_err(wrong)?;
    operation.set_key(key.into_text());
    Ok(operation)
}

/// The idempotency key of an operation, bound to its name, its path and its body.
pub(crate) fn request_key<O: Operation>(it: &O) -> Result<Option<RequestKey>, Problem> {
    let Some(key) = it.key() else { return Ok(None) };
    let request = serde_json::to_vec(&(it.path_values(), it))
        .map_err(|error| Problem::of(Code::BadRequest, error.to_string()))?;
    let key = RequestKey::new(&O::name(), None, key, &request).map_err(StoreError::from)?;
    Ok(Some(key))
}

type Schemas = Vec<(String, RefOr<Schema>)>;

/// Describes an operation for `/openapi.json`.
fn describe<O: Operation>(method: HttpMethod) -> (Schemas, PathItem) {
    let mut schemas = Vec::new();
    let schema = O::schema();
    let (about, fields) = match &schema {
        RefOr::T(Schema::Object(object)) => (object.description.clone(), Some(object)),
        RefOr::T(_) | RefOr::Ref(_) => (None, None),
    };
    let tag = O::PATH.split('/').nth(2).unwrap_or("server");
    let mut operation = OperationBuilder::new()
        .operation_id(Some(O::name().into_owned()))
        .tag(tag)
        .summary(about.clone())
        .extensions(Some(extensions::Extensions::from_iter([("x-needs-role", O::NEEDS.name())])));
    for name in O::PATH
        .split('/')
        .filter_map(|it| it.strip_prefix('{')?.strip_suffix('}'))
        .map(|it| it.trim_start_matches('*'))
    {
        operation = operation.parameter(parameter(name, ParameterIn::Path, Required::True));
    }
    if let Some(name) = O::EXTRA_QUERY {
        operation = operation.parameter(parameter(name, ParameterIn::Query, Required::False));
    }
    if O::TAKES_KEY {
        let key = parameter("Idempotency-Key", ParameterIn::Header, Required::False);
        operation = operation.parameter(key);
    }
    if O::METHOD.has_body() {
        O::schemas(&mut schemas);
        let is_object = SchemaType::from(Type::Object);
        let is_empty =
            fields.is_some_and(|it| it.schema_type == is_object && it.properties.is_empty());
        if !is_empty {
            let required = fields.is_none_or(|it| !it.required.is_empty());
            let required = if required { Required::True } else { Required::False };
            let content = ContentBuilder::new().schema(Some(named::<O>(&mut schemas))).build();
            let body = RequestBodyBuilder::new().content("application/json", content);
            operation = operation.request_body(Some(body.required(Some(required)).build()));
        }
    } else if let Some(object) = fields {
        for (name, schema) in &object.properties {
            let field = ParameterBuilder::new().name(name).parameter_in(ParameterIn::Query);
            let field = field.required(Required::False).schema(Some(schema.clone()));
            operation = operation.parameter(field.build());
        }
        O::schemas(&mut schemas);
    }
    let answer = named::<O::Response>(&mut schemas);
    for status in [Some(O::STATUS), O::STATUS_TOO].into_iter().flatten() {
        let mut response = ResponseBuilder::new().description("Success");
        if status != StatusCode::NO_CONTENT.as_u16() {
            let content = ContentBuilder::new().schema(Some(answer.clone())).build();
            response = response.content(JSON, content);
        }
        operation = operation.response(status.to_string(), response.build());
    }
    (schemas, PathItem::new(method, operation.build()))
}

const JSON: &str = "application/json";
const PROBLEM: &str = "application/problem+json";

/// A reference to a schema, which it adds to the schemas. A generic type has no name of its own.
fn named<T: ToSchema>(schemas: &mut Schemas) -> RefOr<Schema> {
    T::schemas(schemas);
    if std::any::type_name::<T>().contains('<') {
        return T::schema();
    }
    let name = T::name().into_owned();
    schemas.push((name.clone(), T::schema()));
    RefOr::Ref(Ref::from_schema_name(name))
}

fn parameter(name: &str, location: ParameterIn, required: Required) -> Parameter {
    let text = ObjectBuilder::new().schema_type(Type::String).build();
    let parameter = ParameterBuilder::new().name(name).parameter_in(location).required(required);
    parameter.schema(Some(Schema::Object(text))).build()
}

#[cfg(test)]
mod tests {
    use axum::{Router, body::Body, routing::get};
    use tower::ServiceExt;

    use super::*;

    async fn ask(declared: &[Code], answered: Code) -> StatusCode {
        let handler = async move || Problem::of(answered, "no");
        let routes = fails_with(declared.iter().copied(), (vec![], Paths::new(), get(handler)));
        let router = Router::new().route("/", routes.2);
        router.oneshot(Request::new(Body::empty())).await.unwrap().status()
    }

    #[tokio::test]
    async fn declared_and_general_errors_are_allowed() {
        assert_eq!(ask(&[Code::QueueNotFound], Code::QueueNotFound).await, StatusCode::NOT_FOUND);
        assert_eq!(ask(&[], Code::BadRequest).await, StatusCode::BAD_REQUEST);
    }

    #[tokio::test]
    #[should_panic(expected = "undeclared error")]
    async fn an_undeclared_error_is_refused() {
        ask(&[Code::QueueNotFound], Code::BucketNotFound).await;
    }
}
