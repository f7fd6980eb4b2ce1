//! Races of consumers, operators and the store.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use steadfast_core::{
    App, ConsumeOptions, Consumer, Delivery, Queue, QueueSettings, Result, Runtime, Settled,
    queue::{Outgoing, PeekState, QueueError, Redrive},
    store::{
        Clock, Commit, InvalidInput, Json, Lease, ManualClock, MemoryStore, SettledAs, Sleep,
        Store, StoreError, TimeLeft, Timestamp, Write,
    },
};
use tokio::{sync::Semaphore, task::yield_now};

use crate::gated_store::GatedStore;

const JOBS: Queue<u32> = Queue::named("jobs");
const LEASE: Duration = Duration::from_secs(30);

/// A clock that counts its reads.
#[derive(Clone, Debug)]
struct Watch {
    inner: ManualClock,
    looks: Arc<AtomicUsize>,
}

impl Clock for Watch {
    fn now(&self) -> Timestamp {
        self.looks.fetch_add(1, Ordering::SeqCst);
        self.inner.now()
    }

    fn elapsed(&self) -> Duration {
        self.inner.elapsed()
    }

    fn wait<'a>(&'a self, left: TimeLeft<'a>) -> Sleep<'a> {
        self.inner.wait(left)
    }
}

/// Records its messages, and waits for a permit before it is done.
#[derive(Clone)]
struct Gate {
    seen: Arc<Mutex<Vec<u32>>>,
    began: Arc<Semaphore>,
    open: Arc<Semaphore>,
}

impl Default for Gate {
    fn default() -> Self {
        let closed = || Arc::new(Semaphore::new(0));
        Self { seen: Arc::default(), began: closed(), open: closed() }
    }
}

impl Gate {
    fn seen(&self) -> Vec<u32> {
        self.seen.lock().unwrap().clone()
    }

    async fn began(&self) {
        self.began.acquire().await.unwrap().forget();
    }
}

impl Consumer for Gate {
    type Message = u32;

    async fn deliver(&self, delivery: Delivery<u32>) -> Result<Settled> {
        self.seen.lock().unwrap().push(delivery.message);
        self.began.add_permits(1);
        self.open.acquire().await.unwrap().forget();
        Ok(delivery.done())
    }
}

/// A program on a store that can hold commits back.
struct Lab {
    clock: Watch,
    store: Arc<GatedStore>,
    gate: Gate,
    runtime: Arc<Runtime>,
}

impl Lab {
    async fn start(settings: QueueSettings, concurrency: usize) -> Self {
        let inner = ManualClock::at(Timestamp(1_000_000));
        let clock = Watch { inner, looks: Arc::default() };
        let store = MemoryStore::new(Arc::new(clock.clone()));
        Self::on(store, clock, settings, concurrency).await
    }

    /// Without concurrency there is no consumer.
    async fn on(
        store: MemoryStore,
        clock: Watch,
        settings: QueueSettings,
        concurrency: usize,
    ) -> Self {
        let (store, gate) = (GatedStore::new(store), Gate::default());
        let builder = App::new("test").queue(JOBS.with(settings));
        let options = ConsumeOptions { concurrency, ..ConsumeOptions::default() };
        let builder = match concurrency {
            0 => builder,
            _ => builder.consume_with(JOBS, gate.clone(), options),
        };
        let runtime = Arc::new(builder.start(store.clone()).await.unwrap());
        Self { clock, store, gate, runtime }
    }

    async fn send(&self, all: std::ops::Range<u32>) {
        let all: Vec<u32> = all.collect();
        self.runtime.queues().send_all(JOBS, &all).await.unwrap();
    }

    /// Lets every task do its work.
    async fn turn_around(&self) {
        for _ in 0..200 {
            yield_now().await;
        }
    }
}

#[tokio::test]
async fn a_purge_whose_caller_is_dropped_holds_no_message() {
    let lab = Lab::start(QueueSettings::default(), 0).await;
    lab.send(0..1).await;
    lab.store.hold();
    let runtime = lab.runtime.clone();
    let caller = tokio::spawn(async move { runtime.queues().purge("jobs", None, None).await });
    lab.store.came().await;
    caller.abort();
    assert!(caller.await.unwrap_err().is_cancelled());
    lab.store.fail(StoreError::Busy { waiting: 1 });
    lab.store.let_go();
    assert_eq!(lab.runtime.queues().show("jobs").await.unwrap().running, 0);
    assert_eq!(lab.runtime.queues().pull("jobs", 10, LEASE).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_pulled_message_is_not_purged() {
    let lab = Lab::start(QueueSettings::default(), 0).await;
    lab.send(0..101).await;
    lab.store.hold();
    let runtime = lab.runtime.clone();
    let purge = tokio::spawn(async move { runtime.queues().purge("jobs", None, None).await });
    lab.store.came().await;
    // It has read all of them as pending, and its first commit is in flight.
    let runtime = lab.runtime.clone();
    let pull = tokio::spawn(async move { runtime.queues().pull("jobs", 1, LEASE).await });
    lab.store.came().await;
    lab.store.release_last();
    let pulled = pull.await.unwrap().unwrap();
    lab.store.let_go();
    assert_eq!(pulled.len(), 1);
    assert_eq!(purge.await.unwrap().unwrap(), 100);
    let acked = lab.runtime.queues().ack("jobs", &[pulled[0].lease], &[]).await.unwrap();
    assert_eq!((acked.acked, acked.lost.len()), (1, 0));
}

#[tokio::test]
async fn two_redrives_of_one_dead_letter_deliver_it_once() {
    let lab = Lab::start(QueueSettings { max_retries: 0, ..QueueSettings::default() }, 4).await;
    lab.send(7..8).await;
    lab.gate.began().await;
    let position = 1;
    let error = Some("as the test wanted".to_owned());
    let dead = Write::Settle { position, lease: None, as_: SettledAs::Dead, error };
    lab.store.commit(Commit::of(dead)).await.unwrap();
    lab.gate.open.add_permits(1);
    lab.turn_around().await;

    lab.store.hold();
    let redrive = || {
        let runtime = lab.runtime.clone();
        tokio::spawn(async move { runtime.queues().redrive("jobs", &Redrive::default()).await })
    };
    let (one, other) = (redrive(), redrive());
    lab.store.came().await;
    lab.store.came().await;
    lab.store.release();
    assert_eq!(one.await.unwrap().unwrap().moved, 1);
    lab.gate.began().await;
    // A consumer has it when the other one finds that it is too late.
    lab.store.let_go();
    assert_eq!(other.await.unwrap().unwrap().moved, 0);
    lab.turn_around().await;
    assert_eq!(lab.gate.seen(), [7, 7], "once before it died and once again");
    assert_eq!(lab.runtime.queues().show("jobs").await.unwrap().running, 1);
}

#[tokio::test]
async fn a_message_that_a_pull_could_not_claim_is_consumed_here() {
    let lab = Lab::start(QueueSettings::default(), 1).await;
    lab.send(0..2).await;
    lab.gate.began().await;
    lab.store.hold();
    let runtime = lab.runtime.clone();
    lab.gate.open.add_permits(1);
    lab.store.came().await;
    let pull = tokio::spawn(async move { runtime.queues().pull("jobs", 1, LEASE).await });
    lab.store.came().await;
    // The first is done, and nothing is left for the consumer; then the claim fails.
    lab.store.release();
    lab.turn_around().await;
    lab.store.fail(StoreError::Busy { waiting: 1 });
    assert!(pull.await.unwrap().is_err());
    lab.store.let_go();
    lab.turn_around().await;
    assert_eq!(lab.gate.seen(), [0, 1]);
}

#[tokio::test]
async fn a_queue_without_capacity_waits_and_does_not_spin() {
    let lab = Lab::start(QueueSettings::default(), 1).await;
    lab.send(0..5).await;
    lab.gate.began().await;
    lab.runtime.queues().send_after(JOBS, &9, Duration::from_secs(1)).await.unwrap();
    lab.turn_around().await;
    lab.clock.inner.advance(Duration::from_secs(2));
    lab.turn_around().await;
    let before = lab.clock.looks.load(Ordering::SeqCst);
    lab.turn_around().await;
    let looks = lab.clock.looks.load(Ordering::SeqCst) - before;
    assert!(looks < 10, "it read {looks} times without capacity");
    lab.gate.open.add_permits(6);
    lab.turn_around().await;
    assert_eq!(lab.gate.seen(), [0, 1, 2, 3, 4, 9]);
}

#[tokio::test]
async fn a_message_whose_decision_was_not_recorded_is_not_redelivered_immediately() {
    let lab = Lab::start(QueueSettings::default(), 1).await;
    lab.send(0..1).await;
    lab.gate.began().await;
    lab.store.hold();
    lab.gate.open.add_permits(9);
    lab.store.came().await;
    lab.store.fail(StoreError::Unknown { reason: "as the test wanted".into() });
    lab.store.let_go();
    lab.turn_around().await;
    assert_eq!(lab.gate.seen(), [0]);
    lab.clock.inner.advance(Duration::from_secs(1));
    lab.turn_around().await;
    assert_eq!(lab.gate.seen(), [0, 0]);
    assert_eq!(lab.runtime.store().totals().await.unwrap().pending, 0);
}

#[tokio::test]
async fn a_message_whose_end_the_store_refuses_is_given_up_and_not_redelivered() {
    let lab = Lab::start(QueueSettings::default(), 1).await;
    lab.send(0..1).await;
    lab.gate.began().await;
    lab.store.hold();
    lab.gate.open.add_permits(9);
    for _ in 0..2 {
        lab.turn_around().await;
        lab.store.fail(StoreError::Invalid(InvalidInput::CommitSize { len: 1 }));
    }
    lab.store.let_go();
    lab.turn_around().await;
    lab.clock.inner.advance(Duration::from_secs(1));
    lab.turn_around().await;
    assert_eq!(lab.gate.seen(), [0]);
    let totals = lab.runtime.store().totals().await.unwrap();
    assert_eq!((totals.pending, totals.dead), (0, 1));
}

#[tokio::test]
async fn a_paused_queue_does_not_deliver_a_message_that_waited_to_run_exclusively() {
    let inner = ManualClock::at(Timestamp(1_000_000));
    let clock = Watch { inner, looks: Arc::default() };
    let store = MemoryStore::new(Arc::new(clock.clone()));
    let first = Lab::on(store, clock.clone(), QueueSettings::default(), 0).await;
    first.send(0..2).await;
    // A process crashes while it delivers both.
    for position in [1, 2] {
        let (lease, lasts) = (Lease { holder: 1, number: position }, LEASE);
        let claim = Commit::of(Write::Claim { position, lease, lasts });
        assert!(first.store.commit(claim).await.unwrap().committed().is_ok());
    }
    let lab = Lab::on(first.store.inner.restart(), clock, QueueSettings::default(), 4).await;
    lab.gate.began().await;
    lab.turn_around().await;
    lab.runtime.queues().pause("jobs").await.unwrap();
    lab.gate.open.add_permits(9);
    lab.turn_around().await;
    assert_eq!(lab.gate.seen(), [0]);
    lab.runtime.queues().resume("jobs").await.unwrap();
    lab.turn_around().await;
    assert_eq!(lab.gate.seen(), [0, 1]);
}

#[tokio::test]
async fn a_repetition_is_answered_as_before_although_the_queue_is_full_now() {
    let settings = QueueSettings { max_messages: Some(2), ..QueueSettings::default() };
    let lab = Lab::start(settings, 0).await;
    let send = |key| {
        let body = |text: &str| Outgoing { body: Json::parse(text).unwrap(), delay: LEASE };
        let queues = lab.runtime.queues().clone();
        async move { queues.send_json("jobs", vec![body("1"), body("2")], Some(key)).await }
    };
    let first = send("a").await.unwrap();
    assert_eq!(send("a").await.unwrap(), first);
    assert!(matches!(send("b").await, Err(QueueError::Full { .. })));
    let waiting = lab.runtime.queues().peek("jobs", PeekState::Pending, None, 10).await.unwrap();
    assert_eq!(waiting.len(), 2);
}

#[tokio::test]
async fn messages_with_an_expired_lease_can_be_purged_moved_and_edited() {
    let lab = Lab::start(QueueSettings::default(), 0).await;
    let queues = lab.runtime.queues();
    lab.send(0..3).await;
    let pulled = queues.pull("jobs", 3, LEASE).await.unwrap();
    assert_eq!(queues.purge("jobs", None, None).await.unwrap(), 0, "a consumer holds them");
    lab.clock.inner.advance(LEASE);
    assert_eq!(queues.purge("jobs", None, Some(&[1])).await.unwrap(), 1);
    let moved =
        Redrive { to: Some("others".into()), ids: Some(vec![2, 2, 77]), ..Redrive::default() };
    assert_eq!(queues.redrive("jobs", &moved).await.unwrap().moved, 1);
    let edited = queues.edit("jobs", 3, Json::parse("33").unwrap(), None).await.unwrap();
    let leases: Vec<_> = pulled.iter().map(|it| it.lease).collect();
    assert_eq!(queues.ack("jobs", &leases, &[]).await.unwrap().lost, leases);
    let left = queues.pull("jobs", 10, LEASE).await.unwrap();
    assert_eq!(left.len(), 1);
    assert_eq!(left[0].queued.message.position, edited);
    let others = queues.pull("others", 10, LEASE).await.unwrap();
    assert_eq!((others.len(), others[0].attempt), (1, 1));
}

#[tokio::test]
async fn a_new_lease_protects_from_an_operator_that_saw_the_last_one() {
    let lab = Lab::start(QueueSettings::default(), 0).await;
    lab.send(0..101).await;
    lab.runtime.queues().pull("jobs", 101, LEASE).await.unwrap();
    lab.clock.inner.advance(LEASE);
    lab.store.hold();
    let runtime = lab.runtime.clone();
    let purge = tokio::spawn(async move { runtime.queues().purge("jobs", None, None).await });
    lab.store.came().await;
    let runtime = lab.runtime.clone();
    let pull = tokio::spawn(async move { runtime.queues().pull("jobs", 1, LEASE).await });
    lab.store.came().await;
    lab.store.release_last();
    let pulled = pull.await.unwrap().unwrap();
    assert_eq!((pulled.len(), pulled[0].attempt), (1, 2));
    lab.store.let_go();
    assert_eq!(purge.await.unwrap().unwrap(), 100);
    assert_eq!(lab.runtime.queues().ack("jobs", &[pulled[0].lease], &[]).await.unwrap().acked, 1);
}

#[tokio::test]
async fn a_pause_whose_caller_is_gone_is_in_force_when_it_is_recorded() {
    let lab = Lab::start(QueueSettings::default(), 4).await;
    lab.store.hold();
    let runtime = lab.runtime.clone();
    let caller = tokio::spawn(async move { runtime.queues().pause("jobs").await });
    lab.store.came().await;
    caller.abort();
    assert!(caller.await.unwrap_err().is_cancelled());
    lab.store.let_go();
    lab.turn_around().await;
    assert!(lab.runtime.queues().show("jobs").await.unwrap().paused);
    // The unknown outcome of the commit does not matter either.
    lab.store.hold();
    let runtime = lab.runtime.clone();
    let resume = tokio::spawn(async move { runtime.queues().resume("jobs").await });
    lab.store.came().await;
    lab.store.lose();
    lab.store.let_go();
    assert!(resume.await.unwrap().is_err());
    assert!(!lab.runtime.queues().show("jobs").await.unwrap().paused);
}

#[tokio::test]
async fn two_concurrent_changes_of_dead_letter_queues_form_no_cycle() {
    let lab = Lab::start(QueueSettings::default(), 0).await;
    lab.store.hold();
    let configure = |queue: &'static str, dead: &str| {
        let settings =
            QueueSettings { dead_letter_queue: Some(dead.into()), ..QueueSettings::default() };
        let runtime = lab.runtime.clone();
        tokio::spawn(async move { runtime.queues().configure(queue, settings).await })
    };
    let (one, other) = (configure("a", "b"), configure("b", "a"));
    lab.store.came().await;
    lab.turn_around().await;
    lab.store.let_go();
    assert!(one.await.unwrap().is_ok());
    assert!(matches!(other.await.unwrap(), Err(QueueError::Cycle { .. })));
}

#[tokio::test]
async fn a_program_cannot_declare_a_cycle_of_dead_letter_queues() {
    let other: Queue<u32> = Queue::named("other");
    let builder = App::new("test").queue(JOBS.dead_letters(other));
    let refused = builder.queue(other.dead_letters(JOBS)).test().await.err().unwrap().to_string();
    assert!(refused.contains("dead-letter cycle through queue `jobs`"), "{refused}");
}

#[tokio::test]
async fn a_message_expires_only_after_it_could_have_been_delivered_for_long_enough() {
    let minute = Duration::from_secs(60);
    let settings = QueueSettings { retention_ms: Some(60_000), ..QueueSettings::default() };
    let lab = Lab::start(settings, 0).await;
    let queues = lab.runtime.queues();
    queues.send(JOBS, &1).await.unwrap();
    queues.send_after(JOBS, &2, 60 * minute).await.unwrap();
    let longer = minute + Duration::from_millis(1);
    lab.clock.inner.advance(longer);
    assert_eq!(queues.sweep().await.unwrap(), 1);
    lab.clock.inner.advance(59 * minute);
    assert_eq!(queues.sweep().await.unwrap(), 0);
    lab.clock.inner.advance(longer);
    assert_eq!(queues.sweep().await.unwrap(), 1);
}
