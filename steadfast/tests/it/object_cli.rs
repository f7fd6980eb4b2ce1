//! Objects from the command line, against a server and against a folder.

use serde_json::Value;

use crate::{
    harness::{Server, assert_fails_with, run, stderr, stdout},
    object_views::increment,
};

#[test]
fn offline_and_online_print_the_same_json_of_objects() {
    let server = Server::empty();
    increment(&server, "a%2Fb", 2);
    increment(&server, "a%2Fb", 5);
    let questions: [&[&str]; 7] = [
        &["objects", "classes", "--json"],
        &["objects", "list", "counter", "--json", "--prefix", "a/"],
        &["objects", "show", "counter", "a/b", "--json"],
        &["objects", "turns", "counter", "a/b", "--json", "--limit", "1"],
        &["objects", "turns", "counter", "a/b", "--json", "--turn", "2"],
        &["objects", "sql", "counter", "a/b", "SELECT * FROM counter", "--json"],
        &["objects", "call", "counter", "a/b", "read", "--json"],
    ];
    let awake = |text: &str| text.replace("\"awake\":true", "\"awake\":false");
    let online: Vec<String> = questions.iter().map(|it| awake(&stdout(&server.ask(it)))).collect();
    assert_eq!(online[0], server.get("/v1/objects").body + "\n");
    let folder = server.stop();
    let data = folder.to_str().unwrap();
    for (question, online) in questions.iter().zip(online) {
        let output = run(&[question, &["--data", data][..]].concat());
        assert!(output.status.success(), "{}", stderr(&output));
        assert_eq!(stdout(&output), online, "{question:?}");
    }
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn every_verb_prints_plain_text() {
    let server = Server::empty();
    let ask = |args: &[&str]| server.ask(&[&["objects"], args].concat());
    let said = |args: &[&str]| {
        let output = ask(args);
        assert!(output.status.success(), "{args:?}: {}", stderr(&output));
        stdout(&output)
    };
    assert!(said(&["list", "counter"]).contains("no objects"));
    let call = ["call", "counter", "a/b", "increment", "--body", r#"{"by": 2}"#];
    let keyed = [&call[..], &["--idempotency-key", "k"]].concat();
    assert_eq!(
        (said(&keyed), said(&keyed), said(&call)),
        ("2\n".into(), "2\n".into(), "4\n".into())
    );
    let classes = said(&["classes"]);
    let counter = classes.lines().find(|it| it.starts_with("counter ")).unwrap();
    assert_eq!(counter.split_whitespace().collect::<Vec<_>>(), ["counter", "1", "yes"]);
    assert!(
        said(&["list", "counter"]).contains("a/b   2      yes"),
        "{}",
        said(&["list", "counter"])
    );
    let show = said(&["show", "counter", "a/b"]);
    for shown in
        ["address    object/counter/a/b", "turns      2, kept from", "counter", "_steadfast_key"]
    {
        assert!(show.contains(shown), "{shown} is missing in {show}");
    }
    let turns = said(&["turns", "counter", "a/b"]);
    assert!(turns.lines().nth(1).unwrap().starts_with("2 ") && turns.contains("increment"));
    let turn = said(&["turns", "counter", "a/b", "--turn", "2"]);
    assert!(turn.contains("counter  1    n=2     n=4"), "{turn}");
    let sql = ["sql", "counter", "a/b", "SELECT n, NULL AS x FROM counter WHERE n < ?"];
    let then = [&sql[..], &["--params", "[9]", "--turn", "1"]].concat();
    assert_eq!(said(&then), "n  x\n2  NULL\n");
    assert_fails_with(&ask(&sql), &["sql_failed", "`?1` is missing"]);
    assert_fails_with(&ask(&["show", "counter", "none"]), &["object_not_found"]);
    assert_eq!(said(&["delete", "counter", "a/b", "--yes"]), "deleted object counter/a/b\n");
    let output = ask(&["delete", "counter", "a/b", "--yes", "--json"]);
    assert_fails_with(&output, &["object_not_found"]);
    let problem: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(problem["code"], "object_not_found");
}

#[test]
fn an_export_never_overwrites_a_file() {
    let server = Server::empty();
    increment(&server, "a%2Fb", 2);
    increment(&server, "a%2Fb", 5);
    let folder = tempfile::tempdir().unwrap();
    let n = |file: &std::path::Path| -> i64 {
        let file = rusqlite::Connection::open(file).unwrap();
        file.query_row("SELECT n FROM counter", (), |row| row.get(0)).unwrap()
    };
    let (now, then) = (folder.path().join("now"), folder.path().join("then"));
    let export = ["objects", "export", "counter", "a/b", "--output"];
    let online = server.ask(&[&export[..], &[now.to_str().unwrap()]].concat());
    assert!(stdout(&online).contains("8192 bytes"), "{}", stderr(&online));
    let again = server.ask(&[&export[..], &[now.to_str().unwrap()]].concat());
    assert_fails_with(&again, &["exists already", "--output"]);
    let none = ["objects", "export", "counter", "c", "--output", then.to_str().unwrap()];
    assert_fails_with(&server.ask(&none), &["object_not_found"]);
    let data = server.stop();
    let offline = ["--turn", "1", "--data", data.to_str().unwrap()];
    let offline = run(&[&export[..], &[then.to_str().unwrap()], &offline].concat());
    assert!(offline.status.success(), "{}", stderr(&offline));
    assert_eq!((n(&now), n(&then)), (7, 2));
    std::fs::remove_dir_all(data).unwrap();
}

#[test]
fn objects_of_a_folder_can_be_called_and_deleted() {
    let server = Server::empty();
    increment(&server, "a", 2);
    let data = server.stop();
    let ask =
        |args: &[&str]| run(&[&["objects"], args, &["--data", data.to_str().unwrap()]].concat());
    let reply = ask(&["call", "counter", "a", "increment", "--body", r#"{"by": 1}"#]);
    assert_eq!(stdout(&reply), "3\n", "{}", stderr(&reply));
    assert!(ask(&["delete", "counter", "a", "--yes"]).status.success());
    assert_fails_with(&ask(&["delete", "counter", "a", "--yes"]), &["object_not_found"]);
    std::fs::remove_dir_all(data).unwrap();
}
