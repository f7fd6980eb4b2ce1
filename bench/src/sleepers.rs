//! Sleeping objects: their memory, the time to load one, and whether many of them slow turns down.

use std::{sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};
use steadfast_core::{
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

/// Objects that are created and measured while they sleep.
const MANY: usize = 100_000;

/// Objects in the store in the end, unless another number is given.
const MOST: usize = 1_000_000;

/// Objects in use, in both stores.
const FEW: usize = 10;

struct Place {
    objects: Objects,
    store: Arc<dyn Store>,
    _folder: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("temporary folder");
        let options = SqliteOptions::new(folder.path(), Arc::new(SystemClock));
        let store: Arc<dyn Store> = Arc::new(SqliteStore::open(options).expect("store opens"));
        let options =
            ObjectOptions { idle_time: Duration::from_secs(1), ..ObjectOptions::default() };
        let objects = Objects::builder(store.clone()).class(Sleeper).options(options);
        let objects = objects.start().expect("objects start");
        Self { objects, store, _folder: folder }
    }
}

pub(crate) async fn run() {
    let most = std::env::args().nth(2).and_then(|it| it.parse().ok()).unwrap_or(MOST);
    say("Objects that sleep");
    let before = resident_mib();
    let large = Place::new();
    let began = now();
    each(&large.objects, 0..MANY, 64).await;
    let made = rate(MANY, began.elapsed());
    let awake = resident_mib();
    let idle = asleep(&large.objects).await;
    say(&format!("  {MANY} objects made              {made:>9.0}/s"));
    say(&format!("  resident while they were made      {awake:>9.1} MiB"));
    say(&format!("  resident when they sleep           {:>+9.1} MiB to the start", idle - before));
    wake(&large.objects).await;
    let began = now();
    each(&large.objects, MANY..most, 512).await;
    if MANY < most {
        let made = rate(most - MANY, began.elapsed());
        say(&format!("  {most} objects made             {made:>9.0}/s"));
        let idle = asleep(&large.objects).await - before;
        say(&format!("  resident when they sleep           {idle:>+9.1} MiB to the start"));
    }
    compare(&large, most).await;
    large.store.close().await;
}

/// The cost of a turn with few objects in the store and with most, in alternating rounds.
async fn compare(large: &Place, most: usize) {
    let small = Place::new();
    // Its log must be as long as the other's: extending a file takes time, too.
    for _ in 0..10 {
        turns(&small.objects).await;
    }
    let (mut few, mut many, mut woken) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..9 {
        few.push(turns(&small.objects).await);
        many.push(turns(&large.objects).await);
    }
    for round in 0..5 {
        // Other objects each time, all over the store.
        let sleepers = (FEW + round..most).step_by((most / 2_000).max(1)).take(2_000);
        let began = now();
        each(&large.objects, sleepers, FEW).await;
        woken.push(began.elapsed() / 2_000);
    }
    let (few, many, woken) = (median(few), median(many), median(woken));
    let ratio = |it: Duration| it.as_secs_f64() / few.as_secs_f64();
    say(&format!("  a turn with {FEW} objects in the store   {few:>9.2?}"));
    say(&format!("  with {most}                      {many:>9.2?}, {:.2} x", ratio(many)));
    say(&format!("  and of one that sleeps             {woken:>9.2?}, {:.2} x", ratio(woken)));
    small.store.close().await;
}

/// Calls objects, one call each, this many concurrently.
async fn each(objects: &Objects, numbers: impl IntoIterator<Item = usize>, at_once: usize) {
    let mut of_callers = vec![Vec::new(); at_once];
    for (index, number) in numbers.into_iter().enumerate() {
        of_callers[index % at_once].push(number);
    }
    let callers = of_callers.into_iter().map(|numbers| {
        let objects = objects.clone();
        tokio::spawn(async move {
            for number in numbers {
                let name = Sleeper::at(format!("o {number}"));
                objects.call(name, Increment).await.expect("turn commits");
            }
        })
    });
    for caller in callers.collect::<Vec<_>>() {
        caller.await.expect("caller ends");
    }
}

/// The time of one turn, of few objects that are in use.
async fn turns(objects: &Objects) -> Duration {
    const ROUNDS: usize = 200;
    each(objects, 0..FEW, FEW).await;
    let began = now();
    for _ in 0..ROUNDS {
        each(objects, 0..FEW, FEW).await;
    }
    began.elapsed() / (ROUNDS * FEW) as u32
}

/// Waits until all sleep and their memory is returned, and returns the resident memory.
async fn asleep(objects: &Objects) -> f64 {
    let moment = || SystemClock.sleep(Duration::from_millis(50));
    while 0 < objects.awake() {
        moment().await;
    }
    let (mut least, mut since) = (resident_mib(), now());
    while since.elapsed() < Duration::from_millis(2_500) {
        moment().await;
        let resident = resident_mib();
        if resident + 0.5 < least {
            (least, since) = (resident, now());
        }
    }
    least
}

/// Loading an object of a megabyte.
async fn wake(objects: &Objects) {
    let (mut woken, mut again) = (Vec::new(), Vec::new());
    for number in 0..20 {
        let name = Sleeper::at(format!("big {number}"));
        objects.call(name, Grow { bytes: 1 << 20 }).await.expect("turn commits");
    }
    for number in 0..20 {
        while 0 < objects.awake() {
            SystemClock.sleep(Duration::from_millis(50)).await;
        }
        for times in [&mut woken, &mut again] {
            let began = now();
            let name = Sleeper::at(format!("big {number}"));
            objects.call(name, Increment).await.expect("turn commits");
            times.push(began.elapsed());
        }
    }
    let (woken, again) = (median(woken), median(again));
    say(&format!("  a turn that wakes one of 1 MB      {woken:>9.2?} median"));
    say(&format!("  its next turn                      {again:>9.2?} median"));
}
