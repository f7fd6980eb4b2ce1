//! The real binary with a wall clock that is set while it runs.

use std::path::{Path, PathBuf};

use serde_json::json;
use tempfile::TempDir;

use crate::{
    harness::{Server, steadfast},
    queues::{letters, mail, post, send},
};

/// A wall clock that the test sets, through a file with its offset.
pub(crate) struct Wall {
    library: String,
    folder: TempDir,
}

impl Wall {
    /// `None` without libfaketime: `./test` says so.
    pub(crate) fn of() -> Option<Self> {
        let library = std::env::var("STEADFAST_TEST_FAKETIME").ok()?;
        let wall = Self { library, folder: tempfile::tempdir().expect("a temporary folder") };
        wall.ahead(0);
        Some(wall)
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("ahead")
    }

    /// Sets the clock ahead of the true time by this many seconds, or behind it.
    pub(crate) fn ahead(&self, seconds: i64) {
        let new = self.folder.path().join("new");
        std::fs::write(&new, format!("{seconds:+}\n")).expect("a file is written");
        std::fs::rename(new, self.file()).expect("a file is renamed");
    }

    /// Serves a folder with this clock.
    pub(crate) fn serve(&self, folder: TempDir, flags: &[&str]) -> Server {
        let mut command = steadfast();
        command.args(["--listen", "127.0.0.1:0"]).args(flags);
        command.env("LD_PRELOAD", Path::new(&self.library));
        command.env("FAKETIME_TIMESTAMP_FILE", self.file()).env("FAKETIME_NO_CACHE", "1");
        command.env("FAKETIME_DONT_FAKE_MONOTONIC", "1").env("DONT_FAKE_MONOTONIC", "1");
        Server::begin(command, folder).expect("it greets")
    }
}

/// Checks that due work is done: mail is delivered, a message is pulled, a run ends.
fn works(server: &Server, round: &str) {
    let address = format!("{round}@example.org");
    mail(server, &address);
    server.json_until("/v1/queues/mail", |it| it["depth"] == 0);
    assert_eq!(letters(server, &address).len(), 1);
    send(server, "parcels", &json!(round));
    let pulled = post(server, "parcels/messages/pull", &json!({ "leaseMs": 60_000 })).json();
    assert_eq!(pulled["items"][0]["body"], round);
    let acks = json!({ "acks": [{ "leaseId": pulled["items"][0]["leaseId"] }] });
    assert_eq!(post(server, "parcels/messages/ack", &acks).json()["acked"], 1);
    let input = json!({ "customer": "Ada", "amounts": [1200] });
    let invoice = json!({ "id": round, "input": input }).to_string();
    let ended = server.post_json("/v1/workflows/invoice/runs?wait=30", &invoice, &[]).json();
    assert_eq!(ended["status"], "complete", "{ended}");
}

/// Waits until the doctor reports this about the clock.
fn clock_until(server: &Server, status: &str, words: &str) {
    server.json_until("/v1/doctor", |found| {
        let checks = found["checks"].as_array().expect("checks");
        let clock = checks.iter().find(|it| it["name"] == "clock").expect("a check of the clock");
        let detail = clock["detail"].as_str().expect("a detail");
        clock["status"] == status && detail.contains(words)
    });
}

#[test]
fn a_server_continues_and_reports_when_its_clock_is_set() {
    let Some(wall) = Wall::of() else { return };
    let server = wall.serve(tempfile::tempdir().expect("a temporary folder"), &[]);
    works(&server, "at-first");
    clock_until(&server, "ok", "agree");
    wall.ahead(3_600);
    clock_until(&server, "warning", "set forward by ");
    let page = server.get("/").body;
    assert!(page.contains("the wall clock was set forward by "), "{page}");
    works(&server, "an-hour-ahead");
    wall.ahead(0);
    clock_until(&server, "warning", "ahead of the wall clock");
    works(&server, "back-again");
    // The next process finds the last commit an hour ahead of its clock.
    let server = wall.serve(server.kill(), &[]);
    clock_until(&server, "warning", "ahead of the wall clock");
    works(&server, "the-next-process");
    wall.ahead(-30 * 86_400);
    works(&server, "a-month-behind");
    // It sleeps for a month, which is over when the clock is set.
    let body = json!({ "id": "r", "input": { "text": "milk" } }).to_string();
    server.post_json("/v1/workflows/reminder/runs", &body, &[]);
    server.json_until("/v1/workflows/reminder/runs/r", |it| it["status"] == "waiting");
    wall.ahead(31 * 86_400);
    server.json_until("/v1/workflows/reminder/runs/r", |it| it["status"] == "complete");
    works(&server, "a-month-ahead");
}
