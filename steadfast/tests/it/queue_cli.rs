//! Queues from the command line.

use serde_json::{Value, json};

use crate::{
    harness::{Server, assert_fails_with, assert_usage_error, run, stderr, stdout},
    queues::{depth_until, letters, mail, post, send},
};

/// Runs a verb and returns its output.
fn output_of(server: &Server, args: &[&str]) -> String {
    let output = server.ask(&[&["queues"], args].concat());
    assert!(output.status.success(), "{args:?}: {}", stderr(&output));
    stdout(&output)
}

const ADA: &str = r#"{"to": "ada@example.org", "subject": "Hello"}"#;

#[test]
fn every_verb_prints_plain_text() {
    let server = Server::empty();
    let ask = |args: &[&str]| server.ask(&[&["queues"], args].concat());
    let output_of = |args: &[&str]| output_of(&server, args);
    let cells = |text: &str, name: &str| -> Vec<String> {
        let line = text.lines().find(|it| it.split_whitespace().next() == Some(name));
        let line = line.unwrap_or_else(|| panic!("{name} is missing in {text}"));
        line.split_whitespace().map(str::to_owned).collect()
    };
    assert_eq!(cells(&output_of(&["list"]), "mail")[1..4], ["consumed", "0", "0"]);
    assert!(output_of(&["send", "mail", "--body", ADA]).ends_with(" to mail\n"));
    depth_until(&server, "mail", 0);
    assert_eq!(letters(&server, "ada@example.org").len(), 1);
    assert_eq!(output_of(&["pause", "mail"]), "paused queue mail; it holds 0 messages\n");
    output_of(&["send", "mail", "--body", ADA, "--delay-ms", "3600000"]);
    output_of(&["send", "mail", "--body", ADA]);
    let show = output_of(&["show", "mail"]);
    for shown in ["queue", "paused", "2 (1 ready, 1 delayed, 0 in flight)", "deadLetterQueue"] {
        assert!(show.contains(shown), "{shown} is missing in {show}");
    }
    let peek = output_of(&["peek", "mail"]);
    assert_eq!(peek.lines().count(), 3, "{peek}");
    assert!(peek.lines().nth(1).unwrap().ends_with(ADA), "{peek}");
    assert!(output_of(&["peek", "mail", "--limit", "1"]).lines().count() == 2);
    assert_eq!(
        output_of(&["peek", "mail", "--state", "dead"]),
        "queue mail has no dead messages\n"
    );
    assert_eq!(
        output_of(&["purge", "mail", "--state", "dead", "--yes"]),
        "removed 0 messages from mail\n"
    );
    assert_fails_with(&ask(&["purge", "mail"]), &["Remove messages from queue mail?", "--yes"]);
    assert_eq!(output_of(&["purge", "mail", "--yes"]), "removed 2 messages from mail\n");
    assert_eq!(output_of(&["resume", "mail"]), "resumed queue mail; it holds 0 messages\n");
    assert_fails_with(&ask(&["show", "none"]), &["there is no queue `none`", "queue_not_found"]);
    assert_usage_error(&ask(&["send", "q", "--body", "{"]), &["--body <JSON>", "not JSON"]);
    assert_usage_error(
        &ask(&["send", "q", "--body", "@/none"]),
        &["--body <JSON>", "/none cannot be read"],
    );
    assert_eq!(ask(&["send", "q"]).status.code(), Some(2));
    assert_eq!(ask(&["peek", "mail", "--state", "odd"]).status.code(), Some(2));
}

#[test]
fn a_repeated_send_with_a_key_sends_once() {
    let server = Server::empty();
    let send = ["send", "q", "--body", "1", "--idempotency-key", "k"];
    assert_eq!(output_of(&server, &send), output_of(&server, &send));
    depth_until(&server, "q", 1);
}

#[test]
fn dead_letters_are_listed_from_all_queues_and_redriven() {
    let server = Server::empty();
    assert_eq!(output_of(&server, &["dlq", "mail"]), "queue mail has no dead letters\n");
    let moved = mail(&server, "nobody");
    // A message of another queue, in the same dead-letter queue.
    let other = send(&server, "mail-dead", &json!("other"));
    depth_until(&server, "mail-dead", 2);
    let dlq = output_of(&server, &["dlq", "mail"]);
    let row = dlq.lines().nth(1).unwrap();
    assert!(row.starts_with(&moved) && row.contains("`nobody` is no address"), "{dlq}");
    assert!(row.contains("  mail-dead  ") && row.contains("  0 + 1  "), "{dlq}");
    assert!(!dlq.contains(&format!("\n{other} ")), "{dlq}");
    assert!(dlq.ends_with("with `steadfast queues redrive mail-dead`\n"), "{dlq}");
    let json: Value =
        serde_json::from_str(&output_of(&server, &["dlq", "mail", "--json"])).unwrap();
    let one = &json["items"][0];
    assert_eq!((&one["id"], &one["queue"]), (&json!(moved), &json!("mail-dead")));
    let redrive = |args: &[&str]| output_of(&server, &[&["redrive", "mail-dead"], args].concat());
    let dry = redrive(&["--dry-run", "--error-contains", "no address"]);
    assert_eq!(
        dry,
        format!("would move 1 message to the queues they were sent to; the first: {moved}\n")
    );
    let none = redrive(&["--error-contains", "other"]);
    assert_eq!(none, "moved 0 messages to the queues they were sent to\n");
    let moved = redrive(&["--to", "elsewhere", "--rate", "1"]);
    assert_eq!(moved, "moved 2 messages to elsewhere; the last is due in 1.0 s\n");
    depth_until(&server, "elsewhere", 2);
    let bad = server.ask(&["queues", "redrive", "mail-dead", "--rate", "0"]);
    assert_fails_with(&bad, &["ratePerSecond", "invalid_input"]);
}

#[test]
fn dead_letters_without_a_dead_letter_queue_stay_in_their_queue() {
    let server = Server::empty();
    let set = server.put_json("/v1/queues/q", &json!({ "maxRetries": 0 }));
    assert_eq!(set.status, 200);
    send(&server, "q", &json!("x"));
    let pulled = post(&server, "q/messages/pull", &json!({})).json();
    let lease = &pulled["items"][0]["leaseId"];
    post(&server, "q/messages/ack", &json!({ "retries": [{ "leaseId": lease }] }));
    let dlq = output_of(&server, &["dlq", "q"]);
    assert!(dlq.contains("the consumer asked for a retry"), "{dlq}");
    assert!(dlq.ends_with("redrive q`\n"), "{dlq}");
    assert_eq!(
        output_of(&server, &["redrive", "q"]),
        "moved 1 message to the queues they were sent to\n"
    );
    assert_eq!(depth_until(&server, "q", 1)["dead"], 0);
}

#[test]
fn a_folder_without_a_server_gives_the_same_output_and_consumes_nothing() {
    let server = Server::empty();
    output_of(&server, &["pause", "mail"]);
    mail(&server, "ada@example.org");
    let questions: [&[&str]; 2] =
        [&["queues", "peek", "mail", "--json"], &["queues", "dlq", "mail", "--json"]];
    let online: Vec<String> = questions.iter().map(|it| stdout(&server.ask(it))).collect();
    let folder = server.stop();
    let data = ["--data", folder.to_str().unwrap()];
    for (question, online) in questions.iter().zip(online) {
        let output = run(&[question, &data[..]].concat());
        assert_eq!(stdout(&output), online, "{question:?} {}", stderr(&output));
    }
    let resumed = run(&[&["queues", "resume", "mail"], &data[..]].concat());
    assert_eq!(
        stdout(&resumed),
        "resumed queue mail; it holds 1 message\n",
        "{}",
        stderr(&resumed)
    );
    let moved = run(&[&["queues", "redrive", "mail", "--to", "q"], &data[..]].concat());
    assert!(stdout(&moved).starts_with("moved 1 message to q"), "{}", stderr(&moved));
    std::fs::remove_dir_all(folder).unwrap();
}
