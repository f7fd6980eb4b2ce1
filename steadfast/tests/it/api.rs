//! The HTTP API: responses to valid and invalid requests.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::{
    harness::Server,
    seed::{self, DEAD, DONE, ODD, ORDER, PENDING, STREAMS},
};

#[test]
fn a_fresh_server_is_alive_and_ready() {
    let server = Server::on(tempfile::tempdir().unwrap());
    assert_eq!(server.json("/healthz"), json!({"status": "ok"}));
    assert_eq!(server.json("/readyz"), json!({"status": "ready"}));
    assert_eq!(server.json("/v1/streams"), json!({"items": [], "next": null}));
}

#[test]
fn metrics_count_messages_and_requests() {
    let server = Server::seeded();
    server.get("/v1/streams");
    let metrics = server.get("/metrics");
    assert!(metrics.header("content-type").starts_with("application/openmetrics-text"));
    for line in [
        // The first start of a store commits the name of its program, the account of its buckets,
        // two buckets, a rule, the session of its files, and the fingerprint of its seal key.
        "steadfast_commits_total 7",
        "steadfast_batches_total 7",
        "steadfast_work_pending 1",
        "steadfast_work_dead 1",
        "steadfast_store_ready 1",
        &format!("steadfast_position {}", STREAMS + 5),
        r#"steadfast_http_requests_total{route="/v1/streams",method="GET",status="2xx"} 1"#,
    ] {
        assert!(
            metrics.body.lines().any(|it| it == line),
            "{line} is missing in\n{}",
            metrics.body
        );
    }
    assert!(metrics.body.contains("steadfast_reads_total") && metrics.body.ends_with("# EOF\n"));
}

/// Every route.
const ROUTES: &[&str] = &[
    "/v1/overview",
    "/v1/processes",
    "/v1/processes/{name}",
    "/v1/processes/{name}/{id}",
    "/v1/processes/{name}/{id}/inputs",
    "/v1/objects",
    "/v1/objects/{class}",
    "/v1/objects/{class}/{name}",
    "/v1/objects/{class}/{name}/sql",
    "/v1/objects/{class}/{name}/turns",
    "/v1/objects/{class}/{name}/turns/{turn}",
    "/v1/objects/{class}/{name}/export",
    "/v1/objects/{class}/{name}/calls/{message}",
    "/v1/objects/{class}/{name}/connect",
    "/v1/workflows",
    "/v1/workflows/{workflow}/runs",
    "/v1/workflows/{workflow}/runs/{id}",
    "/v1/workflows/{workflow}/runs/{id}/history",
    "/v1/workflows/{workflow}/runs/{id}/live",
    "/v1/workflows/{workflow}/runs/{id}/pause",
    "/v1/workflows/{workflow}/runs/{id}/resume",
    "/v1/workflows/{workflow}/runs/{id}/retry",
    "/v1/workflows/{workflow}/runs/{id}/terminate",
    "/v1/workflows/{workflow}/runs/{id}/restart",
    "/v1/workflows/{workflow}/runs/{id}/events/{event}",
    "/v1/queues",
    "/v1/queues/{queue}",
    "/v1/queues/{queue}/messages",
    "/v1/queues/{queue}/messages/pull",
    "/v1/queues/{queue}/messages/ack",
    "/v1/queues/{queue}/messages/{id}/edit",
    "/v1/queues/{queue}/pause",
    "/v1/queues/{queue}/resume",
    "/v1/queues/{queue}/purge",
    "/v1/queues/{queue}/redrive",
    "/v1/keys",
    "/v1/keys/{id}",
    "/v1/keys/{id}/rotate",
    "/v1/buckets",
    "/v1/buckets/{bucket}",
    "/v1/buckets/{bucket}/rules",
    "/v1/buckets/{bucket}/rules/{id}",
    "/v1/buckets/{bucket}/lifecycle",
    "/v1/buckets/{bucket}/lifecycle/{id}",
    "/v1/buckets/{bucket}/cors",
    "/v1/buckets/{bucket}/cors/{id}",
    "/v1/buckets/{bucket}/objects",
    "/v1/buckets/{bucket}/objects/{key}",
    "/v1/buckets/{bucket}/events",
    "/v1/buckets/{bucket}/presign",
    "/healthz",
    "/readyz",
    "/metrics",
    "/openapi.json",
    "/api/organizations/{organization}/events",
    "/api/organizations/{organization}/uploads",
    "/api/organizations/{organization}/uploads/{name}",
    "/api/organizations/{organization}/uploads/{name}/image",
    "/api/organizations/{organization}/uploads/{name}/retry",
    "/api/organizations/{organization}/uploads/{name}/thumbnail",
    "/api/compare",
    "/api/compare/{id}",
    "/api/compare/{id}/events",
    "/api/pairs",
    "/api/pairs/{pair}/comparisons",
    "/api/demo/staging",
    "/api/demo/production",
    "/api/generations",
    "/api/generations/{id}",
    "/api/generations/{id}/cancel",
    "/api/generations/{id}/retry",
    "/api/generations/{id}/events",
    "/api/generations/{id}/tags/{tag}",
    "/api/artifacts",
    "/api/artifacts/{id}",
    "/api/artifacts/{id}/tags/{tag}",
    "/api/tags",
    "/artifacts/{id}/{file}",
    "/webhooks/{provider}/{generation}/{task}/{token}",
    "/v1/tokens",
    "/v1/tokens/{id}",
    "/v1/tokens/{id}/rotate",
    "/v1/tokens/revoke-older",
    "/v1/login-links",
    "/v1/sessions",
    "/v1/sessions/{id}",
    "/v1/whoami",
    "/v1/audit",
    "/v1/quotas",
    "/v1/quotas/{organization}",
    "/v1/doctor",
    "/v1/doctor/blobs",
    "/v1/streams",
    "/v1/streams/pending",
    "/v1/streams/dead",
    "/v1/streams/{id}",
    "/v1/messages/{message}",
    "/v1/messages/{message}/revive",
];

#[test]
fn the_description_lists_every_route() {
    let server = Server::seeded();
    let described = server.json("/openapi.json");
    let paths = described["paths"].as_object().unwrap();
    let listed: BTreeSet<&str> = paths.keys().map(String::as_str).collect();
    let routes = BTreeSet::from_iter(ROUTES.iter().copied());
    assert_eq!(listed, routes);
    let is_read = |it: &&&str| !it.contains('{') && paths[**it]["get"].is_object();
    for path in routes.iter().filter(is_read) {
        assert_eq!(server.get(path).status, 200, "{path}");
    }
    assert!(paths["/v1/messages/{message}/revive"]["post"].is_object());
    let schemas = &described["components"]["schemas"];
    assert!(schemas["Message"]["properties"]["globalPosition"].is_object());
    assert_eq!(schemas["Time"]["format"], "date-time");
    let reference = schemas["RunView"]["properties"]["createdAt"]["$ref"].as_str();
    assert_eq!(reference, Some("#/components/schemas/Time"), "runs describe themselves");
}

#[test]
fn streams_are_listed_in_pages_without_gap_or_repetition() {
    let server = Server::seeded();
    let mut addresses = Vec::new();
    let mut path = "/v1/streams?limit=25".to_owned();
    loop {
        let page = server.json(&path);
        let items = page["items"].as_array().unwrap();
        addresses.extend(items.iter().map(|it| it["address"].as_str().unwrap().to_owned()));
        let Some(next) = page["next"].as_str() else { break };
        assert_eq!(items.len(), 25);
        path = format!("/v1/streams?limit=25&cursor={next}");
    }
    assert_eq!(addresses.len(), STREAMS);
    assert!(addresses.is_sorted(), "{addresses:?}");
    assert_eq!(server.json("/v1/streams")["items"].as_array().unwrap().len(), 50);
    assert_eq!(server.json("/v1/streams?limit=1000")["next"], Value::Null);
    let exact = server.json(&format!("/v1/streams?limit={STREAMS}"));
    assert_eq!(exact["next"], Value::Null);
}

#[test]
fn a_listed_stream_has_its_address_and_counts() {
    let server = Server::seeded();
    let list = server.json("/v1/streams?limit=1");
    let stream = &list["items"][0];
    assert_eq!(stream["address"], ORDER);
    assert_eq!(stream["id"], seed::address(ORDER).id().to_string());
    assert_eq!(stream["version"], 6);
    let parts = [&stream["kind"], &stream["class"], &stream["name"]];
    assert_eq!(parts, ["process", "checkout", "order-1"]);
    for time in ["createdAt", "updatedAt"] {
        let text = stream[time].as_str().unwrap();
        assert!(text.len() == 24 && text.ends_with('Z'), "{text}");
    }
}

#[test]
fn a_stream_is_found_by_id_and_by_address_in_either_spelling() {
    let server = Server::seeded();
    let by_id = server.json(&format!("/v1/streams/{}", seed::address(ORDER).id()));
    assert_eq!(by_id["address"], ORDER);
    assert_eq!(server.json(&format!("/v1/streams/{ORDER}")), by_id);
    assert_eq!(server.json(&format!("/v1/streams/{}", ORDER.replace('/', "%2F"))), by_id);
    let odd = server.json("/v1/streams/stream/odd/%3Cb%3E%26%22x%22%2F%252F%3F%23");
    assert_eq!(odd["address"], ODD);
}

#[test]
fn a_stream_shows_its_messages_and_their_states() {
    let server = Server::seeded();
    let stream = server.json(&format!("/v1/streams/{ORDER}"));
    let items = stream["items"].as_array().unwrap();
    let column = |name: &str| items.iter().map(|it| it[name].clone()).collect::<Vec<Value>>();
    assert_eq!(column("position"), [1, 2, 3, 4, 5, 6]);
    assert_eq!(column("kind")[0..2], ["command", "command"]);
    assert_eq!(column("kind")[5], "event");
    assert_eq!(column("direction")[0..2], ["input", "output"]);
    assert_eq!(column("action")[4..], ["schedule", "publish"]);
    assert_eq!(
        column("state"),
        [
            Value::Null,
            "done".into(),
            "dead".into(),
            "cancelled".into(),
            "pending".into(),
            Value::Null
        ]
    );
    assert_eq!(
        column("processed"),
        [Value::Null, true.into(), false.into(), false.into(), false.into(), Value::Null]
    );
    assert_eq!(
        column("attempts"),
        [json!(null), json!(1), json!(2), json!(0), json!(0), json!(null)]
    );
    assert_eq!(column("cause")[1], 1);
    assert_eq!(items[2]["error"], "gave up: card declined");
    assert_eq!(items[4]["target"], "object/warehouse/main");
    assert_eq!(items[4]["ordered"], true);
    assert!(items[4]["dueAt"].is_string() && items[1]["processedAt"].is_string());
    assert_eq!(items[0]["id"], format!("{}/1", stream["id"].as_str().unwrap()));
    let raw = server.get(&format!("/v1/streams/{ORDER}")).body;
    assert!(raw.contains(r#""data":{"total": 12.50,  "lines":[1,2]}"#), "data is kept as written");
}

#[test]
fn a_stream_is_read_in_pages() {
    let server = Server::seeded();
    let first = server.json(&format!("/v1/streams/{ORDER}?limit=4"));
    let next = first["next"].as_str().unwrap();
    let second = server.json(&format!("/v1/streams/{ORDER}?limit=4&cursor={next}"));
    assert_eq!(second["items"][0]["position"], 5);
    assert_eq!((second["items"].as_array().unwrap().len(), &second["next"]), (2, &Value::Null));
}

#[test]
fn a_page_of_large_messages_ends_early_with_a_cursor() {
    let folder = tempfile::tempdir().unwrap();
    seed::fill_large(folder.path(), 10);
    let server = Server::on(folder);
    let first = server.json("/v1/streams/stream/large/1");
    let next = first["next"].as_str().unwrap();
    let count = first["items"].as_array().unwrap().len();
    assert!(count < 10, "{count} messages of a megabyte in one page");
    let second = server.json(&format!("/v1/streams/stream/large/1?cursor={next}"));
    assert_eq!(second["items"].as_array().unwrap().len(), 10 - count);
    assert_eq!(second["next"], Value::Null);
}

#[test]
fn pending_and_dead_list_their_messages() {
    let server = Server::seeded();
    let positions = |path: &str| {
        let list = server.json(path);
        let items = list["items"].as_array().unwrap().clone();
        items.iter().map(|it| it["globalPosition"].as_i64().unwrap()).collect::<Vec<i64>>()
    };
    assert_eq!(positions("/v1/streams/pending"), [PENDING]);
    assert_eq!(positions("/v1/streams/dead"), [DEAD]);
    assert_eq!(positions(&format!("/v1/streams/pending?stream={ORDER}")), [PENDING]);
    assert!(positions("/v1/streams/pending?stream=stream/bulk/001").is_empty());
    server.get("/v1/streams/pending?stream=nonsense").assert_problem(400, "bad_request");
}

#[test]
fn a_message_shows_its_failed_attempts() {
    let server = Server::seeded();
    let message = server.json(&format!("/v1/messages/{DEAD}"));
    assert_eq!((&message["type"], &message["state"]), (&json!("charge"), &json!("dead")));
    let log = message["attemptLog"].as_array().unwrap();
    assert_eq!((log[0]["number"].as_i64(), log[1]["number"].as_i64()), (Some(1), Some(2)));
    assert_eq!(log[0]["error"], "card declined");
    assert!(log[0]["startedAt"].is_string() && log[0]["endedAt"].is_string());
    let done = server.json(&format!("/v1/messages/{DONE}"));
    assert_eq!(done["attemptLog"], json!([]));
}

#[test]
fn invalid_requests_get_a_problem_with_a_code() {
    let server = Server::seeded();
    for (path, status, code) in [
        ("/v1/streams?limit=0", 400, "bad_request"),
        ("/v1/streams?limit=1001", 400, "bad_request"),
        ("/v1/streams?limit=x", 400, "bad_request"),
        ("/v1/streams/dead?limit=-1", 400, "bad_request"),
        ("/v1/streams?cursor=nonsense", 400, "bad_request"),
        ("/v1/streams?cursor=7035", 400, "bad_request"),
        ("/v1/streams?limt=5", 400, "bad_request"),
        ("/v1/streams/nonsense", 400, "bad_request"),
        ("/v1/streams/stream/bulk/none", 404, "stream_not_found"),
        ("/v1/streams/00000000000000000000000000000000", 404, "stream_not_found"),
        ("/v1/messages/99999", 404, "message_not_found"),
        ("/v1/messages/x", 400, "bad_request"),
        ("/v1/streams/%ff", 400, "bad_request"),
        ("/v1/nowhere", 404, "route_not_found"),
        ("/v1/streams/", 404, "route_not_found"),
    ] {
        server.get(path).assert_problem(status, code);
    }
    let limit = server.get("/v1/streams?limit=0").json();
    assert!(limit["detail"].as_str().unwrap().contains("`limit`"), "{limit}");
    assert_eq!(limit["instance"], "/v1/streams");
    server.post("/v1/streams", &[]).assert_problem(405, "wrong_method");
    assert_eq!(server.post("/v1/streams", &[]).header("allow"), "GET,HEAD");
}

#[test]
fn the_doctor_names_its_checks() {
    let server = Server::seeded();
    let found = server.json("/v1/doctor");
    assert_eq!(found["ok"], true);
    let checks = found["checks"].as_array().unwrap();
    let of = |name: &str| checks.iter().find(|it| it["name"] == name).unwrap();
    for name in ["store", "invariants", "wal", "journal_mode", "pending", "wake-ups"] {
        assert_eq!(of(name)["status"], "ok", "{found}");
    }
    assert_eq!(of("dead")["status"], "warning", "{found}");
    assert!(of("fsync")["detail"].as_str().unwrap().contains("ms"));
    assert!(of("disk space")["detail"].as_str().unwrap().contains("MiB"));
    assert!(!server.folder().join("steadfast.doctor").exists(), "it cleans up");
}
