//! Runs of workflows over HTTP.

use serde_json::{Value, json};

use crate::harness::{Answer, Server};

pub(crate) fn start(server: &Server, query: &str, id: &str) -> Answer {
    let body = json!({ "id": id, "input": { "orderId": id, "amount": 500 } }).to_string();
    server.post_json(&format!("/v1/workflows/order/runs{query}"), &body, &[])
}

/// Pays an order.
pub(crate) fn pay(server: &Server, id: &str) -> Answer {
    let paid = json!({ "amount": 500 }).to_string();
    server.post_json(&format!("/v1/workflows/order/runs/{id}/events/payment"), &paid, &[])
}

pub(crate) fn run_until(server: &Server, id: &str, status: &str) -> Value {
    server.json_until(&format!("/v1/workflows/order/runs/{id}"), |it| it["status"] == status)
}

/// The entry of a workflow in the list.
pub(crate) fn workflow(server: &Server, name: &str) -> Value {
    let all = server.json("/v1/workflows");
    let items = all["items"].as_array().expect("a list");
    let found = items.iter().find(|it| it["name"] == name);
    found.unwrap_or_else(|| panic!("{name} is missing in {all}")).clone()
}

#[test]
fn an_order_waits_for_its_payment_and_is_shipped() {
    let server = Server::empty();
    for name in ["invoice", "order", "reminder"] {
        let (day, it) = (24 * 60 * 60, workflow(&server, name));
        let limits = json!({ "concurrency": 256, "keepComplete": 30 * day,
            "keepErrored": 90 * day, "keepTerminated": 30 * day });
        assert_eq!((&it["runs"], &it["limits"]), (&json!({}), &limits));
    }
    let started = start(&server, "", "o-1");
    assert_eq!((started.status, &started.json()["created"]), (201, &json!(true)));
    run_until(&server, "o-1", "waiting");
    let again = start(&server, "", "o-1");
    assert_eq!((again.status, &again.json()["created"]), (200, &json!(false)));
    let paid = pay(&server, "o-1");
    assert_eq!(paid.status, 200, "{}", paid.body);
    let ended = server.json("/v1/workflows/order/runs/o-1?wait=30");
    assert_eq!(ended["status"], "complete");
    let output = json!({ "orderId": "o-1", "outcome": "shipped", "tracking": "T-o-1" });
    assert_eq!(ended["output"], output);
    let late = server.post_json("/v1/workflows/order/runs/o-1/events/payment", "{}", &[]);
    late.assert_problem(409, "wrong_status");
}

#[test]
fn a_run_survives_a_kill_while_it_waits() {
    let server = Server::empty();
    assert_eq!(start(&server, "", "o-1").status, 201);
    run_until(&server, "o-1", "waiting");
    let server = Server::on(server.kill());
    assert_eq!(run_until(&server, "o-1", "waiting")["steps"][0]["name"], "reserve");
    pay(&server, "o-1");
    let ended = server.json("/v1/workflows/order/runs/o-1?wait=30");
    assert_eq!(ended["output"]["outcome"], "shipped");
    let reserved = server.post("/v1/objects/inventory/main/calls/reserved", &[]);
    assert_eq!(reserved.json(), json!(["o-1"]), "it was reserved once");
}

#[test]
fn a_run_is_paused_resumed_terminated_and_restarted() {
    let server = Server::empty();
    start(&server, "", "o-1");
    run_until(&server, "o-1", "waiting");
    let control = |verb: &str| server.post(&format!("/v1/workflows/order/runs/o-1/{verb}"), &[]);
    assert_eq!(control("pause").json()["status"], "paused");
    assert_eq!(control("resume").status, 200);
    control("restart").assert_problem(409, "wrong_status");
    assert_eq!(control("terminate").json()["status"], "terminated");
    for verb in ["pause", "resume", "terminate"] {
        control(verb).assert_problem(409, "wrong_status");
    }
    control("explode").assert_problem(404, "route_not_found");
    assert_eq!(control("restart").status, 200);
}

#[test]
fn a_run_that_has_ended_is_deleted_and_its_id_is_free() {
    let server = Server::empty();
    let delete = || server.delete("/v1/workflows/order/runs/o-1");
    delete().assert_problem(404, "run_not_found");
    start(&server, "", "o-1");
    run_until(&server, "o-1", "waiting");
    delete().assert_problem(409, "wrong_status");
    pay(&server, "o-1");
    run_until(&server, "o-1", "complete");
    let gone = delete();
    assert_eq!((gone.status, gone.body.as_str()), (204, ""));
    delete().assert_problem(404, "run_not_found");
    server.get("/v1/workflows/order/runs/o-1").assert_problem(404, "run_not_found");
    assert_eq!(workflow(&server, "order")["runs"], json!({}));
    assert_eq!(start(&server, "", "o-1").status, 201, "as if it had never been");
    run_until(&server, "o-1", "waiting");
    server.post("/v1/workflows/order/runs/o-1/terminate", &[]);
    assert_eq!(delete().status, 204);
}

#[test]
fn an_impossible_request_for_a_run_is_a_problem() {
    let server = Server::empty();
    let post = |path: &str, body: &str| server.post_json(path, body, &[]);
    post("/v1/workflows/none/runs", "{}").assert_problem(404, "workflow_not_found");
    post("/v1/workflows/order/runs", "3").assert_problem(400, "bad_request");
    post("/v1/workflows/order/runs", r#"{"id":"a b"}"#).assert_problem(400, "invalid_name");
    post("/v1/workflows/order/runs?wait=61", "{}").assert_problem(400, "bad_request");
    server.get("/v1/workflows/order/runs/none").assert_problem(404, "run_not_found");
    let made_up = post("/v1/workflows/order/runs?wait=30", r#"{"input": {}}"#).json();
    assert_eq!(
        (&made_up["status"], made_up["id"].as_str().unwrap().len()),
        (&json!("errored"), 32)
    );
    assert_eq!(made_up["error"]["code"], "malformed_input");
}

#[test]
fn a_run_shows_its_steps_and_what_it_is_blocked_on() {
    let server = Server::empty();
    start(&server, "", "o-1");
    let run = run_until(&server, "o-1", "waiting");
    assert_eq!((&run["id"], &run["workflow"]), (&json!("o-1"), &json!("order")));
    assert_eq!(run["input"], json!({ "orderId": "o-1", "amount": 500 }));
    let steps = run["steps"].as_array().unwrap();
    let seen = |it: &Value| {
        let word = |name: &str| it[name].as_str().unwrap_or_default().to_owned();
        (word("kind"), word("name"), word("branch"), word("status"))
    };
    let expected = [
        ("call", "reserve", "", "done"),
        ("event", "payment", "select#1.0", "waiting"),
        ("sleep", "payment", "select#1.1", "waiting"),
    ];
    let expected = expected.map(|(a, b, c, d)| (a.into(), b.into(), c.into(), d.into()));
    assert_eq!(steps.iter().map(seen).collect::<Vec<_>>(), expected);
    assert_eq!(steps[0]["attempts"][0]["number"], 1);
    let why = run["waiting"][0]["why"].as_str().unwrap();
    assert!(why.contains("POST /v1/workflows/order/runs/o-1/events/payment"), "{why}");
    assert_eq!(run["progress"]["step"], "payment");
    let paused = server.post("/v1/workflows/order/runs/o-1/pause", &[]).json();
    assert!(paused["waiting"][0]["why"].as_str().unwrap().contains("resume it"), "{paused}");
    server.post_json("/v1/workflows/order/runs/o-1/events/note", "7", &[]);
    let run = server.json("/v1/workflows/order/runs/o-1");
    assert_eq!(
        (&run["events"][0]["name"], &run["events"][0]["payload"]),
        (&json!("note"), &json!(7))
    );
}

#[test]
fn runs_are_listed_newest_first_in_pages() {
    let server = Server::empty();
    for id in ["a-1", "a-2", "b-1"] {
        start(&server, "", id);
        run_until(&server, id, "waiting");
    }
    pay(&server, "a-2");
    run_until(&server, "a-2", "complete");
    let list = |query: &str| server.json(&format!("/v1/workflows/order/runs{query}"));
    let ids = |list: &Value| {
        let items = list["items"].as_array().unwrap().iter();
        items.map(|it| it["id"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let mut all = ids(&list(""));
    all.sort();
    assert_eq!(all, ["a-1", "a-2", "b-1"]);
    let first = list("?limit=2");
    assert_eq!(ids(&first).len(), 2);
    let next = list(&format!("?limit=2&cursor={}", first["next"].as_str().unwrap()));
    assert_eq!((ids(&next).len(), &next["next"]), (1, &Value::Null));
    assert_eq!([ids(&first), ids(&next)].concat(), ids(&list("")), "in one order");
    let created = |list: &Value| list["items"][0]["createdAt"].as_str().unwrap().to_owned();
    assert!(created(&next) <= created(&first), "newest first");
    assert_eq!(ids(&list("?status=complete")), ["a-2"]);
    assert_eq!(ids(&list("?status=waiting&prefix=a")), ["a-1"]);
    assert_eq!(ids(&list("?since=2100-01-01")), [""; 0]);
    assert_eq!(ids(&list("?until=2100-01-01T00:00&since=")).len(), 3);
    assert_eq!(workflow(&server, "order")["runs"], json!({ "complete": 1, "waiting": 2 }));
    let problem = |query: &str, code: &str| {
        server.get(&format!("/v1/workflows/order/runs?{query}")).assert_problem(400, code);
    };
    problem("status=done", "bad_request");
    problem("since=yesterday", "bad_request");
    problem("stat=complete", "bad_request");
    problem("cursor=x", "bad_request");
    problem("limit=1001", "bad_request");
    server.get("/v1/workflows/none/runs").assert_problem(404, "workflow_not_found");
}

#[test]
fn an_invalid_key_and_an_unknown_query_are_refused() {
    let server = Server::empty();
    start(&server, "", "o-1");
    let event = "/v1/workflows/order/runs/o-1/events/payment";
    for bad in ["", "a b", "a\tb", " "] {
        server.post(event, &[("idempotency-key", bad)]).assert_problem(400, "invalid_key");
    }
    let runs = "/v1/workflows/order/runs";
    server.post(&format!("{runs}?waits=1"), &[]).assert_problem(400, "bad_request");
    server.post(&format!("{runs}?wait=x"), &[]).assert_problem(400, "bad_request");
    let found = server.post_json(&format!("{runs}?wait=%30"), r#"{"id": "o-1"}"#, &[]);
    assert_eq!(found.status, 200, "{}", found.body);
}

#[test]
fn a_start_that_waits_returns_the_end() {
    let server = Server::empty();
    let body = json!({ "id": "r-1", "input": 3 }).to_string();
    let failed = server.post_json("/v1/workflows/reminder/runs?wait=30", &body, &[]);
    let (status, failed) = (failed.status, failed.json());
    assert_eq!(
        (status, &failed["created"], &failed["status"]),
        (201, &json!(true), &json!("errored"))
    );
    assert!(failed["error"]["code"].is_string() && failed["output"].is_null(), "{failed}");
    let empty = server.post("/v1/workflows/reminder/runs", &[]);
    assert_eq!((empty.status, empty.json()["workflow"].as_str()), (201, Some("reminder")));
}

#[test]
fn the_response_to_a_start_has_the_whole_invoice() {
    let server = Server::empty();
    let body = json!({ "id": "i-1", "input": { "customer": "Ada", "amounts": [1200, 800] } });
    let post = || {
        let path = "/v1/workflows/invoice/runs?wait=10";
        let answer = server.post_json(path, &body.to_string(), &[]);
        let it = answer.json();
        let output = json!({ "number": "I-i-1", "total": 2000, "letter": "Ada owes 2000" });
        assert_eq!((&it["status"], &it["output"]), (&json!("complete"), &output), "{it}");
        (answer.status, it["created"].clone())
    };
    assert_eq!(post(), (201, json!(true)));
    assert_eq!(post(), (200, json!(false)), "the same id is the same invoice");
}
