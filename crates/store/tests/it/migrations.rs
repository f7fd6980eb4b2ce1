//! A store of an earlier schema is brought up to date when it is opened, and keeps what it holds.

use std::sync::Arc;

use steadfast_store::{Commit, EntityKind, ManualClock, RunFilter, RunStatus, Store, Write};

use crate::lab::{self, Lab, Place, START, address_of, event};

/// One run with one message, as older code wrote it.
const FILL: &str = "UPDATE counter SET position = 1, at = 1;
    INSERT INTO message (position, stream, version, kind, direction, action, type, schema, ordered,
        created_at, data, metadata)
        VALUES (1, BYTES, 1, 'E', 'I', 'receive', 'begun', 1, FALSE, 1, '{}', '{}');
    INSERT INTO entity (id, shard, kind, class, name, created_at)
        VALUES (BYTES, 1, 'run', 'flow', 'old', 1);
    INSERT INTO meta VALUES ('schema', 2), ('needs', 1);";

async fn check(place: &Place) {
    let clock = ManualClock::at(START);
    let store: Arc<dyn Store> = lab::open(place, &clock).await.unwrap();
    let old = address_of(EntityKind::Run, "flow", "old");
    let read = store.read_stream(old.id(), 1, 9).await.unwrap();
    assert_eq!(read[0].message_type, "begun");
    // What older code began is no row until its next step.
    assert_eq!(store.runs(RunFilter::of("flow"), None, 9).await.unwrap(), []);
    let (run, status) = (old.clone(), RunStatus::Waiting);
    let step = Commit::append(&old, 1, vec![event("step")]);
    let step = step.write(Write::Run { run, status, expires: None });
    store.commit(step).await.unwrap().committed().unwrap();
    let found = store.runs(RunFilter::of("flow"), None, 9).await.unwrap();
    assert_eq!((&found[0].run, found[0].created_at), (&old, START));
    assert_eq!(store.violations().await.unwrap(), [""; 0]);
    store.commit(Commit::of(Write::EraseRun { run: old.id() })).await.unwrap().committed().unwrap();
    assert_eq!(store.version(old.id()).await.unwrap(), 0);
    store.close().await;
}

fn fill(bytes: fn(&str) -> String) -> String {
    let id = address_of(EntityKind::Run, "flow", "old").id().to_string();
    FILL.replace("BYTES", &bytes(&id))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_of_the_schema_before_runs_is_migrated() {
    let lab = Lab::sqlite().await;
    lab.store.close().await;
    let Place::Folder(folder) = &lab.place else { unreachable!() };
    let path = folder.path().join("steadfast.db");
    let file = rusqlite::Connection::open(&path).unwrap();
    let id = "application_id";
    let application: i64 = file.pragma_query_value(None, id, |row| row.get(0)).unwrap();
    drop(file);
    std::fs::remove_file(&path).unwrap();
    let file = rusqlite::Connection::open(&path).unwrap();
    file.pragma_update(None, id, application).unwrap();
    file.execute_batch("CREATE TABLE meta (key TEXT PRIMARY KEY, value INTEGER NOT NULL) STRICT")
        .unwrap();
    file.execute_batch(include_str!("../../migrations/0001.sqlite.sql")).unwrap();
    file.execute_batch(include_str!("../../migrations/0002.sqlite.sql")).unwrap();
    file.execute_batch(&fill(|id| format!("x'{id}'"))).unwrap();
    drop(file);
    check(&lab.place).await;
    let file = rusqlite::Connection::open(&path).unwrap();
    let needs = "SELECT value FROM meta WHERE key = 'needs'";
    let needs: i64 = file.query_row(needs, (), |row| row.get(0)).unwrap();
    assert_eq!(needs, 4, "older code leaves it alone");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_of_the_schema_before_runs_is_migrated() {
    let lab = Lab::postgres().await;
    lab.store.close().await;
    let Place::Database(url) = &lab.place else { unreachable!() };
    let again = "DO $$ BEGIN EXECUTE format('DROP SCHEMA %1$I CASCADE; CREATE SCHEMA %1$I', \
        current_schema()); END $$";
    lab::execute(url, again).await;
    lab::execute(url, "CREATE TABLE meta (key TEXT PRIMARY KEY, value BIGINT NOT NULL)").await;
    lab::execute(url, include_str!("../../migrations/0001.postgres.sql")).await;
    lab::execute(url, include_str!("../../migrations/0002.postgres.sql")).await;
    lab::execute(url, &fill(|id| format!("'\\x{id}'"))).await;
    check(&lab.place).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_without_its_entity_is_found() {
    let unknown = "INSERT INTO run VALUES (BYTES, 'flow', 'old', 'queued', 1, 1, NULL)";
    let id = address_of(EntityKind::Run, "flow", "old").id();
    let lab = Lab::sqlite().await;
    let Place::Folder(folder) = &lab.place else { unreachable!() };
    let file = rusqlite::Connection::open(folder.path().join("steadfast.db")).unwrap();
    file.execute_batch(&unknown.replace("BYTES", &format!("x'{id}'"))).unwrap();
    assert_eq!(lab.store.violations().await.unwrap(), ["1 runs of an unknown entity"]);
    let lab = Lab::postgres().await;
    let Place::Database(url) = &lab.place else { unreachable!() };
    lab::execute(url, &unknown.replace("BYTES", &format!("'\\x{id}'"))).await;
    assert_eq!(lab.store.violations().await.unwrap(), ["1 runs of an unknown entity"]);
}
