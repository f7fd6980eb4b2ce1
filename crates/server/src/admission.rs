//! Admits requests: the route must be in the table, and the caller must have what it needs.

use std::{collections::HashSet, sync::Arc};

use axum::{
    body::HttpBody,
    extract::{MatchedPath, OriginalUri, Request},
    http::{HeaderValue, Method, header, request::Parts},
    middleware::Next,
    response::{IntoResponse, Response},
};
use percent_encoding::percent_decode_str;
use steadfast_api::Code;
use steadfast_core::{Resource, object};
use steadfast_web::{Caller, Problem, Role, RouteEntry, RouteKind, RouteTable};

use crate::{
    access::{
        self, ended,
        record::{self, Trace},
    },
    budget::{self, Budget},
    listener::Crowded,
    server::{Policy, Server},
    waiting::{WaitPlace, asks_to_wait},
};

/// Maximum size of a request body in bytes, except for blobs.
const BODY_BYTES_MAX: u64 = 2 << 20;

/// Passes a request on to a route in the table. An `OpenApiRouter` may have routes that it does not
/// describe; they declare no role and are not served.
pub(crate) async fn admit(
    server: &Arc<Server>,
    (table, large): (&RouteTable, &HashSet<String>),
    request: Request,
    next: Next,
) -> Response {
    let method = request.method();
    let base = base_path(&request).matches('/').count();
    let (route, is_large) = match request.extensions().get::<MatchedPath>() {
        Some(matched) => {
            let path = below(matched.as_str(), base);
            let route = table.find(method.as_str(), path);
            // A layer of an application may answer OPTIONS for existing methods.
            let asks = method == Method::OPTIONS && !table.methods(path).is_empty();
            if !asks && route.is_none() {
                return refuse(table, path);
            }
            (route, large.contains(path))
        }
        // A service or the fallback of a router: only a role for the whole router covers it.
        None => match table.covering(request.uri().path()) {
            Some(route) => (Some(route), false),
            None => return no_route().into_response(),
        },
    };
    // An application limits its bodies itself.
    let is_limited = !is_large && route.is_some_and(|it| it.owner.is_none());
    let is_too_large = is_limited && BODY_BYTES_MAX < request.body().size_hint().lower();
    let (mut parts, body) = request.into_parts();
    let resource = || resource_of(&parts, base, route);
    let trace = Trace::of(server, route, &parts);
    let admission = match access::authorize(server, route, &resource, &parts).await {
        Ok(admission) => admission,
        Err(refusal) => return recorded(server, trace, None, refusal).await,
    };
    let caller = admission.caller.clone();
    let place = match place(server, route, &caller, &parts).await {
        Ok(place) => place,
        Err(problem) => return problem.into_response(),
    };
    parts.extensions.insert(Caller::new(&server.runtime, caller.clone()));
    parts.extensions.insert(caller.clone());
    parts.extensions.insert(admission.clone());
    let request = ended::end_body(server, &admission, Request::from_parts(parts, body));
    let budget = budget_of(server, &caller).clone();
    let handled = async move {
        if is_too_large {
            Problem::of(Code::TooLarge, "the body is larger than 2 MiB").into_response()
        } else if is_large {
            next.run(request).await
        } else {
            budget::check(&budget, request, next).await
        }
    };
    if !trace.as_ref().is_some_and(Trace::is_always) {
        let mut response = match place {
            Some(_) => ended::answer_or_end(server.clone(), admission, handled).await,
            None => handled.await,
        };
        drop(place);
        response = recorded(server, trace, Some(&caller), response).await;
        response.extensions_mut().insert(caller);
        return response;
    }
    // A client that goes away must not prevent the record of what it did.
    let server = server.clone();
    let ended = tokio::spawn(async move {
        let (response, detail) = record::described(handled).await;
        drop(place);
        let trace = trace.map(|it| it.detailed(detail));
        let mut response = recorded(&server, trace, Some(&caller), response).await;
        response.extensions_mut().insert(caller);
        response
    });
    ended.await.unwrap_or_else(|_| panicked())
}

/// The memory for the body of a request. Requests without a credential have little, so that they
/// never block others.
fn budget_of<'a>(server: &'a Server, caller: &object::Caller) -> &'a Budget {
    let needs_credential = server.policy == Policy::Loopback && !server.is_open();
    match needs_credential && caller.principal().is_none() {
        true => &server.anonymous_budget,
        false => &server.budget,
    }
}

/// The resource that a request uses, below this number of segments.
fn resource_of(
    parts: &Parts,
    base: usize,
    route: Option<&RouteEntry>,
) -> Option<Resource<'static>> {
    let path = below(parts.extensions.get::<MatchedPath>()?.as_str(), base);
    if !path.starts_with("/v1/") {
        // A whole router may have WebSockets.
        let is_stream = route.is_some_and(|it| it.is_stream || it.kind == RouteKind::Router);
        return Some(access::of_route(parts, is_stream));
    }
    let values = values(path, parts.uri.path());
    let values: Vec<(&str, &str)> = values.iter().map(|it| (it.0, &*it.1)).collect();
    access::resource(parts.method.as_str(), path, &values).map(Resource::into_owned)
}

/// The response if a handler panicked.
pub(crate) fn panicked() -> Response {
    let detail = "the handler of the request panicked; see the log";
    Problem::of(Code::Internal, detail).into_response()
}

/// Refuses a request without a place, unless it is a health check or one of an operator. Takes
/// another place for a request that waits by design.
async fn place(
    server: &Server,
    route: Option<&RouteEntry>,
    caller: &object::Caller,
    request: &Parts,
) -> Result<Option<WaitPlace>, Problem> {
    let may_always = route.is_some_and(access::is_health)
        || caller.principal().is_some_and(|it| it.organization.is_none() && it.has(Role::Operator));
    if let Some(Crowded(slot)) = request.extensions.get()
        && !may_always
        && !slot.gets_place().await
    {
        let detail = "all places for requests are taken; send the request again";
        return Err(Problem::of(Code::ServerFull, detail));
    }
    match request.uri.query() {
        Some(query) if asks_to_wait(query) => {
            server.wait_place(caller, request.extensions.get()).map(Some)
        }
        _ => Ok(None),
    }
}

/// Returns the response when the audit log has the outcome of the request.
async fn recorded(
    server: &Server,
    trace: Option<Trace>,
    caller: Option<&object::Caller>,
    response: Response,
) -> Response {
    let Some(event) = trace.and_then(|it| it.end(server, caller, &response)) else {
        return response;
    };
    match server.runtime.audit().record(event).await {
        Ok(()) => response,
        Err(error) => Problem::from(error).after_change().into_response(),
    }
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

/// The values of the parameters of a route, decoded.
fn values<'a>(route: &'a str, path: &str) -> Vec<(&'a str, String)> {
    let (mut found, mut rest) = (Vec::new(), path);
    for segment in route.split('/').skip(1) {
        rest = rest.strip_prefix('/').unwrap_or(rest);
        let name = segment.strip_prefix('{').and_then(|it| it.strip_suffix('}'));
        let (value, behind) = match name.and_then(|it| it.strip_prefix('*')) {
            Some(_) => (rest, ""),
            None => rest.split_at(rest.find('/').unwrap_or(rest.len())),
        };
        if let Some(name) = name {
            let value = percent_decode_str(value).decode_utf8_lossy().into_owned();
            found.push((name.trim_start_matches('*'), value));
        }
        rest = behind;
    }
    found
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
