//! Drift over HTTP and in a browser, with the two environments of the demo.

use serde_json::{Value, json};

use crate::{browser::Browser, harness::Server, live::Listener};

fn demo(server: &Server) -> (String, String) {
    let at = |name: &str| format!("{}/api/demo/{name}", server.url);
    (at("staging"), at("production"))
}

fn compare(server: &Server, left: &str, right: &str, key: &str) -> Value {
    let body = json!({ "leftUrl": left, "rightUrl": right, "leftLabel": "staging" }).to_string();
    let answer = server.post_json("/api/compare", &body, &[("idempotency-key", key)]);
    assert_eq!(answer.status, 202, "{}", answer.body);
    answer.json()
}

fn completed(server: &Server, id: &str) -> Value {
    server.json_until(&format!("/api/compare/{id}"), |it| it["status"] != "running")
}

#[test]
fn the_demo_is_compared_explained_and_remembered() {
    let server = Server::empty();
    let (left, right) = demo(&server);
    let begun = compare(&server, &left, &right, "one");
    assert_eq!(compare(&server, &left, &right, "one"), begun, "the same key is the same one");
    let other = json!({ "leftUrl": right, "rightUrl": left }).to_string();
    let reused = server.post_json("/api/compare", &other, &[("idempotency-key", "one")]);
    reused.assert_problem(409, "key_reused");
    let pair = json!({ "leftUrl": format!("{left}?2"), "rightUrl": right }).to_string();
    let reused = server.post_json("/api/compare", &pair, &[("idempotency-key", "one")]);
    reused.assert_problem(409, "key_reused");
    let id = begun["comparisonId"].as_str().unwrap();
    let shown = completed(&server, id);
    assert_eq!(shown["status"], "completed", "{shown}");
    let result = &shown["result"];
    let codes: Vec<&str> = result["diff"]["findings"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["code"].as_str().unwrap())
        .collect();
    for code in
        ["AUTH_CHALLENGE_PRESENT", "CORS_HEADER_DRIFT", "CACHE_HEADER_DRIFT", "CONTENT_TYPE_DRIFT"]
    {
        assert!(codes.contains(&code), "{code} is not in {codes:?}");
    }
    assert_eq!(result["diff"]["maxSeverity"], "critical");
    assert!(!result["explanation"]["summary"].as_str().unwrap().is_empty());
    let again = compare(&server, &left, &right, "two");
    let again = completed(&server, again["comparisonId"].as_str().unwrap());
    assert_eq!(again["result"]["trend"]["comparedWith"], 1);
    let pair = begun["pairKey"].as_str().unwrap();
    let history = server.json(&format!("/api/pairs/{pair}/comparisons"));
    assert_eq!(history["items"].as_array().unwrap().len(), 2);
    assert_eq!(server.json("/api/pairs")["items"][0]["pairKey"], *pair);
    let server = Server::on(server.kill());
    assert_eq!(completed(&server, id)["result"]["diff"], result["diff"]);
}

#[test]
fn what_may_not_be_asked_is_refused_at_once() {
    let server = Server::empty();
    let (left, _) = demo(&server);
    let own = format!("{}/v1/streams", server.url);
    for (right, code) in [
        (own.as_str(), "ssrf_blocked"),
        ("http://169.254.169.254/latest/", "ssrf_blocked"),
        ("http://10.0.0.1/", "ssrf_blocked"),
        ("http://[::1]/", "ssrf_blocked"),
        ("ftp://example.com/", "invalid_url"),
        ("http://user:secret@example.com/", "invalid_url"),
        ("nonsense", "invalid_url"),
        (left.as_str(), "invalid_request"),
    ] {
        let body = json!({ "leftUrl": left, "rightUrl": right }).to_string();
        server.post_json("/api/compare", &body, &[]).assert_problem(400, code);
    }
    server.post_json("/api/compare", "{}", &[]).assert_problem(400, "invalid_request");
    let (left, right) = demo(&server);
    let body = json!({ "leftUrl": left, "rightUrl": right }).to_string();
    let empty = server.post_json("/api/compare", &body, &[("idempotency-key", "")]);
    empty.assert_problem(400, "invalid_key");
    server.get("/api/pairs?limit=many").assert_problem(400, "bad_request");
    server.get("/api/pairs?cursor=nonsense").assert_problem(400, "bad_request");
    let form = [("content-type", "application/x-www-form-urlencoded")];
    let refused = server.post_form("/drift", "leftUrl=http://10.0.0.1/&rightUrl=http://b/", &form);
    assert_eq!(refused.status, 400);
    assert!(refused.body.contains("value=\"http://10.0.0.1/\""), "{}", refused.body);
    server.get("/api/compare/none").assert_problem(404, "unknown_comparison");
    let nobody = format!("/api/pairs/{}/comparisons", "0".repeat(40));
    server.get(&nobody).assert_problem(404, "unknown_pair");
    assert_eq!(server.json("/api/pairs")["items"], json!([]));
    assert_eq!(server.json("/v1/objects/env-pair")["items"], json!([]));
}

#[test]
fn hole_2_more_comparisons_of_a_pair_than_may_run_are_refused() {
    let server = Server::with(tempfile::tempdir().unwrap(), &["--drift-networks", "127.0.0.0/8"]);
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let left = format!("http://{}/", silent.local_addr().unwrap());
    let body = json!({ "leftUrl": left, "rightUrl": format!("{left}x") }).to_string();
    for _ in 0..20 {
        assert_eq!(server.post_json("/api/compare", &body, &[]).status, 202);
    }
    let key = [("idempotency-key", "k")];
    server.post_json("/api/compare", &body, &key).assert_problem(429, "too_many_running");
    let other = json!({ "leftUrl": left, "rightUrl": format!("{left}y") }).to_string();
    assert_eq!(server.post_json("/api/compare", &other, &key).status, 202, "the key is free");
    server.post_json("/api/compare", &body, &key).assert_problem(409, "key_reused");
}

#[test]
fn pairs_are_listed_in_parts() {
    let server = Server::empty();
    let (left, right) = demo(&server);
    let mut begun = Vec::new();
    for number in 0..5 {
        let key = format!("key-{number}");
        let pair = compare(&server, &format!("{left}?{number}"), &right, &key);
        completed(&server, pair["comparisonId"].as_str().unwrap());
        begun.push(pair["pairKey"].clone());
    }
    begun.reverse();
    // The list gets the end of each comparison a moment later.
    let keys = |list: &Value| -> Vec<Value> {
        list["items"].as_array().unwrap().iter().map(|it| it["pairKey"].clone()).collect()
    };
    let is_listed =
        |it: &Value| it["items"].as_array().unwrap().iter().all(|it| !it["maxSeverity"].is_null());
    let all = server
        .json_until("/api/pairs", |it| it["items"].as_array().unwrap().len() == 5 && is_listed(it));
    assert_eq!((keys(&all), &all["next"]), (begun.clone(), &Value::Null));
    let (mut found, mut path) = (Vec::new(), "/api/pairs?limit=2".to_owned());
    loop {
        let part = server.json(&path);
        found.extend(keys(&part));
        let Some(next) = part["next"].as_str() else { break };
        path = format!("/api/pairs?limit=2&cursor={next}");
    }
    assert_eq!(found, begun);
}

#[test]
fn listeners_get_every_step_and_late_listeners_get_the_end() {
    let server = Server::empty();
    let (left, right) = demo(&server);
    let begin = |key| {
        let begun = compare(&server, &left, &right, key);
        let id = begun["comparisonId"].as_str().unwrap().to_owned();
        (Listener::at(&server, &format!("/api/compare/{id}/events"), ""), id)
    };
    let (mut early, _) = begin("one");
    let (mut late, second) = begin("two");
    let finished = json!({ "type": "finished", "comparisonId": second, "status": "completed" });
    let mut steps = Vec::new();
    loop {
        let (_, told) = early.event();
        if told == finished {
            break;
        }
        if told["comparisonId"] == *second {
            steps.push(told["step"].clone());
        }
    }
    assert_eq!(steps, ["probing", "comparing", "explaining"]);
    while late.event().1 != finished {}
    // A listener that connects after the end gets the end.
    let path = format!("/api/compare/{second}/events");
    assert_eq!(Listener::at(&server, &path, "").event().1, finished);
}

#[test]
fn the_demo_is_compared_in_a_browser() {
    let Some(browser) = Browser::start() else { return };
    let server = Server::empty();
    let window = browser.open(&format!("{}/drift", server.url));
    window.resize(1100, 1400);
    window.click(".demo button");
    window.wait_for("document.querySelector('#result')?.dataset.status === 'completed'");
    window.wait_for("0 < document.querySelectorAll('.finding').length");
    window.wait_for("0 < document.querySelectorAll('svg .bar').length");
    window.wait_for("document.querySelectorAll('.chain li').length === 2");
    window.wait_for("document.querySelector('#timing h3').textContent.startsWith('staging')");
    window.click(".finding summary");
    let file = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("drift-demo.png");
    window.screenshot(&file).expect("a picture");
    browser.assert_quiet();
}
