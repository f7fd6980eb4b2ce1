//! A private PostgreSQL cluster, which a test can stop.

use std::{
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
};

use tempfile::TempDir;

use crate::harness::{self, until};

/// A private cluster.
pub(crate) struct Cluster {
    folder: TempDir,
    /// Its URL.
    pub(crate) url: String,
}

impl Cluster {
    pub(crate) fn start() -> Self {
        let folder = open_folder();
        let url = run(&["start"], folder.path(), &[]);
        Self { folder, url }
    }

    /// A standby that replicates it.
    pub(crate) fn standby(&self, settings: &[&str]) -> Self {
        let folder = open_folder();
        let of = self.folder();
        let args = [&[of.to_str().expect("text")], settings].concat();
        let url = run(&["standby"], folder.path(), &args);
        Self { folder, url }
    }

    /// Promotes a standby to a primary.
    pub(crate) fn promote(&self) {
        run(&["promote"], self.folder.path(), &[]);
    }

    /// The folder of its socket.
    pub(crate) fn folder(&self) -> PathBuf {
        self.folder.path().join("pg")
    }

    /// The name of a standby for its primary.
    pub(crate) fn name(&self) -> &'static str {
        "pg"
    }

    /// Runs SQL; returns the first column of the first row as text.
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

    /// Waits until a standby has replicated everything.
    pub(crate) fn caught_up(&self, standby: &Self) {
        let here = self.sql("SELECT pg_current_wal_lsn()");
        let there = format!("SELECT pg_last_wal_replay_lsn() >= '{here}'::pg_lsn");
        until("the standby has it all", || standby.sql(&there) == "t");
    }

    /// Stops it immediately.
    pub(crate) fn stop(&self) {
        run(&["stop"], self.folder.path(), &["immediate"]);
    }

    /// Starts it again with its data.
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
    // PostgreSQL refuses to run as root, so another user must have access.
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
