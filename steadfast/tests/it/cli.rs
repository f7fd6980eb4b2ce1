//! The command line: plain tables, the API's JSON, clear failures.

use std::process::Stdio;

use serde_json::Value;

use crate::{
    harness::{
        Server, assert_fails_with, assert_usage_error, output, run, spawn, stderr, stdout,
        steadfast,
    },
    seed::{self, ORDER},
};

#[test]
fn offline_and_online_print_the_same_json() {
    let server = Server::seeded();
    let id = seed::address(ORDER).id().to_string();
    let questions: [&[&str]; 6] = [
        &["streams", "list", "--json"],
        &["streams", "list", "--json", "--limit", "3"],
        &["streams", "show", ORDER, "--json"],
        &["streams", "show", &id, "--json", "--limit", "2"],
        &["streams", "pending", "--json", "--stream", ORDER],
        &["streams", "dead", "--json"],
    ];
    let online: Vec<String> = questions.iter().map(|it| stdout(&server.ask(it))).collect();
    assert_eq!(online[0], server.get("/v1/streams?limit=50").body + "\n");
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
fn tables_have_the_id_first_and_truncate_nothing() {
    let server = Server::seeded();
    let list = stdout(&server.ask(&["streams", "list"]));
    let id = seed::address(ORDER).id().to_string();
    assert!(list.starts_with("ID "), "{list}");
    assert!(list.lines().nth(1).unwrap().starts_with(&format!("{id}  {ORDER}  ")), "{list}");
    let show = stdout(&server.ask(&["streams", "show", ORDER]));
    assert!(show.contains("gave up: card declined"), "{show}");
    let pending = stdout(&server.ask(&["streams", "pending"]));
    assert!(pending.lines().nth(1).unwrap().starts_with("5 "), "{pending}");
    let empty = server.ask(&["streams", "pending", "--stream", "stream/bulk/001"]);
    assert_eq!(stdout(&empty), "no message is pending\n");
}

#[test]
fn a_list_with_more_rows_names_the_cursor() {
    let server = Server::seeded();
    let first = server.ask(&["streams", "list", "--limit", "60"]);
    let advice = stderr(&first);
    let cursor = advice.trim().rsplit(' ').next().unwrap();
    let second = server.ask(&["streams", "list", "--limit", "60", "--cursor", cursor]);
    assert_eq!(stdout(&second).lines().count(), 3, "a heading and the last two");
    assert_eq!(stderr(&second), "");
}

#[test]
fn a_problem_is_one_line_and_with_json_also_json() {
    let server = Server::seeded();
    let unknown = ["streams", "show", "stream/bulk/none"];
    assert_fails_with(&server.ask(&unknown), &["stream/bulk/none", "stream_not_found"]);
    let output = server.ask(&[&unknown[..], &["--json"]].concat());
    assert_fails_with(&output, &["stream_not_found"]);
    let problem: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(problem["code"], "stream_not_found");
    assert_usage_error(&server.ask(&["streams", "list", "--limit", "0"]), &["`limit`"]);
}

#[test]
fn an_unreachable_server_is_named() {
    let server = Server::seeded();
    let url = server.url.clone();
    std::fs::remove_dir_all(server.stop()).unwrap();
    let output = run(&["streams", "list", "--server", &url]);
    assert_fails_with(&output, &[&url, "steadfast serve", "--data"]);
    assert_fails_with(&run(&["doctor", "--server", "ftp://x"]), &["--server", "ftp://x"]);
}

#[test]
fn a_missing_folder_is_not_created() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("missing");
    let path = missing.to_str().unwrap();
    assert_fails_with(&run(&["doctor", "--data", path]), &[path, "folder does not exist"]);
    assert!(!missing.exists());
    let empty = folder.path().to_str().unwrap();
    assert_fails_with(&run(&["doctor", "--data", empty]), &[empty, "no steadfast.db"]);
    assert_eq!(folder.path().read_dir().unwrap().count(), 0);
}

#[test]
fn a_folder_in_use_by_a_server_is_refused_with_advice() {
    let server = Server::seeded();
    let folder = server.folder().to_str().unwrap();
    let output = run(&["streams", "list", "--data", folder]);
    assert_fails_with(&output, &[folder, "served by another process", "--server"]);
}

#[test]
fn a_flag_overrides_a_variable() {
    let server = Server::seeded();
    let ask = |data: &str, args: &[&str]| {
        let mut command = steadfast();
        command.args(["streams", "list", "--json"]).args(args).env("STEADFAST_DATA", data);
        output(&mut command)
    };
    assert!(ask("/nonexistent", &["--server", &server.url]).status.success());
    assert_fails_with(&ask("/nonexistent", &[]), &["/nonexistent", "folder does not exist"]);
    let both = ask("x", &["--server", &server.url, "--data", "y"]);
    assert_eq!(both.status.code(), Some(2), "{}", stderr(&both));
}

#[test]
fn the_doctor_succeeds_on_a_sound_store_and_fails_on_a_damaged_one() {
    let server = Server::seeded();
    let output = server.ask(&["doctor"]);
    assert!(output.status.success(), "{}", stdout(&output));
    let well = |it: &str| it.starts_with("invariants ") && it.contains(" ok ");
    assert!(stdout(&output).lines().any(well), "{}", stdout(&output));
    let folder = server.stop();
    let data = folder.to_str().unwrap();
    assert!(run(&["doctor", "--data", data]).status.success());
    seed::damage(&folder);
    let output = run(&["doctor", "--data", data]);
    assert_eq!(output.status.code(), Some(1), "{}", stdout(&output));
    let failed = |it: &str| it.starts_with("invariants ") && it.contains(" failed ");
    assert!(stdout(&output).lines().any(failed), "{}", stdout(&output));
    assert_eq!(stderr(&output), "", "the table says it all");
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_closed_output_pipe_is_no_failure() {
    let server = Server::seeded();
    let mut command = steadfast();
    command.args(["streams", "list", "--server", &server.url]);
    let mut child = spawn(command.stdout(Stdio::piped()).stderr(Stdio::piped()));
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(!stderr(&output).contains("panicked"), "{}", stderr(&output));
}

const VERBS: &[&[&str]] = &[
    &["serve"],
    &["inspect"],
    &["config", "show"],
    &["doctor"],
    &["completions"],
    &["streams", "list"],
    &["streams", "show"],
    &["streams", "pending"],
    &["streams", "dead"],
    &["streams", "revive"],
    &["processes", "list"],
    &["processes", "show"],
    &["processes", "send"],
    &["objects", "classes"],
    &["objects", "list"],
    &["objects", "show"],
    &["objects", "call"],
    &["objects", "sql"],
    &["objects", "turns"],
    &["objects", "export"],
    &["objects", "delete"],
    &["runs", "list"],
    &["runs", "show"],
    &["runs", "tail"],
    &["runs", "start"],
    &["runs", "pause"],
    &["runs", "resume"],
    &["runs", "terminate"],
    &["runs", "restart"],
    &["runs", "send-event"],
    &["queues", "list"],
    &["queues", "show"],
    &["queues", "peek"],
    &["queues", "send"],
    &["queues", "pause"],
    &["queues", "resume"],
    &["queues", "purge"],
    &["queues", "dlq"],
    &["queues", "redrive"],
    &["buckets", "list"],
    &["buckets", "create"],
    &["buckets", "delete"],
    &["buckets", "ls"],
    &["buckets", "cp"],
    &["buckets", "rm"],
    &["buckets", "presign"],
    &["buckets", "rules", "list"],
    &["buckets", "rules", "put"],
    &["buckets", "rules", "delete"],
    &["buckets", "lifecycle", "list"],
    &["buckets", "lifecycle", "put"],
    &["buckets", "lifecycle", "delete"],
    &["buckets", "cors", "list"],
    &["buckets", "cors", "put"],
    &["buckets", "cors", "delete"],
    &["keys", "create"],
    &["keys", "list"],
    &["keys", "rotate"],
    &["keys", "revoke"],
    &["tokens", "create"],
    &["tokens", "list"],
    &["tokens", "rotate"],
    &["tokens", "revoke"],
    &["tokens", "revoke-older"],
    &["sessions", "list"],
    &["sessions", "end"],
    &["audit", "tail"],
    &["quotas", "list"],
    &["quotas", "show"],
    &["quotas", "set"],
    &["quotas", "remove"],
    &["login"],
    &["whoami"],
    &["models", "pull"],
    &["drift"],
    &["example", "checkout"],
];

#[test]
fn help_shows_an_example_and_the_variable_of_every_flag() {
    for verb in VERBS {
        let output = run(&[verb, &["--help"][..]].concat());
        let text = stdout(&output);
        assert!(output.status.success() && text.contains("Example"), "{text}");
        // The help of a long flag is below it.
        let flags = text.split("\n      --").skip(1);
        // A decision about one start must not stay in the environment.
        let once = ["accept-loss ", "adopt ", "replace-seal-key "];
        let is_once = |it: &&str| once.iter().any(|name| it.starts_with(name));
        for flag in flags.filter(|it| !is_once(it)) {
            assert!(flag.contains("[env: STEADFAST_"), "{flag}");
        }
    }
    let version = stdout(&run(&["--version"]));
    assert_eq!(version, format!("steadfast {}\n", env!("CARGO_PKG_VERSION")));
    assert_eq!(run(&["streams", "nonsense"]).status.code(), Some(2));
}

#[test]
fn help_does_not_print_the_password_of_a_database() {
    let mut command = steadfast();
    command.args(["serve", "--help"]).env("STEADFAST_STORE", "postgres://me:Hu5h@h/d");
    let output = output(&mut command);
    assert!(!stdout(&output).contains("Hu5h"), "{}", stdout(&output));
}

#[test]
fn a_store_that_is_misspelt_is_refused_without_its_password() {
    let texts = [
        "postgres:/me:Hu5h@h/d",
        "me:Hu5h@h/d",
        "host=h password=Hu5h",
        "postgre://me:a?Hu5h@h/d",
        "Hu5h",
    ];
    let refused = |command: &mut std::process::Command| {
        let output = output(command);
        assert_usage_error(&output, &["--store", "write `sqlite`, or a database"]);
        assert!(!stderr(&output).contains("Hu5h"), "{}", stderr(&output));
    };
    for text in texts {
        refused(steadfast().args(["serve", "--store", text]));
        refused(steadfast().args(["config", "show"]).env("STEADFAST_STORE", text));
    }
    for line in [&["postgres://me:Hu5h@h/d"][..], &["serve", "postgres://me:Hu5h@h/d"]] {
        let text = stderr(&run(line));
        assert!(text.contains("me:***@h/d") && !text.contains("Hu5h"), "{text}");
    }
}

#[test]
fn a_token_that_passes_a_network_without_tls_is_warned_of() {
    let ask = |url: &str, token: &[&str]| {
        let told = run(&[&["whoami", "--server", url][..], token].concat());
        assert_fails_with(&told, &[url]);
        assert!(!stderr(&told).contains("hush"), "{}", stderr(&told));
        stderr(&told).lines().any(|it| it.starts_with("warning: ") && it.contains("in the clear"))
    };
    let token = ["--token", "sf_hush_hush"];
    // It is no loopback address, and nothing listens there.
    assert!(ask("http://0.0.0.0:1", &token));
    assert!(!ask("http://0.0.0.0:1", &[]));
    assert!(!ask("http://127.0.0.1:1", &token) && !ask("http://[::1]:1", &token));
    assert!(!ask("http://localhost:1", &token) && !ask("https://0.0.0.0:1", &token));
}

#[test]
fn a_quoted_name_cannot_control_the_terminal() {
    let server = Server::empty();
    for line in [&["queues", "purge"][..], &["queues", "show"]] {
        let output = server.ask(&[line, &["a\u{1b}[2J\u{202e}b"]].concat());
        let text = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{text}");
        assert!(!text.contains(['\u{1b}', '\u{202e}']), "{text:?}");
        assert!(line[1] == "show" || text.contains("a [2J b"), "{text:?}");
    }
}

#[test]
fn shells_complete_nouns_verbs_and_verbs_of_applications() {
    for shell in ["bash", "zsh", "fish"] {
        let script = stdout(&run(&["completions", shell]));
        for word in ["queues", "redrive", "error-contains", "drift"] {
            assert!(script.contains(word), "{word} is missing for {shell}");
        }
    }
}
