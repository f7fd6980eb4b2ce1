//! The commands of the documents work: a shell runs them in order, from an empty folder, and each
//! line of output that a document shows is in the real output.
//!
//! A command is a line that begins with `$ ` in a block of the language `console`. The lines below
//! it are its output. `…` stands for any text, and a line of its own for any lines.

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    net::{TcpListener, UdpSocket},
    os::unix::{
        fs::{PermissionsExt, symlink},
        process::CommandExt,
    },
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::mpsc::{self, Receiver},
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process_group};
use tempfile::TempDir;

use crate::harness::spawn;

/// Ends a test that would hang. Cargo may have to build first.
const PATIENCE: Duration = Duration::from_mins(10);

/// How often a command that reads is repeated until its output is as shown: about 30 seconds.
const REPEATS_MAX: usize = 300;

/// Printed with the status of each command when it has ended.
const MARK: &str = "== status";

/// The line with which a server says that it is ready.
const READY: &str = "Press Ctrl-C to stop.";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// A command of a document, and its output there.
#[derive(Debug, PartialEq)]
struct Example {
    line: usize,
    command: String,
    shown: Vec<String>,
}

/// The commands of all blocks of the language `console`.
fn examples(text: &str) -> Vec<Example> {
    let (mut found, mut is_console) = (Vec::<Example>::new(), false);
    for (line, content) in (1..).zip(text.lines()) {
        if content.starts_with("```") {
            is_console = content == "```console";
        } else if let Some(command) = content.strip_prefix("$ ").filter(|_| is_console) {
            found.push(Example { line, command: command.into(), shown: Vec::new() });
        } else if is_console && !content.trim().is_empty() {
            let last = found.last_mut().unwrap_or_else(|| panic!("line {line}: no command before"));
            last.shown.push(content.into());
        }
    }
    found
}

/// Whether a line of output is as shown. The width of spaces does not count.
fn fits(shown: &str, line: &str) -> bool {
    let one_space = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let (shown, line) = (one_space(shown), one_space(line));
    let mut pieces = shown.split('…');
    let Some(mut rest) = line.strip_prefix(pieces.next().unwrap_or_default()) else { return false };
    let mut pieces = pieces.peekable();
    if pieces.peek().is_none() {
        return rest.is_empty();
    }
    while let Some(piece) = pieces.next() {
        if pieces.peek().is_none() {
            return rest.ends_with(piece);
        }
        let Some((_, after)) = rest.split_once(piece) else { return false };
        rest = after;
    }
    true
}

/// The first shown line that the output does not have, in the order of the document.
fn missing<'a>(shown: &'a [String], output: &str) -> Option<&'a str> {
    let mut lines = output.lines();
    let mut wanted = shown.iter().filter(|it| it.trim() != "…");
    wanted.find(|it| !lines.any(|line| fits(it, line))).map(String::as_str)
}

/// Whether a command may be repeated until its output is as shown: work is done in the background,
/// and a person is slower than a test.
fn is_repeatable(command: &str) -> bool {
    let reads = [" sql ", " show ", " list", " dlq ", " ls ", " turns "];
    // A pull without messages changes nothing.
    command.contains("/pull") || reads.iter().any(|it| command.contains(it))
}

/// A shell in an empty folder. The program is `steadfast`, and `cargo` builds it.
struct Shell {
    child: Child,
    lines: Receiver<String>,
    ports: [u16; 2],
    _claimed: [UdpSocket; 2],
    _folder: TempDir,
}

/// Builds the shipped program by a link to the one of the tests. Other projects are built without
/// network, with the versions of this one, into the target folder of the tests, whose crates are
/// shared.
const CARGO: &str = r#"#!/bin/sh
set -e
case "$*" in
  'build --release') mkdir -p target/release; ln -sf "$BUILT" target/release/steadfast ;;
  'run --release') "$0" build --release; exec target/release/steadfast ;;
  *)
    [ -e target ] || { cp "$CHECKOUT/Cargo.lock" .; ln -s "$CHECKOUT/target" target; }
    exec "$CARGO" "$@" --offline --config "$CHECKOUT/Cargo.toml"
esac
"#;

/// A port that no other test takes while the socket lives. It is outside of the range from which
/// the system takes those of others.
fn free_port() -> (u16, UdpSocket) {
    let first = 20_000 + u16::try_from(std::process::id() % 10_000).unwrap_or_default();
    let claim = |port: u16| {
        let claimed = UdpSocket::bind(("127.0.0.1", port)).ok()?;
        TcpListener::bind(("127.0.0.1", port)).is_ok().then_some((port, claimed))
    };
    (first..first + 1_000).find_map(claim).expect("a free port")
}

impl Shell {
    fn open() -> Self {
        let (claimed, other) = (free_port(), free_port());
        let ports = [claimed.0, other.0];
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (tools, work) = (folder.path().join("tools"), folder.path().join("work"));
        for it in [&tools, &work] {
            fs::create_dir(it).expect("a folder");
        }
        let built = env!("CARGO_BIN_EXE_steadfast");
        symlink(built, tools.join("steadfast")).expect("a link");
        fs::write(tools.join("cargo"), CARGO).expect("a script");
        let executable = fs::Permissions::from_mode(0o755);
        fs::set_permissions(tools.join("cargo"), executable).expect("it can be executable");
        // A status of 400 or more fails the command.
        fs::write(tools.join(".curlrc"), "silent\nshow-error\nfail-with-body\n").expect("a file");
        let mut shell = Command::new("bash");
        for (name, _) in std::env::vars_os() {
            let text = name.to_string_lossy().to_lowercase();
            if text.starts_with("steadfast_") || text.ends_with("_proxy") {
                shell.env_remove(&name);
            }
        }
        let path = std::env::var("PATH").expect("a search path");
        let at = |port: u16| format!("127.0.0.1:{port}");
        shell
            .current_dir(&work)
            .env("PATH", format!("{}:{path}", tools.display()))
            .env("CURL_HOME", &tools)
            .env("BUILT", built)
            .env("CHECKOUT", root())
            .env("CARGO", env!("CARGO"))
            .env_remove("CARGO_TARGET_DIR")
            // Build scripts would run again for the next build of the checkout.
            .env_remove("CARGO_MANIFEST_DIR")
            .env("STEADFAST_LISTEN", at(ports[0]))
            .env("STEADFAST_S3_LISTEN", at(ports[1]))
            .env("STEADFAST_SERVER", format!("http://{}", at(ports[0])))
            .env("STEADFAST_LOG", "error")
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut child = spawn(&mut shell);
        let output = BufReader::new(child.stdout.take().expect("stdout is piped"));
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || {
            // Fails when the test has ended.
            output.lines().map_while(Result::ok).try_for_each(|it| sender.send(it))
        });
        let mut shell =
            Self { child, lines, ports, _claimed: [claimed.1, other.1], _folder: folder };
        assert_eq!(shell.run("exec 2>&1; set -o pipefail; command -v curl").1, 0, "curl is needed");
        shell
    }

    fn write(&mut self, text: &str) {
        let stdin = self.child.stdin.as_mut().expect("stdin is piped");
        stdin.write_all(text.as_bytes()).expect("the shell reads");
    }

    fn line(&self) -> String {
        self.lines.recv_timeout(PATIENCE).expect("the shell prints within ten minutes")
    }

    /// Runs a command; returns its output and its status.
    fn run(&mut self, command: &str) -> (String, i32) {
        self.write(&format!("{{ {command}\n}} </dev/null\nprintf '\\n{MARK} %s\\n' $?\n"));
        let mut output = String::new();
        loop {
            let line = self.line();
            if let Some(status) = line.strip_prefix(MARK) {
                return (output, status.trim().parse().expect("a number"));
            }
            output.push_str(&line);
            output.push('\n');
        }
    }

    /// Runs a server in the background until it is ready.
    fn serve(&mut self, command: &str) -> (String, i32) {
        let (mut output, status) = self.run(command);
        while !output.contains(READY) {
            let line = self.line();
            assert!(!line.starts_with("error: "), "`{command}`: {line}\n{output}");
            output.push_str(&line);
            output.push('\n');
        }
        (output, status)
    }

    /// Runs one command of a document as its reader would.
    fn follow(&mut self, example: &Example) -> Result<(), String> {
        let Example { command, shown, .. } = example;
        if command == "./test" {
            let script = fs::metadata(root().join("test")).map_err(|it| it.to_string())?;
            let is_executable = script.permissions().mode() & 0o111 != 0;
            return is_executable.then_some(()).ok_or_else(|| "it cannot be executed".into());
        }
        let is_server = shown.iter().any(|it| it == READY);
        let mut repeats = 0;
        loop {
            let (output, status) = match (is_server, command.ends_with('&')) {
                (true, true) => self.serve(command),
                // The document continues in another terminal.
                (true, false) => self.serve(&format!("{command} &")),
                (false, _) => self.run(command),
            };
            if command.starts_with("kill ") {
                self.run("wait $!");
            }
            let problem = match (status, missing(shown, &output)) {
                (0, None) => return Ok(()),
                (0, Some(line)) => format!("`{line}` is not in the output:\n{output}"),
                _ => format!("status {status}\n{output}"),
            };
            if REPEATS_MAX <= repeats || !is_repeatable(command) {
                return Err(problem);
            }
            repeats += 1;
            std::thread::park_timeout(Duration::from_millis(100));
        }
    }

    /// Runs all commands of a document, with the ports of this test.
    fn follow_document(&mut self, document: &str) -> usize {
        let [http, s3] = self.ports.map(|it| it.to_string());
        let text = fs::read_to_string(root().join(document)).expect(document);
        let examples = examples(&text.replace("8787", &http).replace("8788", &s3));
        for it in &examples {
            if let Err(problem) = self.follow(it) {
                panic!("{document}:{}: `{}`: {problem}", it.line, it.command);
            }
        }
        examples.len()
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        // The group has the servers, too. It may have ended already.
        let group = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        if let Some(group) = group {
            let _ = kill_process_group(group, Signal::KILL);
        }
        let _ = self.child.wait();
    }
}

#[test]
fn the_commands_of_the_readme_work_from_an_empty_folder() {
    let count = Shell::open().follow_document("README.md");
    assert!(4 <= count, "{count} commands");
}

#[test]
fn the_commands_of_the_start_page_work_from_an_empty_folder() {
    let count = Shell::open().follow_document("docs/start.md");
    assert!(30 <= count, "{count} commands");
}

#[test]
fn the_commands_of_the_concept_pages_work() {
    let mut shell = Shell::open();
    shell.serve("steadfast &");
    for page in ["commit", "objects", "workflows", "processes", "queues", "buckets"] {
        let count = shell.follow_document(&format!("docs/concepts/{page}.md"));
        assert!(2 <= count, "{page}: {count} commands");
    }
    assert!(2 <= shell.follow_document("docs/idempotency.md"));
}

#[test]
fn a_command_that_fails_or_prints_something_else_is_noticed() {
    let mut shell = Shell::open();
    let mut follow = |text: &str| {
        let found = examples(&format!("```console\n{text}\n```\n"));
        found.iter().try_for_each(|it| shell.follow(it))
    };
    assert_eq!(follow("$ word=steady; printf $word\nsteady"), Ok(()));
    assert_eq!(follow("$ printf '%s  fast\\n' $word; echo end\nsteady fast\nend"), Ok(()));
    assert!(follow("$ false").is_err());
    assert!(follow("$ echo one\ntwo").is_err());
    assert!(follow("$ printf 'one\\ntwo\\n'\ntwo\none").is_err());
    assert!(follow("$ curl http://127.0.0.1:1/").is_err());
    let text = "```sh\n$ a\n```\n\n```console\n$ b\nc\n\n…\n$ d\n```\n$ e\n";
    let example = |line, command: &str, shown: &[&str]| {
        let shown = shown.iter().map(|it| (*it).into()).collect();
        Example { line, command: command.into(), shown }
    };
    assert_eq!(examples(text), [example(6, "b", &["c", "…"]), example(10, "d", &[])]);
    let fitting = [("a…c", "a b c"), ("…", "a"), ("a …", "a  b"), ("… b …", "a b c"), ("a", " a")];
    assert!(fitting.iter().all(|(shown, line)| fits(shown, line)));
    let other = [("a…c", "a b"), ("a", "a b"), ("b …", "a b"), ("…c…a", "a b c"), ("a… a", "a")];
    assert!(other.iter().all(|(shown, line)| !fits(shown, line)));
}
