//! Operations: their routes, and their handlers, which parse the request into its type, handle it,
//! and respond with JSON.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    future::ready,
    pin::Pin,
    sync::Arc,
};

use axum::{
    body::{Body, Bytes},
    extract::{FromRequest, Request},
    http::{Extensions, HeaderMap, HeaderValue, StatusCode, header},
    middleware::map_response,
    response::{IntoResponse, Response},
    routing::{MethodFilter, on},
};
use serde_json::{Value, json};
use steadfast_api::{
    Code, InvalidRequest, Method, Operation, OperationInfo, ReceivedRequest, RouteScope, TypeSchema,
};
use steadfast_core::{RequestKey, object::Caller};
use steadfast_store::StoreError;
use steadfast_web::{AnyHandler, IdempotencyKey, Problem};
use utoipa::openapi::{
    ContentBuilder, HttpMethod, PathItem, Paths, Ref, RefOr, Required, ResponseBuilder, Schema,
    extensions,
    path::{OperationBuilder, Parameter, ParameterBuilder, ParameterIn},
    request_body::RequestBodyBuilder,
    schema::{ObjectBuilder, SchemaType, Type},
};
use utoipa_axum::router::{OpenApiRouter, UtoipaMethodRouter};

use crate::{path::path_values, server::Server};

/// The OpenAPI extension with the error codes of an operation.
pub(crate) const ERROR_CODES: &str = "x-error-codes";

/// Routes with their description, as `routes!` builds them.
type Routes<S = Arc<Server>> = UtoipaMethodRouter<S>;

type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Routes of the API.
#[derive(Default)]
pub(crate) struct ApiRoutes {
    /// The routes with their description.
    pub(crate) documented: OpenApiRouter<Arc<Server>>,
    /// The handlers of those that are operations.
    pub(crate) operations: Vec<OperationHandler>,
    /// The scopes, by method and path.
    pub(crate) scopes: HashMap<(String, String), RouteScope>,
}

impl ApiRoutes {
    /// Adds the route of an operation.
    pub(crate) fn operation<O, F, Fut>(self, handler: F) -> Self
    where
        O: Operation,
        F: Fn(Arc<Server>, O) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<O::Response, Problem>> + Send + 'static,
    {
        self.operation_by(move |server, _, operation| handler(server, operation))
    }

    /// Adds the route of an operation that depends on its caller.
    pub(crate) fn operation_by<O, F, Fut>(self, handler: F) -> Self
    where
        O: Operation,
        F: Fn(Arc<Server>, Caller, O) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<O::Response, Problem>> + Send + 'static,
    {
        let answer = move |server, caller, request| -> BoxFuture<Result<ResponseParts, Problem>> {
            let handled = O::parse(request).map(|it| handler(server, caller, it));
            Box::pin(async move {
                let response = handled.map_err(bad)?.await?;
                Ok((O::status(&response), O::write_response(&response)))
            })
        };
        self.add(OperationHandler { info: &O::INFO, answer: Arc::new(answer) })
    }

    fn add(mut self, handler: OperationHandler) -> Self {
        self.operations.push(handler.clone());
        self.routes(handler.info.scope, route(handler))
    }

    /// Adds described routes.
    pub(crate) fn routes(mut self, scope: RouteScope, routes: Routes) -> Self {
        self.scopes.extend(methods_and_paths(&routes.1).map(|it| (it, scope)));
        self.documented = self.documented.routes(routes);
        self
    }

    /// Adds other routes.
    pub(crate) fn merge(mut self, other: Self) -> Self {
        self.documented = self.documented.merge(other.documented);
        self.operations.extend(other.operations);
        self.scopes.extend(other.scopes);
        self
    }
}

fn methods_and_paths(paths: &Paths) -> impl Iterator<Item = (String, String)> {
    paths.paths.iter().flat_map(|(path, item)| {
        let PathItem { get, put, post, delete, head, .. } = item;
        let all = [("GET", get), ("PUT", put), ("POST", post), ("DELETE", delete), ("HEAD", head)];
        all.into_iter().filter(|it| it.1.is_some()).map(|it| (it.0.to_owned(), path.clone()))
    })
}

/// The status and the body of a response.
type ResponseParts = (u16, Result<Vec<u8>, serde_json::Error>);

/// Parses a request, handles it, and writes the response.
type AnswerFn = Arc<
    dyn Fn(Arc<Server>, Caller, ReceivedRequest) -> BoxFuture<Result<ResponseParts, Problem>>
        + Send
        + Sync,
>;

/// The handler of an operation. Ports call it without the router.
#[derive(Clone)]
pub(crate) struct OperationHandler {
    /// The facts about the operation.
    pub(crate) info: &'static OperationInfo,
    answer: AnswerFn,
}

/// Space for the headers of a response, those of every response included.
const HEADERS: usize = 12;

impl OperationHandler {
    /// Answers a request of a caller. Its path has no prefix of a host program: the values that
    /// the router has found may be those of a prefix.
    pub(crate) async fn answer(
        &self,
        server: Arc<Server>,
        caller: Caller,
        request: Request,
    ) -> Response {
        let answered = async {
            let received = received(self.info, &caller, request).await?;
            let (status, body) = (self.answer)(server, caller, received).await?;
            let status = StatusCode::from_u16(status).unwrap_or_default();
            let body = body.map_err(|error| {
                Problem::of(Code::Internal, format!("the response is not JSON: {error}"))
            })?;
            Ok::<_, Problem>(json_response(status, body))
        };
        let response = answered.await.unwrap_or_else(Problem::into_response);
        if cfg!(debug_assertions) {
            check_declared(&self.info.codes(), &response);
        }
        response
    }
}

/// A response without a body if the status has none.
fn json_response(status: StatusCode, body: Vec<u8>) -> Response {
    let mut headers = HeaderMap::with_capacity(HEADERS);
    let body = if status == StatusCode::NO_CONTENT {
        Body::empty()
    } else {
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(JSON));
        Body::from(body)
    };
    let mut response = Response::new(body);
    (*response.status_mut(), *response.headers_mut()) = (status, headers);
    response
}

fn route(handler: OperationHandler) -> Routes {
    let info = handler.info;
    let serve = move |request: Request, server: Arc<Server>| -> BoxFuture<Response> {
        let handler = handler.clone();
        Box::pin(async move {
            let caller = caller_of(request.extensions());
            handler.answer(server, caller, request).await
        })
    };
    let (method, filter) = match info.method {
        Method::Get => (HttpMethod::Get, MethodFilter::GET),
        Method::Post => (HttpMethod::Post, MethodFilter::POST),
        Method::Put => (HttpMethod::Put, MethodFilter::PUT),
        Method::Delete => (HttpMethod::Delete, MethodFilter::DELETE),
    };
    let (schemas, item) = describe(info, method);
    let mut paths = Paths::new();
    paths.paths.insert(info.path.into(), item);
    document_codes(&info.codes(), &mut paths);
    (schemas, paths, on(filter, AnyHandler::new(serve)))
}

fn bad(invalid: InvalidRequest) -> Problem {
    let problem = Problem::of(Code::BadRequest, invalid.detail);
    match invalid.at {
        Some(at) => problem.at(at),
        None => problem,
    }
}

/// The caller of a request, which admission has found.
pub(crate) fn caller_of(extensions: &Extensions) -> Caller {
    extensions.get().cloned().unwrap_or(Caller::Anonymous)
}

/// Declares the errors of routes, besides those of every request. Debug builds panic on an
/// undeclared error, so that every test checks the lists.
pub(crate) fn fails_with<S: Clone + Send + Sync + 'static>(
    codes: impl IntoIterator<Item = Code>,
    (schemas, mut paths, mut methods): Routes<S>,
) -> Routes<S> {
    let codes: BTreeSet<Code> = codes.into_iter().collect();
    document_codes(&codes, &mut paths);
    if cfg!(debug_assertions) {
        methods = methods.layer(map_response(move |response: Response| {
            check_declared(&codes, &response);
            ready(response)
        }));
    }
    (schemas, paths, methods)
}

/// Adds the errors of routes to their description.
fn document_codes(codes: &BTreeSet<Code>, paths: &mut Paths) {
    let tags: Vec<&str> = codes.iter().map(|it| it.tag()).collect();
    for item in paths.paths.values_mut() {
        let PathItem { get, put, post, delete, head, .. } = item;
        for operation in [get, put, post, delete, head].into_iter().flatten() {
            let extensions = operation.extensions.get_or_insert_default();
            extensions.insert(ERROR_CODES.into(), tags.clone().into());
        }
    }
}

fn check_declared(codes: &BTreeSet<Code>, response: &Response) {
    let problem = response.extensions().get::<Problem>();
    let code = problem.and_then(Problem::kind);
    let is_declared = |it: Code| codes.contains(&it) || Code::GENERAL.contains(&it);
    assert!(code.is_none_or(is_declared), "undeclared error: {problem:?}");
}

/// Adds the errors of an operation to its description, by status.
pub(crate) fn describe_errors(operation: &mut Value, problem: &Value) {
    let Some(tags) = operation[ERROR_CODES].as_array() else { return };
    let mut texts = BTreeMap::<String, Vec<String>>::new();
    for code in tags.iter().filter_map(Value::as_str).filter_map(Code::of_tag) {
        let texts = texts.entry(code.status().to_string()).or_default();
        texts.push(format!("`{}`: {}", code.tag(), code.meaning()));
    }
    let general: Vec<String> = Code::GENERAL.iter().map(|it| format!("`{}`", it.tag())).collect();
    let general = format!("Errors of every operation: {}", general.join(", "));
    texts.insert("default".into(), vec![general]);
    for (status, texts) in texts {
        let content = json!({ "application/problem+json": { "schema": problem } });
        let response = json!({ "description": texts.join(" "), "content": content });
        operation["responses"][status] = response;
    }
}

/// Reads the parts of a request that its operation is parsed from.
async fn received(
    info: &OperationInfo,
    caller: &Caller,
    request: Request,
) -> Result<ReceivedRequest, Problem> {
    let path = path_values(info.path, request.uri().path())?;
    // Reads that use POST ignore the header, as do GET, PUT and DELETE.
    let key = match info.takes_key {
        true => IdempotencyKey::of_caller(request.headers(), caller)?,
        false => IdempotencyKey::default(),
    };
    let query = request.uri().query().unwrap_or_default().to_owned();
    let mut received = ReceivedRequest { path, query, key: key.into_text(), ..Default::default() };
    if info.method.has_body() {
        let body = Bytes::from_request(request, &()).await;
        received.body = body.map_err(|error| match error.status() {
            StatusCode::PAYLOAD_TOO_LARGE => {
                Problem::of(Code::TooLarge, "the body is larger than 2 MiB")
            }
            _ => Problem::of(Code::BadRequest, error.body_text()),
        })?;
    }
    Ok(received)
}

/// The idempotency key of an operation, bound to its name, its path and its body.
pub(crate) fn request_key<O: Operation>(it: &O) -> Result<Option<RequestKey>, Problem> {
    let Some(key) = it.key() else { return Ok(None) };
    let written = it.write().map_err(|error| Problem::of(Code::BadRequest, error))?;
    let request = [it.path(), written.body.unwrap_or_default()].join("\n");
    let name = (O::INFO.request)().name.unwrap_or_default();
    let key = RequestKey::new(&name, None, key, request.as_bytes()).map_err(StoreError::from)?;
    Ok(Some(key))
}

pub(crate) type Schemas = Vec<(String, RefOr<Schema>)>;

/// Describes an operation for `/openapi.json`.
fn describe(info: &OperationInfo, method: HttpMethod) -> (Schemas, PathItem) {
    let mut schemas = Vec::new();
    let mut request = (info.request)();
    let about = request.about().map(str::to_owned);
    let fields = match &request.schema {
        RefOr::T(Schema::Object(object)) => Some(object.clone()),
        RefOr::T(_) | RefOr::Ref(_) => None,
    };
    let tag = info.path.split('/').nth(2).unwrap_or("server");
    let mut operation = OperationBuilder::new()
        .operation_id(request.name.clone())
        .tag(tag)
        .summary(about)
        .extensions(Some(extensions::Extensions::from_iter([("x-needs-role", info.needs.name())])));
    for name in info
        .path
        .split('/')
        .filter_map(|it| it.strip_prefix('{')?.strip_suffix('}'))
        .map(|it| it.trim_start_matches('*'))
    {
        operation = operation.parameter(parameter(name, ParameterIn::Path, Required::True));
    }
    if let Some(name) = info.extra_query {
        operation = operation.parameter(parameter(name, ParameterIn::Query, Required::False));
    }
    if info.takes_key {
        let key = parameter("Idempotency-Key", ParameterIn::Header, Required::False);
        operation = operation.parameter(key);
    }
    if info.method.has_body() {
        schemas.append(&mut request.parts.clone());
        let is_object = SchemaType::from(Type::Object);
        let is_empty = fields
            .as_ref()
            .is_some_and(|it| it.schema_type == is_object && it.properties.is_empty());
        if !is_empty {
            let required = fields.is_none_or(|it| !it.required.is_empty());
            let required = if required { Required::True } else { Required::False };
            let content = ContentBuilder::new().schema(Some(named(request, &mut schemas))).build();
            let body = RequestBodyBuilder::new().content("application/json", content);
            operation = operation.request_body(Some(body.required(Some(required)).build()));
        }
    } else if let Some(object) = fields {
        for (name, schema) in &object.properties {
            let field = ParameterBuilder::new().name(name).parameter_in(ParameterIn::Query);
            let field = field.required(Required::False).schema(Some(schema.clone()));
            operation = operation.parameter(field.build());
        }
        schemas.append(&mut request.parts);
    }
    let answer = named((info.response)(), &mut schemas);
    for status in [Some(info.status), info.other_status].into_iter().flatten() {
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

/// A reference to a schema, which it adds to the schemas. A generic type has no name of its own.
pub(crate) fn named(mut it: TypeSchema, schemas: &mut Schemas) -> RefOr<Schema> {
    schemas.append(&mut it.parts);
    let Some(name) = it.name else { return it.schema };
    schemas.push((name.clone(), it.schema));
    RefOr::Ref(Ref::from_schema_name(name))
}

fn parameter(name: &str, location: ParameterIn, required: Required) -> Parameter {
    let text = ObjectBuilder::new().schema_type(Type::String).build();
    let parameter = ParameterBuilder::new().name(name).parameter_in(location).required(required);
    parameter.schema(Some(Schema::Object(text))).build()
}

#[cfg(test)]
mod tests {
    use axum::{Router, routing::get};
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
