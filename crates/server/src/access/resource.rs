//! The resource that a request of the API uses, for the scopes of tokens.

use std::borrow::Cow;

use axum::http::{Method, header, request::Parts};
use steadfast_core::{Resource, ResourceKind, Verb};

/// The resource of a request: by its method, the path of its route, and the values of the path.
/// `None` for routes that use no single resource: a token with scopes does not reach them.
///
/// Methods that are not named here manage the resource, so that a new route needs the widest right.
pub(crate) fn resource<'a>(
    method: &str,
    route: &str,
    values: &[(&str, &'a str)],
) -> Option<Resource<'a>> {
    let value = |name: &str| values.iter().find(|it| it.0 == name).map(|it| it.1);
    let mut segments = route.strip_prefix("/v1/")?.split('/');
    let noun = segments.next()?;
    let last = segments.next_back().unwrap_or_default();
    let is_read = matches!(method, "GET" | "HEAD");
    let otherwise = match method {
        "GET" | "HEAD" => Verb::Read,
        "DELETE" => Verb::Delete,
        _ => Verb::Manage,
    };
    let (kind, name, verb) = match noun {
        "objects" => {
            let name = joined(value("class")?, Some(value("name")?));
            let verb = match last {
                "connect" => Verb::Call,
                "sql" => Verb::Read,
                "{message}" => Verb::Call,
                _ => otherwise,
            };
            (ResourceKind::Object, name, verb)
        }
        "workflows" => {
            let verb = match last {
                "runs" if !is_read => Verb::Start,
                "{event}" => Verb::Send,
                _ => otherwise,
            };
            (ResourceKind::Workflow, joined(value("workflow")?, value("id")), verb)
        }
        "processes" => {
            let verb = if last == "inputs" { Verb::Send } else { otherwise };
            (ResourceKind::Process, joined(value("name")?, value("id")), verb)
        }
        // The body names a second queue, which the scope may not allow.
        "queues" if matches!(last, "edit" | "redrive" | "{queue}") && !is_read => return None,
        "queues" => {
            let verb = match last {
                "messages" if !is_read => Verb::Send,
                "pull" | "ack" => Verb::Pull,
                _ => otherwise,
            };
            (ResourceKind::Queue, value("queue")?.into(), verb)
        }
        "buckets" => {
            // The key of a presigned request and the queue of a rule are in the body.
            if last == "presign" || (route.contains("/rules/") && method == "PUT") {
                return None;
            }
            let (key, bucket) = (value("key"), value("bucket")?);
            let verb = match (key, method) {
                (Some(_), "PUT") => Verb::Write,
                // Rules and settings are deleted by those who manage the bucket.
                (None, "DELETE") => Verb::Manage,
                _ => otherwise,
            };
            (ResourceKind::Bucket, joined(bucket, key), verb)
        }
        "streams" => (ResourceKind::Stream, value("id")?.into(), otherwise),
        _ => return None,
    };
    Some(Resource { kind, name, verb })
}

/// The resource of a request to a route outside of `/v1`, which may be for live connections. The
/// path is that of the URL: an escaped slash must not lead out of the pattern of a scope.
pub(crate) fn of_route(request: &Parts, is_stream: bool) -> Resource<'static> {
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

fn joined<'a>(first: &'a str, second: Option<&'a str>) -> Cow<'a, str> {
    match second {
        Some(second) => format!("{first}/{second}").into(),
        None => first.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(method: &str, route: &str, values: &[(&str, &str)], expected: Option<&str>) {
        let found = resource(method, route, values).map(|it| it.to_string());
        assert_eq!(found.as_deref(), expected, "{method} {route}");
    }

    #[test]
    fn a_route_is_a_resource_with_the_path_of_the_url() {
        let check = |method: &str, path: &str, upgrade: bool, expected: &str| {
            let request = axum::http::Request::builder().method(method).uri(path);
            let request = if upgrade { request.header("upgrade", "websocket") } else { request };
            let (parts, ()) = request.body(()).unwrap().into_parts();
            assert_eq!(of_route(&parts, true).to_string(), expected);
            let ignored = expected.replace(":call", ":read");
            assert_eq!(of_route(&parts, false).to_string(), ignored);
        };
        check("GET", "/api/acme/a?x=y", false, "route:api/acme/a:read");
        check("GET", "/api/acme/a", true, "route:api/acme/a:call");
        check("HEAD", "/api/acme/a", false, "route:api/acme/a:read");
        check("POST", "/api/acme%2F../a", false, "route:api/acme%2F../a:write");
        check("DELETE", "/api", false, "route:api:delete");
        check("GET", "/", false, "route::read");
    }

    #[test]
    fn a_request_uses_the_resource_of_its_path() {
        let object = &[("class", "chat"), ("name", "lobby"), ("message", "say")];
        let calls = "/v1/objects/{class}/{name}/calls/{message}";
        check("POST", calls, object, Some("object:chat/lobby:call"));
        check("GET", "/v1/objects/{class}/{name}", object, Some("object:chat/lobby:read"));
        check("GET", "/v1/objects/{class}/{name}/connect", object, Some("object:chat/lobby:call"));
        check("POST", "/v1/objects/{class}/{name}/sql", object, Some("object:chat/lobby:read"));
        check("DELETE", "/v1/objects/{class}/{name}", object, Some("object:chat/lobby:delete"));
        check("GET", "/v1/objects/{class}", &[("class", "chat")], None);
        let run = &[("workflow", "order"), ("id", "o-1"), ("event", "paid")];
        let runs = "/v1/workflows/{workflow}/runs";
        check("POST", runs, &run[..1], Some("workflow:order:start"));
        check("GET", runs, &run[..1], Some("workflow:order:read"));
        let run_of = |rest: &str| format!("{runs}/{{id}}{rest}");
        check("POST", &run_of("/events/{event}"), run, Some("workflow:order/o-1:send"));
        check("POST", &run_of("/pause"), run, Some("workflow:order/o-1:manage"));
        check("DELETE", &run_of(""), run, Some("workflow:order/o-1:delete"));
        let queue = &[("queue", "mail")];
        check("POST", "/v1/queues/{queue}/messages", queue, Some("queue:mail:send"));
        check("GET", "/v1/queues/{queue}/messages", queue, Some("queue:mail:read"));
        check("POST", "/v1/queues/{queue}/messages/pull", queue, Some("queue:mail:pull"));
        check("POST", "/v1/queues/{queue}/purge", queue, Some("queue:mail:manage"));
        let blob = &[("bucket", "photos"), ("key", "2026/a.png")];
        let key = "/v1/buckets/{bucket}/objects/{*key}";
        check("PUT", key, blob, Some("bucket:photos/2026/a.png:write"));
        check("GET", key, blob, Some("bucket:photos/2026/a.png:read"));
        check("DELETE", key, blob, Some("bucket:photos/2026/a.png:delete"));
        check("PUT", "/v1/buckets/{bucket}", &blob[..1], Some("bucket:photos:manage"));
        check(
            "DELETE",
            "/v1/buckets/{bucket}/rules/{id}",
            &blob[..1],
            Some("bucket:photos:manage"),
        );
        check("POST", "/v1/buckets/{bucket}/presign", &blob[..1], None);
        check("GET", "/v1/tokens", &[], None);
        check("GET", "/uploads/{organization}", &[("organization", "acme")], None);
    }
}
