//! The resource that a request uses, for the scopes of tokens.

use axum::http::{Method, header, request::Parts};
use percent_encoding::percent_decode_str;
use steadfast_api::RouteScope;
use steadfast_core::{Resource, ResourceKind, Verb};
use steadfast_web::{RouteEntry, RouteKind};

use crate::path::values;

/// The resource that a request to a route uses, as the route declares it. `None` if the route uses
/// no single resource: a token with scopes does not reach it.
pub(crate) fn of_request(route: &RouteEntry, request: &Parts) -> Option<Resource<'static>> {
    match route.scope {
        RouteScope::None | RouteScope::Organization | RouteScope::Caller => None,
        // A whole router may have WebSockets.
        RouteScope::Url => {
            Some(of_url(request, route.is_stream || route.kind == RouteKind::Router))
        }
        RouteScope::Resource { kind, names, verb } => {
            let values = values(&route.path, request.uri.path());
            let value = |name: &&str| {
                let value = values.iter().find(|it| it.0 == *name)?.1;
                Some(percent_decode_str(value).decode_utf8_lossy())
            };
            let values: Option<Vec<_>> = names.iter().map(value).collect();
            Some(Resource { kind, name: values?.join("/").into(), verb })
        }
    }
}

/// The resource of a request to a route outside of `/v1`, which may be for live connections. The
/// path is that of the URL: an escaped slash must not lead out of the pattern of a scope.
fn of_url(request: &Parts, is_stream: bool) -> Resource<'static> {
    let verb = match request.method {
        // Texts over a WebSocket are calls. Other routes ignore the header.
        Method::GET if is_stream && request.headers.contains_key(header::UPGRADE) => Verb::Call,
        Method::GET | Method::HEAD => Verb::Read,
        Method::DELETE => Verb::Delete,
        _ => Verb::Write,
    };
    let name = request.uri.path();
    let name = name.strip_prefix('/').unwrap_or(name).to_owned().into();
    Resource { kind: ResourceKind::Route, name, verb }
}

#[cfg(test)]
mod tests {
    use steadfast_core::App;

    use super::*;
    use crate::app::table;

    #[test]
    fn a_route_is_a_resource_with_the_path_of_the_url() {
        let check = |method: &str, path: &str, upgrade: bool, expected: &str| {
            let request = axum::http::Request::builder().method(method).uri(path);
            let request = if upgrade { request.header("upgrade", "websocket") } else { request };
            let (parts, ()) = request.body(()).unwrap().into_parts();
            assert_eq!(of_url(&parts, true).to_string(), expected);
            let ignored = expected.replace(":call", ":read");
            assert_eq!(of_url(&parts, false).to_string(), ignored);
        };
        check("GET", "/api/acme/a?x=y", false, "route:api/acme/a:read");
        check("GET", "/api/acme/a", true, "route:api/acme/a:call");
        check("HEAD", "/api/acme/a", false, "route:api/acme/a:read");
        check("POST", "/api/acme%2F../a", false, "route:api/acme%2F../a:write");
        check("DELETE", "/api", false, "route:api:delete");
        check("GET", "/", false, "route::read");
    }

    /// The routes below `/v1` that use one resource, and that resource if the value of each
    /// parameter is its name. The list is written a second time on purpose.
    const OF_RESOURCES: [(&str, &str, &str); 51] = [
        ("DELETE", "/v1/buckets/{bucket}", "bucket:bucket:manage"),
        ("GET", "/v1/buckets/{bucket}", "bucket:bucket:read"),
        ("PUT", "/v1/buckets/{bucket}", "bucket:bucket:manage"),
        ("GET", "/v1/buckets/{bucket}/cors", "bucket:bucket:read"),
        ("DELETE", "/v1/buckets/{bucket}/cors/{id}", "bucket:bucket:manage"),
        ("PUT", "/v1/buckets/{bucket}/cors/{id}", "bucket:bucket:manage"),
        ("GET", "/v1/buckets/{bucket}/events", "bucket:bucket:read"),
        ("GET", "/v1/buckets/{bucket}/lifecycle", "bucket:bucket:read"),
        ("DELETE", "/v1/buckets/{bucket}/lifecycle/{id}", "bucket:bucket:manage"),
        ("GET", "/v1/buckets/{bucket}/lifecycle/{id}", "bucket:bucket:read"),
        ("PUT", "/v1/buckets/{bucket}/lifecycle/{id}", "bucket:bucket:manage"),
        ("GET", "/v1/buckets/{bucket}/objects", "bucket:bucket:read"),
        ("DELETE", "/v1/buckets/{bucket}/objects/{*key}", "bucket:bucket/key:delete"),
        ("GET", "/v1/buckets/{bucket}/objects/{*key}", "bucket:bucket/key:read"),
        ("HEAD", "/v1/buckets/{bucket}/objects/{*key}", "bucket:bucket/key:read"),
        ("PUT", "/v1/buckets/{bucket}/objects/{*key}", "bucket:bucket/key:write"),
        ("GET", "/v1/buckets/{bucket}/rules", "bucket:bucket:read"),
        ("DELETE", "/v1/buckets/{bucket}/rules/{id}", "bucket:bucket:manage"),
        ("GET", "/v1/buckets/{bucket}/rules/{id}", "bucket:bucket:read"),
        ("DELETE", "/v1/objects/{class}/{name}", "object:class/name:delete"),
        ("GET", "/v1/objects/{class}/{name}", "object:class/name:read"),
        ("POST", "/v1/objects/{class}/{name}/calls/{message}", "object:class/name:call"),
        ("GET", "/v1/objects/{class}/{name}/connect", "object:class/name:call"),
        ("GET", "/v1/objects/{class}/{name}/export", "object:class/name:read"),
        ("POST", "/v1/objects/{class}/{name}/sql", "object:class/name:read"),
        ("GET", "/v1/objects/{class}/{name}/turns", "object:class/name:read"),
        ("GET", "/v1/objects/{class}/{name}/turns/{turn}", "object:class/name:read"),
        ("GET", "/v1/processes/{name}", "process:name:read"),
        ("GET", "/v1/processes/{name}/{id}", "process:name/id:read"),
        ("POST", "/v1/processes/{name}/{id}/inputs", "process:name/id:send"),
        ("GET", "/v1/queues/{queue}", "queue:queue:read"),
        ("GET", "/v1/queues/{queue}/messages", "queue:queue:read"),
        ("POST", "/v1/queues/{queue}/messages", "queue:queue:send"),
        ("POST", "/v1/queues/{queue}/messages/ack", "queue:queue:pull"),
        ("POST", "/v1/queues/{queue}/messages/pull", "queue:queue:pull"),
        ("POST", "/v1/queues/{queue}/pause", "queue:queue:manage"),
        ("POST", "/v1/queues/{queue}/purge", "queue:queue:manage"),
        ("POST", "/v1/queues/{queue}/resume", "queue:queue:manage"),
        ("GET", "/v1/streams/{*id}", "stream:id:read"),
        ("GET", "/v1/workflows/{workflow}/runs", "workflow:workflow:read"),
        ("POST", "/v1/workflows/{workflow}/runs", "workflow:workflow:start"),
        ("DELETE", "/v1/workflows/{workflow}/runs/{id}", "workflow:workflow/id:delete"),
        ("GET", "/v1/workflows/{workflow}/runs/{id}", "workflow:workflow/id:read"),
        ("POST", "/v1/workflows/{workflow}/runs/{id}/events/{event}", "workflow:workflow/id:send"),
        ("GET", "/v1/workflows/{workflow}/runs/{id}/history", "workflow:workflow/id:read"),
        ("GET", "/v1/workflows/{workflow}/runs/{id}/live", "workflow:workflow/id:read"),
        ("POST", "/v1/workflows/{workflow}/runs/{id}/pause", "workflow:workflow/id:manage"),
        ("POST", "/v1/workflows/{workflow}/runs/{id}/restart", "workflow:workflow/id:manage"),
        ("POST", "/v1/workflows/{workflow}/runs/{id}/resume", "workflow:workflow/id:manage"),
        ("POST", "/v1/workflows/{workflow}/runs/{id}/retry", "workflow:workflow/id:manage"),
        ("POST", "/v1/workflows/{workflow}/runs/{id}/terminate", "workflow:workflow/id:manage"),
    ];

    /// The routes of the server for every token.
    const OF_CALLERS: [(&str, &str); 6] = [
        ("POST", "/v1/login-links"),
        ("GET", "/v1/sessions"),
        ("DELETE", "/v1/sessions/{id}"),
        ("GET", "/v1/whoami"),
        ("GET", "/sessions"),
        ("POST", "/sessions/{id}/end"),
    ];

    /// The routes of the server for tokens of organizations.
    const OF_ORGANIZATIONS: [(&str, &str); 4] = [
        ("GET", "/v1/tokens"),
        ("POST", "/v1/tokens"),
        ("DELETE", "/v1/tokens/{id}"),
        ("POST", "/v1/tokens/{id}/rotate"),
    ];

    fn parts(method: &str, path: &str) -> Parts {
        let request = axum::http::Request::builder().method(method).uri(path);
        request.body(()).unwrap().into_parts().0
    }

    #[tokio::test]
    async fn every_route_of_the_server_uses_the_resource_that_is_listed() {
        let program = App::new("test").test().await.unwrap();
        let table = table(&program).unwrap();
        for route in table.entries() {
            let (method, path) = (&*route.method, &*route.path);
            let request = path.replace("{*", "{").replace(['{', '}'], "");
            let found = of_request(route, &parts(method, &request)).map(|it| it.to_string());
            let is_in = |list: &[(&str, &str)]| list.contains(&(method, path));
            if path.starts_with("/v1/") || is_in(&OF_CALLERS) {
                let listed = OF_RESOURCES.iter().find(|it| (it.0, it.1) == (method, path));
                assert_eq!(found.as_deref(), listed.map(|it| it.2), "{method} {path}");
            } else {
                let found = found.unwrap_or_default();
                assert!(found.starts_with(&format!("route:{}:", &request[1..])), "{found}");
            }
            let has = |scope: RouteScope| route.scope == scope;
            assert_eq!(has(RouteScope::Caller), is_in(&OF_CALLERS), "{method} {path}");
            assert_eq!(has(RouteScope::Organization), is_in(&OF_ORGANIZATIONS), "{method} {path}");
        }
        let known = |method, path| table.find(method, path).is_some_and(|it| it.path == path);
        assert!(OF_RESOURCES.iter().all(|it| known(it.0, it.1)));
        assert!(OF_CALLERS.iter().chain(&OF_ORGANIZATIONS).all(|it| known(it.0, it.1)));
    }

    #[tokio::test]
    async fn the_name_of_a_resource_is_decoded() {
        let program = App::new("test").test().await.unwrap();
        let table = table(&program).unwrap();
        let check = |(method, route): (&str, &str), path: &str, expected: &str| {
            let found = of_request(table.find(method, route).unwrap(), &parts(method, path));
            assert_eq!(found.map(|it| it.to_string()).as_deref(), Some(expected), "{path}");
        };
        let blob = "/v1/buckets/{bucket}/objects/{*key}";
        let (path, name) = ("/v1/buckets/photos/objects/2026/a%2Fb.png", "photos/2026/a/b.png");
        check(("GET", blob), path, &format!("bucket:{name}:read"));
        check(("PUT", blob), path, &format!("bucket:{name}:write"));
        let call = "/v1/objects/{class}/{name}/calls/{message}";
        check(("POST", call), "/v1/objects/chat/a%20b/calls/say", "object:chat/a b:call");
        let stream = ("GET", "/v1/streams/{*id}");
        check(stream, "/v1/streams/object/chat/lobby", "stream:object/chat/lobby:read");
        check(("HEAD", "/v1/queues/{queue}"), "/v1/queues/mail", "queue:mail:read");
    }
}
