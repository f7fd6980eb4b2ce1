//! All routes and the layers around them. Served over HTTP, and called in process when offline.

use std::sync::Arc;

use axum::{Router, middleware, response::IntoResponse};
use serde_json::{Map, Value};
use steadfast_core::App;
use steadfast_web::{ServerContext, Web, pattern};
use tower_http::{catch_panic::CatchPanicLayer, limit::RequestBodyLimitLayer};
use utoipa::OpenApi;
use utoipa_axum::router::OpenApiRouter;

use crate::{
    api::{
        self,
        problem::{Code, Problem},
    },
    budget,
    connector::connector,
    envelope, guard, pages,
    server::Server,
};

/// Bytes of a request's body, where no bucket says otherwise.
const BODY_BYTES_MAX: usize = 2 << 20;

#[derive(OpenApi)]
#[openapi(info(
    title = "Steadfast",
    description = "Message streams and what is to be done with them."
))]
struct Description;

/// Takes the routes of the server for itself: an application with one of them cannot start.
pub(crate) fn claim_routes(app: &mut App) {
    let routes = api::routes().merge(pages::routes());
    let routes = routes.merge(api::large_routes()).merge(pages::large_routes());
    for path in routes.into_openapi().paths.paths.into_keys() {
        app.claim("route", &pattern(&path));
        app.extension_mut::<Web>().reserved.push(path);
    }
}

/// Everything that a server answers.
pub(crate) fn router(server: Arc<Server>) -> Router {
    let whole = middleware::from_fn_with_state(server.budget.clone(), budget::check);
    let documented = OpenApiRouter::with_openapi(Description::openapi())
        .merge(api::routes())
        .merge(pages::routes())
        .layer(RequestBodyLimitLayer::new(BODY_BYTES_MAX))
        .layer(whole.clone())
        .merge(api::large_routes())
        .merge(pages::large_routes());
    let served = ServerContext {
        runtime: &server.runtime,
        connect: connector(&server),
        address: server.address.get().copied(),
    };
    let web = server.runtime.extension::<Web>();
    let nothing = || Web::default().routes(&served);
    let mounted = web.map_or_else(nothing, |it| it.routes(&served));
    let (routes, description) = documented.split_for_parts();
    // A failure to write it is a mistake in a type of ours, which the tests would show.
    let written = described(description, mounted.paths, mounted.schemas).unwrap_or_default();
    server.openapi.get_or_init(|| written);
    routes
        .with_state(server.clone())
        .merge(mounted.router.layer(whole))
        .fallback(async || Problem::of(Code::RouteNotFound, "no such route; see /openapi.json"))
        .method_not_allowed_fallback(async || {
            Problem::of(Code::WrongMethod, "this route has no such method; see /openapi.json")
        })
        .layer(CatchPanicLayer::custom(|_| {
            Problem::of(Code::Internal, "the request met a bug; the log says where").into_response()
        }))
        .layer(middleware::from_fn_with_state(server.clone(), guard::check))
        .layer(middleware::from_fn_with_state(server, envelope::wrap))
}

/// Whether all operations of a path are pages.
fn is_page(item: &Value) -> bool {
    let mut operations = item.as_object().into_iter().flat_map(|it| it.values());
    operations.all(|it| it["tags"][0] == "pages")
}

/// Writes the description. A route that takes the rest of the path is `{*id}` to the router only.
fn described(
    mut openapi: utoipa::openapi::OpenApi,
    paths_of_applications: Map<String, Value>,
    schemas_of_applications: Map<String, Value>,
) -> serde_json::Result<String> {
    let paths = std::mem::take(&mut openapi.paths.paths);
    openapi.paths.paths =
        paths.into_iter().map(|(path, item)| (path.replace("{*", "{"), item)).collect();
    let mut written = serde_json::to_value(openapi)?;
    if let Some(paths) = written["paths"].as_object_mut() {
        paths.extend(paths_of_applications);
        // Pages and their assets are for browsers, not for programs.
        paths.retain(|_, item| !is_page(item));
    }
    if let Some(schemas) = written["components"]["schemas"].as_object_mut() {
        for (name, schema) in schemas_of_applications {
            if schemas.get(&name).is_some_and(|it| *it != schema) {
                tracing::warn!(name, "two schemas of the OpenAPI document have one name");
            }
            schemas.entry(name).or_insert(schema);
        }
    }
    serde_json::to_string(&written)
}
