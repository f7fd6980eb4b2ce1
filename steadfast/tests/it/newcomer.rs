//! The first steps of a new user: create a project, build it, use it, kill it, continue.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use crate::harness::{Server, assert_fails_with, output, stderr, stdout, steadfast};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Cargo in this folder, with the target folder of the tests and without network. It optimizes the
/// crates that the checkout optimizes, so that those of other people are there already.
fn cargo(folder: &Path, verb: &str) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(folder).args([verb, "--offline", "--quiet"]);
    command.arg("--config").arg(root().join("Cargo.toml"));
    command.env("CARGO_TARGET_DIR", root().join("target"));
    // Tests have it. Some build scripts run again when it changes, and then again for the next
    // build of the checkout.
    command.env_remove("CARGO_MANIFEST_DIR");
    command
}

#[test]
fn a_new_project_is_tested_served_used_killed_and_continues() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let demo = written(folder.path());
    let mut again = steadfast();
    again.args(["new", "demo", "--path"]).arg(root()).current_dir(folder.path());
    assert_fails_with(&output(&mut again), &["demo already exists"]);
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

/// Creates the project `demo` in a folder.
fn written(folder: &Path) -> PathBuf {
    // A checkout is a workspace, and the project must not become a part of it.
    std::fs::write(folder.join("Cargo.toml"), "[workspace]\n").expect("it is written");
    let mut new = steadfast();
    new.args(["new", "demo", "--path"]).arg(root()).current_dir(folder);
    let written = output(&mut new);
    assert!(written.status.success(), "{}", stderr(&written));
    folder.join("demo")
}

fn read(folder: &Path, file: &str) -> String {
    std::fs::read_to_string(folder.join(file)).expect("it is written")
}

/// Asserts that `serve` accepts these flags, and serves this data folder with them.
fn assert_serves(args: &[String], data: &str) {
    let [verb, flags @ ..] = args else { panic!("no verb") };
    assert_eq!(verb, "serve");
    // It accepts every flag of `serve`, and serves nothing.
    let shown = output(steadfast().args(["config", "show"]).args(flags));
    assert!(shown.status.success(), "{flags:?}: {}", stderr(&shown));
    let line = format!("data = {data}  (flag)");
    assert!(stdout(&shown).lines().any(|it| it == line), "{}", stdout(&shown));
}

#[test]
fn the_dockerfile_of_a_new_project_copies_and_runs_what_the_project_builds() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let demo = written(folder.path());
    let manifest = read(&demo, "Cargo.toml");
    let binary = manifest.lines().find_map(|it| it.strip_prefix("name = \"")?.strip_suffix('"'));
    let binary = binary.expect("the package has a name");
    let (mut stages, mut workdir) = (Vec::new(), String::new());
    let (mut installed, mut made, mut volume) = (String::new(), String::new(), String::new());
    let mut command = Vec::new();
    let text = read(&demo, "Dockerfile");
    let is_code = |it: &&str| !it.is_empty() && !it.starts_with('#');
    for line in text.lines().filter(is_code) {
        let (instruction, rest) = line.split_once(' ').expect("an instruction and its arguments");
        let words: Vec<&str> = rest.split_whitespace().collect();
        match instruction {
            "FROM" => {
                assert!(matches!(words[..], [_] | [_, "AS", _]), "{line}");
                stages.push((words.get(2).copied().unwrap_or_default(), String::new()));
            }
            "WORKDIR" => {
                workdir = rest.into();
                stages.last_mut().expect("a stage").1 = rest.into();
            }
            "COPY" => match words[..] {
                [from, source, to] => {
                    let name = from.strip_prefix("--from=").expect("another stage");
                    let stage =
                        stages.iter().find(|it| it.0 == name).expect("it is an earlier one");
                    assert_eq!(source, format!("{}/target/release/{binary}", stage.1));
                    installed = to.into();
                }
                [source, _] => assert!(demo.join(source).exists(), "{line}"),
                _ => panic!("{line}"),
            },
            "RUN" if rest.starts_with("cargo ") => assert_eq!(rest, "cargo build --release"),
            "RUN" => {
                if let Some(folder) = rest.strip_prefix("mkdir ") {
                    made = format!("{workdir}/{folder}");
                }
            }
            "USER" => assert_eq!(rest, binary),
            "VOLUME" => volume = rest.into(),
            "CMD" => command = serde_json::from_str::<Vec<String>>(rest).expect("a list of words"),
            other => panic!("{other} is not checked by this test"),
        }
    }
    assert_eq!(stages.len(), 2, "one stage builds, the other runs");
    assert_eq!(installed, format!("/usr/local/bin/{}", command[0]));
    assert_eq!(made, volume, "the data folder is one of the user that serves");
    assert_serves(&command[1..], &volume);
}

#[test]
fn the_unit_of_a_new_project_serves_a_folder_of_systemd() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let unit = read(&written(folder.path()), "demo.service");
    let mut settings = Vec::new();
    let mut section = "";
    for line in unit.lines().filter(|it| !it.is_empty() && !it.starts_with('#')) {
        match line.strip_prefix('[').and_then(|it| it.strip_suffix(']')) {
            Some(name) => section = name,
            None => {
                let (name, value) = line.split_once('=').expect("a setting");
                settings.push(((section, name), value));
            }
        }
    }
    let of = |section, name| {
        let found = settings.iter().find(|it| it.0 == (section, name));
        found.unwrap_or_else(|| panic!("{name} is missing in [{section}]")).1
    };
    let words: Vec<String> =
        of("Service", "ExecStart").split_whitespace().map(str::to_owned).collect();
    assert_eq!(words[0], "/usr/local/bin/demo");
    // A dynamic user may write there, and nowhere else.
    assert_eq!(of("Service", "DynamicUser"), "yes");
    assert_serves(&words[1..], &format!("/var/lib/{}", of("Service", "StateDirectory")));
    assert_eq!(of("Service", "KillSignal"), "SIGTERM", "the signal that stops it in order");
    assert_eq!(of("Install", "WantedBy"), "multi-user.target");
}

#[test]
fn a_project_needs_a_valid_name_and_a_checkout() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let new = |args: &[&str]| {
        let mut command = steadfast();
        output(command.arg("new").args(args).current_dir(folder.path()))
    };
    assert_eq!(new(&["Über"]).status.code(), Some(2));
    assert_fails_with(&new(&["demo", "--path", "."]), &["is not a checkout of Steadfast"]);
    assert_eq!(std::fs::read_dir(folder.path()).expect("it is there").count(), 0);
}
