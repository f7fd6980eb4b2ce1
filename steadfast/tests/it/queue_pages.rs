//! The pages of queues, without and with a browser.

use serde_json::json;

use crate::{
    browser::Browser,
    harness::{Answer, Server},
    queues::{depth_until, letters, mail, post, send},
};

/// Presses a button of a queue's page.
fn press(server: &Server, path: &str, form: &str) -> Answer {
    let headers = [
        ("content-type", "application/x-www-form-urlencoded"),
        ("origin", server.url.as_str()),
        ("sec-fetch-site", "same-origin"),
    ];
    server.post_form(&format!("/queues/{path}"), form, &headers)
}

#[test]
fn the_queues_are_listed_with_sparklines_and_a_queue_shows_its_messages_escaped() {
    let server = Server::empty();
    send(&server, "q", &json!({ "text": "<b>&" }));
    let list = server.get("/queues").body;
    for shown in [
        "href=\"/queues/q\">q<",
        "href=\"/queues/q?state=pending\">1<",
        "<span class=\"badge quiet\">pull only<",
        "<span class=\"badge done\">consumed<",
        "<svg class=\"spark\" viewBox=\"0 0 100 24\"",
        "<svg class=\"spark calm\"",
        "<polyline points=\"0",
        "<div id=\"live\" data-busy>",
        "href=\"/queues\" aria-current=\"page\"",
    ] {
        assert!(list.contains(shown), "{shown} is missing in {list}");
    }
    let page = server.get("/queues/q").body;
    for shown in [
        "{&quot;text&quot;:&quot;&lt;b&gt;&amp;&quot;}",
        "<code>maxRetries</code><span>3<",
        "action=\"/queues/q/pause\"><button class=\"button\">",
        "action=\"/queues/q/resume\"><button class=\"button\" disabled>",
        "href=\"/queues/q?state=pending\" aria-current=\"page\">Pending 1<",
    ] {
        assert!(page.contains(shown), "{shown} is missing in {page}");
    }
    assert!(!page.contains("<b>") && !page.contains("style="), "{page}");
    assert!(!page.contains("Redrive"), "it was not given up: {page}");
    let mail = server.get("/queues/mail").body;
    assert!(mail.contains("dead letters go to <a href=\"/queues/mail-dead\">"), "{mail}");
    let opens = server.get("/queues/opens").body;
    assert!(opens.contains("no dead-letter queue"), "{opens}");
    assert!(mail.contains("No message is pending"), "{mail}");
    assert_eq!(server.get("/queues/none").status, 404);
    assert_eq!(server.get("/queues/q?state=odd").status, 400);
    assert!(server.get("/").body.contains("href=\"/queues\""));
}

#[test]
fn a_queue_is_read_page_by_page() {
    let server = Server::empty();
    let all: Vec<_> = (0..3).map(|it| json!({ "body": it })).collect();
    post(&server, "q/messages", &json!({ "messages": all }));
    let first = server.get("/queues/q?limit=2").body.replace("&amp;", "&");
    assert!(first.contains("<div id=\"live\" data-busy>"), "{first}");
    let next = first.split("href=\"/queues/q?state=pending&limit=2&cursor=").nth(1).unwrap();
    let next = next.split('"').next().unwrap();
    let second = server.get(&format!("/queues/q?state=pending&cursor={next}")).body;
    assert_eq!(second.matches("data-label=\"Body\"").count(), 1, "{second}");
    assert!(second.contains("<div id=\"live\">"), "{second}");
}

#[test]
fn the_buttons_act_and_redirect_back() {
    let server = Server::empty();
    let done = |path: &str, form: &str, location: &str| {
        let answer = press(&server, path, form);
        assert_eq!((answer.status, answer.header("location")), (303, location), "{}", answer.body);
    };
    done("mail/pause", "", "/queues/mail");
    mail(&server, "nobody");
    assert_eq!(server.json("/v1/queues/mail")["paused"], true);
    done("mail/resume", "", "/queues/mail");
    let dead = depth_until(&server, "mail-dead", 1);
    assert_eq!(dead["ready"], 1);
    let page = server.get("/queues/mail-dead").body;
    for shown in ["`nobody` is no address", "and 1 before", "Redrive all", "Send edited"] {
        assert!(page.contains(shown), "{shown} is missing in {page}");
    }
    let id = page.split("name=\"id\" value=\"").nth(1).unwrap().split('"').next().unwrap();
    let bad = press(&server, &format!("mail-dead/messages/{id}/edit"), "body=%7B");
    bad.assert_problem(400, "bad_request");
    let sly = "body=1%2C%22to%22%3A%22elsewhere%22";
    press(&server, &format!("mail-dead/messages/{id}/edit"), sly)
        .assert_problem(400, "bad_request");
    press(&server, "mail-dead/redrive", "rate=fast").assert_problem(400, "bad_request");
    press(&server, "mail-dead/redrive", "state=odd").assert_problem(400, "bad_request");
    press(&server, "mail-dead/explode", "").assert_problem(404, "route_not_found");
    let nothing = format!("state=pending&id={id}&error=other");
    done("mail-dead/redrive", &nothing, "/queues/mail-dead?state=pending");
    depth_until(&server, "mail-dead", 1);
    let one = format!("state=pending&id={id}&to=elsewhere&rate=5");
    done("mail-dead/redrive", &one, "/queues/mail-dead?state=pending");
    depth_until(&server, "elsewhere", 1);
    done("elsewhere/purge", "", "/queues/elsewhere");
    depth_until(&server, "elsewhere", 0);
    let foreign = server.post("/queues/mail/pause", &[("origin", "http://example.org")]);
    foreign.assert_problem(403, "foreign_origin");
}

#[test]
fn a_page_is_refreshed_and_keeps_typed_text() {
    let Some(browser) = Browser::start() else { return };
    let server = Server::empty();
    let window = browser.open(&format!("{}/queues", server.url));
    mail(&server, "nobody");
    let dead = "document.querySelector('a[href=\"/queues/mail-dead?state=pending\"]')";
    window.wait_for(&format!("{dead}?.textContent === '1'"));
    window.click("a[href=\"/queues/mail-dead\"]");
    window.wait_for("document.querySelector('h1').textContent === 'mail-dead'");
    let rows = |count: usize| format!("document.querySelectorAll('tbody tr').length === {count}");
    window.wait_for(&rows(1));
    window.click(".mend summary");
    window.wait_for("document.querySelector('.mend details').open");
    window.write(".mend textarea", r#"{"to": "ada@example.org", "subject": "Mended"}"#);
    mail(&server, "noone");
    depth_until(&server, "mail-dead", 2);
    // The page has refreshed, and would have replaced the text.
    let looks = "performance.getEntriesByType('resource')\
                 .filter((it) => it.initiatorType === 'fetch').length";
    let before = window.evaluate(looks).as_u64().unwrap();
    window.wait_for(&format!("{before} + 1 < {looks}"));
    let text = window.evaluate("document.querySelector('.mend textarea').value");
    assert!(text.as_str().unwrap().contains("Mended"), "{text}");
    window.click(".mend details .button");
    let reason = "document.querySelector('tbody .error').textContent.includes('noone')";
    window.wait_for(&format!("{} && {reason}", rows(1)));
    depth_until(&server, "mail", 0);
    assert_eq!(letters(&server, "ada@example.org")[0]["subject"], "Mended");
    mail(&server, "nothing");
    window.wait_for(&rows(2));
    window.resize(400, 800);
    window.wait_for("document.documentElement.scrollWidth <= 400");
    window.write("#to", "elsewhere");
    window.evaluate("document.querySelector('form.search button:not([name])').click()");
    window.wait_for("document.querySelector('.empty h2')?.textContent === 'No message is pending'");
    depth_until(&server, "elsewhere", 2);
    window.click("form[action$='/pause'] button");
    window.wait_for("document.querySelector('.lead .badge').textContent === 'paused'");
    window.click("form[action$='/resume'] button");
    window.wait_for("document.querySelector('.lead .badge').textContent === 'pull only'");
    browser.assert_quiet();
}
