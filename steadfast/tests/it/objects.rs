//! Objects over HTTP.

use std::sync::{
    Mutex,
    atomic::{AtomicUsize, Ordering},
};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::{
    harness::{Answer, Server},
    seed,
};

/// Calls the counter `name`, which is in URL form.
fn call(server: &Server, name: &str, message: &str, body: &str, key: Option<&str>) -> Answer {
    let headers: Vec<(&str, &str)> = key.map(|it| ("idempotency-key", it)).into_iter().collect();
    server.post_json(&format!("/v1/objects/counter/{name}/calls/{message}"), body, &headers)
}

fn increment(server: &Server, name: &str, by: i64, key: Option<&str>) -> Answer {
    call(server, name, "increment", &json!({ "by": by }).to_string(), key)
}

/// Asserts that a response is this reply.
#[track_caller]
fn assert_reply(answer: &Answer, reply: &str) {
    assert_eq!((answer.status, answer.body.as_str()), (200, reply));
    assert_eq!(answer.header("content-type"), "application/json");
}

#[track_caller]
fn assert_value(server: &Server, name: &str, value: i64) {
    assert_reply(&call(server, name, "read", "", None), &value.to_string());
}

#[test]
fn a_call_is_answered_with_the_reply_of_the_object() {
    let server = Server::empty();
    assert_reply(&increment(&server, "a", 1, None), "1");
    assert_reply(&increment(&server, "a", 2, None), "3");
    assert_reply(&increment(&server, "b", -7, None), "-7");
    assert_value(&server, "a", 3);
    let big = i64::MAX - 3;
    assert_reply(&increment(&server, "a", big, None), &i64::MAX.to_string());
}

#[test]
fn a_message_without_fields_needs_no_body() {
    let server = Server::empty();
    let path = "/v1/objects/counter/a/calls/read";
    assert_reply(&server.post(path, &[]), "0");
    assert_reply(&call(&server, "a", "read", "{}", None), "0");
    let answer = server.post("/v1/objects/counter/a/calls/increment", &[]);
    answer.assert_problem(400, "malformed_message");
    let detail = answer.json()["detail"].as_str().unwrap().to_owned();
    assert!(detail.contains("missing field `by`"), "{detail}");
}

#[test]
fn a_read_creates_no_object() {
    let server = Server::empty();
    assert_value(&server, "a", 0);
    assert_eq!(server.json("/v1/streams")["items"], json!([]));
    let metrics = server.get("/metrics").body;
    assert!(metrics.contains("\nsteadfast_objects_awake 1\n"), "{metrics}");
}

#[test]
fn a_malformed_message_names_its_field() {
    let server = Server::empty();
    for (body, field) in [
        (r#"{"by": "1"}"#, "by"),
        (r#"{"by": 1.5}"#, "by"),
        (r#"{"by": null}"#, "by"),
        (r#"{"by": 9223372036854775808}"#, "by"),
        ("{}", "."),
        ("[]", "."),
        ("7", "."),
        ("null", "."),
        ("", "."),
    ] {
        let answer = call(&server, "a", "increment", body, None);
        answer.assert_problem(400, "malformed_message");
        let problem = answer.json();
        assert_eq!(problem["field"], field, "{body}: {problem}");
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.contains(&format!("`{field}`")), "{detail}");
    }
    for body in ["{", "{\"by\": 1", "{\"by\": 1}}", "{\"by\": 1} 2", "by=1", "\u{feff}{}"] {
        let answer = call(&server, "a", "increment", body, None);
        answer.assert_problem(400, "bad_request");
        assert!(answer.body.contains("not JSON"), "{}", answer.body);
    }
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    call(&server, "a", "increment", &deep, None).assert_problem(400, "malformed_message");
    let raw = "POST /v1/objects/counter/a/calls/increment HTTP/1.1\r\nHost: localhost\r\n\
               Connection: close\r\nContent-Length: 2\r\n\r\n";
    let answer = server.raw_bytes(&[raw.as_bytes(), b"\xff\xff"].concat());
    assert!(answer.starts_with("HTTP/1.1 400") && answer.contains("bad_request"), "{answer}");
    let raw = raw.replace("Length: 2", "Length: 2097153");
    let answer = server.raw(&raw);
    assert!(answer.starts_with("HTTP/1.1 413") && answer.contains("too_large"), "{answer}");
    let large = format!("{{\"by\": 1, \"x\": \"{}\"}}", "x".repeat(1 << 20));
    assert_reply(&call(&server, "a", "increment", &large, None), "1");
    assert_value(&server, "a", 1);
}

#[test]
fn unknown_objects_and_messages_are_not_found() {
    let server = Server::empty();
    let post = |path: &str| server.post_json(path, r#"{"by": 1}"#, &[]);
    post("/v1/objects/nonsense/a/calls/increment").assert_problem(404, "class_not_found");
    post("/v1/objects/COUNTER/a/calls/increment").assert_problem(404, "class_not_found");
    post("/v1/objects/counter/a/calls/nonsense").assert_problem(404, "message_not_found");
    post("/v1/objects/counter/a/calls/Increment").assert_problem(404, "message_not_found");
    post("/v1/objects/counter/a/calls/").assert_problem(404, "route_not_found");
    post("/v1/objects/counter/a").assert_problem(405, "wrong_method");
    let path = "/v1/objects/counter/a/calls/increment";
    server.get(path).assert_problem(405, "wrong_method");
    assert_eq!(server.get(path).header("allow"), "POST");
    let head = format!("HEAD {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    assert!(server.raw(&head).starts_with("HTTP/1.1 405"));
}

#[test]
fn a_name_may_be_any_text() {
    let server = Server::empty();
    let longest = "x".repeat(512);
    let names = [
        "%C3%BC%2F%E6%97%A5%E6%9C%AC%F0%9F%A6%80",
        "a%2Fb",
        "a%252Fb",
        "a%2F",
        "%2F",
        "%20",
        "..%2F..%2Fetc",
        "%2E%2E",
        "%3Cscript%3E",
        "%0A%1B",
        "calls",
        longest.as_str(),
    ];
    for (index, name) in names.iter().enumerate() {
        let by = i64::try_from(index).unwrap() + 1;
        assert_reply(&increment(&server, name, by, None), &by.to_string());
    }
    for (index, name) in names.iter().enumerate() {
        assert_value(&server, name, i64::try_from(index).unwrap() + 1);
    }
    for name in ["", "x".repeat(513).as_str(), &"%F0%9F%A6%80".repeat(129), "a%00b"] {
        increment(&server, name, 1, None).assert_problem(400, "invalid_name");
    }
    increment(&server, "%ff", 1, None).assert_problem(400, "bad_request");
}

#[test]
fn a_repetition_gets_the_same_reply_and_changes_nothing() {
    let server = Server::empty();
    assert_reply(&increment(&server, "a", 5, Some("k")), "5");
    assert_reply(&increment(&server, "a", 1, None), "6");
    assert_reply(&increment(&server, "a", 5, Some("k")), "5");
    increment(&server, "a", 6, Some("k")).assert_problem(409, "key_reused");
    call(&server, "a", "read", "", Some("k")).assert_problem(409, "key_reused");
    assert_reply(&increment(&server, "b", 5, Some("k")), "5");
    let longest = "k".repeat(255);
    assert_reply(&increment(&server, "a", 1, Some(&longest)), "7");
    increment(&server, "a", 1, Some(&format!("{longest}k"))).assert_problem(400, "invalid_key");
    increment(&server, "a", 1, Some("")).assert_problem(400, "invalid_key");
    assert_value(&server, "a", 7);
}

#[test]
fn a_refusal_has_the_code_of_the_object_and_may_be_repeated() {
    let server = Server::empty();
    increment(&server, "a", i64::MAX, None);
    for _ in 0..2 {
        let refused = increment(&server, "a", 1, Some("k"));
        refused.assert_problem(422, "out_of_range");
        let body = refused.json();
        let expected = ("urn:steadfast:problem:refused", false);
        assert_eq!((body["type"].as_str().unwrap(), body["retryable"] == true), expected);
        assert_eq!(body.get("field"), None);
    }
    // A refusal is not recorded: the key is free for a successful call.
    assert_reply(&increment(&server, "a", -1, Some("k")), &(i64::MAX - 1).to_string());
}

#[test]
fn fifty_callers_with_one_key_count_once() {
    let server = Server::empty();
    let replies = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..50 {
            scope.spawn(|| {
                let answer = increment(&server, "a", 3, Some("k"));
                assert_reply(&answer, "3");
                replies.lock().unwrap().push(answer.body);
            });
        }
    });
    assert_eq!(replies.into_inner().unwrap().len(), 50);
    assert_value(&server, "a", 3);
}

#[test]
fn callers_of_one_object_are_served_one_after_the_other() {
    let server = Server::empty();
    let replies = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..25 {
                    let reply = increment(&server, "a", 1, None).json();
                    replies.lock().unwrap().push(reply.as_i64().unwrap());
                }
            });
        }
    });
    let mut replies = replies.into_inner().unwrap();
    replies.sort_unstable();
    assert_eq!(replies, (1..=200).collect::<Vec<i64>>(), "each value was given out once");
}

/// Increments with its own keys until the server has ended; returns the acknowledged ones.
fn count_until_it_dies(server: &Server, writer: usize, acked: &AtomicUsize) -> Vec<(String, i64)> {
    let mut replies = Vec::new();
    for number in 0.. {
        let key = format!("{writer}-{number}");
        let path = format!("/v1/objects/counter/{}/calls/increment", writer % 2);
        let body = json!({ "by": 1 }).to_string();
        match server.try_post_json(&path, &body, &[("idempotency-key", &key)]) {
            Ok(answer) if answer.status == 200 => {
                replies.push((key, answer.json().as_i64().expect("a number")));
                acked.fetch_add(1, Ordering::Relaxed);
            }
            _ => break,
        }
    }
    replies
}

#[test]
fn acknowledged_calls_survive_a_kill() {
    let mut folder = tempfile::tempdir().unwrap();
    for round in 0..3 {
        let server = Server::on(folder);
        let acked = AtomicUsize::new(0);
        let mut counts = [0; 2];
        for (name, count) in counts.iter_mut().enumerate() {
            *count = call(&server, &name.to_string(), "read", "", None).json().as_i64().unwrap();
        }
        let replies: Vec<Vec<(String, i64)>> = std::thread::scope(|scope| {
            let writers: Vec<_> = (0..4)
                .map(|writer| {
                    let (server, acked) = (&server, &acked);
                    scope.spawn(move || count_until_it_dies(server, round * 4 + writer, acked))
                })
                .collect();
            while acked.load(Ordering::Relaxed) < 100 {
                std::thread::park_timeout(std::time::Duration::from_millis(1));
            }
            server.signal(Signal::KILL);
            writers.into_iter().map(|it| it.join().unwrap()).collect()
        });
        folder = server.kill();
        let server = Server::on(folder);
        for (writer, replies) in replies.iter().enumerate() {
            let name = (writer % 2).to_string();
            for (key, reply) in replies {
                assert_reply(&increment(&server, &name, 1, Some(key)), &reply.to_string());
            }
        }
        for (name, before) in counts.iter().enumerate() {
            let acked: usize = replies.iter().skip(name).step_by(2).map(Vec::len).sum();
            let value = call(&server, &name.to_string(), "read", "", None).json().as_i64().unwrap();
            let added = usize::try_from(value - before).unwrap();
            // One more call of each of the two writers may be applied without a response.
            assert!((acked..=acked + 2).contains(&added), "{acked} acknowledged, {added} there");
        }
        let doctor = server.json("/v1/doctor");
        assert_eq!(doctor["ok"], true, "{doctor}");
        folder = server.kill();
    }
}

#[test]
fn a_damaged_object_fails_and_others_continue() {
    let server = Server::empty();
    increment(&server, "a", 1, None);
    increment(&server, "b", 2, None);
    let folder = server.kill();
    seed::damage_turn(folder.path());
    let server = Server::on(folder);
    for _ in 0..2 {
        let answer = increment(&server, "a", 1, None);
        answer.assert_problem(500, "corrupt");
        assert!(answer.body.contains("object/counter/a"), "{}", answer.body);
    }
    assert_reply(&increment(&server, "b", 1, None), "3");
}

#[test]
fn the_call_is_described() {
    let server = Server::empty();
    let openapi = server.json("/openapi.json");
    let call = &openapi["paths"]["/v1/objects/{class}/{name}/calls/{message}"]["post"];
    assert_eq!(call["tags"], json!(["objects"]), "{call}");
    assert_ne!(call["requestBody"]["required"], Value::Bool(true), "{call}");
    for status in ["200", "default"] {
        assert!(call["responses"][status].is_object(), "{status} in {call}");
    }
    assert_eq!(call["x-needs-role"], "member", "{call}");
    let body = |path: &str| openapi["paths"][path]["post"]["requestBody"].is_object();
    assert!(body("/v1/objects/{class}/{name}/calls/{message}"), "a message has a body");
    assert!(body("/v1/workflows/{workflow}/runs/{id}/events/{event}"), "an event has a payload");
    assert!(!body("/v1/queues/{queue}/pause"));
    let start = &openapi["paths"]["/v1/workflows/{workflow}/runs"]["post"];
    assert!(start["responses"]["200"].is_object() && start["responses"]["201"].is_object());
    let named = |it: &Value| it["name"] == "wait";
    assert!(start["parameters"].as_array().unwrap().iter().any(named), "{start}");
    let delete = &openapi["paths"]["/v1/workflows/{workflow}/runs/{id}"]["delete"];
    assert_eq!(delete["responses"]["204"].get("content"), None);
}
