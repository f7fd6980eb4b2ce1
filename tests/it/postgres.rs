//! PostgreSQL for tests: a schema in the one that `./test` started, or a cluster of the test.

use std::{os::unix::fs::PermissionsExt, path::Path, process::Command};

use steadfast_core::store::{Entropy, SeededEntropy};

/// The URL of a fresh schema.
pub(crate) async fn schema() -> String {
    let url = std::env::var("STEADFAST_TEST_POSTGRES").expect(
        "STEADFAST_TEST_POSTGRES is not set: run ./test, or `tests/postgres start FOLDER` and set \
         it to what that prints",
    );
    // A process of the same run may have had the number of this one.
    let schema = format!("kills_{:016x}", SeededEntropy::from_system().next());
    let connected = tokio_postgres::connect(&url, tokio_postgres::NoTls).await;
    let (client, connection) = connected.expect("PostgreSQL answers");
    tokio::spawn(connection);
    client.batch_execute(&format!("CREATE SCHEMA {schema}")).await.expect("schema is made");
    format!("{url}&options=-c%20search_path%3D{schema}")
}

/// A cluster that a test may kill.
pub(crate) struct Cluster {
    pub(crate) url: String,
    folder: tempfile::TempDir,
}

impl Cluster {
    pub(crate) fn start() -> Self {
        let folder = tempfile::tempdir().expect("temporary folder");
        // PostgreSQL refuses to run as root, so another user must be able to read the folder.
        let open = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(folder.path(), open).expect("permissions are set");
        let url = run(&["start"], &folder.path().join("pg"));
        Self { url, folder }
    }

    /// Like a power failure: no clean shutdown, then recovery.
    pub(crate) fn kill_and_restart(&self) {
        let place = self.folder.path().join("pg");
        run(&["stop"], &place);
        run(&["start"], &place);
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        run(&["stop"], &self.folder.path().join("pg"));
    }
}

fn run(verb: &[&str], place: &Path) -> String {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("postgres");
    let mut command = Command::new(script);
    command.args(verb).arg(place);
    if verb == ["stop"] {
        command.arg("immediate");
    }
    let output = command.output().expect("the script runs");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{verb:?} failed: {error}");
    String::from_utf8(output.stdout).expect("text").trim().to_owned()
}
