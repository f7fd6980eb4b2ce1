//! The declared routes of a server.

use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
};

use axum::{
    extract::Request,
    http::{HeaderValue, Method, header, request::Parts},
    response::{IntoResponse, Response},
};
use steadfast_api::Code;
use steadfast_web::{Problem, RouteEntry, RouteKind, RouteTable};

use crate::{guard::no_route, operation::OperationHandler};

/// An operation with its entry in the table of routes.
pub(crate) struct OperationRoute {
    /// The entry.
    pub(super) entry: RouteEntry,
    /// The handler.
    pub(super) handler: OperationHandler,
}

/// All routes, with their roles.
pub(crate) struct DeclaredPaths {
    table: RouteTable,
    /// Paths of routes whose bodies are not buffered.
    large: HashSet<String>,
    /// The operations of each path.
    operations: matchit::Router<Vec<Arc<OperationRoute>>>,
}

impl DeclaredPaths {
    /// The routes of a table, with the handlers of its operations. Bodies of requests to `large`
    /// paths are not buffered.
    pub(crate) fn new(
        table: RouteTable,
        large: HashSet<String>,
        handlers: Vec<OperationHandler>,
    ) -> Self {
        let operations = operations(&table, handlers);
        Self { table, large, operations }
    }

    /// The operation that serves a request.
    pub(crate) fn operation(&self, request: &Request) -> Option<&Arc<OperationRoute>> {
        let found = self.operations.at(request.uri().path()).ok()?;
        let method = request.method().as_str();
        found.value.iter().find(|it| it.handler.info.method.name() == method)
    }

    /// The declared route of a path that the router has matched, and whether its bodies are large;
    /// `None` if it is not declared. An `OpenApiRouter` may have routes that it does not describe;
    /// they declare no role and are not served.
    pub(super) fn find(
        &self,
        path: Option<&str>,
        request: &Parts,
    ) -> Option<(Option<&RouteEntry>, bool)> {
        let Some(path) = path else {
            // A service or the fallback of a router: only a role for the whole router covers it.
            return self.table.covering(request.uri.path()).map(|it| (Some(it), false));
        };
        let route = self.table.find(request.method.as_str(), path);
        // A layer of an application may answer OPTIONS for existing methods.
        let asks = request.method == Method::OPTIONS && !self.table.methods(path).is_empty();
        (asks || route.is_some()).then(|| (route, self.large.contains(path)))
    }

    /// The response if a route is not declared.
    pub(super) fn refuse(&self, path: Option<&str>) -> Response {
        let Some(path) = path else { return no_route().into_response() };
        let methods = self.table.methods(path);
        if methods.is_empty() {
            tracing::error!(path, "route refused: it is not declared by `routes!`");
            let detail = "this route does not declare the role that it needs and is not served";
            return Problem::of(Code::RouteNotFound, detail).into_response();
        }
        let detail = "this route has no such method; see /openapi.json";
        let mut response = Problem::of(Code::WrongMethod, detail).into_response();
        if let Ok(allow) = HeaderValue::from_str(&methods.join(",")) {
            response.headers_mut().insert(header::ALLOW, allow);
        }
        response
    }
}

/// Finds operations by path and method. All declared paths are here, so that a declared route of an
/// application precedes an operation. Routes that an application does not describe are unknown
/// here.
fn operations(
    table: &RouteTable,
    handlers: Vec<OperationHandler>,
) -> matchit::Router<Vec<Arc<OperationRoute>>> {
    let mut paths: BTreeMap<String, Vec<Arc<OperationRoute>>> = BTreeMap::new();
    for entry in table.entries() {
        paths.entry(entry.path.clone()).or_default();
        if entry.kind == RouteKind::Router {
            paths.entry(format!("{}/{{*rest}}", entry.path)).or_default();
        }
    }
    for handler in handlers {
        let (method, path) = (handler.info.method.name(), handler.info.path);
        if let (Some(entry), Some(of_path)) = (table.find(method, path), paths.get_mut(path)) {
            of_path.push(Arc::new(OperationRoute { entry: entry.clone(), handler }));
        }
    }
    let mut found = matchit::Router::new();
    for (path, operations) in paths {
        if let Err(error) = found.insert(&*path, operations) {
            // The router serves them.
            tracing::error!(%error, path, "operations are not found by their path");
            debug_assert!(false, "two declared paths conflict: {path}: {error}");
            return matchit::Router::new();
        }
    }
    found
}
