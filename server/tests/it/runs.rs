//! Runs of workflows over HTTP.

use serde_json::{Value, json};

use crate::harness::{Answer, Server};

fn start(server: &Server, query: &str, id: &str) -> Answer {
    let body = json!({ "id": id, "input": { "orderId": id, "amount": 500 } }).to_string();
    server.post_json(&format!("/v1/workflows/order/runs{query}"), &body, &[])
}

fn run_until(server: &Server, id: &str, status: &str) -> Value {
    server.json_until(&format!("/v1/workflows/order/runs/{id}"), |it| it["status"] == status)
}

#[test]
fn an_order_waits_for_its_payment_and_is_shipped() {
    let server = Server::empty();
    let names = server.json("/v1/workflows");
    assert_eq!(names["items"], json!([{ "name": "order" }, { "name": "reminder" }]));
    let started = start(&server, "", "o-1");
    assert_eq!((started.status, &started.json()["created"]), (201, &json!(true)));
    run_until(&server, "o-1", "waiting");
    let again = start(&server, "", "o-1");
    assert_eq!((again.status, &again.json()["created"]), (200, &json!(false)));
    let paid = server.post_json(
        "/v1/workflows/order/runs/o-1/events/payment",
        &json!({ "amount": 500 }).to_string(),
        &[],
    );
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
    assert_eq!(run_until(&server, "o-1", "waiting")["steps"][0]["name"], "call `reserve`");
    let paid = json!({ "amount": 500 }).to_string();
    server.post_json("/v1/workflows/order/runs/o-1/events/payment", &paid, &[]);
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
    control("pause").assert_problem(409, "wrong_status");
    control("explode").assert_problem(404, "unknown_route");
    assert_eq!(control("restart").status, 200);
}

#[test]
fn what_is_asked_for_in_vain_is_a_problem() {
    let server = Server::empty();
    let post = |path: &str, body: &str| server.post_json(path, body, &[]);
    post("/v1/workflows/none/runs", "{}").assert_problem(404, "workflow_not_found");
    post("/v1/workflows/order/runs", "3").assert_problem(400, "bad_request");
    post("/v1/workflows/order/runs", r#"{"id":"a b"}"#).assert_problem(400, "invalid_id");
    post("/v1/workflows/order/runs?wait=61", "{}").assert_problem(400, "bad_query");
    server.get("/v1/workflows/order/runs/none").assert_problem(404, "run_not_found");
    let made_up = post("/v1/workflows/order/runs?wait=30", r#"{"input": {}}"#).json();
    assert_eq!(
        (&made_up["status"], made_up["id"].as_str().unwrap().len()),
        (&json!("errored"), 32)
    );
    assert_eq!(made_up["error"]["code"], "malformed_input");
}
