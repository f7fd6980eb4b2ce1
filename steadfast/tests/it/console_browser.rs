//! Every screen of the console with real data, at the size of a desktop and of a phone.

use std::path::Path;

use serde_json::json;

use crate::{
    browser::{Browser, Window},
    data_pages,
    harness::Server,
    queues::{depth_until, mail, send},
    runs::{pay, run_until, start},
    seed::ORDER,
};

/// The widths in pixels, each with its height.
const SIZES: [(u32, u32); 2] = [(1280, 800), (390, 844)];

/// Runs in several states, one of them with steps in branches.
fn make_runs(server: &Server) {
    for id in ["o-1041", "o-1042", "o-1043"] {
        start(server, "", id);
        run_until(server, id, "waiting");
    }
    pay(server, "o-1042");
    run_until(server, "o-1042", "complete");
    server.post("/v1/workflows/order/runs/o-1043/pause", &[]);
    let most = json!({ "customer": "Ada", "amounts": [i64::MAX, 1] });
    let body = json!({ "id": "i-7", "input": most }).to_string();
    assert_eq!(server.post_json("/v1/workflows/invoice/runs", &body, &[]).status, 201);
    server.json_until("/v1/workflows/invoice/runs/i-7", |it| it["status"] == "errored");
    let at = |name: &str| format!("{}/api/demo/{name}", server.url);
    let pair = json!({ "leftUrl": at("staging"), "rightUrl": at("production") }).to_string();
    let begun = server.post_json("/api/compare", &pair, &[]).json();
    let id = begun["comparisonId"].as_str().expect("an id").to_owned();
    server.json_until(&format!("/api/compare/{id}"), |it| it["status"] != "running");
}

/// Queues with waiting, delayed and dead messages.
fn make_queues(server: &Server) {
    for to in ["nobody", "a name without a sign", "noone"] {
        mail(server, to);
    }
    depth_until(server, "mail-dead", 3);
    for number in 0..12 {
        send(server, "thumbnails", &json!({ "photo": format!("p-{number}.jpg"), "width": 320 }));
    }
    let later = json!({ "body": { "photo": "p-99.jpg" }, "delayMs": 3_600_000 }).to_string();
    server.post_json("/v1/queues/thumbnails/messages", &later, &[]);
    server.post_json("/v1/queues/thumbnails/messages/pull", "{}", &[]);
}

fn make_instance(server: &Server) {
    let input = json!({ "type": "InitiateGroupCheckout", "data": {
        "groupCheckoutId": "g-1", "clerkId": "c", "guestStayAccountIds": ["a", "b"], "now": 1,
    } });
    let path = "/v1/processes/group-checkout/g-1";
    assert_eq!(server.post_json(&format!("{path}/inputs"), &input.to_string(), &[]).status, 200);
    server.json_until(path, |it| it["status"] == "completed");
}

/// Whether each segment of each path is on one line.
const WHOLE: &str = "[...document.querySelectorAll('.path')].every(path => {
    const parts = document.createTreeWalker(path, NodeFilter.SHOW_TEXT);
    const range = document.createRange();
    while (parts.nextNode()) {
        range.selectNodeContents(parts.currentNode);
        if (1 < range.getClientRects().length) return false;
    }
    return true;
})";

/// Checks a screen at both sizes, with everything closed and with everything open.
fn look(browser: &Browser, window: &Window<'_>, name: &str) {
    let fits = "document.documentElement.scrollWidth <= innerWidth";
    for (width, height) in SIZES {
        window.resize(width, height);
        window.wait_for(&format!("innerWidth === {width}"));
        assert_eq!(window.evaluate(fits), true, "{name} scrolls sideways at {width} pixels");
        assert_eq!(window.evaluate(WHOLE), true, "{name} breaks a path inside a word at {width}");
        keep(window, &format!("{name}-{width}"));
        window.evaluate("document.querySelectorAll('main details').forEach(it => it.open = true)");
        assert_eq!(window.evaluate(fits), true, "{name}, all open, scrolls at {width} pixels");
        window.evaluate("document.querySelectorAll('main details').forEach(it => it.open = false)");
        browser.assert_quiet();
    }
}

/// Saves a screenshot for the documentation if a folder for it is named.
fn keep(window: &Window<'_>, name: &str) {
    if let Some(folder) = std::env::var_os("STEADFAST_TEST_PICTURES") {
        window.screenshot(&Path::new(&folder).join(format!("{name}.png"))).expect("a picture");
    }
}

#[test]
fn every_screen_fits_a_desktop_and_a_phone_without_browser_errors() {
    let Some(browser) = Browser::start() else { return };
    let server = Server::seeded();
    make_runs(&server);
    make_queues(&server);
    make_instance(&server);
    let runs = server.json("/v1/workflows/compare-environments/runs");
    let compared = runs["items"][0]["id"].as_str().expect("a run").to_owned();
    let window = browser.open(&server.url);
    let screens = [
        ("search", "/search?q=o-1".to_owned()),
        ("search-none", "/search?q=nothing-has-this-name".into()),
        ("streams", "/streams".into()),
        ("stream", format!("/streams/{ORDER}")),
        ("pending", "/streams/pending".into()),
        ("dead", "/streams/dead".into()),
        ("processes", "/processes".into()),
        ("instances", "/processes/group-checkout?status=completed".into()),
        ("instance", "/processes/group-checkout/g-1".into()),
        ("workflows", "/workflows".into()),
        ("runs", "/workflows/order".into()),
        ("run-waiting", "/workflows/order/o-1041".into()),
        ("run-paused", "/workflows/order/o-1043".into()),
        ("run-errored", "/workflows/invoice/i-7".into()),
        ("run", format!("/workflows/compare-environments/{compared}")),
        ("history", format!("/workflows/compare-environments/{compared}/history")),
        ("queues", "/queues".into()),
        ("queue", "/queues/thumbnails".into()),
        ("queue-in-flight", "/queues/thumbnails?state=in-flight".into()),
        ("dead-letters", "/queues/mail-dead".into()),
        ("sessions", "/sessions".into()),
        ("docs", "/docs".into()),
        ("docs-queues", "/docs/queues".into()),
        ("docs-uploads", "/docs/uploads".into()),
        ("docs-errors", "/docs/errors".into()),
    ];
    data_pages::fill(&server);
    let data = data_pages::SCREENS.map(|(name, path)| (name, path.to_owned()));
    for (name, path) in data.iter().chain(&screens) {
        window.go(&format!("{}{path}", server.url));
        window.wait_for("document.querySelector('main h1') !== null");
        look(&browser, &window, name);
    }
    window.go(&format!("{}/queues/mail-dead", server.url));
    window.evaluate("document.querySelector('button[name=preview]').click()");
    window.wait_for("document.querySelector('h1').textContent.startsWith('Preview')");
    look(&browser, &window, "redrive");
    // Last, so that its charts have values.
    window.go(&server.url);
    window.wait_for("document.querySelector('.chart polyline') !== null");
    look(&browser, &window, "overview");
    window.prefer("dark");
    window.go(&server.url);
    look(&browser, &window, "overview-dark");
}
