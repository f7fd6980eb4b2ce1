//! A million pending messages: memory, and the cost of claiming the next one.

use std::{sync::Arc, time::Duration};

use steadfast_core::store::{
    Address, Clock, Commit, EntityKind, Json, Lease, Message, SqliteOptions, SqliteStore, Store,
    Streams, SystemClock, Write,
};

use crate::measure::{median, now, resident_mib, say};

const FEW: usize = 1_000;
const MANY: usize = 1_000_000;
const CLAIMS: i64 = 300;

pub(crate) async fn run() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let options = SqliteOptions::new(folder.path(), Arc::new(SystemClock));
    let store: Arc<dyn Store> = Arc::new(SqliteStore::open(options).expect("store opens"));
    say("Backlog, SQLite");
    fill(&store, FEW).await;
    let few = claim(&store, 0).await;
    fill(&store, MANY - FEW).await;
    let many = claim(&store, CLAIMS).await;
    say(&format!("  claim the next due of {FEW:>9}        {few:>9.2?}"));
    say(&format!("  claim the next due of {MANY:>9}        {many:>9.2?}"));
    say(&format!("  ratio                              {:>9.2} x", ratio(many, few)));
    say(&format!("  resident memory                    {:>9.0} MiB", resident_mib()));
    store.close().await;
}

fn ratio(a: Duration, b: Duration) -> f64 {
    a.as_secs_f64() / b.as_secs_f64()
}

/// Pending messages for a thousand targets.
async fn fill(store: &Arc<dyn Store>, count: usize) {
    let address = |name: usize| {
        Address::new(EntityKind::Stream, "bench", &name.to_string()).expect("address")
    };
    for first in (0..count).step_by(5_000) {
        let messages = (first..count.min(first + 5_000)).map(|number| {
            let data = Json::parse(r#"{"guest":"g-4711"}"#).expect("JSON");
            Message::new("check-out", data).expect("message").to(&address(number % 1_000))
        });
        let messages = messages.collect();
        let append = Write::Append { stream: address(first / 5_000), messages };
        store
            .commit(Commit::of(append))
            .await
            .expect("store answers")
            .committed()
            .expect("accepted");
    }
}

async fn claim(store: &Arc<dyn Store>, first: i64) -> Duration {
    let streams = Streams::new(store.clone());
    let mut times = Vec::new();
    for number in first..first + CLAIMS {
        let lease = Lease { holder: store.owner().epoch, number };
        let began = now();
        let claimed = streams.claim_due(SystemClock.now(), lease, Duration::from_hours(1), 1).await;
        times.push(began.elapsed());
        assert_eq!(claimed.expect("store answers").len(), 1);
    }
    median(times)
}
