//! Stores of other programs, read-only folders, and settings.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use serde_json::{Value, json};
use steadfast_core::{App, Bucket, Object, Queue};
use steadfast_counter::{Counter, Increment};
use steadfast_store::BASELINE_FORMAT;
use tempfile::TempDir;

use crate::{
    harness::{Server, assert_fails_with, output, run, stderr, stdout, steadfast},
    seed::block_on,
};

const LOST: Queue<u32> = Queue::named("lost-property");
/// Size of a blob that is stored in a file, not in the store.
const LARGE: usize = 3 << 20;
const PHOTOS: Bucket = Bucket::named("photos");

fn other() -> App {
    App::new("other").object(Counter).queue(LOST).bucket(PHOTOS)
}

/// A folder of the program `other`, with a counter at 7, two messages in a queue, and a small and a
/// large blob in a bucket.
fn folder_of_other() -> TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let at = folder.path().to_str().expect("its name is text").to_owned();
    block_on(async {
        let program = other().open(&at).await.expect("it opens");
        let increment = Increment { by: 7 };
        program.call(Counter::at("a"), increment).await.expect("it counts");
        for number in [1, 2] {
            program.send(LOST, number).await.expect("it is sent");
        }
        for (key, bytes) in [("small", 3), ("large", LARGE)] {
            let put = program.bucket(PHOTOS).put(key, vec![b'x'; bytes]).await;
            put.expect("it is put");
        }
        program.stop().await;
    });
    folder
}

fn epoch(folder: &TempDir) -> i64 {
    let store = rusqlite::Connection::open(folder.path().join("steadfast.db")).expect("it opens");
    store.query_row("SELECT epoch FROM node", (), |row| row.get(0)).expect("it has an owner")
}

fn data(folder: &TempDir) -> &str {
    folder.path().to_str().expect("its name is text")
}

#[test]
fn a_folder_of_another_program_is_refused_and_stays_as_it_is() {
    let folder = folder_of_other();
    let before = epoch(&folder);
    let told = ["belongs to the program `other`, not to `steadfast`", "--adopt", "inspect"];
    assert_fails_with(&run(&["--listen", "127.0.0.1:0", "--data", data(&folder)]), &told);
    assert_fails_with(&run(&["objects", "list", "counter", "--data", data(&folder)]), &told);
    assert_eq!(epoch(&folder), before, "nothing was written");
    // The program is checked before the format.
    let store = rusqlite::Connection::open(folder.path().join("steadfast.db")).expect("it opens");
    store.execute("UPDATE meta SET value = 9 WHERE key = 'format'", ()).expect("it is written");
    assert_fails_with(&run(&["--listen", "127.0.0.1:0", "--data", data(&folder)]), &told);
    assert_eq!(epoch(&folder), before);
}

#[test]
fn a_wrong_setting_stops_serve_before_anything_is_opened_and_no_client_verb() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let store = folder.path().join("store");
    let wrong = |args: &[&str]| {
        let mut command = steadfast();
        command.env("STEADFAST_DRIFT_EXPLAINER_URL", "http://127.0.0.1:1/").args(args);
        output(&mut command)
    };
    let at = store.to_str().expect("its name is text");
    let refused = wrong(&["--listen", "127.0.0.1:0", "--data", at]);
    assert!(stderr(&refused).contains("--drift-explainer-url needs --drift-explainer-model"));
    assert!(!store.exists(), "nothing was opened");
    let server = Server::empty();
    assert!(wrong(&["streams", "list", "--server", &server.url]).status.success());
    let folder = server.kill();
    assert!(wrong(&["objects", "classes", "--data", data(&folder)]).status.success());
    assert!(stdout(&wrong(&["models", "pull", "--help"])).contains("resnet-50"));
}

#[test]
fn an_adopted_folder_belongs_to_the_new_program_and_unserved_work_is_reported() {
    let folder = folder_of_other();
    let server = Server::with(folder, &["--adopt"]);
    let checks: Value = serde_json::from_str(&server.get("/v1/doctor").body).expect("JSON");
    let served = checks["checks"].as_array().and_then(|all| {
        all.iter().find(|it| it["name"] == "served").map(|it| it["detail"].to_string())
    });
    let served = served.expect("the doctor looks at it");
    assert!(served.contains("2 messages for queue `lost-property`"), "{served}");
    assert!(server.get("/").body.contains("2 messages for queue `lost-property`"));
    let server = Server::on(server.kill());
    let read = server.post_json("/v1/objects/counter/a/calls/read", "", &[]);
    assert_eq!(read.body, "7", "it belongs to steadfast now");
}

#[test]
fn inspect_shows_everything_and_changes_nothing() {
    let folder = folder_of_other();
    let before = epoch(&folder);
    let mut command = steadfast();
    command.args(["inspect", "--listen", "127.0.0.1:0"]);
    let Ok(server) = Server::begin(command, folder) else { panic!("it greets") };
    let objects: Value =
        serde_json::from_str(&server.get("/v1/objects/counter").body).expect("JSON");
    assert_eq!(objects["items"][0]["name"], json!("a"), "{objects}");
    let pages = ["/", "/streams", "/queues", "/objects", "/objects/counter/a", "/streams/pending"];
    for page in pages {
        let answer = server.get(page);
        assert_eq!(answer.status, 200, "{page}: {}", answer.body);
    }
    assert!(server.get("/streams/pending").body.contains("lost-property"));
    let sql = server.post_json("/v1/objects/counter/a/sql", "{\"sql\":\"SELECT 6 * 7\"}", &[]);
    assert!(sql.body.contains("42"), "{}", sql.body);
    let listed = server.ask(&["objects", "list", "counter"]);
    assert!(stdout(&listed).lines().any(|it| it.starts_with("a ")), "{}", stdout(&listed));
    assert!(server.get("/v1/doctor").status < 300);
    let sent = server.post_json("/v1/queues/lost-property/messages", "{\"body\":3}", &[]);
    assert!(sent.body.contains("read_only"), "{}", sent.body);
    let folder = server.kill();
    assert_eq!(epoch(&folder), before, "nobody became its owner");
    let at = data(&folder).to_owned();
    let letters = block_on(async move {
        let program = other().open(&at).await.expect("it opens");
        let letters = program.store().pending(None, 0, 10).await.expect("it reads").len();
        program.stop().await;
        letters
    });
    assert_eq!(letters, 2);
    assert_fails_with(&run(&["inspect", "--data", "/nowhere"]), &["there is no steadfast.db"]);
}

/// Every file of a folder, with its bytes.
fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).expect("it is a folder") {
        let path = entry.expect("it is there").path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            let bytes = fs::read(&path).expect("it can be read");
            found.insert(path, bytes);
        }
    }
    found
}

#[test]
fn inspect_shows_buckets_and_changes_none_of_their_files() {
    let folder = folder_of_other();
    let blobs = folder.path().join("blobs");
    let before = files(&blobs);
    let mut command = steadfast();
    command.args(["inspect", "--listen", "127.0.0.1:0"]);
    let Ok(server) = Server::begin(command, folder) else { panic!("it greets") };
    let listed = server.json("/v1/buckets/photos/objects");
    let keys: Vec<_> =
        listed["items"].as_array().into_iter().flatten().map(|it| &it["key"]).collect();
    assert_eq!(keys, ["large", "small"], "{listed}");
    assert_eq!(server.bytes("/v1/buckets/photos/objects/small").0, b"xxx");
    assert_eq!(server.bytes("/v1/buckets/photos/objects/large").0.len(), LARGE);
    for page in ["/buckets", "/buckets/photos"] {
        let answer = server.get(page);
        assert_eq!(answer.status, 200, "{page}: {}", answer.body);
    }
    server.put_bytes("/v1/buckets/photos/objects/new", b"x", &[]).assert_problem(409, "read_only");
    server.delete("/v1/buckets/photos/objects/small").assert_problem(409, "read_only");
    server.put_json("/v1/buckets/drawings", &json!({})).assert_problem(409, "read_only");
    let folder = server.kill();
    assert_eq!(files(&blobs), before, "no file has changed");
    drop(folder);
}

#[test]
fn inspect_of_a_closed_store_lets_the_owner_of_the_folder_log_in() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let keys = tempfile::tempdir().expect("a temporary folder");
    let key = keys.path().join("key");
    fs::write(&key, "0a".repeat(32)).expect("it is written");
    let key = key.to_str().expect("its name is text");
    let server = Server::with(folder, &["--access", "closed", "--seal-key-file", key]).logged_in();
    assert_eq!(server.post_json("/v1/keys", "{}", &[]).status, 201);
    let folder = server.kill();
    let before = besides_store(folder.path());
    let mut command = steadfast();
    command.args(["inspect", "--listen", "127.0.0.1:0", "--seal-key-file", key]);
    let Ok(server) = Server::begin(command, folder) else { panic!("it greets") };
    server.get("/v1/queues").assert_problem(401, "token_needed");
    let link = server.greeting.split_whitespace().find_map(|it| it.split_once("/login#"));
    let form = format!("token=link:{}", link.expect("it prints a link").1);
    let kind = ("content-type", "application/x-www-form-urlencoded");
    let begun = server.post_form("/login", &form, &[("origin", &server.url), kind]);
    assert_eq!(begun.status, 303, "{}", begun.body);
    let cookie = begun.header("set-cookie").split(';').next().expect("a cookie").to_owned();
    let seen = server.get_with("/v1/queues", &[("cookie", &cookie)]);
    assert_eq!(seen.status, 200, "{}", seen.body);
    let doctor = server.get_with("/v1/doctor", &[("cookie", &cookie)]).json();
    let seal =
        doctor["checks"].as_array().and_then(|all| all.iter().find(|it| it["name"] == "seal key"));
    let detail = seal.expect("the doctor looks at it")["detail"].to_string();
    assert!(detail.contains(key) && !detail.contains("missing"), "{detail}");
    assert_eq!(server.post_form("/logout", "", &[("cookie", &cookie), kind]).status, 303);
    server.get_with("/v1/queues", &[("cookie", &cookie)]).assert_problem(401, "token_unknown");
    let folder = server.kill();
    assert!(besides_store(folder.path()) == before, "a file has changed");
}

/// The same without the database and the lock, which a reader opens as well.
fn besides_store(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = files(folder);
    let is_of_store =
        |it: &Path| it.file_name().is_some_and(|it| it.to_string_lossy().starts_with("steadfast."));
    found.retain(|path, _| !is_of_store(path));
    found
}

#[test]
fn inspect_refuses_a_folder_of_another_format() {
    let folder = folder_of_other();
    let store = rusqlite::Connection::open(folder.path().join("steadfast.db")).expect("it opens");
    store.execute("UPDATE meta SET value = 9 WHERE key = 'format'", ()).expect("it is written");
    drop(store);
    let refused = run(&["inspect", "--listen", "127.0.0.1:0", "--data", data(&folder)]);
    let known = format!("this program reads format {BASELINE_FORMAT}");
    assert_fails_with(&refused, &["has format 9", &known, "use the program that wrote it"]);
}

#[test]
fn settings_have_the_precedence_flag_variable_file_default() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("settings.toml");
    let text = "retention = 5\n[uploads]\nimage-bytes = 1000\nimage-frames = 7\n\
                [generations]\nrunware-key = \"secret\"\n[drift]\nhosts = [\"a\", \"b\"]";
    fs::write(&file, text).expect("it is written");
    let file = file.to_str().expect("its name is text");
    let mut command = steadfast();
    command.args(["config", "show", "--config", file, "--uploads-image-frames", "9"]);
    command.env("STEADFAST_UPLOADS_IMAGE_BYTES", "2000").env("STEADFAST_OBJECT_IDLE", "4");
    let shown = stdout(&output(&mut command));
    for line in [
        &format!("retention = 5  ({file})"),
        "object-idle = 4  (STEADFAST_OBJECT_IDLE)",
        "uploads-image-bytes = 2000  (STEADFAST_UPLOADS_IMAGE_BYTES)",
        "uploads-image-frames = 9  (flag)",
        &format!("generations-runware-key = ***  ({file})"),
        &format!("drift-hosts = a,b  ({file})"),
        "dead-retention = 90  (default)",
    ] {
        assert!(shown.lines().any(|it| it == line), "`{line}` is missing in {shown}");
    }
    assert!(!shown.contains("secret"), "{shown}");
    let mut command = steadfast();
    let variable = "STEADFAST_GENERATIONS_RUNWARE_URL";
    command.args(["config", "show"]).env(variable, "https://me:hidden@host/v1");
    command.env("STEADFAST_STORE", "postgres://me:hidden@host/db");
    let shown = stdout(&output(&mut command));
    let line = format!("generations-runware-url = https://me:***@host/v1  ({variable})");
    assert!(shown.contains(&line) && !shown.contains("hidden"), "{shown}");
    let help = stdout(&output(command.args(["--help"])));
    assert!(help.contains("--generations-runware-url") && !help.contains("hidden"), "{help}");
    let wrong = run(&["--store", "mysql://me:hidden@host/db"]);
    assert!(stderr(&wrong).contains("***") && !stderr(&wrong).contains("hidden"), "{wrong:?}");
    let silent = run(&["streams", "list", "--server", "http://me:hidden@127.0.0.1:1"]);
    assert!(stderr(&silent).contains("no answer") && !stderr(&silent).contains("hidden"));
}

#[test]
fn a_settings_file_is_refused_with_all_its_errors_before_anything_is_opened() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (file, store) = (folder.path().join("settings.toml"), folder.path().join("store"));
    fs::write(&file, "listen = 3\ncolour = \"red\"\n[uploads]\nclassifier = \"crystal\"")
        .expect("it is written");
    let mut command = steadfast();
    command.arg("--config").arg(&file).arg("--data").arg(&store);
    let refused = output(&mut command);
    assert_eq!(refused.status.code(), Some(1));
    for told in [
        "setting `listen` in",
        "unknown setting `colour` in",
        "setting `uploads-classifier` in",
        "possible values: embedded, workers-ai, onnx",
    ] {
        assert!(stderr(&refused).contains(told), "`{told}` is missing in {}", stderr(&refused));
    }
    assert!(!store.exists(), "nothing was opened");
    // Verbs that need no settings still work.
    fs::write(folder.path().join("steadfast.toml"), "colour = 1").expect("it is written");
    for args in [&["--help"][..], &["new", "--help"], &["streams", "list", "--help"]] {
        let mut command = steadfast();
        assert!(output(command.args(args).current_dir(folder.path())).status.success());
    }
    let missing = run(&["--config", "/nowhere.toml"]);
    assert_fails_with(&missing, &["settings file /nowhere.toml cannot be read"]);
}
