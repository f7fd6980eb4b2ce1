//! Commits per second: alone, together, and against raw inserts of the same rows.

use std::sync::Arc;

use steadfast_core::store::{
    Address, Commit, EntityKind, Json, Message, PostgresOptions, PostgresStore, SqliteOptions,
    SqliteStore, Store, SystemClock,
};

use crate::{
    measure::{fsync, median, now, rate, say},
    raw,
};

/// The write of one commit: an event of about 100 bytes at the end of the committer's own stream.
const DATA: &str =
    r#"{"guest":"g-4711","room":"204","at":"2026-11-15T02:03:47Z","amount":{"net":119,"tax":8}}"#;

/// Repetitions of each measurement; the median counts.
const ROUNDS: usize = 3;

pub(crate) async fn sqlite() {
    let folder = tempfile::tempdir().expect("temporary folder");
    say(&format!("SQLite, fsync of 4 KiB takes {:?}", fsync(folder.path())));
    let options = SqliteOptions::new(folder.path().join("store"), Arc::new(SystemClock));
    let store: Arc<dyn Store> = Arc::new(SqliteStore::open(options).expect("store opens"));
    let (alone, together) = one_and_many(&store, 4_000, 120_000).await;
    // The same rows in transactions of the same size, so with as many flushes.
    let size = together.per_batch.round() as usize;
    let raw = raw_rate(120_000, size);
    let raw_alone = raw_rate(4_000, 1);
    say(&format!("  raw inserts, {size} to a transaction   {raw:>9.0}/s"));
    say(&format!("  raw inserts, 1 to a transaction    {raw_alone:>9.0}/s"));
    say(&format!("  64 committers / 1 committer        {:>9.1} x", together.rate / alone.rate));
    say(&format!("  64 committers / raw inserts        {:>9.2} x", together.rate / raw));
    say(&format!("  1 committer / raw inserts          {:>9.2} x", alone.rate / raw_alone));
    store.close().await;
}

pub(crate) async fn postgres(url: &str) {
    let options = PostgresOptions::new(url, Arc::new(SystemClock));
    let store = PostgresStore::open(options).await.expect("store opens");
    let store: Arc<dyn Store> = Arc::new(store);
    say("PostgreSQL");
    let (alone, together) = one_and_many(&store, 2_000, 30_000).await;
    say(&format!("  64 committers / 1 committer        {:>9.1} x", together.rate / alone.rate));
    store.close().await;
}

struct Speed {
    rate: f64,
    per_batch: f64,
}

async fn one_and_many(store: &Arc<dyn Store>, few: usize, many: usize) -> (Speed, Speed) {
    let (mut alone, mut together) = (Vec::new(), Vec::new());
    // Alternating, so that noise affects both.
    for _ in 0..ROUNDS {
        alone.push(commit(store, 1, few).await);
        together.push(commit(store, 64, many).await);
    }
    let (alone, together) = (middle(alone), middle(together));
    say(&format!("  1 committer                        {:>9.0}/s", alone.rate));
    let size = together.per_batch;
    say(&format!(
        "  64 committers                      {:>9.0}/s ({size:.0} a batch)",
        together.rate
    ));
    (alone, together)
}

fn middle(mut all: Vec<Speed>) -> Speed {
    all.sort_by(|a, b| a.rate.total_cmp(&b.rate));
    all.swap_remove(all.len() / 2)
}

fn raw_rate(count: usize, size: usize) -> f64 {
    let run = |_| {
        let place = tempfile::tempdir().expect("temporary folder");
        raw::inserts(place.path(), DATA, count, size)
    };
    rate(count, median((0..ROUNDS).map(run).collect()))
}

async fn commit(store: &Arc<dyn Store>, committers: usize, count: usize) -> Speed {
    let before = store.activity();
    let began = now();
    let tasks = (0..committers).map(|number| {
        let store = store.clone();
        tokio::spawn(async move {
            let stream = Address::new(EntityKind::Stream, "bench", &number.to_string());
            let stream = stream.expect("address");
            let mut version = store.version(stream.id()).await.expect("store answers");
            for _ in 0..count / committers {
                let data = Json::parse(DATA).expect("JSON");
                let event = Message::new("guest-checked-out", data).expect("message").event();
                let outcome = store.commit(Commit::append(&stream, version, vec![event])).await;
                outcome.expect("store answers").committed().expect("accepted");
                version += 1;
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.expect("committer ends");
    }
    let took = began.elapsed();
    let after = store.activity();
    let per_batch =
        (after.commits - before.commits) as f64 / (after.batches - before.batches) as f64;
    Speed { rate: rate(count / committers * committers, took), per_batch }
}
