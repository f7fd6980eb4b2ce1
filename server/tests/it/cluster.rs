//! A PostgreSQL of a test's own, to be taken away.

use std::{os::unix::fs::PermissionsExt, path::Path, process::Command};

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
        let folder = tempfile::tempdir().expect("a temporary folder");
        // PostgreSQL refuses to run as root, so another user must be able to look in.
        let open = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(folder.path(), open).expect("permissions are set");
        let url = run(&["start"], folder.path(), &[]);
        Self { folder, url }
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

fn run(verb: &[&str], folder: &Path, mode: &[&str]) -> String {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/postgres");
    let mut command = Command::new(script);
    command.args(verb).arg(folder.join("pg")).args(mode);
    let output = harness::output(&mut command);
    assert!(output.status.success(), "{verb:?} failed: {}", harness::stderr(&output));
    harness::stdout(&output).trim().to_owned()
}
