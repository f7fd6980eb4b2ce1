//! The pages of processes, and the button that revives a message.

use crate::{
    harness::Server,
    seed::{self, DEAD, ORDER},
};

const GROUP: &str = r#"{"type": "InitiateGroupCheckout", "data": {"groupCheckoutId": "<g>&1",
    "clerkId": "c", "guestStayAccountIds": ["a"], "now": 1}}"#;

#[test]
fn an_instance_shows_its_state_and_its_stream() {
    let server = Server::on(tempfile::tempdir().unwrap());
    assert!(server.get("/processes").body.contains("No instances"));
    let path = "/processes/group-checkout/%3Cg%3E%261";
    assert_eq!(server.get(path).status, 404);
    assert_eq!(server.post_json(&format!("/v1{path}/inputs"), GROUP, &[]).status, 200);
    server.json_until(&format!("/v1{path}"), |it| it["status"] == "completed");
    for page in ["/processes", "/processes/group-checkout?status=completed"] {
        let list = server.get(page).body;
        assert!(list.contains(&format!("href=\"{path}\"")) && !list.contains("<g>"), "{list}");
    }
    let open = server.get("/processes/group-checkout?status=open").body;
    assert!(open.contains("No instances"), "{open}");
    let page = server.get(path).body;
    for shown in [
        "&lt;g&gt;&amp;1",
        "Finished",
        "InitiateGroupCheckout",
        "GroupCheckoutCompleted",
        "cancelled",
        "Attempts",
        "Processed (UTC)",
        "<div id=\"live\">",
        "<script src=\"/assets/live.js?v=",
    ] {
        assert!(page.contains(shown), "{shown} is missing in {page}");
    }
    assert_eq!(server.get("/processes/nonsense").status, 404);
}

#[test]
fn a_page_is_refreshed_only_while_work_is_pending() {
    let server = Server::seeded();
    let busy = server.get(&format!("/streams/{ORDER}")).body;
    assert!(busy.contains("<div id=\"live\" data-busy>"), "{busy}");
    let still = server.get("/streams/stream/bulk/001").body;
    assert!(still.contains("<div id=\"live\">"), "{still}");
    let script = server.get("/assets/live.js");
    assert_eq!(script.header("content-type"), "text/javascript; charset=utf-8");
    assert!(script.body.lines().count() < 60);
}

#[test]
fn the_button_revives_and_redirects_to_the_stream() {
    let server = Server::seeded();
    let stream = format!("/streams/{}", seed::address(ORDER).id());
    let action = format!("/messages/{DEAD}/revive");
    for page in ["/streams/dead", &stream] {
        let page = server.get(page).body;
        let form = format!("<form method=\"post\" action=\"{action}\">");
        assert_eq!(page.matches(&form).count(), 1, "{page}");
        assert_eq!(page.matches("<form method=\"post\"").count(), 1, "{page}");
    }
    server.post(&action, &[("origin", "http://example.org")]).assert_problem(403, "foreign_origin");
    server.post(&action, &[("origin", "null")]).assert_problem(403, "foreign_origin");
    let own = [("origin", server.url.as_str()), ("sec-fetch-site", "same-origin")];
    let answer = server.post(&action, &own);
    assert_eq!((answer.status, answer.header("location")), (303, stream.as_str()));
    let state = server.json(&format!("/v1/messages/{DEAD}"))["state"].clone();
    assert!(state == "pending" || state == "in flight", "{state}");
    assert_eq!(server.post(&action, &own).status, 409);
    assert_eq!(server.post("/messages/999/revive", &own).status, 404);
}

#[test]
fn a_dead_command_of_a_process_shows_its_error_and_is_revived_there() {
    let folder = tempfile::tempdir().unwrap();
    let position = seed::fill_misled(folder.path());
    let server = Server::on(folder);
    let message = format!("/v1/messages/{position}");
    server.json_until(&message, |it| it["state"] == "dead");
    let path = "/processes/traffic-fine/r%2F1";
    let page = server.get(path).body;
    assert!(page.contains("the case of report `r-2` waits for a police report"), "{page}");
    let action = format!("/messages/{position}/revive");
    assert!(page.contains(&format!("action=\"{action}\"")), "{page}");
    let answer = server.post(&action, &[("origin", server.url.as_str())]);
    assert_eq!((answer.status, answer.header("location")), (303, path));
    let attempts = |it: &serde_json::Value| it["attemptLog"].as_array().map_or(0, Vec::len);
    server.json_until(&message, |it| it["state"] == "dead" && attempts(it) == 2);
}
