//! Queues: messages sent, consumed and acknowledged, against bare appends of the same rows.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use serde::{Deserialize, Serialize};
use steadfast_core::{
    App, Batch, BatchConsumer, ConsumeOptions, Consumer, Delivery, Queue, QueueSettings, Result,
    Runtime, Settled, SettledBatch,
    store::{
        Address, Commit, EntityKind, Json, Message, SqliteOptions, SqliteStore, Store, SystemClock,
        Write,
    },
};
use tokio::sync::Notify;

use crate::{
    http::{Caller, all_at_once, serve},
    measure::{now, rate, say},
};

/// The best durable peer, per second, from our own runs on a quiet machine with two cores.
const PEER: f64 = 1_700.0;

const MESSAGES: usize = 100_000;
const BATCH: usize = 100;
const SENDERS: usize = 64;

#[derive(Clone, Serialize, Deserialize)]
struct Note {
    id: u64,
    text: String,
}

const BATCHED: Queue<Note> = Queue::named("batched");
const SINGLE: Queue<Note> = Queue::named("single");

/// Counts its messages.
#[derive(Clone, Default)]
struct Counter {
    count: Arc<AtomicUsize>,
    all: Arc<Notify>,
}

impl Counter {
    fn add(&self, count: usize) {
        let before = self.count.fetch_add(count, Ordering::Relaxed);
        if before + count == MESSAGES / SENDERS * SENDERS || before + count == MESSAGES {
            self.all.notify_one();
        }
    }
}

impl BatchConsumer for Counter {
    type Message = Note;

    async fn deliver(&self, batch: Batch<Note>) -> Result<SettledBatch> {
        self.add(batch.len());
        Ok(batch.done())
    }
}

struct One(Counter);

impl Consumer for One {
    type Message = Note;

    async fn deliver(&self, delivery: Delivery<Note>) -> Result<Settled> {
        self.0.add(1);
        Ok(delivery.done())
    }
}

pub(crate) async fn run() {
    say("Queues, 100,000 messages sent, consumed and acknowledged");
    let folder = tempfile::tempdir().expect("temporary folder");
    let options = SqliteOptions::new(folder.path(), Arc::new(SystemClock));
    let store: Arc<dyn Store> = Arc::new(SqliteStore::open(options).expect("store opens"));
    let (batched, single) = (Counter::default(), Counter::default());
    let settings =
        QueueSettings { batch_size: BATCH, batch_timeout_ms: 20, ..QueueSettings::default() };
    let many = ConsumeOptions { concurrency: 4, ..ConsumeOptions::default() };
    let app = App::new("test")
        .queue(BATCHED.with(settings))
        .consume_batches_with(BATCHED, batched.clone(), many)
        .consume_with(SINGLE, One(single.clone()), ConsumeOptions { concurrency: 64, ..many })
        .start(store.clone())
        .await
        .expect("starts");
    let bare = bare(&store, None).await;
    say(&format!("  bare appends, {BATCH} to a commit      {bare:>9.0}/s"));
    // The rows of a send: the message and its work.
    let sends = self::bare(&store, Some("nobody")).await;
    say(&format!("  the same with their work           {sends:>9.0}/s"));
    let together = in_batches(&app, &batched).await;
    say(&format!(
        "  in batches of {BATCH}                  {together:>9.0}/s {:>6.2} x bare, {:.2} x with \
         work",
        together / bare,
        together / sends
    ));
    let bare = bare_singly(&store).await;
    say(&format!("  bare appends singly, 64 in flight  {bare:>9.0}/s"));
    let singly = one_by_one(&app, &single).await;
    say(&format!(
        "  singly, 64 senders                 {singly:>9.0}/s {:>6.2} x bare",
        singly / bare
    ));
    app.stop().await;
    store.close().await;
    tokio::task::spawn_blocking(over_http).await.expect("ends");
}

/// Sent one by one, by callers whose connections stay open, and consumed by the server: in batches,
/// and one by one with a turn of an object each, whose commit settles the message.
fn over_http() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let Some((mut child, address)) = serve(folder.path()) else { return };
    let opened = |number: usize| format!(r#"{{"body":{{"id":"m-{number}"}}}}"#);
    let mail = |number: usize| {
        let to = number % 1_000;
        format!(r#"{{"body":{{"to":"u{to}@example.org","subject":"Hello {number}"}}}}"#)
    };
    send_and_consume(&address, "opens", "consumed in batches", opened);
    send_and_consume(&address, "mail", "consumed, a turn each", mail);
    // A benchmark leaves nothing running.
    let _ = child.kill();
    let _ = child.wait();
}

fn send_and_consume(address: &str, queue: &str, how: &str, body: impl Fn(usize) -> String + Sync) {
    let path = format!("/v1/queues/{queue}/messages");
    let send = |it: &mut Caller, number: usize| _ = it.post(&path, &body(number));
    all_at_once(address, 10_000, send);
    drained_over_http(address, queue);
    let began = now();
    let sent = all_at_once(address, MESSAGES, send);
    drained_over_http(address, queue);
    let rate = rate(MESSAGES / SENDERS * SENDERS, began.elapsed());
    say(&format!("  HTTP singly, 64 callers, sent      {sent:>9.0}/s"));
    let times = rate / PEER;
    say(&format!("  and {how:<30} {rate:>9.0}/s {times:>6.1} x the best peer"));
}

#[expect(clippy::disallowed_methods, reason = "who measures must not be in the way")]
fn drained_over_http(address: &str, queue: &str) {
    let mut caller = Caller::new(address);
    let path = format!("/v1/queues/{queue}");
    while !caller.get(&path).contains("\"depth\":0,") {
        // Counting takes time as well.
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

fn note(id: usize) -> Note {
    Note { id: id as u64, text: "a small message, as queues have them".into() }
}

async fn in_batches(app: &Runtime, counter: &Counter) -> f64 {
    let began = now();
    let senders = (0..4).map(|sender| {
        let queues = app.queues().clone();
        tokio::spawn(async move {
            for batch in (sender..MESSAGES / BATCH).step_by(4) {
                let notes: Vec<Note> = (0..BATCH).map(|it| note(batch * BATCH + it)).collect();
                queues.send_all(BATCHED, &notes).await.expect("sent");
            }
        })
    });
    wait(senders.collect()).await;
    drained(app, BATCHED, counter).await;
    rate(MESSAGES, began.elapsed())
}

async fn one_by_one(app: &Runtime, counter: &Counter) -> f64 {
    let began = now();
    let senders = (0..SENDERS).map(|sender| {
        let queues = app.queues().clone();
        tokio::spawn(async move {
            for number in 0..MESSAGES / SENDERS {
                queues.send(SINGLE, &note(sender + number * SENDERS)).await.expect("sent");
            }
        })
    });
    wait(senders.collect()).await;
    drained(app, SINGLE, counter).await;
    rate(MESSAGES / SENDERS * SENDERS, began.elapsed())
}

/// Waits until the consumer has got all messages, and all are acknowledged.
async fn drained<T>(app: &Runtime, queue: Queue<T>, counter: &Counter) {
    counter.all.notified().await;
    while let view = app.queues().show(queue.name()).await.expect("shown")
        && (0 < view.ready || 0 < view.running)
    {
        tokio::task::yield_now().await;
    }
}

async fn wait(tasks: Vec<tokio::task::JoinHandle<()>>) {
    for task in tasks {
        task.await.expect("sender ends");
    }
}

fn row(id: usize) -> Message {
    Message::new("batched", Json::of(&note(id)).expect("JSON")).expect("message").input()
}

/// The rows of the messages alone, or with work for a queue without a consumer, in commits of the
/// same size.
async fn bare(store: &Arc<dyn Store>, queue: Option<&'static str>) -> f64 {
    let size = BATCH;
    let began = now();
    let writers = (0..4).map(|writer| {
        let store = store.clone();
        tokio::spawn(async move {
            let stream = Address::new(EntityKind::Stream, "bare", "0").expect("address");
            let queue = queue.map(|it| Address::new(EntityKind::Queue, it, "0").expect("address"));
            let row = |id| match &queue {
                Some(queue) => row(id).to(queue),
                None => row(id),
            };
            for batch in (writer..MESSAGES / size).step_by(4) {
                let messages = (0..size).map(|it| row(batch * size + it)).collect();
                let append = Write::Append { stream: stream.clone(), messages };
                store.commit(Commit::of(append)).await.expect("commits");
            }
        })
    });
    wait(writers.collect()).await;
    rate(MESSAGES, began.elapsed())
}

async fn bare_singly(store: &Arc<dyn Store>) -> f64 {
    let began = now();
    let writers = (0..SENDERS).map(|writer| {
        let store = store.clone();
        tokio::spawn(async move {
            let stream = Address::new(EntityKind::Stream, "bare", "1").expect("address");
            for number in 0..MESSAGES / SENDERS {
                let messages = vec![row(writer + number * SENDERS)];
                let append = Write::Append { stream: stream.clone(), messages };
                store.commit(Commit::of(append)).await.expect("commits");
            }
        })
    });
    wait(writers.collect()).await;
    rate(MESSAGES / SENDERS * SENDERS, began.elapsed())
}
