//! Connections: shutdown, TLS, and limits per peer.

use std::{net::SocketAddr, path::Path};

use axum::{
    Extension,
    extract::ws::{WebSocket, WebSocketUpgrade},
    routing::get,
};
use clap::{Args, Command, FromArgMatches};
use rcgen::{CertificateParams, KeyPair};
use steadfast_store::{ManualClock, SystemClock, Timestamp};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    sync::Notify,
};
use tokio_rustls::{
    TlsConnector,
    client::TlsStream,
    rustls::{
        ClientConfig, RootCertStore,
        crypto::ring,
        pki_types::{CertificateDer, ServerName},
    },
};

use super::*;
use crate::{args::TransportArgs, pipeline::ServerRoutes};

async fn serve_plain(listener: TcpListener, app: Router, stop: CancellationToken) -> DrainResult {
    let app = (app, ErrorFormat::Problem);
    serve(listener, app, Arc::default(), Arc::new(SystemClock), stop).await
}

#[tokio::test]
async fn a_request_in_flight_is_finished_before_serving_ends() {
    let (arrived, go_on) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (notify, waits) = (arrived.clone(), go_on.clone());
    let handler = async move || {
        notify.notify_one();
        waits.notified().await;
        "finished"
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, app) = (CancellationToken::new(), Router::new().route("/", get(handler)));
    let serving = tokio::spawn(serve_plain(listener, app, stop.clone()));
    let mut client = TcpStream::connect(address).await.unwrap();
    client.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
    arrived.notified().await;
    stop.cancel();
    go_on.notify_one();
    let mut answer = String::new();
    client.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("finished"), "{answer}");
    assert_eq!(serving.await.unwrap(), DrainResult::All);
    assert!(TcpStream::connect(address).await.is_err(), "it must not listen any more");
}

/// hyper reserves the space of a request for each connection, also an idle one.
#[test]
fn a_connection_reserves_little_space_for_a_request() {
    fn of_routes<F>(
        _: impl Fn(&'static ServerRoutes, ConnectionInfo, Request<Body>) -> F,
    ) -> usize {
        size_of::<F>()
    }
    fn of_connection<F>(
        _: impl Fn(Arc<Served<ServerRoutes>>, Request<Incoming>, ConnectionSlot) -> F,
    ) -> usize {
        size_of::<F>()
    }
    let routes = of_routes(|routes, connection, request| routes.answer(connection, request));
    assert!(routes <= 2 << 10, "{routes} bytes");
    let all = of_connection(|served, request, slot| answer(served, request, slot, false));
    assert!(all <= 3 << 10, "{all} bytes");
}

/// Notifies when it is dropped.
struct Dropped(Arc<Notify>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

#[tokio::test]
async fn a_request_is_dropped_when_its_client_disconnects() {
    let (arrived, dropped) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (notify, notify_drop) = (arrived.clone(), dropped.clone());
    // A call in the mailbox of an object is such a future: dropping it removes the call.
    let handler = async move || {
        let _waits = Dropped(notify_drop.clone());
        notify.notify_one();
        std::future::pending::<&str>().await
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, app) = (CancellationToken::new(), Router::new().route("/", get(handler)));
    let serving = tokio::spawn(serve_plain(listener, app, stop.clone()));
    let mut client = TcpStream::connect(address).await.unwrap();
    client.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
    arrived.notified().await;
    drop(client);
    dropped.notified().await;
    stop.cancel();
    assert_eq!(serving.await.unwrap(), DrainResult::All);
}

#[test]
fn without_tls_a_request_from_a_network_is_served_only_if_its_peer_is_a_proxy() {
    let proxied = transport(&["--trusted-proxy", "10.0.0.1"]);
    let get = |uri: &str| Request::get(uri).body(()).unwrap();
    let local = "192.168.1.5".parse().ok();
    let refused = |peer: &str, uri: &str| {
        is_in_the_clear(&proxied, (peer.parse().unwrap(), local), &get(uri))
    };
    for uri in ["/v1/queues", "/login", "/photos/a.png?X-Amz-Signature=1", "/healthz?a"] {
        assert!(refused("192.168.1.9", uri), "{uri}");
        assert!(refused("2001:db8::1", uri), "{uri}");
        assert!(!refused("10.0.0.1", uri), "{uri}");
        assert!(!refused("127.0.0.1", uri), "{uri}");
        assert!(!refused("192.168.1.5", uri), "this machine: {uri}");
    }
    let stranger = ("192.168.1.9".parse().unwrap(), local);
    assert!(!refused("192.168.1.9", "/healthz"));
    // A bucket may have this name, and a health check a credential.
    let put = Request::put("/healthz").body(()).unwrap();
    assert!(is_in_the_clear(&proxied, stranger, &put));
    for name in ["authorization", "cookie"] {
        let with = Request::get("/healthz").header(name, "secret").body(()).unwrap();
        assert!(is_in_the_clear(&proxied, stranger, &with), "{name}");
    }
    let folder = tempfile::tempdir().unwrap();
    write_pair(folder.path());
    let path = |name: &str| folder.path().join(name).display().to_string();
    let secure = transport(&["--tls-cert", &path("cert.pem"), "--tls-key", &path("key.pem")]);
    assert!(!is_in_the_clear(&secure, stranger, &get("/v1/queues")));
}

/// A server on TLS with the certificate of a folder.
struct Secure {
    folder: tempfile::TempDir,
    address: SocketAddr,
    clock: ManualClock,
    stop: CancellationToken,
}

/// Writes a pair for `localhost`. Returns the certificate.
fn write_pair(folder: &Path) -> CertificateDer<'static> {
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(["localhost".to_owned()]).unwrap();
    let cert = params.self_signed(&key).unwrap();
    std::fs::write(folder.join("cert.pem"), cert.pem()).unwrap();
    std::fs::write(folder.join("key.pem"), key.serialize_pem()).unwrap();
    cert.der().clone()
}

fn transport(flags: &[&str]) -> Arc<Transport> {
    let command = TransportArgs::augment_args(Command::new("serve"));
    let matches = command.try_get_matches_from([&["serve"], flags].concat()).unwrap();
    let made = Transport::of(&TransportArgs::from_arg_matches(&matches).unwrap());
    let Ok(transport) = made else { panic!("{flags:?}") };
    Arc::new(transport)
}

impl Secure {
    async fn start() -> (Self, CertificateDer<'static>) {
        Self::start_with(ErrorFormat::Problem).await
    }

    async fn start_with(errors: ErrorFormat) -> (Self, CertificateDer<'static>) {
        let folder = tempfile::tempdir().unwrap();
        let first = write_pair(folder.path());
        let path = |name: &str| folder.path().join(name).display().to_string();
        let (cert, key) = (path("cert.pem"), path("key.pem"));
        let transport = transport(&["--tls-cert", &cert, "--tls-key", &key]);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (clock, stop) = (ManualClock::at(Timestamp(0)), CancellationToken::new());
        let app = Router::new()
            .route(
                "/",
                get(async |it: Extension<ConnectionInfo>| it.client.origin().unwrap_or_default()),
            )
            .route("/socket", get(async |it: WebSocketUpgrade| it.on_upgrade(greet)));
        let (app, time) = ((app, errors), Arc::new(SystemClock));
        tokio::spawn(serve(listener, app, transport.clone(), time, stop.clone()));
        let watched = clock.clone();
        tokio::spawn(async move { transport.watch(&watched).await });
        (Self { folder, address, clock, stop }, first)
    }

    /// Connects; trusts this certificate only.
    async fn connect(&self, trusted: &CertificateDer<'static>) -> io::Result<TlsStream<TcpStream>> {
        let mut roots = RootCertStore::empty();
        roots.add(trusted.clone()).unwrap();
        let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let name = ServerName::try_from("localhost").unwrap();
        let tcp = TcpStream::connect(self.address).await.unwrap();
        TlsConnector::from(Arc::new(config)).connect(name, tcp).await
    }
}

/// Serves a WebSocket until its end.
async fn greet(mut socket: WebSocket) {
    let _ = socket.send("hello".into()).await;
    let _ = socket.recv().await;
}

/// Sends a request on a connection that stays open; returns the body.
async fn ask(stream: &mut TlsStream<TcpStream>) -> String {
    stream.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
    let (mut answer, mut piece) = (String::new(), [0; 4_096]);
    while !answer.ends_with("https://localhost") {
        let count = stream.read(&mut piece).await.unwrap();
        assert_ne!(count, 0, "{answer}");
        answer.push_str(std::str::from_utf8(&piece[..count]).unwrap());
    }
    answer
}

#[tokio::test]
async fn a_changed_certificate_is_for_new_connections_and_open_ones_continue() {
    let (server, first) = Secure::start().await;
    let mut open = server.connect(&first).await.unwrap();
    assert_eq!(open.get_ref().1.alpn_protocol(), Some(&b"http/1.1"[..]));
    assert!(ask(&mut open).await.starts_with("HTTP/1.1 200"));
    let second = write_pair(server.folder.path());
    assert!(server.connect(&second).await.is_err(), "it is not read yet");
    let mut changed = loop {
        server.clock.advance(Duration::from_secs(1));
        if let Ok(stream) = server.connect(&second).await {
            break stream;
        }
    };
    ask(&mut changed).await;
    ask(&mut open).await;
    assert!(server.connect(&first).await.is_err());
    server.stop.cancel();
}

#[tokio::test]
async fn a_websocket_is_opened_over_tls() {
    let (server, certificate) = Secure::start().await;
    let mut stream = server.connect(&certificate).await.unwrap();
    let head = b"GET /socket HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\n\
        Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
        Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    stream.write_all(head).await.unwrap();
    let (mut answer, mut piece) = (Vec::new(), [0; 4_096]);
    while !answer.ends_with(b"hello") {
        let count = stream.read(&mut piece).await.unwrap();
        assert_ne!(count, 0, "{}", String::from_utf8_lossy(&answer));
        answer.extend_from_slice(&piece[..count]);
    }
    assert!(answer.starts_with(b"HTTP/1.1 101"));
}

#[tokio::test]
async fn plain_http_on_a_tls_port_is_told_to_use_https() {
    let (server, _) = Secure::start().await;
    let mut plain = TcpStream::connect(server.address).await.unwrap();
    plain.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    plain.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");
    assert!(answer.contains("tls_needed") && answer.contains("https://"), "{answer}");
}

#[tokio::test]
async fn the_s3_port_refuses_plain_http_with_an_error_document() {
    let (server, _) = Secure::start_with(ErrorFormat::S3).await;
    let mut plain = TcpStream::connect(server.address).await.unwrap();
    plain.write_all(b"GET /photos HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    plain.read_to_string(&mut answer).await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 400 Bad Request\r\n"), "{head}");
    assert!(head.contains(&format!("\r\ncontent-length: {}\r\n", body.len())), "{head}");
    // A port without TLS gives the other text.
    let refused = tls_needed(ErrorFormat::S3, IN_THE_CLEAR).await;
    assert_eq!(refused.status(), StatusCode::BAD_REQUEST);
    assert_eq!(refused.headers()[header::CONTENT_TYPE], "application/xml");
    assert_eq!(refused.headers()[header::CONNECTION], "close");
    let refused = axum::body::to_bytes(refused.into_body(), 9_999).await.unwrap();
    for (xml, text) in
        [(body, "https://"), (std::str::from_utf8(&refused).unwrap(), "--trusted-proxy")]
    {
        assert!(xml.contains("<Error><Code>InvalidRequest</Code><Message>"), "{xml}");
        assert!(xml.contains(text) && xml.ends_with("</RequestId></Error>"), "{xml}");
    }
    server.stop.cancel();
}

#[tokio::test]
async fn a_browser_is_redirected_to_tls_and_a_client_with_a_credential_is_not() {
    let (server, _) = Secure::start().await;
    let page = "Accept: text/html,*/*\r\n";
    let location = |it: &str| Some(format!("\r\nlocation: {it}\r\n"));
    for (head, expected) in [
        (format!("GET /a?b=c HTTP/1.1\r\nHost: localhost:9\r\n{page}"), {
            location("https://localhost:9/a?b=c")
        }),
        (format!("HEAD // HTTP/1.1\r\nHost: [::1]\r\n{page}"), location("https://[::1]//")),
        (format!("GET / HTTP/1.1\r\nHost: evil.example.org\r\n{page}"), None),
        (format!("GET / HTTP/1.1\r\nHost: localhost\r\nhost: localhost\r\n{page}"), None),
        (format!("GET http://localhost/ HTTP/1.1\r\nHost: localhost\r\n{page}"), None),
        (format!("GET /a\nb: c HTTP/1.1\r\nHost: localhost\r\n{page}"), None),
        (format!("POST / HTTP/1.1\r\nHost: localhost\r\n{page}"), None),
        (format!("GET / HTTP/1.1\r\nHost: localhost\r\nauthorization: x\r\n{page}"), None),
        (format!("GET /?X-Amz-Signature=0 HTTP/1.1\r\nHost: localhost\r\n{page}"), None),
        ("GET / HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\n".to_owned(), None),
    ] {
        let mut plain = TcpStream::connect(server.address).await.unwrap();
        plain.write_all(format!("{head}\r\n").as_bytes()).await.unwrap();
        let mut answer = String::new();
        plain.read_to_string(&mut answer).await.unwrap();
        match expected {
            Some(line) => {
                assert!(answer.starts_with("HTTP/1.1 308") && answer.contains(&line), "{answer}");
                assert!(answer.contains("\r\ncache-control: no-store\r\n"), "{answer}");
            }
            None => assert!(answer.starts_with("HTTP/1.1 400"), "{head}: {answer}"),
        }
    }
    server.stop.cancel();
}

#[tokio::test]
async fn a_handshake_that_does_not_end_is_closed() {
    let (server, _) = Secure::start().await;
    let mut slow = Vec::new();
    for part in [&b""[..], &[22], &[22, 3, 1, 0, 200, 1]] {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        stream.write_all(part).await.unwrap();
        slow.push(stream);
    }
    for mut stream in slow {
        let mut rest = Vec::new();
        let closed = stream.read_to_end(&mut rest);
        tokio::time::timeout(2 * HEADER_TIMEOUT, closed).await.unwrap().unwrap();
        assert!(rest.is_empty());
    }
}

#[tokio::test]
async fn a_stop_does_not_wait_for_a_handshake() {
    let (server, _) = Secure::start().await;
    let mut slow = TcpStream::connect(server.address).await.unwrap();
    slow.write_all(&[22]).await.unwrap();
    server.stop.cancel();
    let mut rest = Vec::new();
    let closed = tokio::time::timeout(HEADER_TIMEOUT / 2, slow.read_to_end(&mut rest)).await;
    assert!(closed.is_ok(), "it is closed at once");
}

#[tokio::test]
async fn a_peer_with_too_many_connections_gets_no_more() {
    let transport = transport(&["--connections-per-peer", "2"]);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, app) = (CancellationToken::new(), Router::new().route("/", get(async || "hello")));
    let clock = Arc::new(SystemClock);
    let app = (app, ErrorFormat::Problem);
    tokio::spawn(serve(listener, app, transport.clone(), clock, stop.clone()));
    let is_served = async || {
        let mut client = TcpStream::connect(address).await.unwrap();
        let _ = client.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
        let mut byte = [0];
        matches!(client.read(&mut byte).await, Ok(1)).then_some(client)
    };
    // This machine is exempt while access is open.
    let open = [is_served().await, is_served().await, is_served().await];
    assert!(open.iter().all(Option::is_some));
    transport.close();
    let (first, second) = (is_served().await, is_served().await);
    assert!(first.is_some() && second.is_some());
    assert_eq!(transport.refused(), 0);
    assert!(is_served().await.is_none());
    assert_eq!(transport.refused(), 1);
    drop(first);
    while is_served().await.is_none() {}
    stop.cancel();
}
