//! A PostgreSQL of a test's own, to be taken away.

use std::{
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
};

use tempfile::TempDir;

use crate::harness;

/// A private cluster.
pub(crate) struct Cluster {
    folder: TempDir,
    /// How to reach it.
    pub(crate) url: String,
}

impl Cluster {
    pub(crate) fn start() -> Self {
        let folder = open_folder();
        let url = run(&["start"], folder.path(), &[]);
        Self { folder, url }
    }

    /// A standby of it, which follows.
    pub(crate) fn standby(&self, settings: &[&str]) -> Self {
        let folder = open_folder();
        let of = self.folder();
        let args = [&[of.to_str().expect("text")], settings].concat();
        let url = run(&["standby"], folder.path(), &args);
        Self { folder, url }
    }

    /// Makes a standby a primary.
    pub(crate) fn promote(&self) {
        run(&["promote"], self.folder.path(), &[]);
    }

    /// Where its socket is.
    pub(crate) fn folder(&self) -> PathBuf {
        self.folder.path().join("pg")
    }

    /// The name of a standby to its primary.
    pub(crate) fn name(&self) -> &'static str {
        "pg"
    }

    /// Asks in SQL; the first column of the first row as text.
    pub(crate) fn sql(&self, statement: &str) -> String {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime").block_on(async {
            let connected = tokio_postgres::connect(&self.url, tokio_postgres::NoTls).await;
            let (client, connection) = connected.expect("PostgreSQL answers");
            tokio::spawn(connection);
            let rows = client.simple_query(statement).await.expect("the statement runs");
            let first = rows.iter().find_map(|it| {
                let tokio_postgres::SimpleQueryMessage::Row(row) = it else { return None };
                row.get(0).map(String::from)
            });
            first.unwrap_or_default()
        })
    }

    /// Waits until a standby has all that this one has.
    pub(crate) fn caught_up(&self, standby: &Self) {
        let here = self.sql("SELECT pg_current_wal_lsn()");
        let there = format!("SELECT pg_last_wal_replay_lsn() >= '{here}'::pg_lsn");
        for _ in 0..6_000 {
            if standby.sql(&there) == "t" {
                return;
            }
            std::thread::park_timeout(std::time::Duration::from_millis(5));
        }
        panic!("the standby does not follow");
    }

    /// Takes it away without a goodbye.
    pub(crate) fn stop(&self) {
        run(&["stop"], self.folder.path(), &["immediate"]);
    }

    /// Brings it back with its data.
    pub(crate) fn start_again(&self) {
        run(&["start"], self.folder.path(), &[]);
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.stop();
    }
}

fn open_folder() -> TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    // PostgreSQL refuses to run as root, so another user must be able to look in.
    let open = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(folder.path(), open).expect("permissions are set");
    folder
}

fn run(verb: &[&str], folder: &Path, mode: &[&str]) -> String {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/postgres");
    let mut command = Command::new(script);
    command.args(verb).arg(folder.join("pg")).args(mode);
    let output = harness::output(&mut command);
    assert!(output.status.success(), "{verb:?} failed: {}", harness::stderr(&output));
    harness::stdout(&output).trim().to_owned()
}
