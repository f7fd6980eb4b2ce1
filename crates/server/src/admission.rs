//! Admits requests: the route must be in the table, and the caller is identified. Access control
//! will compare the two here.

use std::sync::Arc;

use axum::{
    extract::{MatchedPath, OriginalUri, Request, State},
    http::{HeaderValue, Method, header},
    middleware::Next,
    response::{IntoResponse, Response},
};
use steadfast_api::Code;
use steadfast_core::object;
use steadfast_web::{Caller, Problem, RouteTable};

use crate::server::{Policy, Server};

/// Passes a request on to a route in the table. An `OpenApiRouter` may have routes that it does not
/// describe; they declare no role and are not served.
pub(crate) async fn admit(
    State((server, table)): State<(Arc<Server>, Arc<RouteTable>)>,
    mut request: Request,
    next: Next,
) -> Response {
    let method = request.method();
    match request.extensions().get::<MatchedPath>() {
        Some(matched) => {
            let path = below(matched.as_str(), base_path(&request).matches('/').count());
            // A layer of an application may answer OPTIONS for existing methods.
            let asks = method == Method::OPTIONS && !table.methods(path).is_empty();
            if !asks && table.find(method.as_str(), path).is_none() {
                return refuse(&table, path);
            }
        }
        // A service or the fallback of a router: only a role for the whole router covers it.
        None if table.covers(request.uri().path()) => {}
        None => return no_route().into_response(),
    }
    // Only a host program can have set a caller: requests arrive without extensions.
    let known = match server.policy {
        Policy::HostDecides => request.extensions().get::<object::Caller>().copied(),
        Policy::Loopback => None,
    };
    let caller = known.unwrap_or(object::Caller::Anonymous);
    request.extensions_mut().insert(Caller::new(&server.runtime, caller));
    next.run(request).await
}

/// The path prefix under which a host program serves the routes, or nothing.
pub(crate) fn base_path(request: &Request) -> &str {
    let original = request.extensions().get::<OriginalUri>().map_or("", |it| it.path());
    match (original.strip_suffix(request.uri().path()), request.uri().path()) {
        (Some(base), _) => base,
        // `/durable` is `/` under the prefix `/durable`.
        (None, "/") => original,
        (None, _) => "",
    }
}

/// The rest of a path after this number of segments.
fn below(path: &str, segments: usize) -> &str {
    let mut rest = path;
    for _ in 0..segments {
        let inner = rest.strip_prefix('/').unwrap_or(rest);
        rest = inner.find('/').map_or("", |at| &inner[at..]);
    }
    if rest.is_empty() { "/" } else { rest }
}

/// The response for a path without a route.
pub(crate) fn no_route() -> Problem {
    Problem::of(Code::RouteNotFound, "no such route; see /openapi.json")
}

fn refuse(table: &RouteTable, path: &str) -> Response {
    let methods = table.methods(path);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_prefix_of_a_host_is_removed_by_segments() {
        assert_eq!(below("/v1/streams", 0), "/v1/streams");
        assert_eq!(below("/{tenant}/durable/v1/streams", 2), "/v1/streams");
        assert_eq!(below("/durable", 1), "/");
        assert_eq!(below("/durable/", 1), "/");
    }
}
