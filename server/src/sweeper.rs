//! Forgets what is older than it needs to be, now and then.

use std::time::Duration;

use steadfast::{
    Queues, Runs,
    object::{HistoryRetention, sweep_history},
};
use steadfast_bucket::{Buckets, Swept};
use steadfast_store::{Retention, Store, sweep};

/// A node that has just started has better things to do.
const FIRST: Duration = Duration::from_mins(1);

/// How often afterwards.
const PERIOD: Duration = Duration::from_hours(1);

/// What is kept, and for how long.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kept {
    /// Messages.
    pub(crate) messages: Retention,
    /// Turns of objects, for going back.
    pub(crate) turns: HistoryRetention,
}

/// Where it is swept.
#[derive(Clone, Copy)]
pub(crate) struct Places<'a> {
    pub(crate) store: &'a dyn Store,
    pub(crate) runs: &'a Runs,
    pub(crate) queues: &'a Queues,
    pub(crate) buckets: &'a Buckets,
}

/// Sweeps for as long as the node lives. Where nothing was committed since the last time only the
/// runs, messages in queues and blobs are asked for whose time is over: an idle node does not write
/// to its database.
pub(crate) async fn run(places: Places<'_>, kept: Kept) {
    let Places { store, runs, queues, buckets } = places;
    let mut swept_at = None;
    let mut pause = FIRST;
    loop {
        store.clock().sleep(pause).await;
        pause = PERIOD;
        let is_idle = swept_at == Some(store.activity().commits);
        // Each workflow, queue and bucket says for how long. That time goes by also when nothing
        // happens.
        let erased = sweep_runs(runs).await + sweep_queues(queues).await;
        let erased = erased + sweep_buckets(buckets).await;
        if !is_idle {
            match sweep(store, kept.messages).await {
                Ok(count) if 0 < count => tracing::info!(count, "old messages forgotten"),
                Ok(_) => {}
                Err(error) => tracing::warn!(error = %error, "old messages were not forgotten"),
            }
            match sweep_history(store, kept.turns).await {
                Ok(count) if 0 < count => tracing::info!(count, "old turns forgotten"),
                Ok(_) => {}
                Err(error) => tracing::warn!(error = %error, "old turns were not forgotten"),
            }
        }
        // On a time that cannot be trusted nothing was deleted by age: it is still to be done.
        let is_done = store.clock().deletion_time().is_some();
        if is_done && (!is_idle || 0 < erased) {
            // The sweep itself is a commit, and no reason to sweep.
            swept_at = Some(store.activity().commits);
        }
    }
}

async fn sweep_runs(runs: &Runs) -> usize {
    match runs.sweep().await {
        Ok(0) => 0,
        Ok(count) => {
            tracing::info!(count, "old runs erased");
            count
        }
        Err(error) => {
            tracing::warn!(error = %error, "old runs were not erased");
            0
        }
    }
}

async fn sweep_queues(queues: &Queues) -> usize {
    match queues.sweep().await {
        Ok(0) => 0,
        Ok(count) => {
            tracing::info!(count, "old messages in queues expired");
            usize::try_from(count).unwrap_or(usize::MAX)
        }
        Err(error) => {
            tracing::warn!(error = %error, "old messages in queues did not expire");
            0
        }
    }
}

async fn sweep_buckets(buckets: &Buckets) -> usize {
    match buckets.sweep().await {
        Ok(swept) if swept == Swept::default() => 0,
        Ok(Swept { blobs, uploads, rows, files }) => {
            tracing::info!(blobs, uploads, rows, files, "old blobs, uploads and files removed");
            blobs + uploads + rows
        }
        Err(error) => {
            tracing::warn!(error = %error, "old blobs and files were not removed");
            0
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{future::poll_fn, sync::Arc, task::Poll};

    use serde_json::json;
    use steadfast::{
        Objects, QueueSettings,
        object::{HistoryError, pages_at},
        queue::Outgoing,
        workflow::RunOptions,
    };
    use steadfast_bucket::{
        BlobKey, BucketName, Condition, EventType, LifecycleRule, MemoryBlobs, PutOptions, Rule,
    };
    use steadfast_counter::Counter;
    use steadfast_order::Invoice;
    use steadfast_store::{
        Activity, Address, Commit, Json, ManualClock, MemoryStore, Message, SeededEntropy,
        Timestamp,
    };

    use super::*;

    const KEPT: Kept = Kept {
        messages: Retention { keep: Duration::from_hours(2) },
        turns: HistoryRetention { keep: Duration::from_hours(2), ..HistoryRetention::DEFAULT },
    };

    fn entropy() -> Arc<SeededEntropy> {
        Arc::new(SeededEntropy::new(1))
    }

    /// A store, and what is on it.
    struct Node {
        store: Arc<MemoryStore>,
        runs: Runs,
        queues: Queues,
        buckets: Buckets,
    }

    impl Node {
        fn places(&self) -> Places<'_> {
            let Self { store, runs, queues, buckets } = self;
            Places { store: store.as_ref(), runs, queues, buckets }
        }
    }

    async fn node(clock: &ManualClock) -> Node {
        let store = Arc::new(MemoryStore::new(Arc::new(clock.clone())));
        let objects = Objects::builder(store.clone()).start().unwrap();
        node_with(store, objects).await
    }

    async fn node_with(store: Arc<MemoryStore>, objects: Objects) -> Node {
        let queues = Queues::builder(store.clone()).build(objects.clone());
        let runs = Runs::new(store.clone(), entropy(), objects).with(Invoice);
        let buckets = Buckets::builder(store.clone()).entropy(entropy());
        let buckets = buckets.open(Arc::new(MemoryBlobs::default())).await.unwrap();
        Node { store, runs, queues, buckets }
    }

    /// Lets the sweeper do what it can do now.
    async fn look(mut sweeper: std::pin::Pin<&mut impl Future<Output = ()>>) {
        let polled = poll_fn(|cx| Poll::Ready(sweeper.as_mut().poll(cx))).await;
        assert!(polled.is_pending());
    }

    #[tokio::test]
    async fn old_messages_go_and_an_idle_node_writes_nothing() {
        let clock = ManualClock::at(Timestamp(0));
        let node = node(&clock).await;
        let store = &node.store;
        let stream: Address = "stream/a/b".parse().unwrap();
        let event = || Message::new("x", Json::empty()).unwrap().event();
        let append = Commit::append(&stream, 0, vec![event(), event()]);
        store.commit(append).await.unwrap();
        let mut sweeper = std::pin::pin!(run(node.places(), KEPT));
        let mut turn = async || look(sweeper.as_mut()).await;
        turn().await;
        clock.advance(FIRST);
        turn().await;
        assert_eq!(store.read_all(0, 9).await.unwrap().len(), 2);
        store.commit(Commit::append(&stream, 2, vec![event()])).await.unwrap();
        clock.advance(Duration::from_hours(3));
        turn().await;
        assert_eq!(store.read_all(0, 9).await.unwrap().len(), 1, "the last of a stream stays");
        let before = store.activity();
        clock.advance(PERIOD);
        turn().await;
        let after = store.activity();
        let asked = after.reads - before.reads;
        assert_eq!(asked, 4, "one question about runs, one about queues, two about buckets");
        assert_eq!(Activity { reads: before.reads, ..after }, before);
    }

    #[tokio::test]
    async fn nothing_goes_on_a_time_that_just_jumped_and_all_of_it_a_day_later() {
        let clock = ManualClock::at(Timestamp(1));
        let node = node(&clock).await;
        let store = &node.store;
        let stream: Address = "stream/a/b".parse().unwrap();
        let event = || Message::new("x", Json::empty()).unwrap().event();
        store.commit(Commit::append(&stream, 0, vec![event(), event()])).await.unwrap();
        let mut sweeper = std::pin::pin!(run(node.places(), KEPT));
        look(sweeper.as_mut()).await;
        clock.set(Timestamp(1).after(Duration::from_hours(30 * 24)));
        for hours in 0..=24 {
            clock.advance(PERIOD);
            look(sweeper.as_mut()).await;
            let left = store.read_all(0, 9).await.unwrap().len();
            // Nothing is committed meanwhile, and that is no reason to forget to sweep.
            assert_eq!(left, if hours < 24 { 2 } else { 1 }, "after {hours} hours");
        }
    }

    #[tokio::test]
    async fn runs_go_when_their_time_is_over_also_while_nothing_else_happens() {
        let clock = ManualClock::at(Timestamp(0));
        let node = node(&clock).await;
        let (store, runs) = (&node.store, &node.runs);
        let mut sweeper = std::pin::pin!(run(node.places(), KEPT));
        look(sweeper.as_mut()).await;
        clock.advance(FIRST);
        look(sweeper.as_mut()).await;
        for (id, amounts) in [("good", json!([1])), ("bad", json!([i64::MAX, 1]))] {
            let input = json!({ "customer": "Ada", "amounts": amounts });
            runs.start_json("invoice", id, input).await.unwrap();
            runs.wait("invoice", id).await.unwrap();
        }
        let there = async |id| runs.run("invoice", id).await.is_ok();
        let mut after = async |time| {
            clock.advance(time);
            look(sweeper.as_mut()).await;
            (there("good").await, there("bad").await)
        };
        let options = RunOptions::DEFAULT;
        let nearly = options.keep_complete - Duration::from_secs(1);
        assert_eq!(after(nearly).await, (true, true));
        let before = store.activity();
        assert_eq!(after(PERIOD).await, (false, true));
        assert!(before.commits < store.activity().commits);
        assert_eq!(after(options.keep_errored).await, (false, false));
        let messages = store.read_all(0, 9).await.unwrap();
        assert_eq!(messages, [], "nothing is left of them");
    }

    #[tokio::test]
    async fn old_turns_go_and_the_object_stays() {
        let clock = ManualClock::at(Timestamp(0));
        let store = Arc::new(MemoryStore::new(Arc::new(clock.clone())));
        let objects = Objects::builder(store.clone()).class(Counter);
        let objects = objects.start().unwrap();
        let add =
            async || objects.call_json("counter", "a", "increment", r#"{"by":1}"#, None).await;
        let object: Address = "object/counter/a".parse().unwrap();
        let past = async |turn| pages_at(store.as_ref(), &object, Some(turn)).await;
        add().await.unwrap();
        add().await.unwrap();
        let node = node_with(store.clone(), objects.clone()).await;
        let mut sweeper = std::pin::pin!(run(node.places(), KEPT));
        look(sweeper.as_mut()).await;
        clock.advance(FIRST);
        look(sweeper.as_mut()).await;
        assert_eq!(past(1).await.unwrap().turn, 1);
        clock.advance(Duration::from_hours(3));
        assert_eq!(add().await.unwrap(), "3");
        look(sweeper.as_mut()).await;
        let gone = past(1).await.err().unwrap();
        assert!(matches!(gone, HistoryError::Forgotten { oldest: 2, .. }), "{gone}");
        assert_eq!(past(2).await.unwrap().turn, 2);
        assert_eq!(add().await.unwrap(), "4");
    }

    #[tokio::test]
    async fn what_waits_in_a_queue_for_too_long_expires_also_while_nothing_happens() {
        let clock = ManualClock::at(Timestamp(0));
        let node = node(&clock).await;
        let queues = &node.queues;
        let settings =
            QueueSettings { retention_ms: Some(90 * 60 * 1_000), ..QueueSettings::default() };
        queues.configure("q", settings).await.unwrap();
        let one = Outgoing { body: Json::empty(), delay: Duration::ZERO };
        queues.send_json("q", vec![one], None).await.unwrap();
        let mut sweeper = std::pin::pin!(run(node.places(), KEPT));
        look(sweeper.as_mut()).await;
        let ready = async || queues.show("q").await.unwrap().depth.ready;
        for (pause, left) in [(FIRST, 1), (PERIOD, 1), (PERIOD, 0)] {
            clock.advance(pause);
            look(sweeper.as_mut()).await;
            assert_eq!(ready().await, left, "after {pause:?}");
        }
    }

    #[tokio::test]
    async fn old_blobs_are_deleted_and_told_also_while_nothing_happens() {
        let clock = ManualClock::at(Timestamp(0));
        let node = node(&clock).await;
        let (buckets, name) = (&node.buckets, BucketName::new("photos").unwrap());
        buckets.create(&name).await.unwrap();
        let rule = Rule {
            id: "all".into(),
            events: vec![EventType::ObjectDelete],
            prefix: String::new(),
            suffix: String::new(),
            queue: "q".into(),
        };
        buckets.put_rule(&name, rule).await.unwrap();
        let old = LifecycleRule {
            id: "old".into(),
            prefix: "tmp/".into(),
            delete_after_ms: Some(90 * 60 * 1_000),
            abort_uploads_after_ms: None,
        };
        buckets.put_lifecycle(&name, old).await.unwrap();
        let key = |it: &str| BlobKey::new(it).unwrap();
        for it in ["tmp/a", "b"] {
            buckets.put(&name, &key(it), b"x", PutOptions::default()).await.unwrap();
        }
        let mut sweeper = std::pin::pin!(run(node.places(), KEPT));
        look(sweeper.as_mut()).await;
        for (pause, is_there) in [(FIRST, true), (PERIOD, true), (PERIOD, false)] {
            clock.advance(pause);
            // A deletion is a task of its own, which comes to its end whoever waits for it.
            for _ in 0..100 {
                look(sweeper.as_mut()).await;
                tokio::task::yield_now().await;
            }
            assert_eq!(buckets.head(&name, &key("tmp/a")).await.is_ok(), is_there, "{pause:?}");
        }
        let told = buckets.events(&name, None, 9).await.unwrap();
        assert_eq!((told.len(), told[0].event.action.name()), (1, "LifecycleDeletion"));
        let same = Condition::default();
        assert_eq!(buckets.delete(&name, &key("b"), same).await.unwrap(), Some(2), "it stayed");
    }
}
