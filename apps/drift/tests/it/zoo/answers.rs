use steadfast_drift::probe::{Method, ProbeOptions};

use super::keeper::{Keeper, code, patient, probed, response, says};

/// The SHA-256 of `hello`.
const HELLO: &str = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";

#[tokio::test]
async fn a_good_answer_is_seen_whole() {
    let cage = says(
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nServer: zoo\r\nVia: 1.1 gate\r\n\
         CF-Ray: 8f3c1d2e4b5a6978-FRA\r\nAccess-Control-Allow-Origin: *\r\n\
         Set-Cookie: sid=secret; HttpOnly\r\nContent-Length: 5\r\n\r\nhello",
    )
    .await;
    let keeper = Keeper::new(&[&cage], patient());
    let envelope = keeper.probe("http://ZOO.example:80/a?b=c#d").await;
    assert_eq!(envelope.probe_id, "c:right");
    assert_eq!(envelope.captured_at, "2025-11-15T12:00:00.123Z");
    assert_eq!(envelope.cf.as_ref().unwrap().colo.as_deref(), Some("FRA"));
    assert_eq!(envelope.cf.as_ref().unwrap().http_protocol.as_deref(), Some("HTTP/1.1"));
    assert_eq!(envelope.platform.as_ref().unwrap().server.as_deref(), Some("zoo"));
    assert_eq!(envelope.platform.as_ref().unwrap().via.as_deref(), Some("1.1 gate"));
    assert!(!format!("{envelope:?}").contains("secret"));
    let probe = response(envelope);
    assert!(probe.ok && probe.redirects.is_empty());
    assert_eq!(probe.response.final_url, "http://zoo.example/a?b=c");
    assert_eq!(probe.response.content_type.as_deref(), Some("text/plain"));
    assert_eq!(probe.response.content_length, Some(5));
    assert_eq!(probe.response.body_hash.as_deref(), Some(HELLO));
    assert_eq!((probe.response.hashed_bytes, probe.response.body_error), (None, None));
    assert!(probe.response.cookies[0].http_only);
    let hop = &probe.hops[0];
    assert_eq!((hop.address.as_str(), hop.resolved.len()), ("8.8.8.8:80", 1));
    let timing = hop.timing;
    let phases = timing.dns_ms + timing.connect_ms + timing.first_byte_ms;
    assert!(timing.total_ms >= phases - 0.1 && timing.tls_ms.is_none(), "{timing:?}");
    let head = &cage.heads()[0];
    assert!(head.starts_with("GET /a?b=c HTTP/1.1\r\n"), "{head}");
    let lower = head.to_lowercase();
    assert!(lower.contains("\r\nhost: zoo.example\r\n"), "{head}");
    for absent in ["upgrade", "cookie", "authorization", "referer", "http2-settings"] {
        assert!(!lower.contains(absent), "{head}");
    }
}

#[tokio::test]
async fn head_asks_for_no_body_and_has_no_hash() {
    let cage = says("HTTP/1.1 200 OK\r\nContent-Length: 12345\r\n\r\n").await;
    let options = ProbeOptions { method: Method::Head, ..patient() };
    let probe = response(probed(&cage, options).await);
    assert_eq!(probe.response.content_length, Some(12_345));
    assert_eq!(probe.response.body_hash, None);
    assert!(cage.heads()[0].starts_with("HEAD / HTTP/1.1\r\n"));
}

#[tokio::test]
async fn a_bad_status_is_a_response() {
    for (status, ok) in [(204, true), (304, true), (300, true), (400, false), (503, false)] {
        let cage = says(format!("HTTP/1.1 {status} X\r\nContent-Length: 0\r\n\r\n")).await;
        let probe = response(probed(&cage, patient()).await);
        assert_eq!((probe.response.status, probe.ok), (status, ok));
    }
}

#[tokio::test]
async fn empty_odd_and_repeated_headers_are_read() {
    let mut bytes =
        b"HTTP/1.1 200 OK\r\nX-Empty:\r\nX-Odd: caf\xe9\xff\r\nVary: a\r\nVary: b\r\n".to_vec();
    bytes.extend(b"Content-Type:\r\nContent-Length: 0\r\n\r\n");
    let probe = response(probed(&says(bytes).await, patient()).await);
    let headers = probe.response.headers;
    let other = headers.other.unwrap();
    assert_eq!((&*other["x-empty"], &*other["x-odd"]), ("", "caf\u{fffd}\u{fffd}"));
    assert_eq!(headers.core["vary"], "a, b");
}

#[tokio::test]
async fn what_is_no_http_is_a_fetch_error() {
    let many: String = (0..300).map(|it| format!("x-{it}: 1\r\n")).collect();
    let long = "a".repeat(300 << 10);
    for bytes in [
        String::new(),
        "hello\r\n\r\n".to_owned(),
        "HTTP/1.1 200 OK\r\nX: ".to_owned(),
        "HTTP/1.1 abc OK\r\n\r\n".to_owned(),
        "HTTP/1.1 200 OK\r\nno colon\r\n\r\n".to_owned(),
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab".to_owned(),
        "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n".to_owned(),
        format!("HTTP/1.1 200 OK\r\n{many}\r\n"),
        format!("HTTP/1.1 200 OK\r\nx: {long}\r\n\r\n"),
    ] {
        let start = bytes.chars().take(40).collect::<String>();
        assert_eq!(code(probed(&says(bytes).await, patient()).await), "fetch_error", "{start:?}");
    }
}
