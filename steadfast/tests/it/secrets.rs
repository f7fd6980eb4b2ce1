//! Secrets at rest: the store holds them sealed, and the key is in a file of its own.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    time::Duration,
};

use serde_json::{Value, json};
use steadfast_bucket::{AccessKey, BlobKey, BucketName, KeyScope};
use steadfast_s3::{PresignMethod, presign};
use steadfast_store::{Clock, SystemClock, Timestamp};
use tempfile::TempDir;

use crate::{
    harness::{
        Answer, Server, assert_fails_with, get_url, output, put_url, run, stdout, steadfast,
    },
    seed,
};

fn folder() -> TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

fn key(id: &str, secret: &str) -> AccessKey {
    let (scope, created_at) = (KeyScope::default(), Timestamp::default());
    AccessKey { id: id.into(), secret: secret.into(), scope, created_at }
}

fn create_key(server: &Server) -> AccessKey {
    let made: Value = serde_json::from_str(&stdout(&server.ask(&["keys", "create", "--json"])))
        .expect("a key is JSON");
    let text = |name: &str| made[name].as_str().expect("a text").to_owned();
    key(&text("accessKeyId"), &text("secretAccessKey"))
}

fn url(server: &Server, key: &AccessKey, method: PresignMethod) -> String {
    let (bucket, blob) =
        (BucketName::new("photos").expect("a value"), BlobKey::new("cat").expect("a value"));
    let (minute, now) = (Duration::from_mins(1), SystemClock.now());
    presign(server.s3_url(), key, method, (&bucket, &blob), minute, now).expect("a value")
}

fn put(server: &Server, key: &AccessKey) -> Answer {
    assert!(server.put_json("/v1/buckets/photos", &json!({})).status < 300);
    put_url(&url(server, key, PresignMethod::Put), b"a cat")
}

fn get(server: &Server, key: &AccessKey) -> Answer {
    get_url(&url(server, key, PresignMethod::Get))
}

fn check(server: &Server, name: &str) -> Value {
    let doctor = server.json("/v1/doctor");
    let checks = doctor["checks"].as_array().expect("checks");
    checks.iter().find(|it| it["name"] == name).expect("a check of this name").clone()
}

/// The files below a folder that contain a text.
pub(crate) fn with_text(folder: &Path, text: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("a folder").map(|it| it.expect("an entry").path());
    let look = |path: PathBuf| match path.is_dir() {
        true => with_text(&path, text),
        false => {
            let bytes = fs::read(&path).expect("a file");
            let is_in = bytes.windows(text.len()).any(|it| it == text.as_bytes());
            is_in.then_some(path).into_iter().collect()
        }
    };
    entries.flat_map(look).collect()
}

#[test]
fn an_access_key_is_sealed_on_the_disk_and_signs_after_a_restart() {
    let server = Server::empty();
    let key = create_key(&server);
    assert_eq!(put(&server, &key).status, 200);
    let found = with_text(server.folder(), key.secret.expose());
    assert!(found.is_empty(), "{found:?} contain the secret");
    assert!(!with_text(server.folder(), &key.id).is_empty(), "the id is not sealed");
    let mode = fs::metadata(server.folder().join("seal.key")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(check(&server, "seal key")["status"], "ok");
    let server = Server::on(server.kill());
    let answer = get(&server, &key);
    assert_eq!((answer.status, &*answer.body), (200, "a cat"));
}

#[test]
fn a_backup_without_the_key_serves_everything_but_secrets() {
    let server = Server::empty();
    let lost = create_key(&server);
    assert_eq!(put(&server, &lost).status, 200);
    let data = server.stop();
    // The commands of docs/operations.md copy these two.
    let backup = folder();
    fs::copy(data.join("steadfast.db"), backup.path().join("steadfast.db")).unwrap();
    copy_all(&data.join("blobs"), &backup.path().join("blobs"));
    let kept = fs::read_to_string(data.join("seal.key")).unwrap();
    assert!(with_text(backup.path(), kept.trim()).is_empty());

    let server = Server::on(backup);
    assert!(!server.folder().join("seal.key").exists(), "no new key is made silently");
    let answer = get(&server, &lost);
    assert_eq!(answer.status, 503, "{}", answer.body);
    assert!(answer.body.contains("seal_key_missing"), "{}", answer.body);
    let problem = server.post_json("/v1/keys", "{}", &[]);
    problem.assert_problem(503, "seal_key_missing");
    let path = server.folder().join("seal.key").display().to_string();
    for shown in [&*path, "does not exist", "--seal-key-file"] {
        assert!(problem.body.contains(shown), "{shown} is missing in {}", problem.body);
    }
    let doctor = check(&server, "seal key");
    assert_eq!(doctor["status"], "failed", "{doctor}");
    assert_eq!(server.get("/v1/buckets/photos/objects/cat").body, "a cat");
    assert!(server.get("/v1/keys").body.contains(&lost.id));
    let counted = server.post_json("/v1/objects/counter/a/calls/increment", "{}", &[]);
    assert!(counted.status < 500, "{}", counted.body);

    // With the key it works as before.
    let backup = server.kill();
    let elsewhere = folder();
    let file = elsewhere.path().join("key");
    fs::write(&file, kept).unwrap();
    let server = Server::with(backup, &["--seal-key-file", file.to_str().unwrap()]);
    assert_eq!(get(&server, &lost).status, 200);
    let doctor = check(&server, "seal key");
    assert_eq!(doctor["status"], "warning", "others may read it: {doctor}");

    // If it is lost for ever, the operator says so.
    let server = Server::with(server.kill(), &["--replace-seal-key"]);
    assert_eq!(get(&server, &lost).status, 503);
    let new = create_key(&server);
    assert_eq!(get(&server, &new).status, 200);
    let server = Server::on(server.kill());
    assert_eq!(get(&server, &new).status, 200);
}

fn copy_all(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a file");
    for entry in fs::read_dir(from).expect("a file") {
        let path = entry.expect("a file").path();
        let to = to.join(path.file_name().expect("a file"));
        if path.is_dir() {
            copy_all(&path, &to);
        } else {
            fs::copy(&path, &to).expect("a file");
        }
    }
}

#[test]
fn a_new_seal_key_seals_access_keys_at_the_start_and_they_still_sign() {
    let server = Server::empty();
    let keys: Vec<AccessKey> = (0..3).map(|_| create_key(&server)).collect();
    assert_eq!(put(&server, &keys[0]).status, 200);
    let mut folder = server.kill();
    let file = folder.path().join("seal.key");
    let first = fs::read_to_string(&file).unwrap();
    let second = "0a".repeat(32);
    fs::write(&file, format!("{second}\n{first}")).unwrap();
    // Killed before, in and after the commits that seal them again: both keys are read.
    for at in 1..=6 {
        let mut command = steadfast();
        command.env("STEADFAST_CRASH_AT", format!("commit.written:{at}"));
        command.args(["--listen", "127.0.0.1:0"]);
        folder = match Server::begin(command, folder) {
            Err(folder) => folder,
            Ok(server) => server.kill(),
        };
    }
    let server = Server::on(folder);
    assert!(keys.iter().all(|key| get(&server, key).body == "a cat"));
    // From now on the first key is not needed.
    let folder = server.kill();
    fs::write(&file, second).unwrap();
    let server = Server::on(folder);
    assert!(keys.iter().all(|key| get(&server, key).body == "a cat"));
}

#[test]
fn a_key_is_created_in_a_folder_with_the_key_file_of_the_environment() {
    let (data, elsewhere) = (folder(), folder());
    seed::fill(data.path());
    let file = elsewhere.path().join("key");
    fs::write(&file, "0a".repeat(32)).unwrap();
    let mut command = steadfast();
    command.args(["keys", "create", "--json", "--data"]).arg(data.path());
    let made = stdout(&output(command.env("STEADFAST_SEAL_KEY_FILE", &file)));
    assert!(made.contains("secretAccessKey"), "{made}");
    assert!(!data.path().join("seal.key").exists());
    let folder = data.path().to_str().unwrap();
    assert_fails_with(&run(&["keys", "create", "--data", folder]), &["seal_key_missing"]);
}

#[test]
fn a_secret_setting_comes_from_a_file_and_is_not_shown() {
    let folder = folder();
    let file = folder.path().join("store");
    fs::write(&file, "postgres://me:Hu5h@nowhere.invalid/db\n").unwrap();
    let show = |more: &[(&str, &str)]| {
        let mut command = steadfast();
        command.current_dir(folder.path()).args(["config", "show"]);
        output(command.env("STEADFAST_STORE_FILE", &file).envs(more.iter().copied()))
    };
    let shown = stdout(&show(&[]));
    assert!(shown.contains("store = ***  (STEADFAST_STORE_FILE)\n"), "{shown}");
    assert!(!shown.contains("Hu5h"), "{shown}");
    let both = show(&[("STEADFAST_STORE", "sqlite")]);
    assert_fails_with(&both, &["STEADFAST_STORE and STEADFAST_STORE_FILE are both set"]);
}
