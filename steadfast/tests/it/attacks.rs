//! Attacks with raw bytes on the HTTP port and the S3 port: smuggled requests and oversized parts.

use std::{
    io::{Read, Write},
    net::TcpStream,
    time::Duration,
};

use serde_json::json;

use crate::{
    buckets::with_bucket,
    harness::{Server, get_url, output, steadfast},
};

/// A request behind another one. An attacker wants a response to it that nobody has asked for.
const SMUGGLED: &str =
    "GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nX-Smuggled: 1\r\n\r\n";

/// Everything that a port sends before it closes the connection.
fn send(host: &str, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(host).expect("it listens");
    stream.set_read_timeout(Some(Duration::from_secs(30))).expect("a timeout can be set");
    // The server may close the connection before it has read everything.
    let _ = stream.write_all(bytes);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

/// The status codes of all responses of a connection.
fn statuses(answer: &str) -> Vec<u16> {
    let parts = answer.split("HTTP/1.1 ").skip(1);
    parts.map(|it| it.get(..3).and_then(|it| it.parse().ok()).unwrap_or(0)).collect()
}

/// The HTTP port and the S3 port.
fn ports(server: &Server) -> [String; 2] {
    [server.host().to_owned(), server.s3_url().trim_start_matches("http://").to_owned()]
}

#[track_caller]
fn assert_serves(server: &Server) {
    assert_eq!(server.get("/healthz").status, 200);
    assert_eq!(get_url(server.s3_url()).status, 403, "it needs a signature");
}

#[test]
fn a_request_that_two_parsers_may_read_differently_gets_at_most_one_response() {
    let server = Server::empty();
    let head =
        |lines: &str| format!("POST /healthz HTTP/1.1\r\nHost: localhost\r\n{lines}\r\n\r\n");
    let chunked = |body: &str| head("Transfer-Encoding: chunked") + body;
    let refused = [
        head("Content-Length: 0\r\nContent-Length: 60"),
        head("Content-Length: 0, 60"),
        head("Content-Length: +0"),
        head("Content-Length: 0x0"),
        head("Content-Length: -1"),
        head("Content-Length : 0"),
        head("Transfer-Encoding : chunked"),
        head("Transfer-Encoding: xchunked"),
        head("Transfer-Encoding: chunked, identity"),
        head("Transfer-Encoding: identity\r\nContent-Length: 0"),
        head("X-Folded: a\r\n b"),
        head("X-Folded: a\r\n\tContent-Length: 60"),
        head("X-Nul: a\0b"),
        head("X-Return: a\rContent-Length: 60"),
        head("X-Line: a\nContent-Length: 60"),
        head("X-Line: a\n"),
        "GET /healthz HTTP/1.1\nHost: localhost\n\n".into(),
        head("X-Name[]: a\r\n: b"),
        "GET /healthz HTTP/1.1 x\r\nHost: localhost\r\n\r\n".into(),
        "GET /healthz\tHTTP/1.1\r\nHost: localhost\r\n\r\n".into(),
        "GET /healthz http/1.1\r\nHost: localhost\r\n\r\n".into(),
        "GET /healthz HTTP/2.0\r\nHost: localhost\r\n\r\n".into(),
        "GET\0 /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n".into(),
    ];
    // The connection ends after one response: the rest has no clear beginning.
    let closed = [
        head("Content-Length: 6\r\nTransfer-Encoding: chunked") + "0\r\n\r\n",
        head("Transfer-Encoding: chunked\r\nContent-Length: 6") + "0\r\n\r\n",
        chunked("0x0\r\n\r\n"),
        chunked("-0\r\n\r\n"),
        chunked("0\n\n"),
        chunked("1\na\n0\n\n"),
        chunked("1;a\nb\r\na\r\n0\r\n\r\n"),
        chunked("fffffffffffffffff\r\na\r\n0\r\n\r\n"),
        chunked("1\r\nab\r\n0\r\n\r\n"),
    ];
    for host in ports(&server) {
        for request in &refused {
            let answer = send(&host, (request.clone() + SMUGGLED).as_bytes());
            assert!(matches!(statuses(&answer)[..], [] | [400]), "{request:?}: {answer}");
        }
        for request in &closed {
            let answer = send(&host, (request.clone() + SMUGGLED).as_bytes());
            assert!(statuses(&answer).len() <= 1, "{request:?}: {answer}");
        }
        // Two whole requests are two: the test can see a second response.
        let two = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n".to_owned() + SMUGGLED;
        assert_eq!(statuses(&send(&host, two.as_bytes())).len(), 2);
    }
    assert_serves(&server);
}

#[test]
fn a_request_for_two_hosts_or_none_is_refused() {
    let server = Server::empty();
    for host in ports(&server) {
        for request in [
            format!("GET http://evil.example/v1/streams HTTP/1.1\r\nHost: {host}\r\n"),
            format!("GET http://{host}/v1/streams HTTP/1.1\r\nHost: evil.example\r\n"),
            format!("GET /v1/streams HTTP/1.1\r\nHost: {host}\r\nHost: evil.example\r\n"),
            format!("GET /v1/streams HTTP/1.1\r\nHost: evil.example\r\nHost: {host}\r\n"),
            "GET /v1/streams HTTP/1.1\r\n".to_owned(),
            format!("GET /v1/streams HTTP/1.1\r\nHost: {host}, evil.example\r\n"),
            format!("GET /v1/streams HTTP/1.1\r\nHost: {host}@evil.example\r\n"),
            format!("CONNECT evil.example:80 HTTP/1.1\r\nHost: {host}\r\n"),
        ] {
            let answer = send(&host, format!("{request}Connection: close\r\n\r\n").as_bytes());
            let statuses = statuses(&answer);
            assert_eq!(statuses.len(), 1, "{request}: {answer}");
            assert!((400..500).contains(&statuses[0]), "{request}: {answer}");
        }
    }
    assert_serves(&server);
}

#[test]
fn an_oversized_head_is_refused_on_both_ports() {
    let server = Server::empty();
    let many = (0..200).map(|it| format!("X-{it}: a\r\n")).collect::<String>();
    let long = "a".repeat(600_000);
    for host in ports(&server) {
        for (what, line, headers, status) in [
            ("path", format!("/{}", &long[..70_000]), String::new(), 414),
            ("query", format!("/v1/streams?cursor={}", &long[..70_000]), String::new(), 414),
            ("header", "/v1/streams".into(), format!("X-Long: {long}\r\n"), 431),
            ("cookie", "/v1/streams".into(), format!("Cookie: a={long}\r\n"), 431),
            ("name of a header", "/v1/streams".into(), format!("{long}: a\r\n"), 431),
            ("number of headers", "/v1/streams".into(), many.clone(), 431),
        ] {
            let close = "Connection: close\r\n";
            let request = format!("GET {line} HTTP/1.1\r\nHost: {host}\r\n{close}{headers}\r\n");
            let found = statuses(&send(&host, request.as_bytes()));
            // The response may be lost when the server closes before it has read everything.
            assert!(
                matches!(found[..], [it] if it == status) || found.is_empty(),
                "{what}: {found:?}"
            );
        }
    }
    assert_serves(&server);
}

#[test]
fn an_oversized_part_of_a_request_is_a_problem() {
    let server = with_bucket("files");
    let deep = format!("{{\"body\":{}{}}}", "[".repeat(100_000), "]".repeat(100_000));
    let path = "/v1/queues/q/messages";
    server.post_json(path, &deep, &[]).assert_problem(400, "invalid_input");
    let key = "k".repeat(5_000);
    let answer = server.post_json(path, "{\"body\":1}", &[("idempotency-key", &key)]);
    answer.assert_problem(400, "invalid_key");
    let name = "n".repeat(5_000);
    let named = server.post_json(&format!("/v1/queues/{name}/messages"), "{\"body\":1}", &[]);
    named.assert_problem(400, "invalid_name");
    let token = format!("Bearer sf_{}", "t".repeat(60_000));
    assert_eq!(server.get_with("/v1/streams", &[("authorization", &token)]).status, 200);
    for name in ["n".repeat(20_000), "n\"; filename=\"".to_owned() + &"f".repeat(5_000)] {
        let form =
            format!("--b\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\nx\r\n--b--\r\n");
        let kind = [("content-type", "multipart/form-data; boundary=b")];
        let answer = server.post_bytes("/buckets/files/upload", form.as_bytes(), &kind);
        assert_eq!(answer.header("content-type"), "application/problem+json", "{}", answer.body);
        assert!([400, 413].contains(&answer.status), "{}", answer.body);
    }
    assert_eq!(server.json("/v1/buckets/files/objects")["items"], json!([]));
    assert_serves(&server);
}

#[test]
fn a_client_that_writes_a_form_to_its_end_sees_the_refusal() {
    let server = Server::empty();
    let [_, host] = ports(&server);
    // The buffers of the system do not hold it: somebody must read it, or the write fails.
    let form = "x".repeat(7 << 20);
    let head = format!(
        "POST /files HTTP/1.1\r\nHost: {host}\r\nContent-Length: {}\r\n\
         Content-Type: multipart/form-data; boundary=b\r\n\r\n",
        form.len()
    );
    let mut stream = TcpStream::connect(&host).expect("it listens");
    stream.set_read_timeout(Some(Duration::from_secs(30))).expect("a timeout can be set");
    stream.write_all((head + &form).as_bytes()).expect("the server reads the form");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("the connection is not reset");
    assert_eq!(statuses(&answer), [501]);
    assert!(answer.contains("forms are not supported; PUT the blob"), "{answer}");
    assert_serves(&server);
}

#[test]
fn a_token_is_sent_to_the_server_of_its_folder_only() {
    let outer = tempfile::tempdir().expect("a temporary folder");
    let folder = tempfile::Builder::new().prefix("data").rand_bytes(0).tempdir_in(outer.path());
    let server = Server::with(folder.expect("a folder"), &["--access", "closed"]);
    let ask = |url: &str| {
        let mut command = steadfast();
        output(command.current_dir(outer.path()).args(["whoami", "--server", url]))
    };
    let told = ask(&server.url);
    assert!(told.status.success(), "{}", String::from_utf8_lossy(&told.stderr));
    let heard_at = |other: std::net::TcpListener| {
        let url = format!("http://{}", other.local_addr().expect("an address"));
        let heard = std::thread::spawn(move || {
            let (mut stream, _) = other.accept().expect("the command asks");
            let mut head = [0; 4_096];
            let read = stream.read(&mut head).expect("it sends a request");
            String::from_utf8_lossy(&head[..read]).to_ascii_lowercase()
        });
        assert!(!ask(&url).status.success());
        let heard = heard.join().expect("it was asked");
        assert!(heard.starts_with("get /v1/whoami") && !heard.contains("authorization"), "{heard}");
    };
    // Somebody else listens on another port of this machine, or on that of a killed server.
    heard_at(std::net::TcpListener::bind("127.0.0.1:0").expect("a free port"));
    let host = server.host().to_owned();
    let folder = server.kill();
    assert!(folder.path().join("admin.token").exists() && folder.path().join("address").exists());
    heard_at(std::net::TcpListener::bind(host).expect("the port is free now"));
}
