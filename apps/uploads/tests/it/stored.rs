//! Data that earlier versions have written.

use std::{cell::Cell, rc::Rc, sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use steadfast_core::{
    App, ConnectParams, Handle, Object, Result, Turn,
    bucket::MemoryBlobs,
    object::Query,
    store::{ManualClock, MemoryStore, Timestamp},
    test::TestApp,
};
use steadfast_uploads::{OrganizationWorkflow, Status, UPLOADS};
use steadfast_world::World;

use crate::stage::{ACME, Fake, delete_event, deliver, program, put, row, rows, start};

/// The tables as they were while rows could be hidden.
const HIDING: &str = "\
    CREATE TABLE Upload (
        name TEXT PRIMARY KEY,
        eventId TEXT NOT NULL UNIQUE,
        workflowId TEXT NOT NULL UNIQUE,
        status TEXT NOT NULL CHECK (status IN ('queued', 'running', 'classified', 'failed')),
        classificationLabel TEXT,
        classificationScore REAL,
        topFive TEXT,
        error TEXT,
        sequence INTEGER NOT NULL,
        version TEXT NOT NULL,
        size INTEGER NOT NULL,
        contentType TEXT,
        retries INTEGER NOT NULL DEFAULT 0,
        hiddenBy INTEGER,
        createdAt INTEGER NOT NULL,
        updatedAt INTEGER NOT NULL,
        completedAt INTEGER
    ) STRICT;
    CREATE INDEX UploadCreated ON Upload (createdAt, name);
    CREATE TABLE Tombstone (
        name TEXT PRIMARY KEY,
        sequence INTEGER NOT NULL,
        deletedAt INTEGER NOT NULL
    ) STRICT;
    CREATE INDEX TombstoneDeleted ON Tombstone (deletedAt)";

struct Before;

#[derive(Serialize, Deserialize)]
struct Write(String);

impl Object for Before {
    const CLASS: &'static str = "organization";
    type Calls = (Write,);
    const MIGRATIONS: &'static [&'static str] = &[HIDING];
}

impl Handle<Write> for Before {
    const NAME: &'static str = "write";
    type Reply = ();

    fn handle(&self, turn: &Turn<Self>, msg: Write) -> Result<()> {
        Ok(turn.sql().execute_batch(&msg.0)?)
    }
}

#[tokio::test]
async fn rows_that_an_earlier_version_has_hidden_are_deleted_and_others_stay() {
    let clock = ManualClock::at(Timestamp(1_700_000_000_000));
    let store = Arc::new(MemoryStore::new(Arc::new(clock.clone())));
    let before = App::new("test").object(Before).test_on(store.clone(), clock.clone());
    let before = before.await.unwrap();
    let insert = |name: &str, hidden: &str| {
        format!(
            "INSERT INTO Upload (name, eventId, workflowId, status, sequence, version, size, \
             hiddenBy, createdAt, updatedAt) VALUES ('{name}', 'e{name}', 'w{name}', \
             'classified', 3, 'v', 1, {hidden}, 1700000000000, 1700000000000);"
        )
    };
    let rows_then = insert("cat.png", "NULL") + &insert("dog.png", "4");
    before.call(Before::at(ACME), Write(rows_then)).await.unwrap();
    drop(before);

    let now = program(&Fake::default(), true);
    let now = now
        .blobs(Arc::new(MemoryBlobs::default()))
        .test_on(Arc::new(store.restart()), clock)
        .await
        .unwrap();
    let shown: Vec<String> = rows(&now).await.into_iter().map(|it| it.name).collect();
    assert_eq!(shown, ["cat.png"]);
    // The event of the deletion is still on its way.
    deliver(&now, &delete_event("dog.png", 4)).await;
    deliver(&now, &delete_event("cat.png", 4)).await;
    now.settle().await;
    assert_eq!((row(&now, "dog.png").await, row(&now, "cat.png").await), (None, None));
}

/// The changes of a turn have a limit, so a migration must not write every row.
#[tokio::test]
async fn an_organization_with_many_images_of_an_earlier_version_goes_on() {
    let clock = ManualClock::at(Timestamp(1_700_000_000_000));
    let store = Arc::new(MemoryStore::new(Arc::new(clock.clone())));
    let before = App::new("test").object(Before).test_on(store.clone(), clock.clone());
    let before = before.await.unwrap();
    for part in 0..10 {
        let rows = format!(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 5000)
             INSERT INTO Upload (name, eventId, workflowId, status, topFive, sequence, version,
             size, createdAt, updatedAt) SELECT 'p{part}-' || i, 'e{part}-' || i, 'w{part}-' || i,
             'classified', hex(zeroblob(200)), 3, 'v', 1, 1700000000000, 1700000000000 FROM n"
        );
        before.call(Before::at(ACME), Write(rows)).await.unwrap();
    }
    drop(before);
    let now = program(&Fake::default(), true);
    let now = now
        .blobs(Arc::new(MemoryBlobs::default()))
        .test_on(Arc::new(store.restart()), clock)
        .await
        .unwrap();
    deliver(&now, &delete_event("p0-1", 4)).await;
    now.settle().await;
    assert_eq!(row(&now, "p0-1").await, None);
    assert!(row(&now, "p9-5000").await.is_some());
}

/// Rows of a version that set no alarms: one is running, and its run is lost, and one is hidden.
fn rows_that_an_earlier_version_left_open_are_swept_after_any_call(
    world: impl Fn(Box<dyn Fn() -> App>) -> World,
    call: impl AsyncFn(&TestApp),
) {
    let is_old = Rc::new(Cell::new(true));
    let old = is_old.clone();
    let mut world = world(Box::new(move || match old.get() {
        true => App::new("test").bucket(UPLOADS).object(Before),
        false => program(&Fake::default(), true),
    }));
    world.on(async |app| {
        let blob = put(app, "cat.png", "cat").await;
        let (version, at) = (blob.version(), app.now().0);
        let rows = format!(
            "INSERT INTO Upload (name, eventId, workflowId, status, sequence, version, size, \
             hiddenBy, createdAt, updatedAt) VALUES \
             ('cat.png', 'e1', 'lost', 'running', {}, '{version}', 3, NULL, {at}, {at}), \
             ('dog.png', 'e2', 'w2', 'classified', 1, 'v', 3, 2, {at}, {at})",
            blob.sequence
        );
        app.call(Before::at(ACME), Write(rows)).await.unwrap();
    });
    is_old.set(false);
    world.end_during(0, async |_| {});
    world.on(async |app| {
        call(app).await;
        app.advance(Duration::from_mins(25)).await;
        // Asked without a turn, which would wake it.
        let asked = "SELECT name, status FROM Upload";
        assert_eq!(ask(app, asked).await, r#"[["cat.png","classified"]]"#);
        assert_eq!(ask(app, "SELECT count(*) FROM Tombstone").await, "[[1]]");
        app.advance(Duration::from_hours(31 * 24)).await;
        assert_eq!(ask(app, "SELECT count(*) FROM Tombstone").await, "[[0]]", "it was swept");
    });
}

async fn ask(app: &TestApp, sql: &str) -> String {
    let query = Query { sql: sql.into(), params: Value::Null, turn: None };
    let found = app.objects().query("organization", ACME, query).await.unwrap();
    serde_json::to_string(&found.rows).unwrap()
}

#[test]
fn rows_that_an_earlier_version_left_open_are_swept_on_sqlite() {
    let look = async |app: &TestApp| _ = rows(app).await;
    rows_that_an_earlier_version_left_open_are_swept_after_any_call(World::on_sqlite, look);
}

#[test]
fn rows_that_an_earlier_version_left_open_are_swept_on_postgres() {
    let look = async |app: &TestApp| _ = row(app, "cat.png").await;
    rows_that_an_earlier_version_left_open_are_swept_after_any_call(World::on_postgres, look);
}

#[test]
fn rows_that_an_earlier_version_left_open_are_swept_after_a_connection_or_an_old_event() {
    let connect = async |app: &TestApp| {
        app.objects().connect("organization", ACME, ConnectParams::new()).await.unwrap();
    };
    rows_that_an_earlier_version_left_open_are_swept_after_any_call(World::in_memory, connect);
    let event = async |app: &TestApp| deliver(app, &delete_event("dog.png", 2)).await;
    rows_that_an_earlier_version_left_open_are_swept_after_any_call(World::in_memory, event);
}

#[tokio::test]
async fn a_run_whose_record_an_earlier_version_has_written_goes_on() {
    let app = start(&Fake::default(), true).await;
    // How a step ended then that found no model.
    let not_ready = json!({ "NotReady": "model resnet-50 is not there" });
    let looks = app.script::<OrganizationWorkflow>("classify");
    looks.gives(&not_ready).gives(&not_ready);
    put(&app, "cat.png", "cat").await;
    app.settle().await;
    let waiting = row(&app, "cat.png").await.unwrap();
    assert_eq!(waiting.status, Status::Running);
    app.advance(Duration::from_mins(1)).await;
    assert_eq!(row(&app, "cat.png").await.unwrap().status, Status::Classified);
    let run = app.runs().run("image-classification", &waiting.workflow_id).await.unwrap();
    let steps: Vec<&str> = run.steps.iter().map(|it| it.0.as_str()).collect();
    assert!(steps.iter().any(|it| it.contains("classifier")), "it waited as then: {steps:?}");
}
