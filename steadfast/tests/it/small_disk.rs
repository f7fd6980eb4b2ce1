//! A full disk: the real binary on a real file system of a few megabytes.
//!
//! The file system is in memory, and mounted only for the processes of the test. That needs Linux,
//! and permission for user namespaces.

use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use serde_json::json;
use tempfile::TempDir;

use crate::{
    harness::{Server, output, spawn, stderr, stdout, steadfast},
    seed,
};

/// A small file system, mounted while this value exists.
struct SmallDisk {
    keeper: Child,
    folder: TempDir,
    as_user: bool,
}

impl SmallDisk {
    /// Creates one; `None` without permission.
    fn new() -> Option<Self> {
        let mount = "mount -t tmpfs -o size=8m,mode=755 small \"$0\" && echo mounted && exec cat";
        for as_user in [false, true] {
            let folder = tempfile::tempdir().expect("a folder");
            let mut keeper = Command::new("unshare");
            keeper.args(if as_user { ["-m", "-Ur"].as_slice() } else { ["-m"].as_slice() });
            keeper.args(["sh", "-c", mount]).arg(folder.path());
            keeper.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
            let mut keeper = spawn(&mut keeper);
            let mut said = String::new();
            let _ =
                BufReader::new(keeper.stdout.as_mut().expect("it is piped")).read_line(&mut said);
            if said == "mounted\n" {
                return Some(Self { keeper, folder, as_user });
            }
            keeper.wait().expect("it ends");
        }
        eprintln!("no small file system can be mounted here, so this is not tested");
        None
    }

    /// A command that sees the file system.
    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--target={}", self.keeper.id())).arg("--mount");
        if self.as_user {
            command.args(["--user", "--preserve-credentials"]);
        }
        command.arg("--").arg(program);
        command
    }

    fn shell(&self, script: &str) -> bool {
        let mut command = self.command(Path::new("/bin/sh"));
        command.args(["-c", script]).arg(self.folder.path()).stderr(Stdio::null());
        spawn(&mut command).wait().expect("it ends").success()
    }

    /// Writes until the disk is full.
    fn fill(&self) {
        assert!(!self.shell("exec cat /dev/zero >> \"$0/filler\""), "it is full now");
    }

    fn make_space(&self) {
        assert!(self.shell("exec rm \"$0/filler\""));
    }

    /// The program with these arguments, on the folder `data`.
    fn steadfast(&self, args: &[&str]) -> Command {
        let program = steadfast();
        let mut command = self.command(Path::new(program.get_program()));
        for (name, value) in program.get_envs() {
            command.env(name, value.unwrap_or_default());
        }
        command.stdin(Stdio::null()).args(args);
        command.arg("--data").arg(self.folder.path().join("data"));
        command
    }

    fn serve(&self) -> Server {
        self.greet(&["--listen", "127.0.0.1:0"])
    }

    fn greet(&self, args: &[&str]) -> Server {
        let folder = tempfile::tempdir().expect("a folder");
        Server::greet(self.steadfast(args), folder).expect("it greets")
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        drop(self.keeper.stdin.take());
        let _ = self.keeper.wait();
    }
}

/// Certain and possible increments of the counters, as clients know them.
#[derive(Default)]
struct Ledger(Mutex<BTreeMap<usize, (i64, i64)>>);

impl Ledger {
    /// Adds one to a counter. Returns the status of the response, if there was one.
    fn add(&self, server: &Server, counter: usize) -> Option<u16> {
        let path = format!("/v1/objects/counter/{counter}/calls/increment");
        // In flight, it may have happened.
        self.note(counter, (0, 1));
        let answer = server.try_post_json(&path, r#"{"by": 1}"#, &[]).ok();
        let status = answer.as_ref().map(|it| it.status);
        match status {
            Some(200) => self.note(counter, (1, -1)),
            Some(507) => {
                answer.expect("it is there").assert_problem(507, "disk_full");
                self.note(counter, (0, -1));
            }
            Some(_) | None => {}
        }
        status
    }

    fn note(&self, counter: usize, (surely, perhaps): (i64, i64)) {
        let mut ledger = self.0.lock().expect("no client panics");
        let counts = ledger.entry(counter).or_default();
        *counts = (counts.0 + surely, counts.1 + perhaps);
    }

    #[track_caller]
    fn check(&self, server: &Server) {
        for (counter, (surely, perhaps)) in &*self.0.lock().expect("no client panics") {
            if *surely == 0 {
                continue;
            }
            let ask = json!({ "sql": "SELECT n FROM counter" }).to_string();
            let path = format!("/v1/objects/counter/{counter}/sql");
            let found =
                server.post_json(&path, &ask, &[]).json()["rows"][0][0].as_i64().expect("a number");
            let expected = *surely..=surely + perhaps;
            assert!(expected.contains(&found), "counter {counter}: {found}, not {expected:?}");
        }
    }
}

/// Ends the load, even if the test fails.
struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn is_ready(server: &Server) -> bool {
    server.get("/readyz").status == 200
}

#[test]
fn a_full_disk_under_load_loses_nothing_and_a_server_starts_on_it() {
    let Some(disk) = SmallDisk::new() else { return };
    let (mut server, ledger) = (disk.serve(), Ledger::default());
    assert!(server.put_json("/v1/buckets/files", &json!({})).status < 300);
    let blob = "/v1/buckets/files/objects/a";
    assert!(server.put_bytes(blob, b"bytes", &[]).status < 300);
    for round in 0..3 {
        let (refused, stop) = (AtomicBool::new(false), AtomicBool::new(false));
        std::thread::scope(|scope| {
            for counter in 0..4 {
                let (server, ledger, refused, stop) = (&server, &ledger, &refused, &stop);
                scope.spawn(move || {
                    while !stop.load(Ordering::Relaxed) {
                        let status = ledger.add(server, counter);
                        refused.fetch_or(status == Some(507), Ordering::Relaxed);
                    }
                });
            }
            let _stop = StopOnDrop(&stop);
            disk.fill();
            while !refused.load(Ordering::Relaxed) {
                std::thread::park_timeout(Duration::from_millis(5));
                disk.fill();
            }
            ledger.check(&server);
            assert_eq!(server.get(blob).body, "bytes");
            server.text_until("/readyz", |said| {
                disk.fill();
                said == r#"{"status":"not ready"}"#
            });
            // In one round it is killed in the middle; in the others it continues.
            if round == 1 {
                server.signal(rustix::process::Signal::KILL);
            }
        });
        if round == 1 {
            drop(server);
            server = disk.serve();
            disk.fill();
            // The log may have room for some more.
            while ledger.add(&server, 0) != Some(507) {
                disk.fill();
            }
            assert!(!is_ready(&server));
            let said = server.get("/v1/doctor").body;
            assert!(said.contains("disk is full"), "{said}");
            ledger.check(&server);
            assert_eq!(server.get(blob).body, "bytes");
            assert_eq!(server.get("/").status, 200);
            let put = server.put_bytes("/v1/buckets/files/objects/b", &[0; 100_000], &[]);
            put.assert_problem(507, "disk_full");
        }
        disk.make_space();
        // Nothing writes, and it still recovers.
        server.text_until("/readyz", |_| is_ready(&server));
        assert_eq!(ledger.add(&server, 0), Some(200));
        // The session of the files may begin a moment later.
        server.text_until("/readyz", |_| {
            server.put_bytes("/v1/buckets/files/objects/b", b"more", &[]).status < 300
        });
        ledger.check(&server);
    }
    // The doctor reports that such a small disk is nearly full, and that everything else is in
    // order.
    let doctor = server.json("/v1/doctor?deep=true");
    let wrong = doctor["checks"].as_array().unwrap().iter().filter(|it| it["status"] != "ok");
    assert_eq!(wrong.map(|it| &it["name"]).collect::<Vec<_>>(), ["disk space"], "{doctor}");
}

#[test]
fn a_server_with_pending_work_starts_on_a_full_disk_and_recovers_with_space() {
    let Some(disk) = SmallDisk::new() else { return };
    let seeded = Server::empty().kill();
    let position = seed::fill_claimed(seeded.path());
    // The reserve of the large disk is larger than this disk.
    std::fs::remove_file(seeded.path().join("reserve")).unwrap();
    let copy = format!("exec cp -a '{}' \"$0/data\"", seeded.path().display());
    assert!(disk.shell(&copy));
    disk.fill();
    let server = disk.serve();
    assert!(!is_ready(&server));
    let path = format!("/v1/messages/{position}");
    assert!(!server.get(&path).body.contains("the process ended"));
    disk.make_space();
    server.text_until(&path, |told| told.contains("the process ended during attempt 1"));
    assert!(is_ready(&server));
}

#[test]
fn a_server_with_closed_access_starts_on_a_full_disk() {
    let Some(disk) = SmallDisk::new() else { return };
    let seeded =
        Server::with(tempfile::tempdir().expect("a folder"), &["--access", "closed"]).kill();
    std::fs::remove_file(seeded.path().join("reserve")).unwrap();
    let copy = format!("exec cp -a '{}' \"$0/data\"", seeded.path().display());
    assert!(disk.shell(&copy));
    // Also without an admin token, which cannot be written now.
    for keeps_token in [true, false] {
        assert!(keeps_token || disk.shell("exec rm \"$0/data/admin.token\""));
        disk.fill();
        let server = disk.greet(&["--listen", "127.0.0.1:0", "--access", "closed"]);
        assert!(server.greeting.contains("access       closed"), "{}", server.greeting);
        assert_eq!(server.get("/v1/queues").status, 401);
        drop(server);
        disk.make_space();
    }
}

#[test]
fn a_full_disk_is_emptied_through_the_api() {
    let Some(disk) = SmallDisk::new() else { return };
    let (server, ledger) = (disk.serve(), Ledger::default());
    assert!(server.put_json("/v1/buckets/files", &json!({})).status < 300);
    let blob = |it: usize| format!("/v1/buckets/files/objects/{it}");
    for it in 0..10 {
        assert!(server.put_bytes(&blob(it), &[7; 200_000], &[]).status < 300);
    }
    let object = |it: usize| format!("/v1/objects/counter/deleted-{it}");
    for it in 0..100 {
        let path = format!("{}/calls/increment", object(it));
        assert_eq!(server.post_json(&path, r#"{"by": 1}"#, &[]).status, 200);
    }
    disk.fill();
    while ledger.add(&server, 0) != Some(507) {
        disk.fill();
    }
    disk.fill();
    for it in 0..10 {
        let answer = server.delete(&blob(it));
        assert!(answer.status < 300, "{}", answer.body);
        assert_eq!(server.get(&blob(it)).status, 404);
    }
    // Objects are rows of the database: to delete them takes space in its log.
    for it in 0..100 {
        let answer = server.delete(&object(it));
        assert!(answer.status < 300, "{it}: {}", answer.body);
    }
    server.text_until("/readyz", |_| is_ready(&server));
    assert_eq!(ledger.add(&server, 0), Some(200));
    ledger.check(&server);
}

#[test]
fn a_folder_on_a_read_only_mount_is_examined_and_inspected() {
    let Some(disk) = SmallDisk::new() else { return };
    let (server, ledger) = (Server::empty(), Ledger::default());
    assert_eq!(ledger.add(&server, 0), Some(200));
    // It has a log that nobody has folded.
    let killed = server.kill();
    let folder = killed.path().display();
    let copy = format!("cp -a '{folder}' \"$0/data\" && rm -f \"$0/data/reserve\"");
    std::fs::remove_file(killed.path().join("reserve")).unwrap();
    assert!(disk.shell(&copy));
    for index in ["", "exec rm \"$0/data/steadfast.db-shm\""] {
        assert!(index.is_empty() || disk.shell(index));
        assert!(disk.shell("exec mount -o remount,ro \"$0\""));
        let found = output(&mut disk.steadfast(&["doctor"]));
        let said = stdout(&found);
        // The disk is small, which is what fails.
        let failed = said.lines().filter(|it| it.contains("failed"));
        let failed: Vec<&str> = failed.map(|it| &it[..10]).collect();
        assert!(said.contains("served") && failed == ["disk space"], "{said}{}", stderr(&found));
        let server = disk.greet(&["inspect", "--listen", "127.0.0.1:0"]);
        ledger.check(&server);
        drop(server);
        assert!(disk.shell("exec mount -o remount,rw \"$0\""));
    }
}
