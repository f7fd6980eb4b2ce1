//! Requests that reach no handler, and headers of every response.

use std::io::{Read, Write};

use crate::{harness::Server, seed::DEAD};

#[test]
fn a_foreign_host_is_refused() {
    let server = Server::seeded();
    let answer = server
        .raw("GET /v1/streams HTTP/1.1\r\nHost: rebound.example.org\r\nConnection: close\r\n\r\n");
    assert!(answer.starts_with("HTTP/1.1 403") && answer.contains("foreign_host"), "{answer}");
    for own in ["localhost", "localhost:1", "127.0.0.1", "[::1]:8787"] {
        let request = format!("GET /healthz HTTP/1.1\r\nHost: {own}\r\nConnection: close\r\n\r\n");
        let answer = server.raw(&request);
        assert!(answer.starts_with("HTTP/1.1 200"), "{own}: {answer}");
    }
}

#[test]
fn a_page_of_another_origin_changes_nothing() {
    let server = Server::seeded();
    let path = format!("/v1/messages/{DEAD}/revive");
    for headers in [
        [("origin", "http://example.org")],
        [("origin", "null")],
        [("sec-fetch-site", "cross-site")],
    ] {
        server.post(&path, &headers).assert_problem(403, "foreign_origin");
    }
    assert_eq!(server.json(&format!("/v1/messages/{DEAD}"))["state"], "dead");
    assert_eq!(server.post(&path, &[("origin", &server.url)]).status, 200);
}

#[test]
fn a_request_that_never_ends_its_head_is_closed() {
    let server = Server::seeded();
    let mut slow = server.connect();
    slow.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Slow: ").unwrap();
    let mut rest = Vec::new();
    slow.read_to_end(&mut rest).expect("it is closed, not left open");
    let answer = String::from_utf8_lossy(&rest);
    assert!(!answer.contains("200 OK"), "{answer}");
}

#[test]
fn a_body_over_the_limit_is_refused_before_it_is_read() {
    let server = Server::seeded();
    let request = |bytes: usize| {
        format!(
            "POST /v1/messages/99/revive HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
             Content-Length: {bytes}\r\n\r\n"
        )
    };
    let answer = server.raw(&request((2 << 20) + 1));
    assert!(answer.starts_with("HTTP/1.1 413") && answer.contains("too_large"), "{answer}");
    assert!(answer.contains("application/problem+json"), "{answer}");
    let answer = server.raw(&(request(4) + "{}  "));
    assert!(answer.starts_with("HTTP/1.1 404"), "{answer}");
    // Everybody may send a login.
    let headers = [("origin", &*server.url), ("content-type", "application/x-www-form-urlencoded")];
    let login = |bytes: usize| {
        server.post_form("/login", &format!("token={}", "x".repeat(bytes)), &headers)
    };
    assert_eq!(login(4_000).status, 401);
    login(5_000).assert_problem(413, "too_large");
}

#[test]
fn every_answer_has_the_security_headers_and_an_id() {
    let server = Server::seeded();
    for path in ["/", "/healthz", "/v1/streams", "/v1/nowhere", "/assets/steadfast.css"] {
        let answer = server.get(path);
        let policy = answer.header("content-security-policy");
        let code = if path == "/" { "'nonce-" } else { "'none'" };
        let start = format!("default-src 'none'; style-src {code}");
        assert!(policy.starts_with(&start), "{path}: {policy}");
        assert!(policy.ends_with("frame-ancestors 'none'"), "{path}: {policy}");
        assert_eq!(answer.header("x-content-type-options"), "nosniff");
        assert_eq!(answer.header("referrer-policy"), "same-origin");
        assert_eq!(answer.header("strict-transport-security"), "", "it came without TLS");
        assert!(!answer.header("x-request-id").is_empty());
    }
    let given = server.post("/v1/messages/99/revive", &[("x-request-id", "mine-1")]);
    assert_eq!(given.header("x-request-id"), "mine-1");
    assert_eq!(given.json()["requestId"], "mine-1");
}

#[test]
fn every_page_has_its_own_nonce_for_scripts_and_styles() {
    let server = Server::empty();
    let mut nonces = Vec::new();
    for path in ["/", "/queues", "/chat", "/drift", "/generations", "/uploads/demo", "/drift"] {
        let page = server.get(path);
        let policy = page.header("content-security-policy").to_owned();
        let (_, rest) = policy.split_once("script-src 'nonce-").expect("a nonce");
        let nonce = rest.split('\'').next().unwrap().to_owned();
        assert!(nonce.len() == 26 && !policy.contains("script-src 'self'"), "{policy}");
        let tags = page.body.matches("<script").count()
            + page.body.matches("rel=\"stylesheet\"").count()
            + page.body.matches("<style").count();
        assert_eq!(page.body.matches(&format!(" nonce=\"{nonce}\"")).count(), tags, "{path}");
        for inline in [" style=", " onclick=", " onsubmit=", " onchange=", "javascript:"] {
            assert!(!page.body.contains(inline), "{inline} in {path}");
        }
        nonces.push(nonce);
    }
    nonces.sort();
    nonces.dedup();
    assert_eq!(nonces.len(), 7, "no two answers share a nonce");
}
