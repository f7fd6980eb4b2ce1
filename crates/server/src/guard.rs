//! Refuses requests of foreign web pages, requests through a proxy while access is open, and all
//! but webhooks on the port for webhooks.

use std::borrow::Cow;

use axum::http::{HeaderMap, Method, Version, header, request::Parts};
use steadfast_api::Code;
use steadfast_web::Problem;

use crate::{
    facts::accepts,
    server::{Policy, Server},
    transport::{ClientInfo, Transport},
};

/// Prefix of the routes that receive webhooks. Each URL contains a secret.
pub(crate) const WEBHOOKS: &str = "/webhooks/";

/// Marks a request to the port for webhooks, in its extensions.
#[derive(Clone, Copy)]
pub(crate) struct OfWebhooksPort;

/// The response for a path without a route.
pub(crate) fn no_route() -> Problem {
    Problem::of(Code::RouteNotFound, "no such route; see /openapi.json")
}

/// Headers of proxies, besides all that begin with `x-forwarded-`.
const OF_PROXIES: [&str; 3] = ["forwarded", "via", "x-real-ip"];

/// Refuses requests that are not for the server's own names. A route is named by its path.
pub(crate) fn check(
    server: &Server,
    route: Option<&str>,
    request: &Parts,
    client: Option<&ClientInfo>,
) -> Result<(), Problem> {
    match server.policy {
        Policy::HostDecides => Ok(()),
        Policy::Loopback => verdict(&server.transport, route, request, client),
    }
}

fn verdict(
    transport: &Transport,
    route: Option<&str>,
    request: &Parts,
    client: Option<&ClientInfo>,
) -> Result<(), Problem> {
    let (method, headers) = (&request.method, &request.headers);
    if request.extensions.get::<OfWebhooksPort>().is_some() {
        // A route such as `/{organization}/{*rest}` would match the paths of webhooks, too.
        let is_webhook = route.is_some_and(|it| it.starts_with(WEBHOOKS));
        return if is_webhook { Ok(()) } else { Err(no_route()) };
    }
    if !transport.is_closed() {
        refuse_proxies(request.version, headers)?;
    }
    // Without a port for webhooks, providers call this one by another name. Each URL contains a
    // secret, which no page can read or guess. A route of another name may match the path, too.
    let route = route.unwrap_or(request.uri.path());
    let is_webhook = route.starts_with(WEBHOOKS) && method == Method::POST;
    if is_webhook && !transport.has_webhooks_port {
        return Ok(());
    }
    let client: Cow<'_, ClientInfo> = match client {
        Some(known) => Cow::Borrowed(known),
        None => Cow::Owned(ClientInfo::in_process(&request.uri, headers)),
    };
    let public = transport.public_url.as_ref();
    if !client.host.as_deref().is_some_and(|it| transport.is_own_host(it)) {
        let public = public.map_or(String::new(), |it| format!(", or {}", it.origin()));
        let detail = format!(
            "the Host header must name this machine: localhost, 127.0.0.1 or [::1]{public}"
        );
        return Err(Problem::of(Code::ForeignHost, detail));
    }
    let foreign =
        || Problem::of(Code::ForeignOrigin, "a page of another origin may not call this server");
    if let Some(origin) = headers.get(header::ORIGIN) {
        let same = |it: &str| origin.as_bytes().eq_ignore_ascii_case(it.as_bytes());
        if !client.origin().is_some_and(|it| same(&it))
            && !public.is_some_and(|it| same(it.origin()))
        {
            return Err(foreign());
        }
    }
    // Old browsers send no Origin with a form, but every browser sends one of the two headers.
    let site = headers.get("sec-fetch-site").map(|it| it.as_bytes());
    let elsewhere = matches!(site, Some(b"cross-site" | b"same-site"));
    // Connecting is a turn, although it is a GET; a page may request events without an Origin.
    let reads = matches!(*method, Method::GET | Method::HEAD) && !connects(headers);
    if elsewhere && !reads {
        return Err(foreign());
    }
    Ok(())
}

/// Whether a request asks for a WebSocket or for server-sent events, on whichever route.
fn connects(headers: &HeaderMap) -> bool {
    headers.contains_key(header::UPGRADE) || accepts(headers, "text/event-stream")
}

/// Refuses a request that came through a proxy: everybody who reaches the proxy would have full
/// access. nginx sends HTTP/1.0 and no header of its own by default.
pub(crate) fn refuse_proxies(version: Version, headers: &HeaderMap) -> Result<(), Problem> {
    let is_of_proxy = |it: &str| it.starts_with("x-forwarded-") || OF_PROXIES.contains(&it);
    let sign = match headers.keys().map(|it| it.as_str()).find(|it| is_of_proxy(it)) {
        Some(name) => format!("it has the header {name}"),
        None if version == Version::HTTP_10 => "it is HTTP/1.0".to_owned(),
        None => return Ok(()),
    };
    let detail = format!(
        "the request came through a proxy ({sign}), but access is open: only this machine may \
         call. Close access before you put a proxy in front; webhooks have a port of their own \
         (--webhooks-listen)"
    );
    Err(Problem::of(Code::ForwardedInOpenMode, detail))
}

#[cfg(test)]
mod tests {
    use axum::{extract::Request, http::Uri};
    use clap::{Args, Command, FromArgMatches};

    use super::*;
    use crate::args::TransportArgs;

    fn closed(flags: &[&str]) -> Transport {
        let command = TransportArgs::augment_args(Command::new("serve"));
        let matches = command.try_get_matches_from([&["serve"], flags].concat()).unwrap();
        let args = TransportArgs::from_arg_matches(&matches).unwrap();
        let Ok(transport) = Transport::of(&args) else { panic!("it must be made") };
        transport.close();
        transport
    }

    /// The code of the refusal of a request from this peer.
    fn code(
        transport: &Transport,
        peer: &str,
        (method, uri): (Method, &'static str),
        headers: &[(&'static str, &str)],
    ) -> Option<String> {
        let (mut request, _) = Request::<()>::default().into_parts();
        (request.method, request.uri) = (method, Uri::from_static(uri));
        for (name, value) in headers {
            request.headers.append(*name, value.parse().unwrap());
        }
        let client = transport.client_info(peer.parse().unwrap(), &request.uri, &request.headers);
        let verdict = verdict(transport, None, &request, Some(&client));
        verdict.err().map(|it| it.code().to_owned())
    }

    #[track_caller]
    fn check(method: Method, headers: &[(&'static str, &str)], expected: Option<Code>) {
        let request = (method, "/v1/streams");
        let found = code(&Transport::default(), "127.0.0.1", request, headers);
        assert_eq!(found.as_deref(), expected.map(Code::tag));
    }

    #[test]
    fn a_page_of_another_origin_is_refused() {
        let host = ("host", "127.0.0.1:8787");
        check(Method::GET, &[host], None);
        check(Method::POST, &[host, ("origin", "http://127.0.0.1:8787")], None);
        for origin in
            ["null", "http://example.org", "https://127.0.0.1:8787", "http://127.0.0.1:3000"]
        {
            check(Method::POST, &[host, ("origin", origin)], Some(Code::ForeignOrigin));
            check(Method::GET, &[host, ("origin", origin)], Some(Code::ForeignOrigin));
        }
        check(Method::POST, &[host, ("sec-fetch-site", "cross-site")], Some(Code::ForeignOrigin));
        check(Method::POST, &[host, ("sec-fetch-site", "same-origin")], None);
        let crossed = ("sec-fetch-site", "cross-site");
        check(Method::GET, &[host, crossed], None);
        for connecting in [("accept", "text/event-stream"), ("upgrade", "websocket")] {
            check(Method::GET, &[host, crossed, connecting], Some(Code::ForeignOrigin));
            check(Method::GET, &[host, connecting], None);
        }
    }

    #[test]
    fn a_webhook_is_accepted_for_any_host_unless_webhooks_have_their_own_port() {
        let public = [("host", "gen.example.com")];
        let hook = |transport: &Transport, method| {
            code(transport, "127.0.0.1", (method, "/webhooks/runware/g/t/secret"), &public)
        };
        let open = Transport::default();
        assert_eq!(hook(&open, Method::POST), None);
        assert_eq!(hook(&open, Method::GET).as_deref(), Some("foreign_host"));
        let own_port = closed(&["--webhooks-listen", "127.0.0.1:0"]);
        assert_eq!(hook(&own_port, Method::POST).as_deref(), Some("foreign_host"));
    }

    #[test]
    fn a_request_for_a_foreign_host_is_refused() {
        check(Method::GET, &[], Some(Code::ForeignHost));
        check(Method::GET, &[("host", "rebound.example.org")], Some(Code::ForeignHost));
        let twice = [("host", "localhost"), ("host", "localhost")];
        check(Method::GET, &twice, Some(Code::ForeignHost));
        let named = (Method::GET, "http://example.org/");
        let found = code(&Transport::default(), "127.0.0.1", named, &[("host", "localhost")]);
        assert_eq!(found.as_deref(), Some("foreign_host"));
        let named = (Method::GET, "http://localhost/");
        let found = code(&Transport::default(), "127.0.0.1", named, &[("host", "example.org")]);
        assert_eq!(found.as_deref(), Some("foreign_host"));
    }

    #[test]
    fn a_proxy_in_front_of_open_access_is_refused() {
        let host = ("host", "127.0.0.1:8787");
        for header in [
            ("x-forwarded-for", "203.0.113.9"),
            ("x-forwarded-proto", "https"),
            ("x-forwarded-port", "443"),
            ("forwarded", "for=203.0.113.9"),
            ("x-real-ip", "203.0.113.9"),
            ("via", "1.1 gate"),
        ] {
            check(Method::GET, &[host, header], Some(Code::ForwardedInOpenMode));
            let hook = (Method::POST, "/webhooks/runware/g/t/secret");
            let found = code(&Transport::default(), "127.0.0.1", hook, &[host, header]);
            assert_eq!(found.as_deref(), Some("forwarded_when_open"));
        }
        assert!(refuse_proxies(Version::HTTP_10, &HeaderMap::new()).is_err());
        assert!(refuse_proxies(Version::HTTP_11, &HeaderMap::new()).is_ok());
    }

    #[test]
    fn closed_access_accepts_the_public_host_and_its_origin() {
        let transport =
            closed(&["--public-url", "https://gate.example.org", "--trusted-proxy", "10.0.0.1"]);
        let host = ("host", "gate.example.org");
        let post = || (Method::POST, "/v1/streams");
        let of =
            |peer: &str, headers: &[(&'static str, &str)]| code(&transport, peer, post(), headers);
        let origin = ("origin", "https://gate.example.org");
        assert_eq!(of("10.0.0.1", &[host, origin]), None);
        assert_eq!(of("203.0.113.9", &[host, origin]), None);
        let foreign = ("origin", "https://evil.example.org");
        assert_eq!(of("10.0.0.1", &[host, foreign]).as_deref(), Some("foreign_origin"));
        let other = [("host", "evil.example.org")];
        assert_eq!(of("10.0.0.1", &other).as_deref(), Some("foreign_host"));
        // The host that a proxy forwards counts, and that of any other peer does not.
        let forwarded = [("host", "10.0.0.9"), ("x-forwarded-host", "gate.example.org")];
        assert_eq!(of("10.0.0.1", &forwarded), None);
        assert_eq!(of("203.0.113.9", &forwarded).as_deref(), Some("foreign_host"));
    }
}
