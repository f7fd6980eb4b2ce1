//! Objects over HTTP: lists, content and history.

use serde_json::{Value, json};

use crate::{harness::Server, seed};

/// A name with a meaning in HTTP, HTML, SQL, files and terminals, and its URL form.
const ODD: &str = "a/../<b>'\" %2F?#ü";
const ODD_URL: &str = "a%2F..%2F%3Cb%3E%27%22%20%252F%3F%23%C3%BC";

pub(crate) fn increment(server: &Server, name: &str, by: i64) {
    let path = format!("/v1/objects/counter/{name}/calls/increment");
    let answer = server.post_json(&path, &json!({ "by": by }).to_string(), &[]);
    assert_eq!(answer.status, 200, "{}", answer.body);
}

fn names(list: &Value) -> Vec<&str> {
    let items = list["items"].as_array().expect("a list");
    items.iter().map(|it| it["name"].as_str().expect("a name")).collect()
}

fn sql(server: &Server, name: &str, body: &Value) -> crate::harness::Answer {
    let path = format!("/v1/objects/counter/{name}/sql");
    server.post_json(&path, &body.to_string(), &[])
}

#[test]
fn classes_and_objects_are_listed_in_pages() {
    let folder = tempfile::tempdir().unwrap();
    seed::fill_parrot(folder.path());
    let server = Server::on(folder);
    for name in ["b", "a%2F1", "a%2F2", "a%2F3", "%C3%BC"] {
        increment(&server, name, 1);
    }
    let expected = json!([
        {"name": "artifact-sweep", "served": true, "objects": 0, "more": false},
        {"name": "chat", "served": true, "objects": 0, "more": false},
        {"name": "counter", "served": true, "objects": 5, "more": false},
        {"name": "env-pair", "served": true, "objects": 0, "more": false},
        {"name": "env-pairs", "served": true, "objects": 0, "more": false},
        {"name": "generation", "served": true, "objects": 0, "more": false},
        {"name": "inventory", "served": true, "objects": 0, "more": false},
        {"name": "library", "served": true, "objects": 0, "more": false},
        {"name": "mailbox", "served": true, "objects": 0, "more": false},
        {"name": "notice-board", "served": true, "objects": 0, "more": false},
        {"name": "organization", "served": true, "objects": 0, "more": false},
        {"name": "parrot", "served": false, "objects": 1, "more": false},
        {"name": "tally", "served": true, "objects": 0, "more": false}
    ]);
    assert_eq!(server.json("/v1/objects"), json!({"items": expected, "next": null}));
    let all = server.json("/v1/objects/counter");
    assert_eq!(names(&all), ["a/1", "a/2", "a/3", "b", "ü"]);
    let first = &all["items"][0];
    assert_eq!((&first["turns"], &first["awake"]), (&json!(1), &json!(true)));
    assert_eq!(first["address"], "object/counter/a/1");
    let part = server.json("/v1/objects/counter?prefix=a%2F&limit=2");
    assert_eq!(names(&part), ["a/1", "a/2"]);
    let next = part["next"].as_str().unwrap();
    let rest = server.json(&format!("/v1/objects/counter?prefix=a%2F&limit=2&cursor={next}"));
    assert_eq!((names(&rest), &rest["next"]), (vec!["a/3"], &Value::Null));
    assert_eq!(names(&server.json("/v1/objects/counter?prefix=%25")), [""; 0]);
    let wrong = format!("/v1/objects/parrot?cursor={next}");
    server.get(&wrong).assert_problem(400, "bad_request");
    server.get("/v1/objects/counter?nonsense=1").assert_problem(400, "bad_request");
    server.get("/v1/objects/nonsense").assert_problem(404, "class_not_found");
    let parrot = server.json("/v1/objects/parrot/p");
    assert_eq!((&parrot["served"], &parrot["turns"]), (&json!(false), &json!(1)));
    server.delete("/v1/objects/parrot/p").assert_problem(409, "conflict");
}

#[test]
fn an_object_with_an_unusual_name_is_shown_everywhere() {
    let server = Server::empty();
    increment(&server, ODD_URL, 2);
    increment(&server, ODD_URL, 5);
    let path = format!("/v1/objects/counter/{ODD_URL}");
    let refused = format!("{path}/calls/increment");
    server.post_json(&refused, &json!({ "by": i64::MAX }).to_string(), &[]);
    let object = server.json(&path);
    assert_eq!((&object["name"], &object["class"]), (&json!(ODD), &json!("counter")));
    assert_eq!((&object["turns"], &object["oldestTurn"]), (&json!(2), &json!(1)));
    assert_eq!((&object["bytes"], &object["damage"]), (&json!(8_192), &Value::Null));
    let table =
        json!({"name": "counter", "columns": ["n"], "rows": 1, "more": false, "system": false});
    assert_eq!(object["tables"], json!([table]));
    assert_eq!((&object["alarms"], &object["connections"]), (&json!([]), &json!([])));
    let error = &object["lastError"];
    assert_eq!((&error["code"], &error["input"]), (&json!("out_of_range"), &json!("increment")));
    let turns = server.json(&format!("{path}/turns?limit=1"));
    assert_eq!((&turns["items"][0]["turn"], &turns["items"][0]["bytes"]), (&json!(2), &json!(13)));
    let next = turns["next"].as_str().unwrap();
    let turns = server.json(&format!("{path}/turns?cursor={next}"));
    assert_eq!((&turns["items"][0]["turn"], &turns["next"]), (&json!(1), &Value::Null));
    let changes = server.json(&format!("{path}/turns/2"));
    let row = &changes["changes"][0];
    assert_eq!((&row["table"], &row["key"]), (&json!("counter"), &json!({"rowid": 1})));
    assert_eq!((&row["before"], &row["after"]), (&json!({"n": 2}), &json!({"n": 7})));
    let made = &server.json(&format!("{path}/turns/1"))["schema"][0];
    assert_eq!((&made["name"], &made["before"]), (&json!("counter"), &Value::Null));
    assert_eq!(names(&server.json("/v1/objects/counter")), [ODD]);
    assert_eq!(server.delete(&path).json(), json!({"deleted": true}));
    server.delete(&path).assert_problem(404, "object_not_found");
    assert_eq!(names(&server.json("/v1/objects/counter")), [""; 0]);
    server.get(&path).assert_problem(404, "object_not_found");
}

#[test]
fn sql_only_reads_current_and_past_states() {
    let server = Server::empty();
    increment(&server, "a", 2);
    increment(&server, "a", 5);
    let found = sql(&server, "a", &json!({"sql": "SELECT n FROM counter"})).json();
    let expected = json!({"turn": 2, "columns": ["n"], "rows": [[7]], "truncated": false});
    assert_eq!(found, expected);
    let past = json!({"sql": "SELECT n + :x AS m FROM counter", "params": {"x": 1}, "turn": 1});
    assert_eq!(sql(&server, "a", &past).json()["rows"], json!([[3]]));
    let big = sql(&server, "a", &json!({"sql": "SELECT 9007199254740993, x'0a'"}));
    assert!(big.body.contains(r#"[[9007199254740993,{"blob":"0a"}]]"#), "{}", big.body);
    for (body, status, code) in [
        (json!({"sql": "DELETE FROM counter"}), 422, "sql_failed"),
        (json!({"sql": "ATTACH '/etc/passwd' AS x"}), 422, "sql_failed"),
        (json!({"sql": "PRAGMA journal_mode = WAL"}), 422, "sql_failed"),
        (json!({"sql": "SELECT nonsense"}), 422, "sql_failed"),
        (json!({"sql": "SELECT ?"}), 422, "sql_failed"),
        (json!({"sql": "SELECT 1", "turn": 3}), 404, "turn_not_found"),
        (json!({"sql": "SELECT 1", "nonsense": 3}), 400, "bad_request"),
        (json!({"params": []}), 400, "bad_request"),
    ] {
        sql(&server, "a", &body).assert_problem(status, code);
    }
    let endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) \
         SELECT count(*) FROM n";
    sql(&server, "a", &json!({"sql": endless})).assert_problem(422, "sql_failed");
    sql(&server, "b", &json!({"sql": "SELECT 1"})).assert_problem(404, "object_not_found");
    assert_eq!(server.json("/v1/objects/counter/a")["turns"], 2);
}

#[test]
fn an_export_is_a_file_that_sqlite_opens() {
    let server = Server::empty();
    increment(&server, ODD_URL, 2);
    increment(&server, ODD_URL, 5);
    let path = format!("/v1/objects/counter/{ODD_URL}/export");
    for (query, turn, n) in [("", "", 7), ("?turn=2", "-2", 7), ("?turn=1", "-1", 2)] {
        let (bytes, headers) = server.bytes(&format!("{path}{query}"));
        assert_eq!(headers["content-type"], "application/vnd.sqlite3");
        assert_eq!(headers["content-length"], bytes.len().to_string().as_str());
        let name = format!("filename=\"counter-a_..__b_____2F___{turn}.sqlite\"");
        let disposition = headers["content-disposition"].to_str().unwrap();
        assert!(disposition.starts_with("attachment; ") && !disposition.contains('<'));
        assert!(disposition.contains(&name), "{disposition}");
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("x.sqlite");
        std::fs::write(&file, bytes).unwrap();
        let file = rusqlite::Connection::open(file).unwrap();
        let check: String = file.query_row("PRAGMA integrity_check", (), |row| row.get(0)).unwrap();
        let found: i64 = file.query_row("SELECT n FROM counter", (), |row| row.get(0)).unwrap();
        assert_eq!((&*check, found), ("ok", n));
    }
    server.get(&format!("{path}?turn=9")).assert_problem(404, "turn_not_found");
    server.get(&format!("{path}?turn=x")).assert_problem(400, "bad_request");
    server.get("/v1/objects/counter/none/export").assert_problem(404, "object_not_found");
}

#[test]
fn a_damaged_object_is_shown_as_damaged() {
    let server = Server::empty();
    increment(&server, "a", 1);
    let folder = server.kill();
    seed::damage_turn(folder.path());
    let server = Server::on(folder);
    let object = server.json("/v1/objects/counter/a");
    assert!(object["damage"].as_str().unwrap().contains("turn 1"), "{object}");
    assert_eq!(object["lastError"], Value::Null);
    server.post("/v1/objects/counter/a/calls/read", &[]).assert_problem(500, "corrupt");
    let error = server.json("/v1/objects/counter/a")["lastError"].clone();
    assert_eq!(error["code"], "corrupt", "{error}");
    server.get("/v1/objects/counter/a/export").assert_problem(500, "corrupt");
    let page = server.get("/objects/counter/a").body;
    assert!(page.contains("is damaged") && page.contains("<div id=\"live\">"), "{page}");
}
