//! Routes made from operations: a request is read into its type, handled, and answered as JSON.

use std::sync::Arc;

use axum::{
    Json,
    body::Bytes,
    extract::{FromRequest, FromRequestParts, Query, RawPathParams, Request, State},
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::{MethodFilter, on},
};
use steadfast_api::{Code, Method, Operation, ProblemBody};
use steadfast_core::RequestKey;
use steadfast_store::StoreError;
use steadfast_web::{IdempotencyKey, Problem};
use utoipa::{
    ToSchema,
    openapi::{
        ContentBuilder, HttpMethod, PathItem, Paths, Ref, RefOr, Required, ResponseBuilder, Schema,
        extensions::Extensions,
        path::{OperationBuilder, Parameter, ParameterBuilder, ParameterIn},
        request_body::RequestBodyBuilder,
        schema::{ObjectBuilder, SchemaType, Type},
    },
};
use utoipa_axum::router::UtoipaMethodRouter;

use crate::server::Server;

/// The route of an operation.
pub(crate) fn operation<O, F, Fut>(handler: F) -> UtoipaMethodRouter<Arc<Server>>
where
    O: Operation,
    F: Fn(Arc<Server>, O) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output = Result<O::Response, Problem>> + Send + 'static,
{
    let serve = async move |State(server): State<Arc<Server>>, request: Request| -> Response {
        let answered = async {
            let operation = read::<O>(request).await?;
            let response = handler(server, operation).await?;
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
    (schemas, paths, on(filter, serve))
}

/// Reads an operation: its path, its query or its body, and its idempotency key.
async fn read<O: Operation>(request: Request) -> Result<O, Problem> {
    let (mut parts, body) = request.into_parts();
    let values = RawPathParams::from_request_parts(&mut parts, &()).await;
    let values = values.map_err(|error| Problem::of(Code::BadRequest, error.body_text()))?;
    let values = values.iter().map(|it| it.1.to_owned()).collect();
    // Reads that are sent by POST ignore the header, as do GET, PUT and DELETE.
    let key = if O::TAKES_KEY { IdempotencyKey::of(&parts.headers)? } else { Default::default() };
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
        .extensions(Some(Extensions::from_iter([("x-needs-role", O::NEEDS.name())])));
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
        let mut response = ResponseBuilder::new().description("The answer");
        if status != StatusCode::NO_CONTENT.as_u16() {
            let content = ContentBuilder::new().schema(Some(answer.clone())).build();
            response = response.content(JSON, content);
        }
        operation = operation.response(status.to_string(), response.build());
    }
    let problem = ContentBuilder::new().schema(Some(named::<ProblemBody>(&mut schemas))).build();
    let problem = ResponseBuilder::new().description("An error").content(PROBLEM, problem);
    let operation = operation.response("default", problem.build()).build();
    (schemas, PathItem::new(method, operation))
}

const JSON: &str = "application/json";
const PROBLEM: &str = "application/problem+json";

/// A reference to a schema, which is added to the schemas. A generic type has no name of its own.
fn named<T: ToSchema>(schemas: &mut Schemas) -> RefOr<Schema> {
    T::schemas(schemas);
    if std::any::type_name::<T>().contains('<') {
        return T::schema();
    }
    let name = T::name().into_owned();
    schemas.push((name.clone(), T::schema()));
    RefOr::Ref(Ref::from_schema_name(name))
}

fn parameter(name: &str, place: ParameterIn, required: Required) -> Parameter {
    let text = ObjectBuilder::new().schema_type(Type::String).build();
    let parameter = ParameterBuilder::new().name(name).parameter_in(place).required(required);
    parameter.schema(Some(Schema::Object(text))).build()
}
