//! The history of a run while it grows, as server-sent events over a real socket.

use std::{
    io::{BufRead, BufReader, Write},
    net::TcpStream,
};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::{
    harness::Server,
    runs::{pay, run_until, start},
};

/// A client that follows a run.
struct Follower(BufReader<TcpStream>);

/// An event: its name, its id and its data.
type EventFields = (String, String, Value);

impl Follower {
    fn connect(server: &Server, path: &str, headers: &str) -> Self {
        let mut stream = server.connect();
        let head = format!("GET /v1/workflows/order/runs/{path} HTTP/1.1\r\nHost: localhost\r\n");
        stream.write_all(format!("{head}{headers}\r\n").as_bytes()).expect("it takes the request");
        let mut it = Self(BufReader::new(stream));
        let head = it.until("\r\n\r\n").expect("an answer");
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        assert!(head.contains("content-type: text/event-stream"), "{head}");
        it
    }

    /// Reads up to a text; `None` at the end of the connection.
    fn until(&mut self, end: &str) -> Option<String> {
        let mut text = String::new();
        while !text.ends_with(end) {
            if self.0.read_line(&mut text).expect("the stream continues") == 0 {
                return None;
            }
        }
        Some(text)
    }

    /// The next event; `None` if there is no more.
    fn next(&mut self) -> Option<EventFields> {
        loop {
            let event = self.until("\n\n")?;
            let field = |name: &str| event.lines().find_map(|it| it.strip_prefix(name));
            let Some(data) = field("data: ") else { continue };
            let data = serde_json::from_str(data).expect("JSON");
            let name = |it| field(it).unwrap_or_default().to_owned();
            return Some((name("event: "), name("id: "), data));
        }
    }

    fn rest(&mut self) -> Vec<EventFields> {
        std::iter::from_fn(|| self.next()).collect()
    }
}

#[test]
fn a_followed_run_streams_its_entries_until_it_ends() {
    let server = Server::empty();
    start(&server, "", "o-1");
    let mut follower = Follower::connect(&server, "o-1/live", "");
    let (_, id, first) = follower.next().unwrap();
    assert_eq!(
        (id.as_str(), &first["number"], &first["entry"]),
        ("1", &json!(1), &json!("started"))
    );
    assert_eq!(first["input"]["orderId"], "o-1");
    assert!(first["at"].as_str().is_some_and(|it| it.ends_with('Z')), "{first}");
    run_until(&server, "o-1", "waiting");
    pay(&server, "o-1");
    let rest = follower.rest();
    let (name, _, end) = rest.last().unwrap();
    assert_eq!((name.as_str(), end), ("end", &json!({ "entry": "completed" })));
    let entries = &rest[..rest.len() - 1];
    let numbers: Vec<i64> = entries.iter().map(|it| it.1.parse().unwrap()).collect();
    assert!(numbers.iter().copied().eq(2..2 + numbers.len() as i64), "each once: {numbers:?}");
    let listed = server.json("/v1/workflows/order/runs/o-1/history?cursor=1&limit=1000");
    let told: Vec<&Value> = entries.iter().map(|it| &it.2).collect();
    assert_eq!(listed["items"].as_array().unwrap().iter().collect::<Vec<_>>(), told);
}

#[test]
fn a_reconnect_receives_only_missed_entries() {
    let server = Server::empty();
    start(&server, "", "o-1");
    run_until(&server, "o-1", "waiting");
    let mut follower = Follower::connect(&server, "o-1/live", "");
    let seen: Vec<EventFields> = (0..3).filter_map(|_| follower.next()).collect();
    drop(follower);
    pay(&server, "o-1");
    run_until(&server, "o-1", "complete");
    let last = format!("Last-Event-ID: {}\r\n", seen[2].1);
    // The query is that of the first request; the header is newer.
    let mut again = Follower::connect(&server, "o-1/live?after=1", &last);
    let rest = again.rest();
    assert_eq!(rest[0].1, "4");
    assert_eq!(rest.last().unwrap().0, "end");
    let number = &rest[rest.len() - 2].1;
    let mut late = Follower::connect(&server, "o-1/live", &format!("Last-Event-ID: {number}\r\n"));
    assert_eq!(late.rest(), [("end".into(), String::new(), json!({ "entry": "completed" }))]);
}

#[test]
fn a_restarted_run_is_still_followed() {
    let server = Server::empty();
    start(&server, "", "o-1");
    run_until(&server, "o-1", "waiting");
    server.post("/v1/workflows/order/runs/o-1/terminate", &[]);
    server.post("/v1/workflows/order/runs/o-1/restart", &[]);
    run_until(&server, "o-1", "waiting");
    let mut follower = Follower::connect(&server, "o-1/live", "");
    let mut entries = std::iter::from_fn(|| follower.next()).map(|it| it.2["entry"].clone());
    assert!(entries.any(|it| it == "terminated"));
    assert!(entries.any(|it| it == "restarted"), "an end that was not the last is no end");
}

#[test]
fn a_shutdown_tells_followers_and_does_not_wait_for_them() {
    let mut server = Server::empty();
    start(&server, "", "o-1");
    run_until(&server, "o-1", "waiting");
    let mut follower = Follower::connect(&server, "o-1/live?after=1", "");
    let silent = Follower::connect(&server, "o-1/live", "");
    follower.next().unwrap();
    server.signal(Signal::TERM);
    let rest = follower.rest();
    let (name, _, why) = rest.last().unwrap();
    assert_eq!((name.as_str(), &why["code"]), ("closed", &json!("stopping")));
    assert_eq!(server.wait(), Some(0));
    drop(silent);
}

#[test]
fn an_unknown_run_cannot_be_followed() {
    let server = Server::empty();
    start(&server, "", "o-1");
    let get = |path: &str| server.get(&format!("/v1/workflows/{path}"));
    for (tail, from) in [("live", "after"), ("history", "cursor")] {
        get(&format!("order/runs/none/{tail}")).assert_problem(404, "run_not_found");
        get(&format!("none/runs/o-1/{tail}")).assert_problem(404, "workflow_not_found");
        get(&format!("order/runs/o-1/{tail}?{from}=x")).assert_problem(400, "bad_request");
        get(&format!("order/runs/o-1/{tail}?before=1")).assert_problem(400, "bad_request");
    }
    get("order/runs/o-1/history?limit=0").assert_problem(400, "bad_request");
}

#[test]
fn too_many_followers_are_refused_and_slots_are_released() {
    let server = Server::empty();
    start(&server, "", "o-1");
    run_until(&server, "o-1", "waiting");
    let path = "/v1/workflows/order/runs/o-1/live";
    let mut watchers: Vec<Follower> =
        (0..768).map(|_| Follower::connect(&server, "o-1/live", "")).collect();
    let refused = server.get(path);
    refused.assert_problem(429, "busy");
    assert_eq!(refused.header("retry-after"), "1");
    drop(watchers.pop());
    pay(&server, "o-1");
    for mut follower in watchers {
        assert_eq!(follower.rest().last().unwrap().0, "end", "each hears it to its end");
    }
    let again = server.get(path);
    assert_eq!(again.status, 200, "{}", again.body);
}
