//! Messages to queues that older code without queues wrote are in their queues.

use std::time::Duration;

use steadfast_store::{DueCursor, EntityKind, ManualClock, QueueDepth, Timestamp, Write};

use crate::lab::{self, Lab, Place, START, address_of};

/// Seven messages: to a queue pending, leased, dead, done and in order; elsewhere pending and dead.
const FILL: &str = "UPDATE counter SET position = 7, at = 1;
    INSERT INTO entity (id, shard, kind, class, name, created_at)
        VALUES (QUEUE, 1, 'queue', 'mail', '0', 1), (STREAM, 1, 'stream', 'lab', 's', 1);
    INSERT INTO message (position, stream, version, kind, direction, action, type, schema, target,
        ordered, created_at, data, metadata)
        VALUES (1, STREAM, 1, 'C', 'O', 'enqueue', 'mail', 1, QUEUE, FALSE, 1, '{\"n\":1}', '{}'),
               (2, STREAM, 2, 'C', 'O', 'enqueue', 'mail', 1, QUEUE, FALSE, 1, '{}', '{}'),
               (3, STREAM, 3, 'C', 'O', 'enqueue', 'mail', 1, QUEUE, FALSE, 1, '{}', '{}'),
               (4, STREAM, 4, 'C', 'O', 'enqueue', 'mail', 1, QUEUE, FALSE, 1, '{}', '{}'),
               (5, STREAM, 5, 'C', 'O', 'send', 'do', 1, STREAM, FALSE, 1, '{}', '{}'),
               (6, STREAM, 6, 'C', 'O', 'send', 'do', 1, STREAM, FALSE, 1, '{}', '{}'),
               (7, STREAM, 7, 'C', 'O', 'enqueue', 'mail', 1, QUEUE, TRUE, 1, '{}', '{}');
    INSERT INTO work (position, shard, target, ordered, due_at, attempts, forgiven, holder, lease,
        claimed_at)
        VALUES (1, 1, QUEUE, FALSE, 1, 2, 1, NULL, NULL, NULL),
               (2, 1, QUEUE, FALSE, LEASED, 1, 0, 0, 9, 1),
               (5, 1, STREAM, FALSE, 1, 0, 0, NULL, NULL, NULL),
               (7, 1, QUEUE, TRUE, 1, 0, 0, NULL, NULL, NULL);
    INSERT INTO outcome (position, state, settled_at, attempts, error)
        VALUES (3, 'dead', 1, 4, 'no street'), (4, 'done', 1, 1, NULL), (6, 'dead', 1, 1, 'no');
    INSERT INTO attempt VALUES (1, 1, 1, 1, 'first'), (1, 2, 1, 1, 'second'),
        (3, 4, 1, 1, 'no street'), (6, 1, 1, 1, 'no');
    INSERT INTO meta VALUES ('schema', 3), ('needs', 3);";

fn fill(bytes: fn(&str) -> String) -> String {
    let id = |kind, class, name| bytes(&address_of(kind, class, name).id().to_string());
    FILL.replace("QUEUE", &id(EntityKind::Queue, "mail", "0"))
        .replace("STREAM", &id(EntityKind::Stream, "lab", "s"))
        .replace("LEASED", &START.after(Duration::from_secs(30)).0.to_string())
}

async fn check(place: &Place) {
    let clock = ManualClock::at(START);
    let store = lab::open(place, &clock).await.unwrap();
    let queue = address_of(EntityKind::Queue, "mail", "0").id();
    let depth = store.queue_depth(queue, START).await.unwrap();
    let oldest = Some(Timestamp(1));
    assert_eq!(depth, QueueDepth { ready: 1, delayed: 0, leased: 1, dead: 1, oldest });
    let found = store.queue_messages(queue, DueCursor::START, Timestamp::MAX, 9).await.unwrap();
    let told: Vec<_> =
        found.iter().map(|it| (it.message.position, it.attempts, it.tries())).collect();
    assert_eq!(told, [(1, 2, 1), (2, 1, 1)]);
    assert_eq!(found[0].message.data.as_str(), r#"{"n":1}"#);
    assert_eq!(found[0].message.last_error.as_deref(), Some("second"));
    let dead = store.dead_letters(queue, 0, 9).await.unwrap();
    assert_eq!(dead.iter().map(|it| it.position).collect::<Vec<_>>(), [3]);
    // Ordered work is not in a queue: the dispatcher delivers it.
    let due = store.due(DueCursor::START, 9).await.unwrap();
    assert_eq!(due.iter().map(|it| it.position).collect::<Vec<_>>(), [5, 7]);
    let revive = steadfast_store::Commit::of(Write::Revive { position: 3 });
    store.commit(revive).await.unwrap().committed().unwrap();
    assert_eq!(store.queue_depth(queue, START).await.unwrap().ready, 2);
    assert_eq!(store.violations().await.unwrap(), [""; 0]);
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_of_the_schema_before_queues_is_migrated() {
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
    file.execute_batch(include_str!("../../migrations/0003.sqlite.sql")).unwrap();
    file.execute_batch(&fill(|id| format!("x'{id}'"))).unwrap();
    drop(file);
    check(&lab.place).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_of_the_schema_before_queues_is_migrated() {
    let lab = Lab::postgres().await;
    lab.store.close().await;
    let Place::Database(url) = &lab.place else { unreachable!() };
    let again = "DO $$ BEGIN EXECUTE format('DROP SCHEMA %1$I CASCADE; CREATE SCHEMA %1$I', \
        current_schema()); END $$";
    lab::execute(url, again).await;
    lab::execute(url, "CREATE TABLE meta (key TEXT PRIMARY KEY, value BIGINT NOT NULL)").await;
    lab::execute(url, include_str!("../../migrations/0001.postgres.sql")).await;
    lab::execute(url, include_str!("../../migrations/0002.postgres.sql")).await;
    lab::execute(url, include_str!("../../migrations/0003.postgres.sql")).await;
    lab::execute(url, &fill(|id| format!("'\\x{id}'"))).await;
    check(&lab.place).await;
}
