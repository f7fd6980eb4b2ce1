//! Objects that sleep: what they take in memory, what waking one takes, and whether many of them
//! make a turn dearer.

use std::{sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};
use steadfast::{
    Handle, Object, ObjectOptions, Objects, Result, Turn,
    store::{Clock, SqliteOptions, SqliteStore, Store, SystemClock},
};

use crate::measure::{median, now, rate, resident_mib, say};

struct Sleeper;

#[derive(Serialize, Deserialize)]
struct Increment;
#[derive(Serialize, Deserialize)]
struct Grow {
    bytes: u32,
}

impl Object for Sleeper {
    const CLASS: &'static str = "sleeper";
    type Calls = (Increment, Grow);
    const MIGRATIONS: &'static [&'static str] =
        &["CREATE TABLE counter (n INTEGER NOT NULL); INSERT INTO counter VALUES (0); \
           CREATE TABLE data (id INTEGER PRIMARY KEY, bytes BLOB NOT NULL)"];
}

impl Handle<Increment> for Sleeper {
    const NAME: &'static str = "increment";
    type Reply = i64;

    fn handle(&self, turn: &Turn<Self>, _: Increment) -> Result<i64> {
        let mut update = turn.sql().prepare_cached("UPDATE counter SET n = n + 1 RETURNING n")?;
        Ok(update.query_row((), |row| row.get(0))?)
    }
}

impl Handle<Grow> for Sleeper {
    const NAME: &'static str = "grow";
    type Reply = ();

    fn handle(&self, turn: &Turn<Self>, msg: Grow) -> Result<()> {
        turn.sql().execute("INSERT INTO data (bytes) VALUES (randomblob(?1))", [msg.bytes])?;
        Ok(())
    }
}

const MANY: usize = 100_000;

pub(crate) async fn run() {
    say("Objects that sleep");
    let folder = tempfile::tempdir().expect("temporary folder");
    let options = SqliteOptions::new(folder.path(), Arc::new(SystemClock));
    let store: Arc<dyn Store> = Arc::new(SqliteStore::open(options).expect("store opens"));
    let before = resident_mib();
    let objects = start(&store);
    let few = turns(&objects, 10).await;
    let began = now();
    each(&objects, MANY).await;
    let made = rate(MANY, began.elapsed());
    let awake = resident_mib();
    asleep(&objects).await;
    let idle = resident_mib();
    say(&format!("  {MANY} objects made              {made:>9.0}/s"));
    say(&format!("  resident while they were made      {awake:>9.1} MiB"));
    say(&format!("  resident when they sleep           {:>+9.1} MiB to the start", idle - before));
    wake(&objects).await;
    let many = turns(&objects, 10).await;
    let ratio = many.as_secs_f64() / few.as_secs_f64();
    say(&format!("  a turn among {MANY} / among 10   {ratio:>9.2} x"));
    store.close().await;
}

fn start(store: &Arc<dyn Store>) -> Objects {
    let options = ObjectOptions { idle_time: Duration::from_secs(1), ..ObjectOptions::default() };
    let objects = Objects::builder(store.clone()).class(Sleeper).options(options);
    objects.start().expect("objects start")
}

/// Calls objects, one each.
async fn each(objects: &Objects, count: usize) {
    let callers = (0..64).map(|caller| {
        let objects = objects.clone();
        tokio::spawn(async move {
            for number in (caller..count).step_by(64) {
                let name = Sleeper::at(format!("o {number}"));
                objects.call(name, Increment).await.expect("turn commits");
            }
        })
    });
    for caller in callers.collect::<Vec<_>>() {
        caller.await.expect("caller ends");
    }
}

/// The time of one turn, among so many objects in use.
async fn turns(objects: &Objects, count: usize) -> Duration {
    let mut times = Vec::new();
    for _ in 0..3 {
        let began = now();
        for _ in 0..200 {
            each(objects, count).await;
        }
        times.push(began.elapsed());
    }
    median(times)
}

async fn asleep(objects: &Objects) {
    while 0 < objects.awake() {
        SystemClock.sleep_until(SystemClock.now().after(Duration::from_millis(50))).await;
    }
}

/// Waking an object of a megabyte.
async fn wake(objects: &Objects) {
    let mut times = Vec::new();
    for number in 0..20 {
        let name = || Sleeper::at(format!("big {number}"));
        objects.call(name(), Grow { bytes: 1 << 20 }).await.expect("turn commits");
    }
    for number in 0..20 {
        asleep(objects).await;
        let began = now();
        let name = Sleeper::at(format!("big {number}"));
        objects.call(name, Increment).await.expect("turn commits");
        times.push(began.elapsed());
    }
    say(&format!("  waking one of 1 MB                 {:>9.2?} median", median(times)));
}
