//! Memory of delayed messages, also when all of them become due at once: a page of them at a time.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use steadfast_core::{
    App, Batch, BatchConsumer, ConsumeOptions, Queue, QueueSettings, Result, SettledBatch,
    store::{ManualClock, SqliteOptions, SqliteStore, Store, Timestamp},
};

use super::{is_alone, mib};
use crate::play::until;

const MANY: usize = 60_000;
const DAY: Duration = Duration::from_hours(24);
const MAIL: Queue<String> = Queue::named("mail");

/// All of them take 60 MB as they are sent; a page of messages and the caches of the store, 20
/// MiB.
const GROWTH_MIB_MAX: usize = 40;

struct Counts(Arc<AtomicUsize>);

impl BatchConsumer for Counts {
    type Message = String;

    async fn deliver(&self, batch: Batch<String>) -> Result<SettledBatch> {
        self.0.fetch_add(batch.len(), Ordering::SeqCst);
        Ok(batch.done())
    }
}

/// The maximum of resident memory, and its current value.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn delayed_messages_that_become_due_at_once_all_arrive_a_page_at_a_time() {
    if !is_alone(
        "memory::queues::delayed_messages_that_become_due_at_once_all_arrive_a_page_at_a_time",
    ) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let clock = ManualClock::at(Timestamp(1_000_000_000));
    let options = SqliteOptions::new(folder.path(), Arc::new(clock.clone()));
    let store: Arc<dyn Store> = Arc::new(SqliteStore::open(options).unwrap());
    let came = Arc::new(AtomicUsize::new(0));
    let settings = QueueSettings { batch_size: 200, ..QueueSettings::default() };
    let options = ConsumeOptions { concurrency: 2, ..ConsumeOptions::default() };
    let app = App::new("test")
        .queue(MAIL.with(settings))
        .consume_batches_with(MAIL, Counts(came.clone()), options)
        .start(store.clone())
        .await
        .unwrap();
    let queues = app.queues();
    let body = steadfast_core::store::Json::of(&"x".repeat(1_000)).unwrap();
    let outgoing = || steadfast_core::queue::Outgoing { body: body.clone(), delay: DAY };
    let before = mib("VmRSS:");
    for _ in 0..MANY / 1_000 {
        queues.send_json("mail", (0..1_000).map(|_| outgoing()).collect(), None).await.unwrap();
    }
    let delayed = queues.show("mail").await.unwrap().delayed;
    assert_eq!((delayed, came.load(Ordering::SeqCst)), (MANY as u64, 0));
    clock.advance(DAY);
    until("all have come", async || MANY <= came.load(Ordering::SeqCst)).await;
    let most = mib("VmHWM:");
    assert!(most < before + GROWTH_MIB_MAX, "{before} MiB before, {most} at most");
    let is_empty = async || queues.show("mail").await.unwrap().oldest_age_ms.is_none();
    until("the queue is empty", is_empty).await;
    assert_eq!(came.load(Ordering::SeqCst), MANY, "each of them once");
    app.stop().await;
    store.close().await;
}
