//! Records of the audit log, and wrong credentials, which are counted and logged.

use std::{
    io::{Read, Seek},
    path::Path,
};

use rustix::process::Signal;
use serde_json::{Value, json};

use super::{Holder, admin, closed, folder, log_in};
use crate::harness::{Server, stdout, steadfast};

#[test]
fn wrong_tokens_are_counted_and_logged_without_their_text() {
    let (folder, mut log) = (folder(), tempfile::tempfile().expect("a temporary file"));
    let mut command = steadfast();
    command.args(["--listen", "127.0.0.1:0", "--access", "closed", "--data"]).arg(folder.path());
    let own = log.try_clone().expect("a file");
    let Ok(server) = Server::greet_logging(command, folder, own.into()) else {
        panic!("it does not start")
    };
    for _ in 0..3 {
        let wrong = [("authorization", "Bearer sf_AAAAAAAAAA_hush")];
        server.get_with("/v1/queues", &wrong).assert_problem(401, "token_unknown");
    }
    server.get("/v1/queues").assert_problem(401, "token_needed");
    let metrics = Holder::admin(&server).get("/metrics").body;
    assert!(metrics.contains("\nsteadfast_credentials_refused_total 3\n"), "{metrics}");
    let mut text = String::new();
    log.rewind().and_then(|()| log.read_to_string(&mut text)).expect("it is read");
    let line = text.lines().find(|it| it.contains("token_unknown")).expect(&text);
    assert!(line.contains("127.0.0.1") && line.contains("/v1/queues"), "{line}");
    assert!(!text.contains("hush"), "{text}");
}

#[test]
fn the_audit_log_has_who_did_what_and_notices_changes() {
    let server = closed();
    let viewer = Holder::new(&server, &json!({ "role": "viewer" }));
    viewer.post("/v1/queues/mail/purge", &json!({})).assert_problem(403, "role_needed");
    assert_eq!(Holder::admin(&server).post("/v1/queues/mail/pause", &json!({})).status, 200);
    log_in(&server, "wrong", None);
    let log = Holder::admin(&server).get("/v1/audit").json();
    let items = log["items"].as_array().expect("records");
    let shown: Vec<_> = items.iter().map(|it| (&it["action"], &it["outcome"])).collect();
    let has =
        |action: &str, outcome: &str| shown.iter().any(|it| it.0 == action && it.1 == outcome);
    assert!(has("POST /v1/tokens", "201"), "{shown:?}");
    assert!(has("POST /v1/queues/{queue}/purge", "role_needed"), "{shown:?}");
    let refused = items.iter().find(|it| it["outcome"] == "role_needed").expect("a record");
    assert_eq!(refused["token"], viewer.id.as_str());
    assert!(has("POST /v1/queues/{queue}/pause", "200"), "{shown:?}");
    assert!(has("POST /login", "401"), "{shown:?}");
    // The token of the machine came first.
    let (first, rest) = items.split_last().expect("records");
    assert_eq!(first["action"], "create the admin token");
    assert!(rest.iter().all(|it| it["client"] == "127.0.0.1"), "{items:?}");
    viewer.get("/v1/audit").assert_problem(403, "role_needed");
    let tail = stdout(&server.ask(&["audit", "tail"]));
    assert!(tail.contains("role_needed") && !tail.contains(&admin(&server)), "{tail}");
    let checked = stdout(&server.ask(&["doctor"]));
    assert!(checked.contains("records follow each other"), "{checked}");
}

#[test]
fn records_have_the_name_of_the_token_and_what_was_created_and_no_secret() {
    let server = closed().logged_in();
    let ann = Holder::new(&server, &json!({ "role": "member", "name": "ann of sales" }));
    assert!(server.put_json("/v1/buckets/photos", &json!({})).status < 300);
    assert!(server.put_bytes("/v1/buckets/photos/objects/a", b"a cat", &[]).status < 300);
    let link = ann.post("/v1/buckets/photos/presign", &json!({ "key": "a" }));
    assert_eq!(link.status, 200, "{}", link.body);
    let admin = Holder::admin(&server);
    let spec = json!({ "name": "backup", "bucket": "photos", "readOnly": true });
    let key = admin.post("/v1/keys", &spec).json();
    let rotated = admin.post(&format!("/v1/tokens/{}/rotate", ann.id), &json!({})).json();
    ann.revoke();
    let log = admin.get("/v1/audit").json();
    let items = log["items"].as_array().expect("records");
    let shows = |action: &str, facts: &[&str]| {
        let record = items.iter().find(|it| it["action"] == action).expect("a record");
        let detail = record["detail"].as_str().unwrap_or_default();
        assert!(facts.iter().all(|it| detail.contains(it)), "{record}");
        record.clone()
    };
    let token = ["token", &ann.id, "role member", "name ann of sales"];
    shows("POST /v1/tokens", &token);
    shows("POST /v1/tokens/{id}/rotate", &token);
    let id = key["accessKeyId"].as_str().expect("an id");
    shows("POST /v1/keys", &[id, "reads", "bucket photos", "name backup"]);
    let minted = shows("POST /v1/buckets/{bucket}/presign", &["GET photos/a, until 20"]);
    assert_eq!((&minted["token"], &minted["name"]), (&json!(ann.id), &json!("ann of sales")));
    let (all, text) = (log.to_string(), |it: &Value| it.as_str().expect("a text").to_owned());
    let secrets = [text(&key["secretAccessKey"]), text(&rotated["token"]), ann.bearer.clone()];
    let secrets = secrets.iter().map(|it| it.trim_start_matches("Bearer "));
    assert!(secrets.clone().all(|it| !all.contains(it)) && !all.contains("X-Amz-"), "{all}");
    for (verb, name) in
        [("audit tail", "ann of sales"), ("tokens list", "ann of sales"), ("keys list", "backup")]
    {
        let shown = stdout(&server.ask(&verb.split(' ').collect::<Vec<_>>()));
        assert!(shown.contains(name), "{shown}");
    }
    let of_ann = stdout(&server.ask(&["audit", "tail", "--actor", &ann.id]));
    assert!(of_ann.contains("presign") && !of_ann.contains("POST /v1/keys"), "{of_ann}");
    let page = admin.get("/audit?actor=ann+of+sales&action=&since=&until=");
    assert!(page.body.contains("presign") && !page.body.contains("POST /v1/keys"));
    // Each line is the record before the one above.
    let lines = stdout(&server.ask(&["audit", "export"]));
    let lines: Vec<Value> = lines.lines().map(|it| it.parse().expect("JSON")).collect();
    assert_eq!(lines.last().expect("a record")["number"], 1);
    let follows = |it: &[Value]| {
        let number = |it: &Value| it["number"].as_i64().expect("a number");
        number(&it[0]) == number(&it[1]) + 1 && it[0]["previous"] == it[1]["hash"]
    };
    assert!(items.len() <= lines.len() && lines.windows(2).all(follows), "{lines:?}");
}

#[test]
fn an_older_log_that_was_put_back_is_noticed_by_its_head_in_the_data_folder() {
    let stop = |mut server: Server| {
        server.signal(Signal::TERM);
        assert_eq!(server.wait(), Some(0));
        server.into_folder()
    };
    let change = |server: &Server| {
        let paused = Holder::admin(server).post("/v1/queues/mail/pause", &json!({}));
        assert_eq!(paused.status, 200, "{}", paused.body);
    };
    let check = |server: &Server, query: &str| {
        let doctor = Holder::admin(server).get(&format!("/v1/doctor{query}")).json();
        let checks = doctor["checks"].as_array().expect("checks").iter();
        let check = checks.clone().find(|it| it["name"] == "audit log").expect("a check");
        (check["status"].as_str().unwrap_or_default().to_owned(), check["detail"].to_string())
    };
    let (server, elsewhere) = (closed(), folder());
    change(&server);
    let data = stop(server);
    // A store is its file and the log beside it.
    let copy = |from: &Path, to: &Path| {
        for name in ["steadfast.db", "steadfast.db-wal"] {
            let (from, to) = (from.join(name), to.join(name));
            if from.exists() {
                std::fs::copy(&from, &to).expect("it is copied");
            } else if to.exists() {
                std::fs::remove_file(&to).expect("it is removed");
            }
        }
    };
    copy(data.path(), elsewhere.path());
    let server = Server::on(data);
    change(&server);
    change(&server);
    assert_eq!(check(&server, "").0, "ok");
    let data = stop(server);
    copy(elsewhere.path(), data.path());
    let server = Server::on(data);
    let (status, detail) = check(&server, "");
    assert!(status == "failed" && detail.contains("audit-head"), "{status} {detail}");
    // New records do not hide it.
    for _ in 0..3 {
        change(&server);
    }
    let data = stop(server);
    let head = data.path().join("audit-head");
    let server = Server::on(data);
    assert_eq!(check(&server, "").0, "failed");
    // An operator who has restored the store says so.
    let data = stop(server);
    std::fs::remove_file(&head).expect("it is there");
    let server = Server::on(data);
    let (status, detail) = check(&server, "?deep=true");
    assert!(status == "ok" && detail.contains("all records follow"), "{status} {detail}");
    assert!(head.exists());
}
