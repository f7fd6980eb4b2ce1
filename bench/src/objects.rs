//! Durable turns per second, each one update and one insert, against raw commits of the same rows.

use std::{sync::Arc, time::Duration};

use rusqlite::Connection;
use serde::{Deserialize, Serialize};
use steadfast_core::{
    Handle, Object, Objects, Result, Turn,
    store::{PostgresOptions, PostgresStore, SqliteOptions, SqliteStore, Store, SystemClock},
};

use crate::measure::{median, now, rate, resident_mib, say};

const ROUNDS: usize = 3;

/// A counter that keeps a ledger.
struct Counter;

#[derive(Serialize, Deserialize)]
struct Increment {
    by: i64,
}

const TABLES: &str = "CREATE TABLE counter (n INTEGER NOT NULL); \
    INSERT INTO counter VALUES (0); \
    CREATE TABLE entry (id INTEGER PRIMARY KEY, amount INTEGER NOT NULL)";
const UPDATE: &str = "UPDATE counter SET n = n + ?1 RETURNING n";
const INSERT: &str = "INSERT INTO entry (amount) VALUES (?1)";

impl Object for Counter {
    const CLASS: &'static str = "counter";
    type Calls = (Increment,);
    const MIGRATIONS: &'static [&'static str] = &[TABLES];
}

impl Handle<Increment> for Counter {
    const NAME: &'static str = "increment";
    type Reply = i64;

    fn handle(&self, turn: &Turn<Self>, msg: Increment) -> Result<i64> {
        increment(turn.sql(), msg.by).map_err(Into::into)
    }
}

fn increment(sql: &Connection, by: i64) -> rusqlite::Result<i64> {
    sql.prepare_cached(INSERT)?.execute([by])?;
    sql.prepare_cached(UPDATE)?.query_row([by], |row| row.get(0))
}

pub(crate) async fn run() {
    say("Objects, one update and one insert a turn");
    let raw = raw();
    say(&format!("  raw commits of the same rows       {raw:>9.0}/s"));
    let folder = tempfile::tempdir().expect("temporary folder");
    let options = SqliteOptions::new(folder.path(), Arc::new(SystemClock));
    let store: Arc<dyn Store> = Arc::new(SqliteStore::open(options).expect("store opens"));
    measure("SQLite", &store, raw, 10).await;
    store.close().await;
    match std::env::var("STEADFAST_BENCH_POSTGRES") {
        Ok(url) => {
            let options = PostgresOptions::new(url, Arc::new(SystemClock));
            let store = PostgresStore::open(options).await.expect("store opens");
            let store: Arc<dyn Store> = Arc::new(store);
            measure("PostgreSQL", &store, raw, 2).await;
            store.close().await;
        }
        Err(_) => say("  PostgreSQL: skipped, STEADFAST_BENCH_POSTGRES is not set"),
    }
}

/// Runs all shapes; at least `scale` thousand turns.
async fn measure(name: &str, store: &Arc<dyn Store>, raw: f64, scale: usize) {
    let objects = Objects::builder(store.clone()).class(Counter).start().expect("objects start");
    for (shape, count, in_flight, turns) in [
        ("one object, one at a time", 1, 1, scale * 1_000),
        ("one object, 64 in flight", 1, 64, scale * 10_000),
        ("1,000 objects, 64 in flight", 1_000, 64, scale * 10_000),
        ("1,000 objects, 512 in flight", 1_000, 512, scale * 10_000),
    ] {
        // The first call creates the objects, and is not measured.
        turn(&objects, shape, count, 64.min(count), count).await;
        let before = store.activity();
        let mut times = Vec::new();
        for _ in 0..ROUNDS {
            times.push(turn(&objects, shape, count, in_flight, turns).await);
        }
        let after = store.activity();
        let log = (after.log_bytes - before.log_bytes) / (ROUNDS * turns) as u64;
        let rate = rate(turns, median(times));
        say(&format!(
            "  {name}, {shape:<28} {rate:>9.0}/s {:>6.2} x raw, {log:>5} bytes of log a turn",
            rate / raw
        ));
    }
    say(&format!("  resident                           {:>9.1} MiB", resident_mib()));
}

async fn turn(
    objects: &Objects,
    shape: &str,
    count: usize,
    in_flight: usize,
    turns: usize,
) -> Duration {
    let began = now();
    let callers = (0..in_flight).map(|caller| {
        let (objects, shape) = (objects.clone(), shape.to_owned());
        tokio::spawn(async move {
            for number in 0..turns / in_flight {
                let name = format!("{shape} {}", (caller + in_flight * number) % count);
                objects.call(Counter::at(name), Increment { by: 1 }).await.expect("turn commits");
            }
        })
    });
    for caller in callers.collect::<Vec<_>>() {
        caller.await.expect("caller ends");
    }
    began.elapsed()
}

/// The same statements on an ordinary file, a transaction each.
fn raw() -> f64 {
    let count = 10_000;
    let times = (0..ROUNDS).map(|_| {
        let folder = tempfile::tempdir().expect("temporary folder");
        let sql = Connection::open(folder.path().join("raw.db")).expect("file opens");
        sql.execute_batch("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL").expect("set");
        sql.execute_batch(TABLES).expect("tables are made");
        let began = now();
        for _ in 0..count {
            sql.execute_batch("BEGIN IMMEDIATE").expect("begins");
            increment(&sql, 1).expect("runs");
            sql.execute_batch("COMMIT").expect("commits");
        }
        began.elapsed()
    });
    rate(count, median(times.collect()))
}
