//! A store of an earlier schema is migrated when it is opened, and keeps its data.

use std::{path::PathBuf, sync::Arc};

use steadfast_store::{
    Address, Commit, EntityKind, ManualClock, RunFilter, RunStatus, Store, Timestamp, Write,
};

use crate::lab::{self, Lab, Place, START, address, address_of, event};

/// One run with one message, as older code wrote it.
const FILL: &str = "UPDATE counter SET position = 1, at = 1;
    INSERT INTO message (position, stream, version, kind, direction, action, type, schema, ordered,
        created_at, data, metadata)
        VALUES (1, BYTES, 1, 'E', 'I', 'receive', 'begun', 1, FALSE, 1, '{}', '{}');
    INSERT INTO entity (id, shard, kind, class, name, created_at)
        VALUES (BYTES, 1, 'run', 'flow', 'old', 1);
    INSERT INTO meta VALUES ('schema', 2), ('needs', 1);";

async fn check_before_runs(place: &Place) {
    let clock = ManualClock::at(START);
    let store: Arc<dyn Store> = lab::open(place, &clock).await.unwrap();
    let old = run("old");
    let read = store.read_stream(old.id(), 1, 9).await.unwrap();
    assert_eq!(read[0].message_type, "begun");
    // A run that older code began has no row until its next step.
    assert_eq!(store.runs(RunFilter::of("flow"), None, 9).await.unwrap(), []);
    let (run, status) = (old.clone(), RunStatus::Waiting);
    let step = Commit::append(&old, 1, vec![event("step")]);
    let step = step.write(Write::Run { run, status, expires: None });
    store.commit(step).await.unwrap().committed().unwrap();
    let found = store.runs(RunFilter::of("flow"), None, 9).await.unwrap();
    assert_eq!((&found[0].run, found[0].created_at), (&old, START));
    assert_eq!(store.violations().await.unwrap(), [""; 0]);
    store
        .commit(Commit::of(Write::EraseRun { run: old.id(), dead_until: Timestamp::MIN }))
        .await
        .unwrap()
        .committed()
        .unwrap();
    assert_eq!(store.version(old.id()).await.unwrap(), 0);
    store.close().await;
}

fn before_runs() -> String {
    let id = run("old").id();
    FILL.replace("BYTES", &format!("x'{id}'"))
}

fn run(id: &str) -> Address {
    address_of(EntityKind::Run, "flow", id)
}

/// The same in both databases, except for the syntax of bytes.
fn bytes(sql: &str, before: &str) -> String {
    sql.replace("x'", before)
}

const SQLITE: [&str; 3] = [
    include_str!("../../migrations/0001.sqlite.sql"),
    include_str!("../../migrations/0002.sqlite.sql"),
    include_str!("../../migrations/0003.sqlite.sql"),
];

const POSTGRES: [&str; 6] = [
    include_str!("../../migrations/0001.postgres.sql"),
    include_str!("../../migrations/0002.postgres.sql"),
    include_str!("../../migrations/0003.postgres.sql"),
    include_str!("../../migrations/0004.postgres.sql"),
    include_str!("../../migrations/0005.postgres.sql"),
    include_str!("../../migrations/0006.postgres.sql"),
];

fn file(lab: &Lab) -> PathBuf {
    let Place::Folder(folder) = &lab.place else { unreachable!() };
    folder.path().join("steadfast.db")
}

/// A folder with a store of an earlier schema.
async fn old_folder(schema: usize, fill: &str) -> Lab {
    let lab = Lab::sqlite().await;
    lab.store.close().await;
    let path = file(&lab);
    let file = rusqlite::Connection::open(&path).unwrap();
    let id = "application_id";
    let application: i64 = file.pragma_query_value(None, id, |row| row.get(0)).unwrap();
    drop(file);
    std::fs::remove_file(&path).unwrap();
    let file = rusqlite::Connection::open(&path).unwrap();
    file.pragma_update(None, id, application).unwrap();
    file.execute_batch("CREATE TABLE meta (key TEXT PRIMARY KEY, value INTEGER NOT NULL) STRICT")
        .unwrap();
    SQLITE[..schema].iter().for_each(|it| file.execute_batch(it).unwrap());
    file.execute_batch(fill).unwrap();
    lab
}

/// The recorded schema of a database.
pub(crate) async fn schema_of(url: &str) -> i64 {
    let sql = "SELECT value FROM meta WHERE key = 'schema'";
    lab::client(url).await.query_one(sql, &[]).await.unwrap().get(0)
}

/// A database with a store of an earlier schema.
pub(crate) async fn old_database(schema: usize, fill: &str) -> Lab {
    let lab = Lab::postgres().await;
    lab.store.close().await;
    let Place::Database(url) = &lab.place else { unreachable!() };
    let again = "DO $$ BEGIN EXECUTE format('DROP SCHEMA %1$I CASCADE; CREATE SCHEMA %1$I', \
        current_schema()); END $$";
    lab::execute(url, again).await;
    lab::execute(url, "CREATE TABLE meta (key TEXT PRIMARY KEY, value BIGINT NOT NULL)").await;
    for migration in &POSTGRES[..schema] {
        lab::execute(url, migration).await;
    }
    lab::execute(url, &bytes(fill, "'\\x")).await;
    lab
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_of_the_schema_before_runs_is_migrated() {
    let lab = old_folder(2, &before_runs()).await;
    check_before_runs(&lab.place).await;
    let file = rusqlite::Connection::open(file(&lab)).unwrap();
    let needs = "SELECT value FROM meta WHERE key = 'needs'";
    let needs: i64 = file.query_row(needs, (), |row| row.get(0)).unwrap();
    assert_eq!(needs, 9, "older code would not keep the numbers of messages");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_of_the_schema_before_runs_is_migrated() {
    let lab = old_database(2, &before_runs()).await;
    check_before_runs(&lab.place).await;
}

/// Two streams with deleted messages, one that was only a target, and two runs, one of them without
/// a message.
fn before_origins() -> String {
    let mut sql = String::from(
        "UPDATE counter SET position = 9, at = 1;
         INSERT INTO meta VALUES ('schema', 3), ('needs', 3);",
    );
    let entities = [address("a"), address("b"), address("c"), run("r"), run("new")];
    for it in &entities {
        let (id, kind, class, name) = (it.id(), it.kind().tag(), it.class(), it.name());
        sql += &format!(
            "INSERT INTO entity (id, shard, kind, class, name, created_at)
             VALUES (x'{id}', 1, '{kind}', '{class}', '{name}', 1);"
        );
    }
    // Position, stream, version and target.
    for (position, of, version, target) in
        [(3, 0, 3, None), (4, 1, 1, None), (5, 0, 4, Some(2)), (8, 3, 1, None), (9, 1, 2, None)]
    {
        let (stream, target): (_, Option<usize>) = (entities[of].id(), target);
        let target = target.map_or("NULL".into(), |it| format!("x'{}'", entities[it].id()));
        sql += &format!(
            "INSERT INTO message (position, stream, version, kind, direction, action, type, schema,
                target, ordered, created_at, data, metadata)
             VALUES ({position}, x'{stream}', {version}, 'C', 'O', 'send', 'm{position}', 2,
                {target}, FALSE, 1, '{{\"n\":{position}}}', '{{}}');"
        );
    }
    sql + &format!(
        "INSERT INTO work (position, shard, target, ordered, due_at, attempts, forgiven)
         VALUES (5, 1, x'{}', FALSE, 1, 0, 0);
         INSERT INTO run VALUES (x'{}', 'flow', 'r', 'waiting', 1, 1, NULL),
         (x'{}', 'flow', 'new', 'queued', 0, 0, NULL);",
        entities[2].id(),
        entities[3].id(),
        entities[4].id()
    )
}

async fn check_before_origins(place: Place) {
    let clock = ManualClock::at(START);
    let store = lab::open(&place, &clock).await.unwrap();
    let mut lab = Lab { store, clock, place, memory: None };
    let read = async |lab: &Lab, stream: &Address| {
        let read = lab.store.read_stream(stream.id(), 1, 9).await.unwrap();
        read.iter().map(|it| (it.version, it.position)).collect::<Vec<_>>()
    };
    assert_eq!(read(&lab, &address("a")).await, [(3, 3), (4, 5)]);
    assert_eq!(read(&lab, &address("b")).await, [(1, 4), (2, 9)]);
    assert_eq!(read(&lab, &address("c")).await, []);
    let message = lab.store.message(5).await.unwrap().unwrap();
    assert_eq!((&*message.message_type, message.data.as_str()), ("m5", "{\"n\":5}"));
    assert_eq!((message.schema, message.target), (2, Some(address("c").id())));
    lab.assert_sound().await;
    // The streams continue, and the one without a message begins.
    for (stream, version) in [(address("a"), 4), (address("c"), 0), (run("r"), 1), (run("new"), 0)]
    {
        lab.committed(Commit::append(&stream, version, vec![event("x")])).await;
    }
    lab.reopen().await;
    assert_eq!(read(&lab, &address("a")).await, [(3, 3), (4, 5), (5, 10)]);
    assert_eq!(read(&lab, &address("c")).await, [(1, 11)]);
    assert_eq!(lab.store.pending(Some(address("a").id()), 0, 9).await.unwrap().len(), 1);
    let runs = lab.store.runs(RunFilter::of("flow"), None, 9).await.unwrap();
    let runs: Vec<_> = runs.iter().map(|it| (it.run.name(), it.status)).collect();
    assert_eq!(runs, [("r", RunStatus::Waiting), ("new", RunStatus::Queued)]);
    assert_eq!(read(&lab, &run("new")).await, [(1, 13)]);
    assert_eq!(lab.store.run(run("new").id()).await.unwrap().unwrap().run, run("new"));
    lab.assert_sound().await;
    let erase = Write::EraseRun { run: run("r").id(), dead_until: Timestamp::MIN };
    lab.committed(Commit::of(erase)).await;
    assert_eq!(read(&lab, &run("r")).await, []);
    assert_eq!(lab.store.run(run("r").id()).await.unwrap(), None);
    lab.assert_sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_of_the_schema_before_origins_is_migrated() {
    check_before_origins(old_folder(3, &before_origins()).await.place).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_of_the_schema_before_origins_is_migrated() {
    check_before_origins(old_database(3, &before_origins()).await.place).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_without_its_entity_is_found() {
    let id = run("old").id();
    let unknown =
        format!("INSERT INTO run VALUES (1, x'{id}', 'flow', 'old', 'queued', 1, 1, NULL)");
    let lab = Lab::sqlite().await;
    rusqlite::Connection::open(file(&lab)).unwrap().execute_batch(&unknown).unwrap();
    assert_eq!(lab.store.violations().await.unwrap(), ["1 runs of an unknown entity"]);
    let lab = Lab::postgres().await;
    let Place::Database(url) = &lab.place else { unreachable!() };
    lab::execute(url, &bytes(&unknown, "'\\x")).await;
    assert_eq!(lab.store.violations().await.unwrap(), ["1 runs of an unknown entity"]);
}
