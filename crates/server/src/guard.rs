//! Refuses requests of foreign web pages: DNS rebinding and cross-site forms.

use std::{net::IpAddr, sync::Arc};

use axum::{
    extract::{Request, State},
    http::{HeaderMap, Method, Uri, header},
    middleware::Next,
    response::{IntoResponse, Response},
};
use steadfast_api::Code;
use steadfast_web::Problem;

use crate::server::{Policy, Server};

/// Refuses requests that are not for this machine's own names.
pub(crate) async fn check(
    State(server): State<Arc<Server>>,
    request: Request,
    next: Next,
) -> Response {
    if server.policy == Policy::HostDecides {
        return next.run(request).await;
    }
    match verdict(request.method(), request.uri(), request.headers()) {
        Ok(()) => next.run(request).await,
        Err(problem) => problem.into_response(),
    }
}

fn verdict(method: &Method, uri: &Uri, headers: &HeaderMap) -> Result<(), Problem> {
    // Providers call webhooks by the public name, through a proxy. Each URL contains a secret,
    // which no page can read or guess.
    if uri.path().starts_with("/webhooks/") && method == Method::POST {
        return Ok(());
    }
    let host = host(uri, headers).filter(|it| is_own_name(it)).ok_or_else(|| {
        Problem::of(
            Code::ForeignHost,
            "the Host header must name this machine: localhost, 127.0.0.1 or [::1]",
        )
    })?;
    let foreign =
        || Problem::of(Code::ForeignOrigin, "a page of another origin may not call this server");
    if let Some(origin) = headers.get(header::ORIGIN) {
        let own = origin.to_str().ok().and_then(|it| it.strip_prefix("http://"));
        if !own.is_some_and(|it| it.eq_ignore_ascii_case(host)) {
            return Err(foreign());
        }
    }
    // Old browsers send no Origin with a form, but every browser sends one of the two headers.
    let site = headers.get("sec-fetch-site").map(|it| it.as_bytes());
    let elsewhere = matches!(site, Some(b"cross-site" | b"same-site"));
    // Connecting is a turn, although it is a GET; a page may request events without an Origin.
    let connects = uri.path().ends_with("/connect") || uri.path().ends_with("/events");
    let reads = matches!(*method, Method::GET | Method::HEAD) && !connects;
    if elsewhere && !reads {
        return Err(foreign());
    }
    Ok(())
}

/// The name that the request is for. A name in the request line takes precedence over the header.
fn host<'a>(uri: &'a Uri, headers: &'a HeaderMap) -> Option<&'a str> {
    let mut named = headers.get_all(header::HOST).into_iter();
    let (first, second) = (named.next(), named.next());
    if second.is_some() {
        return None;
    }
    match uri.authority() {
        Some(authority) => Some(authority.as_str()),
        None => first?.to_str().ok(),
    }
}

fn is_own_name(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        // The colons of a bare [::1] are inside the brackets.
        Some((name, port)) if !port.ends_with(']') => {
            if port.is_empty() || !port.bytes().all(|it| it.is_ascii_digit()) {
                return false;
            }
            name
        }
        Some(_) | None => host,
    };
    if name.eq_ignore_ascii_case("localhost") {
        return true;
    }
    let bare = name.strip_prefix('[').and_then(|it| it.strip_suffix(']'));
    match bare.unwrap_or(name).parse::<IpAddr>() {
        Ok(IpAddr::V4(address)) => bare.is_none() && address.is_loopback(),
        Ok(IpAddr::V6(address)) => bare.is_some() && address.is_loopback(),
        Err(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_this_machine_are_own() {
        for own in [
            "localhost",
            "LOCALHOST:8787",
            "127.0.0.1",
            "127.0.0.1:80",
            "127.9.9.9:1",
            "[::1]",
            "[::1]:8787",
        ] {
            assert!(is_own_name(own), "{own}");
        }
        for foreign in [
            "",
            "example.org",
            "127.0.0.1.example.org",
            "localhost.example.org",
            "10.0.0.1",
            "[::2]:80",
            "::1",
            "localhost:",
            "localhost:8x",
            "127.1",
            "0.0.0.0",
            "a@localhost",
            "localhost:1:2",
        ] {
            assert!(!is_own_name(foreign), "{foreign}");
        }
    }

    #[track_caller]
    fn check(method: Method, headers: &[(&'static str, &str)], expected: Option<Code>) {
        let named = headers
            .iter()
            .map(|(name, value)| (header::HeaderName::from_static(name), value.parse().unwrap()));
        let headers: HeaderMap = named.collect();
        let verdict = verdict(&method, &Uri::from_static("/v1/streams"), &headers);
        assert_eq!(
            verdict.err().map(|it| it.code().to_owned()),
            expected.map(|it| it.tag().to_owned())
        );
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
        check(Method::GET, &[host, ("sec-fetch-site", "cross-site")], None);
    }

    #[test]
    fn a_webhook_is_accepted_for_any_host() {
        let mut public = HeaderMap::new();
        public.append(header::HOST, "gen.example.com".parse().unwrap());
        let hook = Uri::from_static("/webhooks/runware/g/t/secret");
        assert!(verdict(&Method::POST, &hook, &public).is_ok());
        assert!(verdict(&Method::GET, &hook, &public).is_err());
    }

    #[test]
    fn a_request_for_a_foreign_host_is_refused() {
        check(Method::GET, &[], Some(Code::ForeignHost));
        check(Method::GET, &[("host", "rebound.example.org")], Some(Code::ForeignHost));
        let mut twice = HeaderMap::new();
        twice.append(header::HOST, "localhost".parse().unwrap());
        twice.append(header::HOST, "localhost".parse().unwrap());
        assert!(verdict(&Method::GET, &Uri::from_static("/"), &twice).is_err());
        let mut own = HeaderMap::new();
        own.append(header::HOST, "localhost".parse().unwrap());
        let named = Uri::from_static("http://example.org/");
        assert!(verdict(&Method::GET, &named, &own).is_err());
    }
}
