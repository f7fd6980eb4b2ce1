//! All routes and the layers around them. Served over HTTP, and called in process when offline.

use std::sync::Arc;

use axum::{Router, middleware, response::IntoResponse};
use tower_http::{catch_panic::CatchPanicLayer, limit::RequestBodyLimitLayer};
use utoipa::OpenApi;
use utoipa_axum::router::OpenApiRouter;

use crate::{
    api::{
        self,
        problem::{Code, Problem},
    },
    budget, drift, envelope, generations, guard,
    node::Node,
    pages, uploads,
};

/// Bytes of a request's body, where no bucket says otherwise.
const BODY_BYTES_MAX: usize = 2 << 20;

#[derive(OpenApi)]
#[openapi(info(
    title = "Steadfast",
    description = "Message streams and what is to be done with them."
))]
struct Description;

/// Everything that a node answers.
pub(crate) fn router(node: Arc<Node>) -> Router {
    let whole = middleware::from_fn_with_state(node.budget.clone(), budget::check);
    let documented = OpenApiRouter::with_openapi(Description::openapi())
        .merge(api::routes())
        .merge(pages::routes())
        .layer(RequestBodyLimitLayer::new(BODY_BYTES_MAX))
        .layer(whole.clone())
        .merge(api::large_routes())
        .merge(pages::large_routes());
    let (routes, description) = documented.split_for_parts();
    // A failure to write it is a mistake in a type of ours, which the tests would show.
    let written = described(description).unwrap_or_default();
    node.openapi.get_or_init(|| written);
    routes
        .with_state(node.clone())
        .merge(uploads::routes(&node).layer(whole.clone()))
        .merge(generations::routes(&node).layer(whole.clone()))
        .merge(drift::routes(&node).layer(whole))
        .fallback(async || Problem::new(Code::UnknownRoute, "no such route; see /openapi.json"))
        .method_not_allowed_fallback(async || {
            Problem::new(Code::WrongMethod, "this route has no such method; see /openapi.json")
        })
        .layer(CatchPanicLayer::custom(|_| {
            Problem::new(Code::Internal, "the request met a bug; the log says where")
                .into_response()
        }))
        .layer(middleware::from_fn(guard::check))
        .layer(middleware::from_fn_with_state(node, envelope::wrap))
}

/// Writes the description. A route that takes the rest of the path is `{*id}` to the router only.
fn described(mut openapi: utoipa::openapi::OpenApi) -> serde_json::Result<String> {
    let paths = std::mem::take(&mut openapi.paths.paths);
    openapi.paths.paths =
        paths.into_iter().map(|(path, item)| (path.replace("{*", "{"), item)).collect();
    let mut written = serde_json::to_value(openapi)?;
    if let Some(paths) = written["paths"].as_object_mut() {
        paths.extend(steadfast_uploads::http::paths());
        paths.extend(steadfast_generations::http::paths());
        paths.extend(steadfast_drift::http::paths());
    }
    serde_json::to_string(&written)
}
