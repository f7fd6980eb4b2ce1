//! A newcomer: writes a project, builds it, uses it, kills it, and goes on.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use crate::harness::{Server, assert_fails_with, output, stderr, stdout, steadfast};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Cargo in this folder, with the target folder of the tests and without network.
fn cargo(folder: &Path, verb: &str) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(folder).args([verb, "--offline", "--quiet"]);
    command.env("CARGO_TARGET_DIR", root().join("target"));
    command
}

#[test]
fn a_new_project_is_tested_served_used_killed_and_goes_on() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut new = steadfast();
    new.args(["new", "demo", "--path"]).arg(root()).current_dir(folder.path());
    let written = output(&mut new);
    assert!(written.status.success(), "{}", stderr(&written));
    assert_fails_with(&output(&mut new), &["demo is there already"]);
    let demo = folder.path().join("demo");
    for file in ["Cargo.toml", "src/main.rs", "Dockerfile", "demo.service", ".gitignore"] {
        assert!(demo.join(file).is_file(), "{file}");
    }
    // The same versions as here, which this machine has.
    std::fs::copy(root().join("Cargo.lock"), demo.join("Cargo.lock")).expect("it is copied");
    for verb in ["test", "build"] {
        let built = output(&mut cargo(&demo, verb));
        assert!(built.status.success(), "{verb}: {}\n{}", stdout(&built), stderr(&built));
    }
    let program = || {
        let mut command = Command::new(root().join("target/debug/demo"));
        command.env_clear().env("STEADFAST_S3_LISTEN", "127.0.0.1:0");
        command
    };
    let serve = |folder| {
        let mut command = program();
        command.args(["--listen", "127.0.0.1:0"]);
        Server::begin(command, folder).unwrap_or_else(|_| panic!("it greets"))
    };
    let data = tempfile::tempdir().expect("a temporary folder");
    let server = serve(data);
    assert!(server.greeting.contains("demo"), "{}", server.greeting);
    let count = |server: &Server, key: &str| {
        let path = "/v1/objects/visits/home/calls/count";
        server.post_json(path, r#"{"by":2}"#, &[("idempotency-key", key)]).body
    };
    assert_eq!(count(&server, "first"), "2");
    assert!(server.get("/objects/visits/home").body.contains("home"), "the console shows it");
    assert!(server.get("/openapi.json").status < 300);
    let mut list = program();
    list.args(["objects", "list", "visits", "--server", &server.url]);
    assert!(stdout(&output(&mut list)).contains("home"));
    let server = serve(server.kill());
    assert_eq!(count(&server, "first"), "2", "the same request is not counted twice");
    assert_eq!(count(&server, "second"), "4");
    let begun = r#"{"id":"g-1","input":"Ada"}"#;
    assert!(server.post_json("/v1/workflows/greeting/runs", begun, &[]).status < 300);
    let server = serve(server.kill());
    let ended = server.get("/v1/workflows/greeting/runs/g-1?wait=30").body;
    assert!(ended.contains("Hello, Ada! You are number 1."), "{ended}");
    let mut help = program();
    let help = stdout(&output(help.arg("--help")));
    assert!(help.contains("demo streams list") && !help.contains("steadfast drift"), "{help}");
}

#[test]
fn a_project_is_not_written_for_a_bad_name_or_a_folder_that_is_no_checkout() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let new = |args: &[&str]| {
        let mut command = steadfast();
        output(command.arg("new").args(args).current_dir(folder.path()))
    };
    assert_eq!(new(&["Über"]).status.code(), Some(2));
    assert_fails_with(&new(&["demo", "--path", "."]), &["is no checkout of Steadfast"]);
    assert_eq!(std::fs::read_dir(folder.path()).expect("it is there").count(), 0);
}
