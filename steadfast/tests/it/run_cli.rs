//! Runs from the command line.

use std::{
    io::{BufRead, BufReader},
    process::Stdio,
};

use serde_json::Value;

use crate::{
    harness::{
        Server, assert_fails_with, assert_usage_error, run, spawn, stderr, stdout, steadfast,
    },
    runs::{pay, run_until, start},
};

const ORDER: &str = r#"{"orderId": "o-1", "amount": 500}"#;

/// Runs a verb and returns its output.
fn output_of(server: &Server, args: &[&str]) -> String {
    let output = server.ask(&[&["runs"], args].concat());
    assert!(output.status.success(), "{args:?}: {}", stderr(&output));
    stdout(&output)
}

#[test]
fn every_verb_prints_plain_text() {
    let server = Server::empty();
    let ask = |args: &[&str]| server.ask(&[&["runs"], args].concat());
    let output_of = |args: &[&str]| output_of(&server, args);
    assert!(output_of(&["list", "order"]).contains("no runs"));
    let begin = ["start", "order", "--id", "o-1", "--input", ORDER];
    assert_eq!(output_of(&begin), "started run order/o-1; it is queued\n");
    assert!(output_of(&begin).starts_with("found run order/o-1; it is "));
    run_until(&server, "o-1", "waiting");
    let workflows = output_of(&["list"]);
    let order = workflows.lines().find(|it| it.starts_with("order ")).unwrap();
    let cells: Vec<&str> = order.split_whitespace().collect();
    assert_eq!(cells, ["order", "0", "0", "1", "0", "0", "0", "0", "256"], "{workflows}");
    assert!(workflows.lines().next().unwrap().ends_with("TERMINATED  CONCURRENCY"), "{workflows}");
    let list = output_of(&[
        "list",
        "order",
        "--status",
        "waiting",
        "--prefix",
        "o",
        "--since",
        "2020-01-01",
    ]);
    assert!(list.lines().nth(1).unwrap().starts_with("o-1  waiting  2"), "{list}");
    assert!(output_of(&["list", "order", "--until", "2020-01-01"]).contains("no runs"));
    assert_fails_with(&ask(&["list", "--status", "errored"]), &["name the workflow"]);
    let show = output_of(&["show", "order", "o-1"]);
    for shown in [
        "run      order/o-1",
        "status   waiting",
        "call reserve     -           done     |",
        "  event payment  select#1.0  waiting  |",
        ".|",
        "BLOCKED ON\nwaits for the event `payment`; send it with POST",
        "sleeps `payment` until 2",
    ] {
        assert!(show.contains(shown), "{shown} is missing in {show}");
    }
    assert_eq!(output_of(&["pause", "order", "o-1"]), "run order/o-1 is paused\n");
    assert!(output_of(&["show", "order", "o-1"]).contains("paused by an operator"));
    output_of(&["resume", "order", "o-1"]);
    assert_fails_with(&ask(&["restart", "order", "o-1"]), &["terminate or pause it first"]);
    output_of(&["send-event", "order", "o-1", "payment", "--payload", r#"{"amount": 500}"#]);
    run_until(&server, "o-1", "complete");
    assert_fails_with(&ask(&["terminate", "order", "o-1", "--yes"]), &["wrong_status"]);
    assert_fails_with(&ask(&["restart", "order", "o-1", "--from", "x"]), &["step_not_found"]);
    output_of(&["restart", "order", "o-1", "--from", "ship"]);
    let ended = run_until(&server, "o-1", "complete");
    assert_eq!(ended["restarts"], 1);
    assert_eq!(output_of(&["delete", "order", "o-1", "--yes"]), "deleted run order/o-1\n");
    assert_fails_with(&ask(&["delete", "order", "o-1", "--yes"]), &["run_not_found"]);
    output_of(&begin);
    assert_fails_with(&ask(&["delete", "order", "o-1"]), &["Delete run order/o-1?", "--yes"]);
    let early = ask(&["delete", "order", "o-1", "--yes"]);
    assert_fails_with(&early, &["terminate it first", "wrong_status"]);
    output_of(&["terminate", "order", "o-1", "--yes"]);
    assert_eq!(output_of(&["delete", "order", "o-1", "--yes", "--json"]), "");
}

#[test]
fn a_start_reads_a_file_and_waits_for_the_end() {
    let server = Server::empty();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("input.json");
    std::fs::write(&file, "3").unwrap();
    let ask = |args: &[&str]| server.ask(&[&["runs", "start", "reminder"], args].concat());
    let input = format!("@{}", file.display());
    let failed = ask(&["--input", &input, "--wait", "30"]);
    assert_eq!((failed.status.code(), stderr(&failed).as_str()), (Some(1), ""));
    assert!(stdout(&failed).contains("it is errored\n"), "{}", stdout(&failed));
    assert!(stdout(&failed).contains("(malformed_input)"), "{}", stdout(&failed));
    assert_usage_error(&ask(&["--input", "@/none"]), &["--input <JSON>", "/none cannot be read"]);
    assert_usage_error(&ask(&["--input", "{"]), &["--input <JSON>", "not JSON"]);
    assert_eq!(ask(&["--wait", "61"]).status.code(), Some(2));
}

#[test]
fn a_tail_follows_a_run_to_its_end() {
    let server = Server::empty();
    start(&server, "", "o-1");
    run_until(&server, "o-1", "waiting");
    let mut command = steadfast();
    command.args(["runs", "tail", "order", "o-1", "--server", &server.url]);
    let mut child = spawn(command.stdout(Stdio::piped()));
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.any(|it| it.contains("  done  call reserve  ")));
    pay(&server, "o-1");
    assert!(lines.any(|it| it.contains("  took  select#1.0/event payment")));
    assert!(lines.last().unwrap().contains("  completed  "));
    assert_eq!(child.wait().unwrap().code(), Some(0));
    let all = output_of(&server, &["tail", "order", "o-1", "--json"]);
    let entries: Vec<Value> = all.lines().map(|it| serde_json::from_str(it).unwrap()).collect();
    assert!(entries.iter().map(|it| it["number"].as_i64().unwrap()).eq(1..=entries.len() as i64));
    let after = output_of(&server, &["tail", "order", "o-1", "--after", "3"]);
    assert!(after.starts_with("4  ") && after.lines().count() == entries.len() - 3, "{after}");
    let none = server.ask(&["runs", "tail", "order", "none"]);
    assert_fails_with(&none, &["run_not_found"]);
}

#[test]
fn a_tail_of_a_failed_run_fails() {
    let server = Server::empty();
    start(&server, "", "o-1");
    output_of(&server, &["terminate", "order", "o-1", "--yes"]);
    let output = server.ask(&["runs", "tail", "order", "o-1"]);
    assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(1), ""));
    assert!(stdout(&output).trim_end().ends_with("terminated"), "{}", stdout(&output));
}

#[test]
fn a_folder_without_a_server_gives_the_same_output() {
    let server = Server::empty();
    start(&server, "", "o-1");
    run_until(&server, "o-1", "waiting");
    let questions: [&[&str]; 3] = [
        &["runs", "list", "order", "--json"],
        &["runs", "show", "order", "o-1", "--json"],
        &["runs", "list", "--json"],
    ];
    let online: Vec<String> = questions.iter().map(|it| stdout(&server.ask(it))).collect();
    let folder = server.stop();
    let data = ["--data", folder.to_str().unwrap()];
    for (question, online) in questions.iter().zip(online) {
        let output = run(&[question, &data[..]].concat());
        assert_eq!(stdout(&output), online, "{question:?} {}", stderr(&output));
    }
    // Nothing runs there, so the verb does not wait.
    let tail = run(&[&["runs", "tail", "order", "o-1"], &data[..]].concat());
    assert!(tail.status.success() && stdout(&tail).starts_with("1  "), "{}", stderr(&tail));
    std::fs::remove_dir_all(folder).unwrap();
}
