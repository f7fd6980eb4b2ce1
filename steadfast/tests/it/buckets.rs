//! Buckets over HTTP: settings, blobs and events.

use serde_json::{Value, json};

use crate::harness::{Answer, Server};

/// A server with one bucket.
pub(crate) fn with_bucket(bucket: &str) -> Server {
    with_bucket_and(bucket, &[])
}

/// The same, and the server has these flags.
pub(crate) fn with_bucket_and(bucket: &str, flags: &[&str]) -> Server {
    let server = Server::with(tempfile::tempdir().expect("a temporary folder"), flags);
    let made = server.put_json(&format!("/v1/buckets/{bucket}"), &json!({}));
    assert_eq!(ok(&made)["created"], true);
    server
}

/// Puts a blob, and returns its description.
#[track_caller]
pub(crate) fn put(server: &Server, path: &str, bytes: &[u8]) -> Value {
    let (bucket, key) = path.split_once('/').expect("bucket/key");
    let path = format!("/v1/buckets/{bucket}/objects/{key}");
    ok(&server.put_bytes(&path, bytes, &[("content-type", "text/plain")]))
}

#[track_caller]
pub(crate) fn ok(answer: &Answer) -> Value {
    assert_eq!(answer.status, 200, "{}", answer.body);
    answer.json()
}

fn keys(list: &Value) -> Vec<&str> {
    list["items"]
        .as_array()
        .expect("items")
        .iter()
        .map(|it| it["key"].as_str().expect("a key"))
        .collect()
}

#[test]
fn buckets_are_created_listed_configured_and_deleted_when_empty() {
    let server = Server::empty();
    for ours in ["uploads", "generations"] {
        assert_eq!(server.delete(&format!("/v1/buckets/{ours}")).status, 200);
    }
    assert_eq!(server.json("/v1/buckets"), json!({ "items": [], "next": null }));
    for name in ["c-3", "a-1", "b-2"] {
        let made = server.put_bytes(&format!("/v1/buckets/{name}"), b"", &[]);
        assert_eq!((&ok(&made)["name"], &ok(&made)["created"]), (&json!(name), &json!(true)));
    }
    let first = server.json("/v1/buckets?limit=2");
    let names = |list: &Value| -> Vec<String> {
        let items = list["items"].as_array().unwrap().iter();
        items.map(|it| it["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names(&first), ["a-1", "b-2"]);
    let next = first["next"].as_str().unwrap();
    let second = server.json(&format!("/v1/buckets?cursor={next}"));
    assert_eq!((names(&second), &second["next"]), (vec!["c-3".to_owned()], &Value::Null));
    let set = ok(&server.put_json("/v1/buckets/a-1", &json!({ "maxBlobBytes": 10 })));
    assert_eq!((&set["maxBlobBytes"], &set["created"]), (&json!(10), &json!(false)));
    let kept = ok(&server.put_bytes("/v1/buckets/a-1", b"", &[]));
    assert_eq!(kept["maxBlobBytes"], 10, "what is left out stays");
    let server = Server::on(server.kill());
    let shown = server.json("/v1/buckets/a-1");
    assert_eq!((&shown["maxBlobBytes"], &shown["rules"]), (&json!(10), &json!([])));
    let set = ok(&server.put_json("/v1/buckets/a-1", &json!({ "maxBlobBytes": null })));
    assert_eq!(set["maxBlobBytes"], Value::Null);
    put(&server, "a-1/x", b"x");
    server.delete("/v1/buckets/a-1").assert_problem(409, "conflict");
    ok(&server.delete("/v1/buckets/a-1/objects/x"));
    assert_eq!(ok(&server.delete("/v1/buckets/a-1")), json!({ "deleted": true }));
    server.delete("/v1/buckets/a-1").assert_problem(404, "bucket_not_found");
}

#[test]
fn an_invalid_bucket_is_a_problem_and_creates_nothing() {
    let server = Server::empty();
    let put = |bucket: &str, body: &str| {
        server.put_bytes(&format!("/v1/buckets/{bucket}"), body.as_bytes(), &[])
    };
    for bad in ["ab", "Abc", "a_b", "a..b", "127.0.0.1", "%2E%2E%2Fetc", "a%20b"] {
        put(bad, "").assert_problem(400, "invalid_name");
    }
    put("abc", r#"{"max": 3}"#).assert_problem(400, "bad_request");
    put("abc", "3").assert_problem(400, "bad_request");
    put("abc", r#"{"maxBlobBytes": -1}"#).assert_problem(400, "bad_request");
    put("abc", r#"{"maxBlobBytes": 0}"#).assert_problem(400, "invalid_input");
    assert_eq!(
        server.json("/v1/buckets")["items"].as_array().unwrap().len(),
        2,
        "those of our own"
    );
    for path in ["", "/objects", "/objects/x", "/rules", "/rules/r", "/lifecycle", "/events"] {
        server.get(&format!("/v1/buckets/abc{path}")).assert_problem(404, "bucket_not_found");
    }
    server
        .put_bytes("/v1/buckets/abc/objects/x", b"x", &[])
        .assert_problem(404, "bucket_not_found");
    server.delete("/v1/buckets/abc/objects/x").assert_problem(404, "bucket_not_found");
    for query in ["limit=0", "limit=1001"] {
        server.get(&format!("/v1/buckets?{query}")).assert_problem(400, "bad_request");
    }
    for cursor in ["x", "7031", "6e41"] {
        server.get(&format!("/v1/buckets?cursor={cursor}")).assert_problem(400, "bad_request");
    }
}

#[test]
fn a_list_has_common_prefixes_and_pages() {
    let server = with_bucket("files");
    for key in ["a.txt", "in/1", "in/2", "in/deep/3", "out/1", "z"] {
        put(&server, &format!("files/{key}"), key.as_bytes());
    }
    let list = |query: &str| server.json(&format!("/v1/buckets/files/objects{query}"));
    assert_eq!(keys(&list("")), ["a.txt", "in/1", "in/2", "in/deep/3", "out/1", "z"]);
    let top = list("?delimiter=/");
    assert_eq!((keys(&top), &top["prefixes"]), (vec!["a.txt", "z"], &json!(["in/", "out/"])));
    let inside = list("?delimiter=%2F&prefix=in/");
    assert_eq!(keys(&inside), ["in/1", "in/2"]);
    assert_eq!(inside["prefixes"], json!(["in/deep/"]));
    let (mut seen, mut query) = (Vec::new(), "?limit=1&delimiter=/".to_owned());
    loop {
        let page = list(&query);
        seen.extend(keys(&page).into_iter().map(str::to_owned));
        seen.extend(page["prefixes"].as_array().unwrap().iter().map(|it| {
            let text = it.as_str().unwrap();
            text.to_owned()
        }));
        let Some(next) = page["next"].as_str() else { break };
        query = format!("?limit=1&delimiter=/&cursor={next}");
    }
    assert_eq!(seen, ["a.txt", "in/", "out/", "z"]);
    let one = list("?prefix=a")["items"][0].clone();
    assert_eq!(
        (&one["size"], &one["contentType"], &one["sequence"], &one["metadata"]),
        (&json!(5), &json!("text/plain"), &json!(1), &json!({}))
    );
    assert!(one["etag"].is_string() && one["modifiedAt"].is_string() && one["version"].is_string());
    let problem = |query: &str, code: &str| {
        server.get(&format!("/v1/buckets/files/objects?{query}")).assert_problem(400, code);
    };
    problem("limit=x", "bad_request");
    problem("cursor=x", "bad_request");
    problem("suffix=x", "bad_request");
}

#[test]
fn a_put_and_a_deletion_are_events_in_a_queue_that_can_be_pulled() {
    let server = with_bucket("photos");
    let rule = json!({
        "events": ["object-create", "object-delete"], "prefix": "in/", "queue": "thumbnails",
    });
    ok(&server.put_json("/v1/buckets/photos/rules/thumbs", &rule));
    put(&server, "photos/out/b.png", b"no rule");
    let blob = put(&server, "photos/in/a.png", b"bytes");
    let gone = ok(&server.delete("/v1/buckets/photos/objects/in/a.png"));
    assert_eq!(gone, json!({ "key": "in/a.png", "sequence": 2 }));
    let server = Server::on(server.kill());
    let pulled = server.post_json("/v1/queues/thumbnails/messages/pull", "{}", &[]).json();
    let items = pulled["items"].as_array().unwrap();
    assert_eq!(items.len(), 2, "{pulled}");
    let event = &items[0]["body"];
    for (name, value) in [
        ("action", json!("PutObject")),
        ("bucket", json!("photos")),
        ("object", json!({ "key": "in/a.png", "size": 5, "eTag": blob["etag"] })),
        ("version", blob["version"].clone()),
        ("sequence", json!(1)),
        ("metadata", json!({})),
    ] {
        assert_eq!(event[name], value, "{name} of {event}");
    }
    assert_eq!(
        (&items[1]["body"]["action"], &items[1]["body"]["sequence"]),
        (&json!("DeleteObject"), &json!(2))
    );
    let lease = &items[0]["leaseId"];
    let acked = json!({ "acks": [{ "leaseId": lease }] }).to_string();
    ok(&server.post_json("/v1/queues/thumbnails/messages/ack", &acked, &[]));
    let events = server.json("/v1/buckets/photos/events");
    let event_fields: Vec<[&Value; 4]> =
        events["items"].as_array().unwrap().iter().map(event_fields).collect();
    let (first, second) = (&items[0]["id"], &items[1]["id"]);
    assert_eq!(
        event_fields,
        [
            [&json!("DeleteObject"), &json!("thumbnails"), &json!("in flight"), second],
            [&json!("PutObject"), &json!("thumbnails"), &json!("done"), first],
        ]
    );
    assert_eq!(events["items"][0]["attempts"], 1);
    let newest = server.json("/v1/buckets/photos/events?limit=1");
    let next = newest["next"].as_str().unwrap();
    let older = server.json(&format!("/v1/buckets/photos/events?cursor={next}"));
    assert_eq!((event_keys(&older), &older["next"]), (vec!["PutObject"], &Value::Null));
    server.get("/v1/buckets/photos/events?cursor=6e41").assert_problem(400, "bad_request");
}

#[test]
fn a_dead_event_is_shown_with_its_queue() {
    let server = with_bucket("photos");
    let rule = json!({ "events": ["object-create"], "queue": "q" });
    ok(&server.put_json("/v1/buckets/photos/rules/all", &rule));
    let fails_once = |settings: &Value| {
        ok(&server.put_json("/v1/queues/q", settings));
        put(&server, "photos/x", b"x");
        let pulled = server.post_json("/v1/queues/q/messages/pull", "{}", &[]).json();
        let retry = json!({ "retries": [{ "leaseId": pulled["items"][0]["leaseId"] }] });
        ok(&server.post_json("/v1/queues/q/messages/ack", &retry.to_string(), &[]));
        let event = server.json("/v1/buckets/photos/events")["items"][0].clone();
        assert_eq!(event["lastError"], "the consumer asked for a retry", "{event}");
        (event["queue"].clone(), event["state"].clone())
    };
    let shown = fails_once(&json!({ "maxRetries": 1, "retryDelayMs": 3_600_000 }));
    assert_eq!(shown, (json!("q"), json!("pending")));
    let shown = fails_once(&json!({ "maxRetries": 0, "deadLetterQueue": "q-dead" }));
    assert_eq!(shown, (json!("q-dead"), json!("pending")));
    let page = |link: &str| {
        let page = server.get("/buckets/photos").body;
        assert!(page.contains(link), "{link} is missing in {page}");
    };
    page("href=\"/queues/q-dead?state=pending\"");
    let shown = fails_once(&json!({ "maxRetries": 0 }));
    assert_eq!(shown, (json!("q"), json!("dead")));
    page("href=\"/queues/q?state=dead\"");
}

fn event_fields(it: &Value) -> [&Value; 4] {
    [&it["event"]["action"], &it["queue"], &it["state"], &it["messageId"]]
}

fn event_keys(list: &Value) -> Vec<&str> {
    let items = list["items"].as_array().expect("items").iter();
    items.map(|it| it["event"]["action"].as_str().expect("an action")).collect()
}

#[test]
fn a_rule_is_put_shown_and_deleted_and_none_overlaps() {
    let server = with_bucket("photos");
    let path = |id: &str| format!("/v1/buckets/photos/rules/{id}");
    let put = |id: &str, rule: &Value| server.put_json(&path(id), rule);
    let all = json!({ "events": ["object-create"], "queue": "q" });
    let shown = ok(&put("all", &all));
    let whole = json!({
        "id": "all", "events": ["object-create"], "prefix": "", "suffix": "", "queue": "q",
    });
    assert_eq!(shown, whole);
    let deep = json!({ "events": ["object-create"], "prefix": "in/", "queue": "r" });
    put("deep", &deep).assert_problem(409, "conflict");
    let deletions = json!({ "events": ["object-delete"], "suffix": ".png", "queue": "r" });
    ok(&put("deletions", &deletions));
    ok(&put("all", &all));
    assert_eq!(server.json("/v1/buckets/photos/rules")["items"].as_array().unwrap().len(), 2);
    assert_eq!(server.json(&path("all")), whole);
    for (body, code) in [
        ("", "bad_request"),
        ("{}", "bad_request"),
        (r#"{"events": ["object-move"], "queue": "q"}"#, "bad_request"),
        (r#"{"events": ["object-create"], "queue": "q", "target": "q"}"#, "bad_request"),
        (r#"{"events": [], "queue": "q"}"#, "invalid_input"),
        (r#"{"events": ["object-create"], "queue": "a queue"}"#, "invalid_input"),
    ] {
        server.put_bytes(&path("new"), body.as_bytes(), &[]).assert_problem(400, code);
    }
    put("a%20b", &deletions).assert_problem(400, "invalid_input");
    assert_eq!(ok(&server.delete(&path("all"))), json!({ "deleted": true }));
    server.delete(&path("all")).assert_problem(404, "rule_not_found");
    server.get(&path("all")).assert_problem(404, "rule_not_found");
}

#[test]
fn a_lifecycle_rule_is_put_shown_and_deleted() {
    let server = with_bucket("photos");
    let path = "/v1/buckets/photos/lifecycle/old";
    let rule = json!({ "prefix": "tmp/", "deleteAfterMs": 86_400_000 });
    let shown = ok(&server.put_json(path, &rule));
    let whole = json!({
        "id": "old", "prefix": "tmp/", "deleteAfterMs": 86_400_000, "abortUploadsAfterMs": null,
    });
    assert_eq!(shown, whole);
    let server = Server::on(server.kill());
    assert_eq!(server.json(path), whole);
    assert_eq!(server.json("/v1/buckets/photos/lifecycle")["items"], json!([whole]));
    let bad = |body: &Value, code: &str| server.put_json(path, body).assert_problem(400, code);
    bad(&json!({}), "invalid_input");
    bad(&json!({ "deleteAfterMs": 5 }), "invalid_input");
    bad(&json!({ "deleteAfterMs": -5 }), "bad_request");
    bad(&json!({ "deleteAfter": 5 }), "bad_request");
    assert_eq!(ok(&server.delete(path)), json!({ "deleted": true }));
    server.delete(path).assert_problem(404, "rule_not_found");
    server.get(path).assert_problem(404, "rule_not_found");
}
