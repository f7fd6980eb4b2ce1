//! The sweeper, hour by hour: also while nothing else happens.

use std::{future::poll_fn, pin::Pin, sync::Arc, task::Poll, time::Duration};

use steadfast_core::{
    App, Ctx, Error, Objects, QueueSettings, Result, RetentionSettings, Runtime, Sweeper, Workflow,
    bucket::{
        BlobKey, BucketName, Condition, EventType, LifecycleRule, MemoryBlobs, PutOptions, Rule,
    },
    object::{HistoryError, HistoryRetention, pages_at},
    queue::Outgoing,
    store::{
        Activity, Address, Commit, Json, ManualClock, MemoryStore, Message, Retention,
        SeededEntropy, Store, Timestamp,
    },
    workflow::RunOptions,
};

use crate::ledger::Ledger;

const FIRST: Duration = Duration::from_mins(1);
const PERIOD: Duration = Duration::from_hours(1);

/// A run that completes or fails.
struct Ends;

impl Workflow for Ends {
    const NAME: &'static str = "ends";
    type Input = bool;
    type Output = ();

    async fn run(&self, _: &Ctx, well: bool) -> Result<()> {
        if well { Ok(()) } else { Err(Error::terminal("badly")) }
    }
}

/// A program whose sweeper is polled by hand.
struct Lab {
    clock: ManualClock,
    store: Arc<dyn Store>,
    objects: Objects,
    sweeper: Sweeper,
    /// Without it the others would have stopped.
    _program: Runtime,
}

async fn lab(at: Timestamp) -> Lab {
    let clock = ManualClock::at(at);
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new(Arc::new(clock.clone())));
    let program = App::new("test").object(Ledger::default()).workflow(Ends);
    let program = program.blobs(Arc::new(MemoryBlobs::default()));
    let program = program.entropy(SeededEntropy::new(1)).prepare(store.clone()).await.unwrap();
    let (objects, runs) = (program.objects().clone(), program.runs().clone());
    let (queues, buckets) = (program.queues().clone(), program.buckets());
    let keep = Duration::from_hours(2);
    let keep = RetentionSettings {
        messages: Retention { keep, ..Retention::DEFAULT },
        turns: HistoryRetention { keep, ..HistoryRetention::DEFAULT },
    };
    let sweeper = Sweeper { store: store.clone(), runs, queues, buckets, retention: keep };
    Lab { clock, store, objects, sweeper, _program: program }
}

/// Lets the sweeper do its work.
async fn look(mut sweeping: Pin<&mut impl Future<Output = ()>>) {
    // A deletion is a task of its own, which completes without a waiter.
    for _ in 0..100 {
        let polled = poll_fn(|cx| Poll::Ready(sweeping.as_mut().poll(cx))).await;
        assert!(polled.is_pending());
        tokio::task::yield_now().await;
    }
}

fn event() -> Message {
    Message::new("x", Json::empty()).unwrap().event()
}

#[tokio::test]
async fn old_messages_go_and_an_idle_program_writes_nothing() {
    let Lab { clock, store, sweeper, _program, .. } = lab(Timestamp(0)).await;
    let stream: Address = "stream/a/b".parse().unwrap();
    store.commit(Commit::append(&stream, 0, vec![event(), event()])).await.unwrap();
    let mut sweeping = std::pin::pin!(sweeper.run());
    look(sweeping.as_mut()).await;
    clock.advance(FIRST);
    look(sweeping.as_mut()).await;
    assert_eq!(store.read_all(0, 9).await.unwrap().len(), 2);
    store.commit(Commit::append(&stream, 2, vec![event()])).await.unwrap();
    clock.advance(Duration::from_hours(3));
    look(sweeping.as_mut()).await;
    assert_eq!(store.read_all(0, 9).await.unwrap().len(), 1, "the last of a stream stays");
    let before = store.activity();
    clock.advance(PERIOD);
    look(sweeping.as_mut()).await;
    let after = store.activity();
    assert!(before.reads < after.reads);
    assert_eq!(Activity { reads: before.reads, ..after }, before);
}

#[tokio::test]
async fn nothing_is_deleted_right_after_a_clock_step_and_all_of_it_a_day_later() {
    let Lab { clock, store, sweeper, _program, .. } = lab(Timestamp(1)).await;
    let stream: Address = "stream/a/b".parse().unwrap();
    store.commit(Commit::append(&stream, 0, vec![event(), event()])).await.unwrap();
    let mut sweeping = std::pin::pin!(sweeper.run());
    look(sweeping.as_mut()).await;
    clock.set(Timestamp(1).after(Duration::from_hours(30 * 24)));
    for hours in 0..=24 {
        clock.advance(PERIOD);
        look(sweeping.as_mut()).await;
        let left = store.read_all(0, 9).await.unwrap().len();
        // Nothing is committed meanwhile, and the sweep runs all the same.
        assert_eq!(left, if hours < 24 { 2 } else { 1 }, "after {hours} hours");
    }
}

#[tokio::test]
async fn runs_go_when_their_time_is_over() {
    let Lab { clock, store, sweeper, _program, .. } = lab(Timestamp(0)).await;
    let runs = sweeper.runs.clone();
    let mut sweeping = std::pin::pin!(sweeper.run());
    look(sweeping.as_mut()).await;
    clock.advance(FIRST);
    look(sweeping.as_mut()).await;
    for (id, well) in [("good", true), ("bad", false)] {
        runs.start(Ends::at(id), well).await.unwrap();
        runs.wait("ends", id).await.unwrap();
    }
    let there = async |id| runs.status("ends", id).await.is_ok();
    let mut after = async |time| {
        clock.advance(time);
        look(sweeping.as_mut()).await;
        (there("good").await, there("bad").await)
    };
    let options = RunOptions::DEFAULT;
    let nearly = options.keep_complete - Duration::from_secs(1);
    assert_eq!(after(nearly).await, (true, true));
    let before = store.activity();
    assert_eq!(after(PERIOD).await, (false, true));
    assert!(before.commits < store.activity().commits);
    assert_eq!(after(options.keep_errored).await, (false, false));
    assert_eq!(store.read_all(0, 9).await.unwrap(), [], "nothing is left of them");
}

#[tokio::test]
async fn old_turns_go_and_the_object_stays() {
    let Lab { clock, store, objects, sweeper, _program } = lab(Timestamp(0)).await;
    let add = async || objects.call_json("ledger", "a", "add", r#"{"by":1}"#, None).await;
    let object: Address = "object/ledger/a".parse().unwrap();
    let past = async |turn| pages_at(store.as_ref(), &object, Some(turn)).await;
    add().await.unwrap();
    add().await.unwrap();
    let mut sweeping = std::pin::pin!(sweeper.run());
    look(sweeping.as_mut()).await;
    clock.advance(FIRST);
    look(sweeping.as_mut()).await;
    assert_eq!(past(1).await.unwrap().turn, 1);
    clock.advance(Duration::from_hours(3));
    assert_eq!(add().await.unwrap(), "3");
    look(sweeping.as_mut()).await;
    let gone = past(1).await.err().unwrap();
    assert!(matches!(gone, HistoryError::Forgotten { oldest: 2, .. }), "{gone}");
    assert_eq!(past(2).await.unwrap().turn, 2);
    assert_eq!(add().await.unwrap(), "4");
}

#[tokio::test]
async fn a_message_that_waits_too_long_in_a_queue_expires() {
    let Lab { clock, sweeper, _program, .. } = lab(Timestamp(0)).await;
    let queues = sweeper.queues.clone();
    let settings =
        QueueSettings { retention_ms: Some(90 * 60 * 1_000), ..QueueSettings::default() };
    queues.configure("q", settings).await.unwrap();
    let one = Outgoing { body: Json::empty(), delay: Duration::ZERO };
    queues.send_json("q", vec![one], None).await.unwrap();
    let mut sweeping = std::pin::pin!(sweeper.run());
    look(sweeping.as_mut()).await;
    let ready = async || queues.show("q").await.unwrap().ready;
    for (pause, left) in [(FIRST, 1), (PERIOD, 1), (PERIOD, 0)] {
        clock.advance(pause);
        look(sweeping.as_mut()).await;
        assert_eq!(ready().await, left, "after {pause:?}");
    }
}

#[tokio::test]
async fn old_blobs_are_deleted_with_events() {
    let Lab { clock, sweeper, _program, .. } = lab(Timestamp(0)).await;
    let (buckets, name) = (sweeper.buckets.clone().unwrap(), BucketName::new("photos").unwrap());
    buckets.create(&name).await.unwrap();
    buckets.put_rule(&name, Rule::new("all", &[EventType::ObjectDelete], "q")).await.unwrap();
    let old = LifecycleRule {
        id: "old".into(),
        prefix: "tmp/".into(),
        delete_after_ms: Some(90 * 60 * 1_000),
        ..LifecycleRule::default()
    };
    buckets.put_lifecycle(&name, old).await.unwrap();
    let key = |it: &str| BlobKey::new(it).unwrap();
    for it in ["tmp/a", "b"] {
        buckets.put(&name, &key(it), b"x", PutOptions::default()).await.unwrap();
    }
    let mut sweeping = std::pin::pin!(sweeper.run());
    look(sweeping.as_mut()).await;
    for (pause, is_there) in [(FIRST, true), (PERIOD, true), (PERIOD, false)] {
        clock.advance(pause);
        look(sweeping.as_mut()).await;
        assert_eq!(buckets.head(&name, &key("tmp/a")).await.is_ok(), is_there, "{pause:?}");
    }
    let told = buckets.events(&name, None, 9).await.unwrap();
    assert_eq!((told.len(), told[0].event.action.name()), (1, "LifecycleDeletion"));
    let same = Condition::default();
    assert_eq!(buckets.delete(&name, &key("b"), same).await.unwrap(), Some(2), "it stayed");
}
