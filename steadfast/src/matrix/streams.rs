//! WebSockets and server-sent events: the origin of the page that asks, and the end of the access.

use std::{net::SocketAddr, time::Duration};

use axum::{
    Router,
    body::Body,
    http::{Request, StatusCode, header},
    response::Response,
};
use serde_json::json;
use steadfast::{
    TokenSpec,
    test::TestApp,
    web::{Role, RouteEntry, RouteTable},
};
use tokio::{
    io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
    time::timeout,
};
use tower::ServiceExt;

use super::{Site, path_of};

pub(super) const EVENTS: &[(&str, &str)] = &[("accept", "text/event-stream")];
pub(super) const WEBSOCKET: &[(&str, &str)] = &[
    ("connection", "upgrade"),
    ("upgrade", "websocket"),
    ("sec-websocket-version", "13"),
    ("sec-websocket-key", "AAAAAAAAAAAAAAAAAAAAAA=="),
];

/// The last words of a connection whose access has ended.
const ENDED: &str = "the session has ended, or the token was revoked or has expired";

/// Time for a connection to end, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// A stream that does not end by itself, of each kind. The first two are WebSockets, too.
const OPEN: [&str; 3] = [
    "/v1/objects/chat/lobby/connect?name=ann",
    "/api/organizations/acme/events",
    "/v1/workflows/reminder/runs/r-1/live",
];

async fn send(
    site: &Router,
    (method, path): (&str, &str),
    headers: &[(&str, &str)],
    body: String,
) -> Response {
    let mut request = Request::builder().method(method).uri(path).header("host", "localhost");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(Body::from(body)).expect("a request");
    site.clone().oneshot(request).await.expect("an answer")
}

/// A page of another origin cannot connect, even with a credential.
pub(super) async fn check_origin(site: &Site, route: &RouteEntry, token: &str) {
    let (path, bearer) = (path_of(&route.path), format!("Bearer {token}"));
    for foreign in [
        ("origin", "https://other.example"),
        ("origin", "null"),
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-site", "same-site"),
    ] {
        let headers = [site.headers, &[foreign, ("authorization", &bearer)]].concat();
        let refused = send(&site.router, ("GET", &path), &headers, String::new()).await;
        assert_eq!(refused.status(), StatusCode::FORBIDDEN, "{path} {foreign:?}");
    }
}

/// A route that streams must be declared as such, so that these tests find it.
pub(super) async fn check_declared(site: &Router, table: &RouteTable, token: &str) {
    let bearer = format!("Bearer {token}");
    let headers = [EVENTS, &[("authorization", &bearer)]].concat();
    let others = table.entries().iter().filter(|it| it.method == "GET" && !it.is_stream);
    for route in others {
        let answer = send(site, ("GET", &path_of(&route.path)), &headers, String::new()).await;
        let kind = answer.headers().get(header::CONTENT_TYPE);
        assert!(kind.is_none_or(|it| it != "text/event-stream"), "{}", route.path);
    }
}

/// A way in which an access ends.
#[derive(Clone, Copy, Debug)]
enum End {
    Revoked,
    Rotated,
    Expired,
    LoggedOut,
}

/// A credential of its own, as a header, and its end.
struct Access {
    header: (&'static str, String),
    token: String,
    end: End,
}

impl Access {
    async fn begin(app: &TestApp, site: &Router, end: End) -> Self {
        let expires_in = matches!(end, End::Expired).then_some(Duration::from_secs(60));
        let spec = TokenSpec { expires_in, ..TokenSpec::role(Role::Member) };
        let new = app.tokens().create(spec, None).await.expect("a token");
        let header = match end {
            End::Revoked | End::Rotated | End::Expired => {
                ("authorization", format!("Bearer {}", new.secret))
            }
            End::LoggedOut => {
                let form = ("content-type", "application/x-www-form-urlencoded");
                let body = format!("token={}", new.secret);
                let begun = send(site, ("POST", "/login"), &[form], body).await;
                assert_eq!(begun.status(), StatusCode::SEE_OTHER);
                let set = begun.headers()[header::SET_COOKIE].to_str().expect("a cookie");
                ("cookie", set.split(';').next().expect("a cookie").to_owned())
            }
        };
        Self { header, token: new.token.id, end }
    }

    async fn end(&self, app: &TestApp, site: &Router) {
        match self.end {
            End::Revoked => assert!(app.tokens().revoke(&self.token).await.expect("it is")),
            End::Rotated => {
                assert!(app.tokens().rotate(&self.token).await.expect("it is").is_some());
            }
            End::Expired => app.advance(Duration::from_secs(61)).await,
            End::LoggedOut => {
                let form = ("content-type", "application/x-www-form-urlencoded");
                let headers = [form, (self.header.0, &*self.header.1)];
                let left = send(site, ("POST", "/logout"), &headers, String::new()).await;
                assert_eq!(left.status(), StatusCode::SEE_OTHER);
            }
        }
    }
}

/// Connects over a socket. Returns it behind the head of the response.
async fn connect(
    address: SocketAddr,
    path: &str,
    headers: &[(&str, &str)],
    status: &str,
) -> BufReader<TcpStream> {
    let mut stream = TcpStream::connect(address).await.expect("it listens");
    let mut head = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n");
    for (name, value) in headers {
        head += &format!("{name}: {value}\r\n");
    }
    stream.write_all(format!("{head}\r\n").as_bytes()).await.expect("it is sent");
    let mut stream = BufReader::new(stream);
    let mut line = String::new();
    stream.read_line(&mut line).await.expect("a status");
    assert!(line.starts_with(&format!("HTTP/1.1 {status}")), "{path}: {line}");
    while line != "\r\n" {
        line.clear();
        stream.read_line(&mut line).await.expect("a header");
    }
    stream
}

/// Reads until the last words.
async fn read_to_end_of_access(mut stream: impl AsyncBufRead + Unpin, at: &str) {
    let (mut all, mut bytes) = (Vec::new(), [0; 4096]);
    let reading = async {
        while !String::from_utf8_lossy(&all).contains(ENDED) {
            let count = stream.read(&mut bytes).await.expect("it reads");
            assert!(0 < count, "{at} ended with {}", String::from_utf8_lossy(&all));
            all.extend_from_slice(&bytes[..count]);
        }
    };
    assert!(timeout(PATIENCE, reading).await.is_ok(), "{at} does not end");
}

/// Revoking, rotating or expiring a token, and leaving a session, end its connections, and no
/// others.
pub(super) async fn check_ends(app: &TestApp, site: &Router) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("an address");
    let serving = tokio::spawn(axum::serve(listener, site.clone()).into_future());
    let other = Access::begin(app, site, End::LoggedOut).await;
    let of_other = (other.header.0, &*other.header.1);
    let input = json!({ "id": "r-1", "input": { "text": "x" } }).to_string();
    let headers = [("content-type", "application/json"), of_other];
    let started = send(site, ("POST", "/v1/workflows/reminder/runs"), &headers, input).await;
    assert!(started.status().is_success(), "{}", started.status());
    let stays = [EVENTS, &[of_other]].concat();
    let mut stays = connect(address, OPEN[0], &stays, "200").await;
    for end in [End::Revoked, End::Rotated, End::Expired, End::LoggedOut] {
        let access = Access::begin(app, site, end).await;
        let own = (access.header.0, &*access.header.1);
        let mut open = Vec::new();
        for path in OPEN {
            let headers = [EVENTS, &[own]].concat();
            open.push((path, connect(address, path, &headers, "200").await));
        }
        for path in OPEN.into_iter().take(2) {
            let headers = [WEBSOCKET, &[own]].concat();
            open.push((path, connect(address, path, &headers, "101").await));
        }
        access.end(app, site).await;
        for (path, stream) in open {
            read_to_end_of_access(stream, &format!("{path} {end:?}")).await;
        }
    }
    // It has only what the object said.
    let mut bytes = vec![0; 1 << 16];
    let count = stays.read(&mut bytes).await.expect("it reads");
    let said = String::from_utf8_lossy(&bytes[..count]);
    assert!(0 < count && !said.contains("event: closed"), "{said}");
    serving.abort();
}
