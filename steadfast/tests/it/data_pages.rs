//! The screens of objects and buckets: their cost in a large store, and their content.

use std::{ops::Range, path::Path};

use serde_json::json;
use steadfast_store::{Address, Commit, EntityKind, Store, Turn, Write};

use crate::{
    browser::Browser,
    buckets::{ok, put, with_bucket},
    harness::Server,
    object_views::increment,
    seed,
};

/// More than the rows of a page.
const FEW: usize = 60;
const MANY: usize = 5 * FEW;

/// Creates objects of one class, and one object each of many classes.
fn leave_objects(folder: &Path, numbers: Range<usize>) {
    let _alone = seed::alone();
    seed::block_on(async {
        let store = seed::open(folder);
        let mut commit = Commit::default();
        for number in numbers {
            let one = format!("{number:05}");
            for (class, name) in [("many", one.as_str()), (&format!("class-{one}"), "one")] {
                let object = Address::new(EntityKind::Object, class, name).expect("an address");
                let (input, delta) = ("x".into(), vec![1].into());
                let turn = Turn { object, cause: None, sent: 0, chk: 1, input, delta };
                commit = commit.write(Write::Turn(turn));
            }
        }
        store.commit(commit).await.expect("answered").committed().expect("committed");
        store.close().await;
    });
}

fn leave_blobs(server: &Server, numbers: Range<usize>) {
    for number in numbers {
        put(server, &format!("photos/{number:05}/a.txt"), b"x");
        put(server, &format!("photos/flat/{number:05}.txt"), b"x");
    }
}

/// The steps of SQLite for a page; the minimum of a few reads, since sweeps read too.
fn steps(server: &Server, path: &str) -> u64 {
    let so_far = || -> u64 {
        let metrics = server.get("/metrics").body;
        let line = metrics.lines().find_map(|it| it.strip_prefix("steadfast_read_steps_total "));
        line.expect("the figure").trim().parse().expect("a number")
    };
    let cost = || {
        // Reading the counter has a cost too.
        let (first, before) = (so_far(), so_far());
        assert_eq!(server.get(path).status, 200, "{path}");
        (so_far() - before).saturating_sub(before - first)
    };
    (0..5).map(|_| cost()).min().expect("some costs")
}

#[test]
fn a_page_of_objects_or_blobs_costs_no_more_in_a_store_five_times_as_large() {
    let folder = tempfile::tempdir().unwrap();
    leave_objects(folder.path(), 0..FEW);
    let server = Server::on(folder);
    ok(&server.put_json("/v1/buckets/photos", &json!({})));
    let rule = json!({ "events": ["object-create"], "queue": "thumbnails" });
    ok(&server.put_json("/v1/buckets/photos/rules/all", &rule));
    leave_blobs(&server, 0..FEW);
    increment(&server, "a", 1);
    let pages = [
        "/objects",
        "/objects?limit=10&cursor=6e636c6173732d3030303130",
        "/objects/many",
        "/objects/many?prefix=0001",
        "/objects/counter/a",
        "/objects/counter/a/turns",
        "/objects/counter/a/turns/1",
        "/objects/counter/a/tables/counter",
        "/buckets",
        "/buckets/photos",
        "/buckets/photos?prefix=flat/",
        "/buckets/photos/events",
        "/buckets/photos/blob?key=flat/00007.txt",
    ];
    let few = pages.map(|it| steps(&server, it));
    let folder = server.kill();
    leave_objects(folder.path(), FEW..MANY);
    let server = Server::on(folder);
    leave_blobs(&server, FEW..MANY);
    for (page, few) in pages.into_iter().zip(few) {
        let many = steps(&server, page);
        // Pages of rows may be fuller now.
        assert!(many <= few + few / 2 + 500, "{page}: {few} steps, then {many}");
        assert!(many < 100_000, "{page}: {many} steps");
    }
}

#[test]
fn classes_are_listed_page_by_page() {
    let folder = tempfile::tempdir().unwrap();
    leave_objects(folder.path(), 0..FEW);
    let server = Server::on(folder);
    let first = server.get("/objects").body;
    assert!(first.contains("class-00010") && !first.contains("class-00059"), "{first}");
    let next = first.split("?cursor=").nth(1).unwrap().split('"').next().unwrap();
    let second = server.get(&format!("/objects?cursor={next}")).body;
    assert!(second.contains("class-00059") && !second.contains("class-00010"), "{second}");
    assert!(second.contains("by another program") && second.contains("/objects/counter\""));
    server.get("/v1/objects?cursor=6e00").assert_problem(400, "bad_request");
}

/// Fills a server with realistic objects and blobs.
pub(crate) fn fill(server: &Server) {
    for (name, by) in [("visitors", 41), ("visitors", 1), ("orders/2026", 7), ("signups", 3)] {
        increment(server, &name.replace('/', "%2F"), by);
    }
    let path = "/v1/objects/counter/visitors/calls/increment";
    server.post_json(path, "{\"by\": 9223372036854775807}", &[]);
    for (number, text) in ["Hello", "Is the build green?", "Yes."].into_iter().enumerate() {
        let line = json!({ "key": format!("k{number}"), "who": "Ada", "text": text });
        let said = server.post_json("/v1/objects/chat/lobby/calls/say", &line.to_string(), &[]);
        ok(&said);
    }
    ok(&server.put_json("/v1/buckets/photos", &json!({ "maxBlobBytes": 10_000_000 })));
    let rule = json!({
        "events": ["object-create", "object-delete"], "queue": "thumbnails", "suffix": ".svg",
    });
    ok(&server.put_json("/v1/buckets/photos/rules/thumbnails", &rule));
    let old = json!({ "prefix": "tmp/", "deleteAfterMs": 2_592_000_000_u64 });
    ok(&server.put_json("/v1/buckets/photos/lifecycle/old", &old));
    let picture = b"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 320 180' width='320' \
        height='180'><rect width='320' height='180' fill='#e3f3f0'/><circle cx='235' cy='55' \
        r='26' fill='#f2c063'/><path d='M0 180 110 70 190 150 240 105 320 180z' fill='#0f766e'/>\
        </svg>";
    for key in ["2026/05/harbour.svg", "2026/06/mountains.svg"] {
        let path = format!("/v1/buckets/photos/objects/{key}");
        let headers = [("content-type", "image/svg+xml"), ("x-blob-meta-camera", "M-10")];
        ok(&server.put_bytes(&path, picture, &headers));
    }
    put(server, "photos/notes.txt", b"The pictures of the harbour were taken in May.\n");
    put(server, "photos/a%20very%20long%20name%20that%20does%20not%20fit%20into%20a%20line", b"x");
}

/// The screens of objects and buckets, by the names of their screenshots.
pub(crate) const SCREENS: [(&str, &str); 12] = [
    ("classes", "/objects"),
    ("objects", "/objects/counter"),
    ("object", "/objects/counter/visitors"),
    ("object-live", "/objects/chat/lobby"),
    ("rows", "/objects/chat/lobby/tables/line"),
    ("turns", "/objects/counter/visitors/turns"),
    ("turn", "/objects/counter/visitors/turns/2"),
    ("sql", "/objects/counter/visitors/sql?sql=SELECT+*+FROM+counter"),
    ("buckets", "/buckets"),
    ("bucket", "/buckets/photos"),
    ("events", "/buckets/photos/events"),
    ("blob", "/buckets/photos/blob?key=2026/06/mountains.svg"),
];

#[test]
fn a_browser_calls_a_message_with_fields_and_shows_the_changed_rows() {
    let Some(browser) = Browser::start() else { return };
    let server = Server::empty();
    increment(&server, "visitors", 41);
    let window = browser.open(&format!("{}/objects/counter/visitors", server.url));
    window.click("details[data-key=increment] summary");
    window.write("#increment-by", "1");
    window.press_enter();
    window.wait_for("document.querySelector('.notice.good + pre')?.textContent === '42'");
    window.wait_for("document.querySelector('details[open] #increment-by').value === '1'");
    window.click(".crumbs a");
    window.wait_for("document.body.textContent.includes('Turn 2, before and after')");
    let changed = "document.querySelector('tr.is .changed').textContent";
    assert_eq!(window.evaluate(changed), "42");
    window.click("details[data-key=read] summary");
    window.click("details[data-key=read] button");
    window.wait_for("document.querySelector('.notice.good + pre')?.textContent === '42'");
    browser.assert_quiet();
}

#[test]
fn an_event_names_its_rule_its_queue_and_its_state() {
    let server = with_bucket("photos");
    for (rule, prefix, queue) in [("images", "in/", "thumbnails"), ("logs", "log/", "archive")] {
        let rule_of = json!({ "events": ["object-create"], "prefix": prefix, "queue": queue });
        ok(&server.put_json(&format!("/v1/buckets/photos/rules/{rule}"), &rule_of));
    }
    put(&server, "photos/in/a.png", b"x");
    put(&server, "photos/log/b.txt", b"x");
    // The event still names a deleted rule.
    ok(&server.delete("/v1/buckets/photos/rules/images"));
    let events = server.json("/v1/buckets/photos/events");
    let sent = |number: usize| {
        let it = &events["items"][number];
        [&it["rule"], &it["queue"], &it["state"]].map(|it| it.as_str().unwrap())
    };
    assert_eq!(sent(0), ["logs", "archive", "pending"]);
    assert_eq!(sent(1), ["images", "thumbnails", "pending"]);
    let page = server.get("/buckets/photos/events").body;
    for shown in [
        "<td data-label=\"Rule\">images</td>",
        "href=\"/queues/archive?state=pending\">archive<",
        "<span class=\"badge waiting\">pending</span>",
    ] {
        assert!(page.contains(shown), "{shown} is missing in {page}");
    }
    let first = server.get("/buckets/photos/events?limit=1").body;
    assert!(first.contains("log/b.txt") && first.contains("Next page"), "{first}");
}

#[test]
fn the_form_of_a_blob_deletes_no_blob_whose_key_differs_by_a_space() {
    let server = with_bucket("photos");
    put(&server, "photos/a", b"x");
    put(&server, "photos/%20a", b"x");
    let kind = [("content-type", "application/x-www-form-urlencoded")];
    let gone = server.post_form("/buckets/photos/blob/delete", "key=+a", &kind);
    assert_eq!(gone.status, 303, "{}", gone.body);
    let left = server.json("/v1/buckets/photos/objects");
    let keys: Vec<_> = left["items"].as_array().unwrap().iter().map(|it| &it["key"]).collect();
    assert_eq!(keys, ["a"]);
}
