//! The pages of workflows and their runs, without and with a browser.

use serde_json::json;

use crate::{
    browser::Browser,
    harness::{Answer, Server},
    runs::{pay, run_until, start},
};

/// Presses a button of a run's page.
fn press(server: &Server, id: &str, verb: &str, form: &str) -> Answer {
    let headers = [
        ("content-type", "application/x-www-form-urlencoded"),
        ("origin", server.url.as_str()),
        ("sec-fetch-site", "same-origin"),
    ];
    server.post_form(&format!("/workflows/order/{id}/{verb}"), form, &headers)
}

#[test]
fn a_run_shows_its_steps_and_its_waits_escaped() {
    let server = Server::empty();
    let empty = server.get("/workflows/order").body;
    assert!(empty.contains("No runs") && empty.contains("runs start order"), "{empty}");
    let body = json!({ "id": "o-1", "input": { "orderId": "<b>&", "amount": 500 } }).to_string();
    assert_eq!(server.post_json("/v1/workflows/order/runs", &body, &[]).status, 201);
    run_until(&server, "o-1", "waiting");
    server.post_json("/v1/workflows/order/runs/o-1/events/%3Ci%3E", "\"<u>\"", &[]);
    run_until(&server, "o-1", "waiting");
    let page = server.get("/workflows/order/o-1").body;
    for shown in [
        "&lt;b&gt;&amp;",
        "&lt;i&gt;",
        "&lt;u&gt;",
        "Blocked on",
        "<summary class=\"button\">Send payment…</summary>",
        "<input type=\"hidden\" name=\"type\" value=\"payment\">",
        "waits for the event <code>payment</code>; send it with POST",
        "call reserve",
        "to <a href=\"/objects/inventory/main\">object/inventory/main</a>",
        "<rect class=\"worked\" x=\"",
        "<rect class=\"waited\" x=\"",
        "Unread events",
        "<div id=\"live\" data-busy>",
        "action=\"/workflows/order/o-1/pause\"><button class=\"button\">",
        "action=\"/workflows/order/o-1/resume\"><button class=\"button\" disabled>",
        "action=\"/workflows/order/o-1/restart\"><button class=\"button\" disabled>",
        "<input id=\"type\" name=\"type\" required autocomplete=\"off\" value=\"payment\">",
    ] {
        assert!(page.contains(shown), "{shown} is missing in {page}");
    }
    for tag in ["<b>", "<i>", "<u>", "style="] {
        assert!(!page.contains(tag), "{tag} is in {page}");
    }
    let scripts = page.replace("<script src=\"/assets/live.js?v=", "");
    assert!(!scripts.contains("<script"), "{page}");
    assert!(page.find("id=\"payload\"") > page.find("Latest history"), "it would be replaced");
    assert_eq!(server.get("/workflows/order/none").status, 404);
    assert_eq!(server.get("/workflows/none").status, 404);
}

#[test]
fn the_overview_shows_stuck_runs_with_the_reason() {
    let server = Server::empty();
    start(&server, "", "o-1");
    run_until(&server, "o-1", "waiting");
    assert!(server.get("/").body.contains("No paused run"));
    press(&server, "o-1", "pause", "");
    run_until(&server, "o-1", "paused");
    let page = server.get("/").body;
    assert!(
        page.contains("href=\"/workflows/order/o-1\"") && page.contains("paused by an operator")
    );
    let page = server.get("/workflows/order/o-1").body;
    let action = "<form class=\"act\" method=\"post\" action=\"/workflows/order/o-1/resume\">";
    assert!(page.contains(action), "{page}");
}

#[test]
fn the_buttons_act_and_redirect_back() {
    let server = Server::empty();
    start(&server, "", "o-1");
    run_until(&server, "o-1", "waiting");
    let press = |verb: &str, form: &str| press(&server, "o-1", verb, form);
    for (verb, status) in [("pause", "paused"), ("resume", "waiting"), ("terminate", "terminated")]
    {
        let answer = press(verb, "");
        assert_eq!((answer.status, answer.header("location")), (303, "/workflows/order/o-1"));
        run_until(&server, "o-1", status);
    }
    assert_eq!(press("pause", "").status, 409);
    assert_eq!(press("explode", "").status, 404);
    assert_eq!(press("restart", "").status, 303);
    assert_eq!(server.json("/v1/workflows/order/runs/o-1")["restarts"], 1);
    let elsewhere = [("origin", "http://example.org")];
    let foreign = server.post("/workflows/order/o-1/restart", &elsewhere);
    foreign.assert_problem(403, "foreign_origin");
}

#[test]
fn an_ended_run_is_deleted_and_the_list_confirms_it() {
    let server = Server::empty();
    start(&server, "", "o-1");
    run_until(&server, "o-1", "waiting");
    let page = || server.get("/workflows/order/o-1").body;
    assert!(!page().contains("/o-1/delete"), "a run in progress cannot be deleted");
    assert_eq!(press(&server, "o-1", "delete", "").status, 409);
    press(&server, "o-1", "terminate", "");
    assert!(page().contains("action=\"/workflows/order/o-1/delete\""), "{}", page());
    let answer = press(&server, "o-1", "delete", "");
    let list = "/workflows/order?deleted=o-1";
    assert_eq!((answer.status, answer.header("location")), (303, list));
    let told = "Run <code>o-1</code> is deleted.";
    assert!(server.get(list).body.contains(told), "{}", server.get(list).body);
    assert_eq!(server.get("/workflows/order/o-1").status, 404);
    start(&server, "", "o-1");
    assert!(!server.get(list).body.contains(told), "it is there again");
    assert!(!server.get("/workflows/order?deleted=%3Cb%3E").body.contains("<b>"));
    assert_eq!(server.get("/workflows/order?stat=waiting").status, 400);
}

#[test]
fn the_forms_send_an_event_and_restart_from_a_step() {
    let server = Server::empty();
    start(&server, "", "o-1");
    let press = |verb: &str, form: &str| press(&server, "o-1", verb, form);
    run_until(&server, "o-1", "waiting");
    assert_eq!(press("events", "type=payment&payload=%7B").status, 400);
    assert_eq!(press("events", "payload=1").status, 400);
    assert_eq!(press("events", "type=payment&payload=%7B%22amount%22%3A+500%7D").status, 303);
    let ended = run_until(&server, "o-1", "complete");
    assert_eq!(ended["output"]["outcome"], "shipped");
    let page = server.get("/workflows/order/o-1").body;
    assert!(page.contains("Restart from here") && page.contains("<div id=\"live\">"), "{page}");
    assert!(!page.contains("id=\"payload\""), "a run that has ended takes no events");
    assert_eq!(press("restart", "from=none").status, 404);
    assert_eq!(press("restart", "from=ship").status, 303);
    assert_eq!(run_until(&server, "o-1", "complete")["restarts"], 1);
}

#[test]
fn runs_are_found_by_status_id_and_time_in_pages() {
    let server = Server::empty();
    for id in ["a-1", "a-2", "b-1"] {
        start(&server, "", id);
        run_until(&server, id, "waiting");
    }
    pay(&server, "a-1");
    run_until(&server, "a-1", "complete");
    let get = |query: &str| server.get(&format!("/workflows/order?{query}")).body;
    let link = |id: &str| format!("href=\"/workflows/order/{id}\"");
    let found = get("status=waiting&prefix=a&since=&until=2100-01-01");
    assert!(found.contains(&link("a-2")) && !found.contains(&link("a-1")), "{found}");
    assert!(!found.contains(&link("b-1")) && found.contains("<option selected>waiting"), "{found}");
    assert!(get("since=2100-01-01").contains("No run matches the filter"));
    let first = get("limit=2&prefix=%26").replace("&amp;", "&");
    assert!(first.contains("value=\"&\"") && first.contains("No run matches"), "{first}");
    let first = get("limit=2").replace("&amp;", "&");
    let next = first.split("href=\"/workflows/order?").nth(1).unwrap().split('"').next().unwrap();
    assert!(next.starts_with("limit=2&cursor="), "{next}");
    let second = get(next);
    assert_eq!(second.matches("href=\"/workflows/order/").count(), 1, "{second}");
    let all = server.get("/workflows").body;
    assert!(all.contains("href=\"/workflows/order?status=waiting\">2<"), "{all}");
    assert!(all.contains("data-label=\"concurrency\">≤ 256<"), "{all}");
    let history = server.get("/workflows/order/a-1/history?limit=2").body;
    assert!(history.contains("started") && history.contains("/history?cursor=2"), "{history}");
    assert_eq!(server.get("/workflows/order?status=odd").status, 400);
    assert!(server.get("/").body.contains("href=\"/workflows\""));
}

#[test]
fn a_page_is_refreshed_and_keeps_details_open() {
    let Some(browser) = Browser::start() else { return };
    let server = Server::empty();
    start(&server, "", "o-1");
    run_until(&server, "o-1", "waiting");
    let window = browser.open(&format!("{}/workflows/order/o-1", server.url));
    let status =
        |word: &str| format!("document.querySelector('.lead .badge').textContent === '{word}'");
    window.wait_for(&status("waiting"));
    window.click(".step summary");
    window.wait_for("document.querySelector('.step').open");
    server.post("/v1/workflows/order/runs/o-1/pause", &[]);
    window.wait_for(&status("paused"));
    assert_eq!(window.evaluate("document.querySelector('.step').open"), true);
    window.click("form[action$='/resume'] button");
    window.wait_for(&status("waiting"));
    // The action is beside the reason. Typed text stays while the page is refreshed.
    window.evaluate("document.querySelector('.act summary').click()");
    window.wait_for("document.querySelector('.act').open");
    window.evaluate("document.querySelector('.act textarea').focus()");
    window.write(".act textarea", "{\"amount\": 500}");
    window.evaluate("document.querySelector('.act .ask button').click()");
    window.wait_for(&status("complete"));
    let bars = "Array.from(document.querySelectorAll('.step .bar'), (it) => \
                it.getBoundingClientRect().width).every((it) => 200 < it)";
    window.wait_for(bars);
    window.resize(400, 800);
    window.wait_for("document.documentElement.scrollWidth <= 400");
    window.click("form[action$='/restart'] button");
    window.wait_for(&status("waiting"));
    window.click("form[action$='/terminate'] button");
    window.wait_for(&status("terminated"));
    window.wait_for("!document.querySelector('.confirm button').checkVisibility()");
    window.click(".confirm summary");
    window.wait_for("document.querySelector('.confirm button').checkVisibility()");
    window.wait_for("document.documentElement.scrollWidth <= 400");
    window.click(".confirm button");
    window.wait_for("document.querySelector('.notice.good')?.textContent.includes('o-1')");
    browser.assert_quiet();
}
