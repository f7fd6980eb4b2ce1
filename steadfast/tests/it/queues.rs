//! Queues over HTTP.

use serde_json::{Value, json};

use crate::harness::{Answer, Server};

pub(crate) fn post(server: &Server, path: &str, body: &Value) -> Answer {
    server.post_json(&format!("/v1/queues/{path}"), &body.to_string(), &[])
}

/// Sends a message; returns its id.
#[track_caller]
pub(crate) fn send(server: &Server, queue: &str, body: &Value) -> String {
    let answer = post(server, &format!("{queue}/messages"), &json!({ "body": body }));
    assert_eq!(answer.status, 201, "{}", answer.body);
    answer.json()["ids"][0].as_str().expect("an id").to_owned()
}

/// Sends mail.
pub(crate) fn mail(server: &Server, to: &str) -> String {
    send(server, "mail", &json!({ "to": to, "subject": "Hello" }))
}

/// The subjects in a mailbox.
pub(crate) fn letters(server: &Server, address: &str) -> Vec<Value> {
    let answer = server.post(&format!("/v1/objects/mailbox/{address}/calls/letters"), &[]);
    answer.json().as_array().expect("letters").clone()
}

/// Waits until a queue has this depth.
pub(crate) fn depth_until(server: &Server, queue: &str, depth: u64) -> Value {
    server.json_until(&format!("/v1/queues/{queue}"), |it| it["depth"] == depth)
}

#[track_caller]
fn ok(answer: &Answer) -> Value {
    assert_eq!(answer.status, 200, "{}", answer.body);
    answer.json()
}

#[track_caller]
fn pull(server: &Server, queue: &str, body: &Value) -> Value {
    ok(&post(server, &format!("{queue}/messages/pull"), body))
}

#[track_caller]
fn ack(server: &Server, queue: &str, body: &Value) -> Value {
    ok(&post(server, &format!("{queue}/messages/ack"), body))
}

#[test]
fn mail_is_delivered_once_despite_a_kill() {
    let server = Server::empty();
    let ids: Vec<String> = (0..5).map(|_| mail(&server, "ada@example.org")).collect();
    let server = Server::on(server.kill());
    let view = depth_until(&server, "mail", 0);
    assert_eq!(
        (&view["consumed"], &view["settings"]["deadLetterQueue"]),
        (&json!(true), &json!("mail-dead"))
    );
    let mut found: Vec<String> = letters(&server, "ada@example.org")
        .iter()
        .map(|it| it["id"].as_str().unwrap().to_owned())
        .collect();
    found.sort_by_key(|it| it.parse::<i64>().unwrap());
    assert_eq!(found, ids);
    let named: Vec<Value> = server.json("/v1/queues")["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["name"].clone())
        .collect();
    let expected =
        ["checkout-news", "mail", "mail-dead", "opens", "upload-events", "upload-events-dlq"];
    assert_eq!(named, expected);
}

#[test]
fn a_queue_shows_its_state() {
    let server = Server::empty();
    send(&server, "q", &json!(1));
    let delayed = post(&server, "q/messages", &json!({ "body": 2, "delayMs": 3_600_000 }));
    assert_eq!(delayed.status, 201, "{}", delayed.body);
    pull(&server, "q", &json!({ "batchSize": 1 }));
    let view = server.json("/v1/queues/q");
    let settings = json!({
        "maxRetries": 3, "retryDelayMs": 1000, "deadLetterQueue": null, "batchSize": 10,
        "batchTimeoutMs": 1000, "retentionMs": null, "maxMessages": null,
        "maxMessageBytes": 131_072, "ratePerSecond": null,
    });
    assert_eq!(view["settings"], settings);
    for (name, value) in [
        ("name", json!("q")),
        ("paused", json!(false)),
        ("consumed", json!(false)),
        ("depth", json!(2)),
        ("ready", json!(0)),
        ("delayed", json!(1)),
        ("inFlight", json!(1)),
        ("dead", json!(0)),
    ] {
        assert_eq!(view[name], value, "{name} of {view}");
    }
    assert!(view["oldestAgeMs"].is_u64(), "{view}");
    for rate in ["sent", "delivered", "done", "retried", "dead"] {
        assert!(view["rates"][rate].is_f64(), "{rate} of {view}");
    }
    let sample = &view["history"][0];
    assert!(sample["at"].is_string() && sample["depth"].is_u64(), "{view}");
    assert!(sample["oldestAgeMs"].is_u64(), "{view}");
    let metrics = server.get("/metrics").body;
    for line in ["steadfast_queue_depth{queue=\"q\"} 2", "steadfast_queue_in_flight{queue=\"q\"} 1"]
    {
        assert!(metrics.contains(line), "{line} is missing in {metrics}");
    }
}

#[test]
fn settings_are_put_and_stay_and_a_full_queue_refuses() {
    let server = Server::empty();
    let put = |queue: &str, body: &Value| server.put_json(&format!("/v1/queues/{queue}"), body);
    let view = ok(&put("q", &json!({ "maxRetries": 0, "maxMessages": 2, "maxMessageBytes": 20 })));
    assert_eq!((&view["name"], &view["settings"]["maxMessages"]), (&json!("q"), &json!(2)));
    let server = Server::on(server.kill());
    let settings = server.json("/v1/queues/q")["settings"].clone();
    assert_eq!((&settings["maxRetries"], &settings["batchSize"]), (&json!(0), &json!(10)));
    send(&server, "q", &json!(1));
    send(&server, "q", &json!(2));
    let full = post(&server, "q/messages", &json!({ "body": 3 }));
    full.assert_problem(429, "queue_full");
    assert_eq!((full.header("retry-after"), &full.json()["retryable"]), ("1", &json!(true)));
    let large = post(&server, "q/messages", &json!({ "body": "a text of more than 20 bytes" }));
    large.assert_problem(413, "too_large");
    let put = |queue: &str, body: &str| {
        server.put_json(&format!("/v1/queues/{queue}"), &serde_json::from_str(body).unwrap())
    };
    put("q", r#"{"retries": 3}"#).assert_problem(400, "bad_request");
    assert!(put("q", r#"{"retries": 3}"#).body.contains("unknown field `retries`"));
    put("q", r#"{"maxRetries": -1}"#).assert_problem(400, "bad_request");
    put("q", r#"{"maxRetries": 1001}"#).assert_problem(400, "invalid_input");
    put("q", r#"{"deadLetterQueue": "q"}"#).assert_problem(400, "invalid_input");
    put("q", "3").assert_problem(400, "bad_request");
    assert_eq!(put("r", r#"{"deadLetterQueue": "q"}"#).status, 200);
    put("q", r#"{"deadLetterQueue": "r"}"#).assert_problem(400, "invalid_input");
    let none = "a".repeat(200);
    put(&none, "{}").assert_problem(400, "invalid_name");
}

#[test]
fn two_sends_with_one_key_send_once() {
    let server = Server::empty();
    let send = |body: &Value, key: &str| {
        let key = [("idempotency-key", key)];
        server.post_json("/v1/queues/q/messages", &body.to_string(), &key)
    };
    let batch = json!({ "messages": [{ "body": 1 }, { "body": null, "delayMs": 5 }] });
    let first = send(&batch, "k-1");
    assert_eq!((first.status, first.json()["ids"].as_array().unwrap().len()), (201, 2));
    let again = send(&batch, "k-1");
    assert_eq!((again.status, again.json()), (201, first.json()));
    depth_until(&server, "q", 2);
    send(&json!({ "body": 1 }), "k-1").assert_problem(409, "key_reused");
    send(&json!({ "body": 1 }), &"k".repeat(1_000)).assert_problem(400, "invalid_key");
}

#[test]
fn an_invalid_send_is_a_problem() {
    let server = Server::empty();
    let send = |body: &str| server.post_json("/v1/queues/q/messages", body, &[]);
    for body in [
        "",
        "3",
        "{}",
        "{\"body\": }",
        r#"{"delayMs": 1}"#,
        r#"{"body": 1, "messages": []}"#,
        r#"{"messages": [{}]}"#,
        r#"{"messages": [{"body": 1, "delay": 5}]}"#,
        r#"{"body": 1, "delay": 5}"#,
        r#"{"body": 1, "delayMs": -5}"#,
    ] {
        send(body).assert_problem(400, "bad_request");
    }
    send(r#"{"messages": []}"#).assert_problem(400, "invalid_input");
    let many = vec![json!({ "body": 1 }); 1_001];
    send(&json!({ "messages": many }).to_string()).assert_problem(400, "invalid_input");
    send(r#"{"body": 1, "delayMs": 99999999999999}"#).assert_problem(400, "invalid_input");
    let deep = format!("{{\"body\": {}{}}}", "[".repeat(500), "]".repeat(500));
    send(&deep).assert_problem(400, "invalid_input");
    server.get("/v1/queues/q").assert_problem(404, "queue_not_found");
    let foreign = [("origin", "http://example.org")];
    let foreign = server.post_json("/v1/queues/q/messages", r#"{"body": 1}"#, &foreign);
    foreign.assert_problem(403, "foreign_origin");
    assert_eq!(send(r#" {"body": {"a" : [1,2 ]}} "#).status, 201);
    let pulled = server.post("/v1/queues/q/messages/pull", &[]);
    assert!(pulled.body.contains(r#""body":{"a" : [1,2 ]}"#), "as it was written: {}", pulled.body);
}

#[test]
fn messages_are_pulled_acknowledged_and_retried() {
    let server = Server::empty();
    let ids: Vec<String> = (0..3).map(|it| send(&server, "q", &json!(it))).collect();
    let pulled = pull(&server, "q", &json!({}));
    assert_eq!((pulled["items"].as_array().unwrap().len(), &pulled["paused"]), (3, &json!(false)));
    let first = &pulled["items"][0];
    assert_eq!(
        (&first["id"], &first["body"], &first["attempts"]),
        (&json!(ids[0]), &json!(0), &json!(1))
    );
    assert!(first["enqueuedAt"].as_str().unwrap() < first["leaseUntil"].as_str().unwrap());
    let lease = |index: usize| pulled["items"][index]["leaseId"].clone();
    assert_eq!(pull(&server, "q", &json!({}))["items"], json!([]), "they are held");
    let acked = ack(
        &server,
        "q",
        &json!({
            "acks": [{ "leaseId": lease(0) }, { "leaseId": lease(0) }],
            "retries": [{ "leaseId": lease(1), "delayMs": 0 }],
        }),
    );
    assert_eq!(acked, json!({ "acked": 1, "retried": 1, "lost": [lease(0)] }));
    let again = pull(&server, "q", &json!({ "batchSize": 1, "leaseMs": 60_000 }));
    let again = &again["items"][0];
    assert_eq!((&again["id"], &again["attempts"]), (&json!(ids[1]), &json!(2)));
    let acked = ack(&server, "q", &json!({ "acks": [{ "leaseId": lease(1) }] }));
    assert_eq!(acked, json!({ "acked": 0, "retried": 0, "lost": [lease(1)] }), "it is another's");
    assert_eq!(depth_until(&server, "q", 2)["inFlight"], 2);
}

#[test]
fn an_invalid_pull_or_acknowledgement_is_a_problem() {
    let server = Server::empty();
    let call = |path: &str, body: &str| server.post_json(&format!("/v1/queues/{path}"), body, &[]);
    call("q/messages/pull", "{}").assert_problem(404, "queue_not_found");
    call("q/messages/ack", "{}").assert_problem(404, "queue_not_found");
    send(&server, "q", &json!(1));
    call("q/messages/pull", r#"{"batchSize": 0}"#).assert_problem(400, "invalid_input");
    call("q/messages/pull", r#"{"batchSize": 1001}"#).assert_problem(400, "invalid_input");
    call("q/messages/pull", r#"{"leaseMs": 0}"#).assert_problem(400, "invalid_input");
    call("q/messages/pull", r#"{"leaseMs": 86400001}"#).assert_problem(400, "invalid_input");
    call("q/messages/pull", r#"{"lease": 1}"#).assert_problem(400, "bad_request");
    call("q/messages/ack", "").assert_problem(400, "bad_request");
    call("q/messages/ack", r#"{"acks": ["x"]}"#).assert_problem(400, "bad_request");
    call("q/messages/ack", r#"{"acks": [{"leaseId": "x"}]}"#).assert_problem(400, "invalid_input");
    call("q/messages/ack", r#"{"nacks": []}"#).assert_problem(400, "bad_request");
    let other = json!({ "acks": [{ "leaseId": "1-0000000000000001" }] });
    assert_eq!(ack(&server, "q", &other)["lost"], json!(["1-0000000000000001"]));
}

#[test]
fn a_queue_is_peeked_in_pages_without_consuming() {
    let server = Server::empty();
    let ids: Vec<String> = (0..5).map(|it| send(&server, "q", &json!(it))).collect();
    pull(&server, "q", &json!({ "batchSize": 2 }));
    let peek = |query: &str| server.json(&format!("/v1/queues/q/messages{query}"));
    let listed = |page: &Value| {
        let items = page["items"].as_array().unwrap().iter();
        items.map(|it| it["id"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(listed(&peek("")), ids[2..]);
    let first = peek("?limit=2&state=pending");
    assert_eq!(listed(&first), ids[2..4]);
    let next = first["next"].as_str().unwrap();
    let second = peek(&format!("?limit=2&cursor={next}"));
    assert_eq!((listed(&second), &second["next"]), (ids[4..].to_vec(), &Value::Null));
    let held = peek("?state=in-flight&limit=1");
    assert_eq!(listed(&held), ids[..1]);
    let held = peek(&format!("?state=in-flight&cursor={}", held["next"].as_str().unwrap()));
    assert_eq!(listed(&held), ids[1..2]);
    let one = &held["items"][0];
    assert_eq!((&one["state"], &one["attempts"]), (&json!("in-flight"), &json!(1)));
    for (name, value) in
        [("attemptsBefore", json!(0)), ("from", json!(null)), ("lastError", json!(null))]
    {
        assert_eq!(one[name], value, "{name} of {one}");
    }
    assert!(one["dueAt"].is_string() && one["enqueuedAt"].is_string(), "{one}");
    assert_eq!(listed(&peek("?state=dead")), [""; 0]);
    let problem = |query: &str, code: &str| {
        server.get(&format!("/v1/queues/q/messages?{query}")).assert_problem(400, code);
    };
    problem("state=gone", "bad_request");
    problem("states=dead", "bad_request");
    problem("limit=0", "bad_request");
    problem("cursor=x", "bad_request");
    problem("cursor=7031", "bad_request");
    server.get("/v1/queues/none/messages").assert_problem(404, "queue_not_found");
}

#[test]
fn a_paused_queue_delivers_nothing_until_it_is_resumed() {
    let server = Server::empty();
    let control = |verb: &str| server.post(&format!("/v1/queues/mail/{verb}"), &[]);
    assert_eq!(ok(&control("pause"))["paused"], true);
    mail(&server, "ada@example.org");
    let pulled = pull(&server, "mail", &json!({}));
    assert_eq!(pulled, json!({ "items": [], "paused": true }));
    let server = Server::on(server.kill());
    assert_eq!(server.json("/v1/queues/mail")["ready"], 1, "it stays paused");
    let resumed = ok(&server.post("/v1/queues/mail/resume", &[]));
    assert_eq!(resumed["paused"], false);
    depth_until(&server, "mail", 0);
    assert_eq!(letters(&server, "ada@example.org").len(), 1);
    for verb in ["pause", "resume", "purge", "redrive"] {
        server.post(&format!("/v1/queues/none/{verb}"), &[]).assert_problem(404, "queue_not_found");
    }
    server.post("/v1/queues/mail/explode", &[]).assert_problem(404, "route_not_found");
}

#[test]
fn dead_letters_have_an_error_and_are_edited_or_redriven() {
    let server = Server::empty();
    let (nobody, noone) = (mail(&server, "nobody"), mail(&server, "noone"));
    depth_until(&server, "mail-dead", 2);
    let dead = server.json("/v1/queues/mail-dead/messages")["items"].clone();
    let one = &dead[0];
    assert_eq!((&one["id"], &one["from"]), (&json!(nobody), &json!("mail")));
    assert_eq!((&one["attempts"], &one["attemptsBefore"]), (&json!(0), &json!(1)));
    assert!(one["lastError"].as_str().unwrap().contains("`nobody` is no address"), "{one}");
    let edit = |id: &str, body: &str| {
        server.post_json(&format!("/v1/queues/mail-dead/messages/{id}/edit"), body, &[])
    };
    edit(&nobody, "{}").assert_problem(400, "bad_request");
    edit(&nobody, r#"{"body": 1, "at": 2}"#).assert_problem(400, "bad_request");
    edit("x", r#"{"body": 1}"#).assert_problem(400, "bad_request");
    edit("999", r#"{"body": 1}"#).assert_problem(404, "message_not_found");
    let mended = ok(&edit(&nobody, r#"{"body": {"to": "ada@example.org", "subject": "Mended"}}"#));
    assert!(mended["id"].is_string());
    depth_until(&server, "mail-dead", 1);
    depth_until(&server, "mail", 0);
    assert_eq!(letters(&server, "ada@example.org")[0]["subject"], "Mended");
    edit(&nobody, r#"{"body": 1}"#).assert_problem(404, "message_not_found");
    let redrive = |body: &Value| post(&server, "mail-dead/redrive", body);
    let dry = ok(&redrive(&json!({ "dryRun": true, "filter": { "errorContains": "no address" } })));
    assert_eq!(dry, json!({ "matched": 1, "moved": 0, "lastsMs": 0, "first": [noone] }));
    let none = ok(&redrive(&json!({ "filter": { "errorContains": "other" } })));
    assert_eq!(none["matched"], 0);
    let moved = ok(&redrive(&json!({
        "to": "elsewhere", "filter": { "ids": [noone] }, "ratePerSecond": 10,
    })));
    assert_eq!((&moved["moved"], &moved["first"]), (&json!(1), &json!([noone])));
    depth_until(&server, "elsewhere", 1);
    depth_until(&server, "mail-dead", 0);
    let call = |body: &str| server.post_json("/v1/queues/mail-dead/redrive", body, &[]);
    call(r#"{"rate": 1}"#).assert_problem(400, "bad_request");
    call(r#"{"ratePerSecond": 0}"#).assert_problem(400, "invalid_input");
    call(r#"{"filter": {"ids": ["x"]}}"#).assert_problem(400, "bad_request");
    call(r#"{"to": ""}"#).assert_problem(400, "invalid_name");
}

#[test]
fn a_queue_is_purged_by_state_by_id_or_whole() {
    let server = Server::empty();
    let ids: Vec<String> = (0..4).map(|it| send(&server, "q", &json!(it))).collect();
    let purge = |body: &str| server.post_json("/v1/queues/q/purge", body, &[]);
    purge(r#"{"state": "in-flight"}"#).assert_problem(400, "invalid_input");
    purge(r#"{"only": "dead"}"#).assert_problem(400, "bad_request");
    purge(r#"{"ids": ["x"]}"#).assert_problem(400, "bad_request");
    assert_eq!(ok(&purge(r#"{"state": "dead"}"#)), json!({ "purged": 0 }));
    let one = json!({ "ids": [ids[1]] }).to_string();
    assert_eq!(ok(&purge(&one)), json!({ "purged": 1 }));
    depth_until(&server, "q", 3);
    assert_eq!(ok(&server.post("/v1/queues/q/purge", &[])), json!({ "purged": 3 }));
    depth_until(&server, "q", 0);
}
