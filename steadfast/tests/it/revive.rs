//! Reviving: only dead or cancelled messages, and once per key.

use crate::{
    harness::{Server, assert_fails_with, stdout},
    seed::{CANCELLED, DEAD, DONE, PENDING},
};

fn path(position: i64) -> String {
    format!("/v1/messages/{position}/revive")
}

#[test]
fn a_dead_and_a_cancelled_message_become_pending() {
    let server = Server::seeded();
    for position in [DEAD, CANCELLED] {
        let answer = server.post(&path(position), &[]);
        assert_eq!(answer.status, 200, "{}", answer.body);
        assert_eq!(answer.json()["state"], "pending");
        assert_eq!(answer.json()["globalPosition"], position);
        // No program handles it here, so it fails at once.
        let state = server.json(&format!("/v1/messages/{position}"))["state"].clone();
        assert!(state == "pending" || state == "in flight", "{state}");
    }
}

#[test]
fn only_dead_or_cancelled_messages_are_revived() {
    let server = Server::seeded();
    for position in [1, DONE, PENDING] {
        server.post(&path(position), &[]).assert_problem(409, "wrong_status");
        server
            .post(&path(position), &[("idempotency-key", "k")])
            .assert_problem(409, "wrong_status");
    }
    server.post(&path(999), &[]).assert_problem(404, "message_not_found");
    server.post(&path(999), &[("idempotency-key", "k")]).assert_problem(404, "message_not_found");
    assert_eq!(server.json(&format!("/v1/messages/{DONE}"))["state"], "done");
}

#[test]
fn a_repeated_request_gets_the_first_answer() {
    let server = Server::seeded();
    let key = [("idempotency-key", "once")];
    let first = server.post(&path(DEAD), &key);
    assert_eq!(first.status, 200);
    let again = server.post(&path(DEAD), &key);
    assert_eq!((again.status, &again.body), (200, &first.body));
    server.post(&path(DEAD), &[]).assert_problem(409, "wrong_status");
    server.post(&path(DEAD), &[("idempotency-key", "other")]).assert_problem(409, "wrong_status");
}

#[test]
fn a_key_of_another_message_is_refused() {
    let server = Server::seeded();
    let key = [("idempotency-key", "once")];
    assert_eq!(server.post(&path(DEAD), &key).status, 200);
    server.post(&path(CANCELLED), &key).assert_problem(409, "key_reused");
    server.post(&path(DONE), &key).assert_problem(409, "key_reused");
    assert_eq!(server.json(&format!("/v1/messages/{CANCELLED}"))["state"], "cancelled");
    let long = "x".repeat(256);
    server.post(&path(CANCELLED), &[("idempotency-key", &long)]).assert_problem(400, "invalid_key");
    server.post(&path(CANCELLED), &[("idempotency-key", "")]).assert_problem(400, "invalid_key");
}

#[test]
fn the_command_line_revives_too() {
    let server = Server::seeded();
    let dead = DEAD.to_string();
    let revive = ["streams", "revive", &dead, "--idempotency-key", "k"];
    let first = server.ask(&revive);
    assert!(first.status.success());
    let told = stdout(&first);
    assert_eq!(told, "message 3 is pending again: charge of process/checkout/order-1\n");
    assert_eq!(stdout(&server.ask(&revive)), told);
    assert_fails_with(&server.ask(&["streams", "revive", &dead]), &["pending", "wrong_status"]);
    assert_fails_with(
        &server.ask(&["streams", "revive", "999"]),
        &["message 999", "message_not_found"],
    );
}
