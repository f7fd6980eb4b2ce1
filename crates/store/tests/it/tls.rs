//! Encrypted connections, and verification of the server.

use std::{
    os::unix::fs::{MetadataExt, PermissionsExt, chown},
    path::Path,
    process::Command,
    sync::Arc,
};

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use steadfast_store::{Commit, ManualClock, OpenError, PostgresOptions, PostgresStore, Store};

use crate::lab::{self, START, address, event};

/// A PostgreSQL of the test that listens on a port of this machine.
struct Cluster {
    folder: tempfile::TempDir,
    socket: String,
    port: u16,
}

fn script(verb: &str, folder: &Path, settings: &[&str]) -> String {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/postgres");
    let output = Command::new(script).arg(verb).arg(folder).args(settings).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{verb}: {said}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

impl Cluster {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let open = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(folder.path(), open).unwrap();
        // A port that was free a moment ago.
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = free.local_addr().unwrap().port();
        drop(free);
        let (listen, number) = ("listen_addresses=127.0.0.1", format!("port={port}"));
        let socket = script("start", &folder.path().join("pg"), &["-c", listen, "-c", &number]);
        Self { folder, socket, port }
    }

    /// Encrypts from now on, with a certificate for `name`. Returns the root.
    async fn encrypt(&self, name: &str) -> String {
        let root_key = KeyPair::generate().unwrap();
        let mut root = CertificateParams::default();
        root.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let root_pem = root.self_signed(&root_key).unwrap().pem();
        let issuer = Issuer::new(root, root_key);
        let key = KeyPair::generate().unwrap();
        let server = CertificateParams::new([name.to_owned()]).unwrap();
        let server = server.signed_by(&key, &issuer).unwrap();
        let data = self.folder.path().join("pg/data");
        let owner = std::fs::metadata(&data).unwrap();
        for (file, text) in [("server.crt", server.pem()), ("server.key", key.serialize_pem())] {
            let path = data.join(file);
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
            chown(&path, Some(owner.uid()), Some(owner.gid())).unwrap();
        }
        lab::execute(&self.socket, "ALTER SYSTEM SET ssl = on").await;
        lab::execute(&self.socket, "SELECT pg_reload_conf()").await;
        let client = lab::client(&self.socket).await;
        crate::wait::until("it encrypts", async || {
            client.query_one("SHOW ssl", &[]).await.unwrap().get::<_, &str>(0) == "on"
        })
        .await;
        let path = self.folder.path().join(format!("{name}.pem"));
        std::fs::write(&path, root_pem).unwrap();
        path.display().to_string()
    }

    async fn open(&self, host: &str, params: &str) -> Result<Arc<dyn Store>, OpenError> {
        let url = format!("postgres://steadfast@{host}:{}/postgres?{params}", self.port);
        let clock = Arc::new(ManualClock::at(START));
        Ok(Arc::new(PostgresStore::open(PostgresOptions::new(url, clock)).await?))
    }

    /// Whether each connection with this name is encrypted.
    async fn encrypted(&self, name: &str) -> Vec<bool> {
        let sql = "SELECT ssl FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) \
            WHERE application_name = $1";
        let rows = lab::client(&self.socket).await.query(sql, &[&name]).await.unwrap();
        rows.iter().map(|row| row.get(0)).collect()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        script("stop", &self.folder.path().join("pg"), &["immediate"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_with_a_certificate_of_its_name_is_trusted_and_no_other() {
    let cluster = Cluster::start();
    let error = cluster.open("localhost", "sslmode=verify-full").await.err().expect("refused");
    assert!(error.to_string().contains("does not support TLS"), "{error}");
    let root = cluster.encrypt("localhost").await;
    let trusted = format!("sslmode=verify-full&sslrootcert={root}&application_name=trusted");
    let store = cluster.open("localhost", &trusted).await.unwrap();
    store.commit(Commit::append(&address("a"), 0, vec![event("x")])).await.unwrap();
    assert_eq!(store.version(address("a").id()).await.unwrap(), 1);
    let encrypted = cluster.encrypted("trusted").await;
    assert!(2 <= encrypted.len() && encrypted.iter().all(|it| *it), "{encrypted:?}");
    store.close().await;
    // Another name than the certificate has.
    let error = cluster.open("127.0.0.1", &trusted).await.err().expect("refused").to_string();
    assert!(error.contains("certificate not valid for name"), "{error}");
    // A certificate of an unknown authority.
    let error = cluster.open("localhost", "sslmode=verify-full").await.err().expect("refused");
    let error = error.to_string();
    assert!(error.contains("UnknownIssuer") || error.contains("no root certificates"), "{error}");
    // The operator has turned encryption off.
    let plain = "sslmode=disable&application_name=plain";
    let store = cluster.open("localhost", plain).await.unwrap();
    assert_eq!(store.version(address("a").id()).await.unwrap(), 1);
    assert!(cluster.encrypted("plain").await.iter().all(|it| !it));
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_sent_in_the_clear_to_another_machine_unless_the_url_says_so() {
    let open = async |url: &str| {
        let clock = Arc::new(ManualClock::at(START));
        let opened = PostgresStore::open(PostgresOptions::new(url, clock)).await;
        opened.err().expect("refused").to_string()
    };
    let error = open("postgres://me:secret@db.example.com/d?sslmode=prefer").await;
    assert!(error.contains("sslmode=prefer may send everything in the clear"), "{error}");
    assert!(!error.contains("secret"), "{error}");
}
