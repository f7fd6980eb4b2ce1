//! Secrets in URLs: who is asked gets them, and nobody else does.

use std::{
    io::{BufRead, BufReader, Write},
    net::TcpListener,
    sync::{Arc, Mutex},
};

use serde_json::{Value, json};

use crate::harness::Server;

const SECRET: &str = "Hu5hHu5h";

/// A server that remembers what it was asked for.
struct Site {
    url: String,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Site {
    fn start() -> Self {
        Self::answering(|_| "HTTP/1.1 200 OK\r\n".into())
    }

    /// One whose answers begin with this, made of the path that was asked for.
    fn answering(head: fn(&str) -> String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let asked = Arc::<Mutex<Vec<String>>>::default();
        let seen = asked.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut reader = BufReader::new(stream.expect("a connection"));
                let mut line = String::new();
                let _ = reader.read_line(&mut line);
                seen.lock().expect("no panic").push(line.clone());
                let head = head(line.split(' ').nth(1).unwrap_or_default());
                while reader.read_line(&mut line).is_ok_and(|it| 2 < it) {}
                let answer = format!("{head}content-length: 2\r\nconnection: close\r\n\r\nok");
                let _ = reader.get_mut().write_all(answer.as_bytes());
            }
        });
        Self { url, asked }
    }

    fn asked(&self) -> Vec<String> {
        std::mem::take(&mut *self.asked.lock().expect("no panic"))
    }
}

fn server() -> Server {
    Server::with(tempfile::tempdir().expect("a folder"), &["--drift-networks", "127.0.0.0/8"])
}

/// Everything that an operator can look at.
fn everything(server: &Server, id: &str, pair: &str) -> String {
    let run = format!("/v1/workflows/compare-environments/runs/{id}-1");
    let mut seen = Vec::new();
    for path in [
        format!("/api/compare/{id}"),
        "/api/pairs".into(),
        format!("/api/pairs/{pair}/comparisons"),
        format!("/drift/{id}"),
        "/drift".into(),
        run.clone(),
        format!("/v1/objects/env-pair/{pair}"),
        format!("/v1/objects/env-pair/{pair}/turns/1"),
        format!("/workflows/compare-environments/{id}-1"),
        format!("/objects/env-pair/{pair}"),
    ] {
        let answer = server.get(&path);
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
        seen.push(answer.body);
    }
    for table in ["comparisons", "probes"] {
        let body = json!({ "sql": format!("SELECT * FROM {table}") }).to_string();
        let path = format!("/v1/objects/env-pair/{pair}/sql");
        let answer = server.post_json(&path, &body, &[]);
        assert_eq!(answer.status, 200, "{}", answer.body);
        seen.push(answer.body);
    }
    seen.concat()
}

fn completed(server: &Server, id: &str) -> Value {
    let shown = server.json_until(&format!("/api/compare/{id}"), |it| it["status"] != "running");
    assert_eq!(shown["status"], "completed", "{shown}");
    shown
}

#[test]
fn a_secret_in_a_url_is_seen_by_nobody_but_who_is_asked_and_asked_again() {
    let (server, left, right) = (server(), Site::start(), Site::start());
    let left_url = format!("{}/?token={SECRET}&state=open", left.url);
    let body = json!({ "leftUrl": left_url, "rightUrl": right.url }).to_string();
    let begun = server.post_json("/api/compare", &body, &[]).json();
    let (id, pair) = (begun["comparisonId"].as_str().unwrap(), begun["pairKey"].as_str().unwrap());
    completed(&server, id);
    let real = format!("GET /?token={SECRET}&state=open HTTP/1.1");
    assert!(left.asked().iter().all(|it| it.trim() == real));
    let seen = everything(&server, id, pair);
    assert!(seen.contains("token=[redacted]&state=open"), "{seen}");
    assert!(!seen.contains(SECRET), "{seen}");
    // The form of the result page, as it is and with both sides swapped.
    let shown = format!("{}/?token=[redacted]&state=open", left.url);
    for (first, second) in [(&shown, &right.url), (&right.url, &shown)] {
        let answer = server.post_form("/drift", &form(id, first, second), &FORM);
        assert_eq!(answer.status, 303, "{}", answer.body);
        let to = answer.header("location").to_owned();
        let again = to.strip_prefix("/drift/").unwrap();
        assert!(again.starts_with(pair), "{again} is another pair");
        completed(&server, again);
        let asked = left.asked();
        assert!(!asked.is_empty() && asked.iter().all(|it| it.trim() == real), "{asked:?}");
    }
    assert!(!everything(&server, id, pair).contains(SECRET));
}

/// The body that the form of a result page sends.
fn form(again: &str, left: &str, right: &str) -> String {
    let field = |text: &str| text.replace('&', "%26").replace('+', "%2B");
    format!("again={again}&leftUrl={}&rightUrl={}", field(left), field(right))
}

const FORM: [(&str, &str); 1] = [("content-type", "application/x-www-form-urlencoded")];

#[test]
fn a_secret_that_a_site_sends_back_is_seen_by_nobody() {
    let echo = Site::answering(|path| match path.contains("login") {
        false => {
            let next = path.replace('/', "%2F").replace('?', "%3F").replace('=', "%3D");
            format!("HTTP/1.1 302 There\r\nlocation: /login?next={next}\r\n")
        }
        true => format!("HTTP/1.1 200 OK\r\nlink: <{path}>\r\nx-from: {SECRET}\r\n"),
    });
    let (server, right) = (server(), Site::start());
    let left_url = format!("{}/?a=1;%74oken={SECRET}&sortKey=name", echo.url);
    let label = format!("staging {left_url}");
    let body = json!({ "leftUrl": left_url, "rightUrl": right.url, "leftLabel": label });
    let begun = server.post_json("/api/compare", &body.to_string(), &[]).json();
    let (id, pair) = (begun["comparisonId"].as_str().unwrap(), begun["pairKey"].as_str().unwrap());
    completed(&server, id);
    assert!(echo.asked().iter().all(|it| it.contains(SECRET)), "it is asked with the secret");
    let seen = everything(&server, id, pair);
    assert!(seen.contains("login?next=%2F%3Fa%3D1"), "{seen}");
    assert!(seen.contains("sortKey=name"), "{seen}");
    assert!(!seen.contains(SECRET), "{seen}");
}

#[test]
fn comparing_again_what_was_forgotten_says_so_and_asks_for_the_secret_anew() {
    let flags = ["--drift-networks", "127.0.0.0/8", "--drift-keep", "1"];
    let server = Server::with(tempfile::tempdir().expect("a folder"), &flags);
    let (left, right) = (Site::start(), Site::start());
    let left_url = format!("{}/?token={SECRET}", left.url);
    let body = json!({ "leftUrl": left_url, "rightUrl": right.url }).to_string();
    let mut ids = Vec::new();
    for _ in 0..2 {
        let begun = server.post_json("/api/compare", &body, &[]).json();
        ids.push(begun["comparisonId"].as_str().unwrap().to_owned());
        completed(&server, &ids[ids.len() - 1]);
    }
    assert_eq!(server.get(&format!("/api/compare/{}", ids[0])).status, 404);
    let shown = format!("{}/?token=[redacted]", left.url);
    left.asked();
    let answer = server.post_form("/drift", &form(&ids[0], &shown, &right.url), &FORM);
    assert_eq!(answer.status, 410, "{}", answer.body);
    assert!(answer.body.contains("retention removed comparison"), "{}", answer.body);
    let right_field = format!("name=\"rightUrl\" value=\"{}\"", right.url);
    assert!(answer.body.contains(&right_field), "{}", answer.body);
    assert!(answer.body.contains("name=\"leftUrl\" value=\"\""), "{}", answer.body);
    assert!(!answer.body.contains("name=\"again\""), "the next try is a new comparison");
    // The server never requests a redacted URL, wherever it comes from.
    let bad = json!({ "leftUrl": shown, "rightUrl": right.url }).to_string();
    let refused = server.post_json("/api/compare", &bad, &[]);
    assert_eq!((refused.status, &refused.json()["code"]), (400, &json!("secret_missing")));
    assert_eq!(left.asked(), Vec::<String>::new());
    // Without secrets nothing is needed of the old one.
    let answer = server.post_form("/drift", &form(&ids[0], &left.url, &right.url), &FORM);
    assert_eq!(answer.status, 303, "{}", answer.body);
}
