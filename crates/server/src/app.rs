//! All routes behind the pipeline. Served over HTTP, and called in process when offline.

use std::{
    collections::{HashMap, HashSet},
    path::Path,
    sync::{Arc, LazyLock},
};

use axum::Router;
use serde_json::{Map, Value};
use steadfast_api::{Code, ProblemBody, RouteScope, TypeSchema};
use steadfast_core::{App, Runtime, StartError};
use steadfast_store::SealFile;
use steadfast_web::{DeclaredRoutes, Problem, RouteTable, ServerContext, Web};
use utoipa::OpenApi;
use utoipa_axum::router::OpenApiRouter;

use crate::{
    guard,
    nouns::{self, objects::connect::connector},
    operation::{ApiRoutes, OperationHandler, Schemas, describe_errors, named},
    pages::{self, PageRoute},
    pipeline::{DeclaredPaths, ServerRoutes},
    server::Server,
};

/// A program that reads a data folder and changes nothing in it.
pub(crate) fn read_only(app: App, folder: &Path, key: SealFile) -> App {
    let mut app = app
        .blob_folder_read_only(folder.join("blobs"))
        .sessions_in_memory()
        .seal_key_file(key.read_only());
    claim_routes(&mut app);
    app
}

#[derive(OpenApi)]
#[openapi(info(
    title = "Steadfast",
    description = "Durable objects, workflows, processes, queues, buckets and streams."
))]
struct Description;

/// The routes for programs, which are the same in all servers of a process.
struct Documented {
    router: Router<Arc<Server>>,
    description: utoipa::openapi::OpenApi,
    operations: Vec<OperationHandler>,
    scopes: HashMap<(String, String), RouteScope>,
}

/// Built once: to describe them takes longer than the rest of a start.
static DOCUMENTED: LazyLock<Documented> = LazyLock::new(|| {
    let ApiRoutes { documented, operations, scopes } = nouns::routes().merge(nouns::large_routes());
    let all = OpenApiRouter::with_openapi(Description::openapi()).merge(documented);
    let (router, description) = all.split_for_parts();
    Documented { router, description, operations, scopes }
});

/// The routes of the server itself, with their roles.
static DECLARED: LazyLock<DeclaredRoutes> = LazyLock::new(|| {
    let pages = page_routes().into_iter().map(|it| (it.method, it.path, it.needs, it.scope));
    let Documented { description, scopes, .. } = &*DOCUMENTED;
    DeclaredRoutes::of_server(description, scopes).with_pages(pages)
});

/// Reserves the routes of the server: an application that declares one of them cannot start.
pub(crate) fn claim_routes(app: &mut App) {
    app.extension_mut::<Web>().server = Some(DECLARED.clone());
}

/// All routes of a served program, with their roles. Fails with every conflict between them.
pub(crate) fn table(runtime: &Runtime) -> Result<RouteTable, StartError> {
    let web = runtime.extension::<Web>();
    let problems = web.map(|it| it.conflicts_with(&DECLARED)).unwrap_or_default();
    if !problems.is_empty() {
        return Err(StartError::Program { problems });
    }
    let of_applications = web.into_iter().flat_map(Web::entries).cloned();
    Ok(DECLARED.entries.iter().cloned().chain(of_applications).collect())
}

fn page_routes() -> Vec<PageRoute> {
    pages::routes().into_iter().chain(nouns::pages()).collect()
}

/// Paths of routes whose bodies are not buffered.
fn large() -> HashSet<String> {
    let pages = page_routes().into_iter().filter(|it| it.is_large);
    let paths = nouns::large_routes().documented.into_openapi().paths.paths.into_keys();
    paths.chain(pages.map(|it| it.path.to_owned())).collect()
}

/// Builds the router of a server, for a server or a client in the same process.
pub(crate) fn router(server: Arc<Server>) -> Result<Router, StartError> {
    routes(server).map(|it| it.router)
}

/// Builds the routes of a server.
pub(crate) fn routes(server: Arc<Server>) -> Result<ServerRoutes, StartError> {
    let table = table(&server.runtime)?;
    let Documented { router, description, operations, .. } = &*DOCUMENTED;
    let routes = router
        .clone()
        .merge(pages::router(page_routes(), false))
        .merge(pages::router(page_routes(), true));
    let served = ServerContext {
        runtime: &server.runtime,
        connect: connector(&server),
        address: server.address,
        public_url: server.transport.public_url.as_ref().map(|it| it.origin().to_owned()),
    };
    let web = server.runtime.extension::<Web>();
    let nothing = || Web::default().routes(&served);
    let mounted = web.map_or_else(nothing, |it| it.routes(&served));
    let (paths, schemas) = (mounted.paths, mounted.schemas);
    // Serialization fails only for a mistake in our types, which the tests would show.
    let write = move || described(description, paths, schemas).unwrap_or_default();
    _ = server.openapi.set(LazyLock::new(Box::new(write)));
    let paths = DeclaredPaths::new(table, large(), operations.clone());
    let router = routes
        .with_state(server.clone())
        .merge(mounted.router)
        .fallback(async || guard::no_route())
        .method_not_allowed_fallback(async || {
            Problem::of(Code::WrongMethod, "this route has no such method; see /openapi.json")
        });
    Ok(ServerRoutes::new(server, paths, router))
}

/// Whether all operations of a path are pages.
fn is_page(item: &Value) -> bool {
    let mut operations = item.as_object().into_iter().flat_map(|it| it.values());
    operations.all(|it| it["tags"][0] == "pages")
}

/// Serializes the description. `{*id}` is a syntax of the router only.
fn described(
    openapi: &utoipa::openapi::OpenApi,
    paths_of_applications: Map<String, Value>,
    schemas_of_applications: Map<String, Value>,
) -> serde_json::Result<String> {
    let mut written = serde_json::to_value(openapi)?;
    let mut schemas = Schemas::new();
    let problem = serde_json::to_value(named(TypeSchema::of::<ProblemBody>(), &mut schemas))?;
    let operations = written["paths"].as_object_mut().into_iter().flat_map(Map::values_mut);
    for operation in operations.filter_map(Value::as_object_mut).flat_map(Map::values_mut) {
        describe_errors(operation, &problem);
    }
    if let Some(paths) = written["paths"].as_object_mut() {
        let all = std::mem::take(paths).into_iter().chain(paths_of_applications);
        paths.extend(all.map(|(path, item)| (path.replace("{*", "{"), item)));
        // Pages and their assets are for browsers, not for programs.
        paths.retain(|_, item| !is_page(item));
    }
    if let Some(all) = written["components"]["schemas"].as_object_mut() {
        all.extend(schemas_of_applications);
        for (name, schema) in schemas {
            all.insert(name, serde_json::to_value(schema)?);
        }
    }
    serde_json::to_string(&written)
}
