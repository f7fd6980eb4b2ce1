//! Memory of sleeping objects: next to nothing.

use std::{sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};
use steadfast_core::{
    Handle, Object, ObjectOptions, Objects, Result, Turn,
    store::{ManualClock, SqliteOptions, SqliteStore, Store, Timestamp},
};

use super::{is_alone, mib};

/// In memory they take some 300 MB.
const MANY: usize = 2_000;
const IDLE: Duration = Duration::from_secs(30);

/// Far below that, and far above the size of the store's caches.
const GROWTH_MIB_MAX: usize = 64;

struct Counter;

#[derive(Serialize, Deserialize)]
struct Increment;

impl Object for Counter {
    const CLASS: &'static str = "counter";
    type Calls = (Increment,);
    const MIGRATIONS: &'static [&'static str] =
        &["CREATE TABLE counter (n INTEGER NOT NULL); INSERT INTO counter VALUES (0)"];
}

impl Handle<Increment> for Counter {
    const NAME: &'static str = "increment";
    type Reply = i64;

    fn handle(&self, turn: &Turn<Self>, _: Increment) -> Result<i64> {
        let mut update = turn.sql().prepare_cached("UPDATE counter SET n = n + 1 RETURNING n")?;
        Ok(update.query_row((), |row| row.get(0))?)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn objects_that_sleep_take_no_memory() {
    if !is_alone("memory::objects::objects_that_sleep_take_no_memory") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let clock = ManualClock::at(Timestamp(1_000_000_000));
    let options = SqliteOptions::new(folder.path(), Arc::new(clock.clone()));
    let store: Arc<dyn Store> = Arc::new(SqliteStore::open(options).unwrap());
    let options = ObjectOptions {
        awake_max: MANY,
        awake_bytes_max: 1 << 30,
        idle_time: IDLE,
        ..ObjectOptions::default()
    };
    let builder = Objects::builder(store.clone()).class(Counter);
    let objects = builder.options(options).start().unwrap();
    let before = mib("VmRSS:");
    let callers = (0..64).map(|caller| {
        let objects = objects.clone();
        tokio::spawn(async move {
            for number in (caller..MANY).step_by(64) {
                let name = Counter::at(format!("o {number}"));
                assert_eq!(objects.call(name, Increment).await.unwrap(), 1);
            }
        })
    });
    for caller in callers.collect::<Vec<_>>() {
        caller.await.unwrap();
    }
    assert_eq!(objects.awake(), MANY);
    let awake = mib("VmRSS:");
    for round in 0..2_000_000 {
        if objects.awake() == 0 && mib("VmRSS:") <= before + GROWTH_MIB_MAX {
            let seven = objects.call(Counter::at("o 7"), Increment).await.unwrap();
            assert_eq!(seven, 2, "it wakes as it was");
            store.close().await;
            return;
        }
        // Other tasks must run before time advances.
        tokio::task::spawn_blocking(|| ()).await.unwrap();
        if round % 50 == 0 {
            clock.advance(IDLE);
        }
    }
    let (left, now) = (objects.awake(), mib("VmRSS:"));
    panic!("{left} are awake; resident: {before} MiB, then {awake}, now {now}");
}
