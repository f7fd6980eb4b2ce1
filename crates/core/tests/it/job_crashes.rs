//! A job that crashes each process that performs it: its object gets the failure in the end.

use std::{sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};
use steadfast_core::{
    App, DispatcherOptions, Handle, Job, Object, Outcome, Perform, Result, Runtime, Turn, Unknown,
    store::{ManualClock, MemoryStore, Moment, RetryPolicy, limits::DATA_BYTES_MAX},
};
use tokio::sync::Semaphore;

use crate::{lab::START, play::until};

const RETRY: RetryPolicy = RetryPolicy {
    attempts_max: 3,
    delay: Duration::from_secs(1),
    delay_max: Duration::from_secs(10),
};

#[derive(Debug, Serialize, Deserialize)]
struct Fatal;

impl Job for Fatal {
    const NAME: &'static str = "fatal";
    const RETRY: RetryPolicy = RETRY;
    const TIMEOUT: Duration = Duration::from_hours(1);
    type Output = ();
}

#[derive(Clone)]
struct Performer(Arc<Semaphore>);

impl Perform<Fatal> for Performer {
    async fn perform(&self, _: Fatal, _: &str) -> Result<()> {
        self.0.add_permits(1);
        std::future::pending().await
    }
}

struct Asker;

#[derive(Serialize, Deserialize)]
struct Ask;
#[derive(Serialize, Deserialize)]
struct Said;

impl Object for Asker {
    const CLASS: &'static str = "asker";
    type Calls = (Ask, Said, Outcome<Fatal>);
    const MIGRATIONS: &'static [&'static str] = &["CREATE TABLE said (text TEXT NOT NULL)"];
}

impl Handle<Ask> for Asker {
    const NAME: &'static str = "ask";
    type Reply = ();
    fn handle(&self, turn: &Turn<Self>, _: Ask) -> Result<()> {
        turn.perform(&Fatal);
        Ok(())
    }
}

impl Handle<Outcome<Fatal>> for Asker {
    const NAME: &'static str = "asked";
    type Reply = ();
    fn handle(&self, turn: &Turn<Self>, msg: Outcome<Fatal>) -> Result<()> {
        let text = msg.result.map_or_else(|error| error.to_string(), |()| "done".into());
        turn.sql().execute("INSERT INTO said VALUES (?1)", [text])?;
        Ok(())
    }
}

impl Handle<Said> for Asker {
    const NAME: &'static str = "said";
    type Reply = Vec<String>;
    fn handle(&self, turn: &Turn<Self>, _: Said) -> Result<Vec<String>> {
        let mut all = turn.sql().prepare("SELECT text FROM said")?;
        let texts = all.query_map((), |row| row.get(0))?;
        Ok(texts.collect::<steadfast_core::rusqlite::Result<_>>()?)
    }
}

async fn start(store: &Arc<MemoryStore>, performer: &Performer) -> Runtime {
    let unknown = Unknown::Waits;
    let options = DispatcherOptions { retry: RETRY, unknown, ..DispatcherOptions::default() };
    let builder = App::new("test").object(Asker).perform::<Fatal>(performer.clone());
    builder.dispatcher_options(options).start(store.clone()).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_in_flight_at_a_crash_that_hangs_delays_others_for_half_a_minute_at_most() {
    let clock = ManualClock::at(START);
    let mut store = Arc::new(MemoryStore::new(Arc::new(clock.clone())));
    let performer = Performer(Arc::new(Semaphore::new(0)));
    let app = start(&store, &performer).await;
    for name in ["a", "b", "c"] {
        app.call(Asker::at(name), Ask).await.unwrap();
        performer.0.acquire().await.unwrap().forget();
    }
    store.crash_at(1, Moment::Before);
    assert!(app.call(Asker::at("d"), Ask).await.is_err());
    tokio::spawn(app.stop());
    store = Arc::new(store.restart());
    let app = start(&store, &performer).await;
    // One of the three is performed alone; a new one does not wait for it.
    performer.0.acquire().await.unwrap().forget();
    app.call(Asker::at("d"), Ask).await.unwrap();
    performer.0.acquire().await.unwrap().forget();
    assert_eq!(app.forgotten().await.unwrap(), Vec::<i64>::new());
    assert_eq!(performer.0.available_permits(), 0, "the other two wait");
    for _ in 0..2 {
        clock.advance(Duration::from_secs(30));
        performer.0.acquire().await.unwrap().forget();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crash_during_the_last_attempt_of_a_job_is_its_outcome() {
    let clock = ManualClock::at(START);
    let mut store = Arc::new(MemoryStore::new(Arc::new(clock.clone())));
    let performer = Performer(Arc::new(Semaphore::new(0)));
    let mut app = start(&store, &performer).await;
    app.call(Asker::at("a"), Ask).await.unwrap();
    for _ in 0..RETRY.attempts_max {
        until("it is performed", async || {
            clock.advance(Duration::from_secs(1));
            performer.0.try_acquire().is_ok_and(|it| {
                it.forget();
                true
            })
        })
        .await;
        // The process crashes, and its memory is lost.
        store.crash_at(1, Moment::Before);
        assert!(app.call(Asker::at("b"), Ask).await.is_err());
        tokio::spawn(app.stop());
        store = Arc::new(store.restart());
        app = start(&store, &performer).await;
    }
    until("the object gets the outcome", async || {
        !app.call(Asker::at("a"), Said).await.unwrap().is_empty()
    })
    .await;
    let said = app.call(Asker::at("a"), Said).await.unwrap();
    assert_eq!(said, ["the process ended during attempt 3"]);
    let totals = app.store().totals().await.unwrap();
    assert_eq!((totals.pending, totals.dead), (0, 0));
    app.stop().await;
}

/// Panics with a text that is larger than a message.
#[derive(Clone)]
struct Verbose;

impl Perform<Fatal> for Verbose {
    async fn perform(&self, _: Fatal, _: &str) -> Result<()> {
        panic!("{}", "x".repeat(2 * DATA_BYTES_MAX))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_that_panics_with_a_text_larger_than_a_message_has_an_outcome() {
    let clock = ManualClock::at(START);
    let store = Arc::new(MemoryStore::new(Arc::new(clock.clone())));
    let builder = App::new("test").object(Asker).perform::<Fatal>(Verbose);
    let app = builder.start(store.clone()).await.unwrap();
    app.call(Asker::at("a"), Ask).await.unwrap();
    let mut said = Vec::new();
    until("the object gets the outcome", async || {
        clock.advance(Duration::from_secs(1));
        said = app.call(Asker::at("a"), Said).await.unwrap();
        !said.is_empty()
    })
    .await;
    assert!(said[0].starts_with("the handler panicked: xxx"), "{}", &said[0][..50]);
    assert_eq!(app.store().totals().await.unwrap().dead, 0);
    app.stop().await;
}
