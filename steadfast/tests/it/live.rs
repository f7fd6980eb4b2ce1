//! Live connections over WebSockets and server-sent events.

use std::{
    io::{BufRead, BufReader, Write},
    net::TcpStream,
};

use serde_json::{Value, json};
use tungstenite::{Message, WebSocket, protocol::CloseFrame};

use crate::harness::Server;

/// A chat client over a WebSocket.
pub(crate) struct Guest {
    pub(crate) socket: WebSocket<TcpStream>,
}

impl Guest {
    /// Joins a room.
    pub(crate) fn come(server: &Server, room: &str, query: &str) -> Self {
        Self::over(server.connect(), server, room, query)
    }

    /// The same, over an existing connection.
    pub(crate) fn over(stream: TcpStream, server: &Server, room: &str, query: &str) -> Self {
        let url = format!("ws://{}/v1/objects/chat/{room}/connect?{query}", server.host());
        let (socket, _) = tungstenite::client(url, stream).expect("it is accepted");
        Self { socket }
    }

    pub(crate) fn say(&mut self, key: &str, text: &str) {
        let said = json!({ "key": key, "text": text }).to_string();
        self.socket.send(Message::text(said)).expect("it is sent");
    }

    /// The next event, or the close frame.
    pub(crate) fn event(&mut self) -> Result<Value, Option<CloseFrame>> {
        loop {
            match self.socket.read() {
                Ok(Message::Text(text)) => return Ok(serde_json::from_str(&text).expect("JSON")),
                Ok(Message::Close(frame)) => {
                    // Reading answers the close frame.
                    let _ = self.socket.read();
                    return Err(frame);
                }
                Ok(Message::Ping(_) | Message::Pong(_)) => {}
                Ok(other) => panic!("{other:?}"),
                Err(_) => return Err(None),
            }
        }
    }

    /// The next event of a kind.
    pub(crate) fn expect_event(&mut self, kind: &str) -> Value {
        loop {
            let event = self.event().expect("the connection is open");
            if event["kind"] == kind || !event[kind].is_null() {
                return event;
            }
        }
    }

    /// The code and the reason of the end.
    pub(crate) fn end(&mut self) -> (u16, String) {
        loop {
            match self.event() {
                Ok(_) => {}
                Err(Some(frame)) => return (frame.code.into(), frame.reason.to_string()),
                Err(None) => panic!("it broke"),
            }
        }
    }
}

/// A client of server-sent events.
pub(crate) struct Listener(BufReader<TcpStream>);

impl Listener {
    pub(crate) fn come(server: &Server, query: &str, headers: &str) -> Self {
        Self::at(server, &format!("/v1/objects/chat/lobby/connect?{query}"), headers)
    }

    /// Subscribes to a path.
    pub(crate) fn at(server: &Server, path: &str, headers: &str) -> Self {
        let mut stream = server.connect();
        let head = format!(
            "GET {path} HTTP/1.1\r\nHost: localhost\r\n\
             Accept: text/event-stream\r\n{headers}\r\n"
        );
        stream.write_all(head.as_bytes()).expect("it takes the request");
        let mut it = Self(BufReader::new(stream));
        let head = it.until("\r\n\r\n");
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        assert!(head.contains("content-type: text/event-stream"), "{head}");
        assert!(head.contains("x-accel-buffering: no"), "{head}");
        it
    }

    fn until(&mut self, end: &str) -> String {
        let mut text = String::new();
        while !text.ends_with(end) {
            let read = self.0.read_line(&mut text).expect("the stream continues");
            assert_ne!(read, 0, "it ended after {text}");
        }
        text
    }

    /// The next event: its id and its data.
    pub(crate) fn event(&mut self) -> (String, Value) {
        loop {
            let event = self.until("\n\n");
            let field = |name: &str| event.lines().find_map(|it| it.strip_prefix(name));
            if let Some(data) = field("data: ") {
                let data = serde_json::from_str(data).expect("JSON");
                return (field("id: ").unwrap_or_default().to_owned(), data);
            }
        }
    }

    /// The next event that is a line: its id and its data.
    fn line(&mut self) -> (String, Value) {
        loop {
            let (id, data) = self.event();
            if data["kind"] == "line" {
                return (id, data);
            }
        }
    }
}

#[test]
fn a_line_over_a_websocket_reaches_everyone_in_its_room_only() {
    let server = Server::empty();
    let mut ann = Guest::come(&server, "a%2Fb%20%C3%A9", "name=ann");
    let mut bob = Guest::come(&server, "a%2Fb%20%C3%A9", "name=bob%20b");
    let mut other = Guest::come(&server, "elsewhere", "name=cy");
    assert_eq!(ann.expect_event("here")["names"], json!(["ann"]));
    assert_eq!(bob.expect_event("here")["names"], json!(["ann", "bob b"]));
    bob.say("k1", "hello <b>");
    for guest in [&mut ann, &mut bob] {
        let line = guest.expect_event("line");
        assert_eq!(
            (&line["id"], &line["who"], &line["text"]),
            (&json!(1), &json!("bob b"), &json!("hello <b>"))
        );
    }
    other.say("k1", "alone");
    assert_eq!(other.expect_event("line")["id"], 1);
    let metrics = server.get("/metrics").body;
    assert!(metrics.contains("steadfast_connections 3"), "{metrics}");
}

#[test]
fn connections_survive_the_eviction_of_their_object() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let server = Server::with(folder, &["--object-idle", "1"]);
    let mut ann = Guest::come(&server, "lobby", "name=ann");
    let mut listener = Listener::come(&server, "name=listener", "");
    let asleep = || while !server.get("/metrics").body.contains("steadfast_objects_awake 0") {};
    asleep();
    ann.say("k1", "still here");
    assert_eq!(listener.line().1["text"], "still here");
    assert_eq!(ann.expect_event("line")["id"], 1);
    asleep();
    let body = json!({ "key": "k2", "who": "x", "text": "woken" }).to_string();
    server.post_json("/v1/objects/chat/lobby/calls/say", &body, &[]);
    assert_eq!(ann.expect_event("line")["text"], "woken");
}

#[test]
fn server_sent_events_have_ids_and_continue_after_the_last_one() {
    let server = Server::empty();
    let say = |number: usize| {
        let body = json!({ "key": format!("k{number}"), "who": "x", "text": "…" }).to_string();
        let said = server.post_json("/v1/objects/chat/lobby/calls/say", &body, &[]);
        assert_eq!(said.status, 200, "{}", said.body);
    };
    (1..=3).for_each(say);
    let mut first = Listener::come(&server, "name=ann&after=1", "");
    assert_eq!(first.line().0, "2");
    assert_eq!(first.line().0, "3");
    say(4);
    assert_eq!(first.line().0, "4");
    drop(first);
    // The object sees the disconnect, although nothing was sent meanwhile.
    let is_empty = |it: &Value| it["connections"] == json!([]);
    server.json_until("/v1/objects/chat/lobby", is_empty);
    say(5);
    // Like a browser: the query is that of the first request, the header is newer.
    let mut again = Listener::come(&server, "name=ann&after=1", "Last-Event-ID: 4\r\n");
    let (id, line) = again.line();
    assert_eq!((&*id, &line["id"]), ("5", &json!(5)));
}

#[test]
fn a_refused_connection_is_an_ordinary_problem() {
    let server = Server::empty();
    let upgrade = "Connection: upgrade, close\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
    let asks = |path: &str, headers: &str| {
        let head = format!("GET /v1/objects/{path} HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n");
        server.raw(&head)
    };
    for (path, headers, status, code) in [
        ("chat/lobby/connect", upgrade, 422, "no_name"),
        ("counter/a/connect", upgrade, 409, "conflict"),
        ("nope/a/connect", upgrade, 404, "class_not_found"),
        ("chat/lobby/connect?name=a&after=x", upgrade, 400, "bad_request"),
        ("chat/lobby/connect?name=a", "Connection: close\r\n", 426, "upgrade_required"),
        (
            "chat/lobby/connect",
            "Accept: text/event-stream\r\nConnection: close\r\n",
            422,
            "no_name",
        ),
    ] {
        let answer = asks(path, headers);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{path}: {answer}");
        assert!(answer.contains(&format!("\"code\":\"{code}\"")), "{path}: {answer}");
    }
    // A foreign page may neither connect nor request events, which needs no Origin.
    let events = "Accept: text/event-stream\r\nSec-Fetch-Site: cross-site\r\nConnection: close\r\n";
    for foreign in [&*format!("{upgrade}Origin: http://example.org\r\n"), events] {
        let answer = asks("chat/lobby/connect?name=a", foreign);
        assert!(answer.contains("foreign_origin"), "{answer}");
    }
    let metrics = server.get("/metrics").body;
    assert!(metrics.contains("steadfast_connections 0"), "{metrics}");
}

#[test]
fn a_refused_text_gets_an_error_and_the_connection_stays() {
    let server = Server::empty();
    let url = format!("ws://{}/v1/objects/chat/lobby/connect?name=ann", server.host());
    let (socket, response) = tungstenite::client(url, server.connect()).expect("it is accepted");
    let mut ann = Guest { socket };
    ann.say("k1", " ");
    let problem = &ann.expect_event("problem")["problem"];
    let id = response.headers()["x-request-id"].to_str().unwrap();
    assert_eq!(problem["requestId"], id, "that of the response");
    assert_eq!((&problem["code"], &problem["status"]), (&json!("invalid_text"), &json!(422)));
    ann.socket.send(Message::text("ping")).unwrap();
    ann.expect_event("pong");
    ann.say("k1", "fine");
    assert_eq!(ann.expect_event("line")["id"], 1);
}

#[test]
fn binary_or_too_long_frames_close_the_connection_with_a_code() {
    let server = Server::empty();
    let mut ann = Guest::come(&server, "lobby", "name=ann");
    let mut bob = Guest::come(&server, "lobby", "name=bob");
    ann.socket.send(Message::binary(vec![1, 2, 3])).unwrap();
    assert_eq!(ann.end(), (1003, "only text messages are accepted".into()));
    ann = Guest::come(&server, "lobby", "name=ann");
    ann.socket.send(Message::text("x".repeat((1 << 20) + 1))).unwrap();
    assert_eq!(ann.end().0, 1009);
    loop {
        if bob.expect_event("here")["names"] == json!(["bob"]) {
            break;
        }
    }
    bob.socket.close(None).unwrap();
    while bob.event().is_ok() {}
    // The object sees the disconnect: the room is empty.
    let mut cy = Guest::come(&server, "lobby", "name=cy");
    loop {
        if cy.expect_event("here")["names"] == json!(["cy"]) {
            break;
        }
    }
}
