//! Events of runs as destinations, scripts of jobs and consumers, and a program that is dropped.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use serde::{Deserialize, Serialize};
use steadfast_core::{
    App, CallError, ConnectParams, Connection, Consumer, Ctx, Delivery, Error, Event, Handle, Job,
    Object, Outcome, Perform, Queue, Result, Settled, StartError, Turn, Workflow,
    test::assert_survives_crashes, workflow::Status,
};
use steadfast_store::OpenError;

use crate::play::until;

const PAID: Event<u32> = Event::named("paid");
const MAIL: Queue<String> = Queue::named("mail");

/// Waits for two payments, and returns their sum.
struct Order;

impl Workflow for Order {
    const NAME: &'static str = "order";
    type Input = ();
    type Output = u32;

    async fn run(&self, ctx: &Ctx, (): ()) -> Result<u32> {
        Ok(ctx.wait_for(PAID).await? + ctx.wait_for(PAID).await?)
    }
}

/// Sends a payment to the run that it names.
struct Notifier;

impl Workflow for Notifier {
    const NAME: &'static str = "notifier";
    type Input = (String, u32);
    type Output = ();

    async fn run(&self, ctx: &Ctx, (order, cents): (String, u32)) -> Result<()> {
        ctx.send(Order::at(&order).event(PAID), cents).await
    }
}

/// Starts orders and pays them.
struct Till;

#[derive(Serialize, Deserialize)]
struct Sell {
    order: String,
    cents: u32,
}

#[derive(Serialize, Deserialize)]
struct Pay {
    order: String,
    cents: u32,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Charge(u32);

impl Job for Charge {
    const NAME: &'static str = "charge";
    type Output = String;
}

#[derive(Serialize, Deserialize)]
struct Charged;

impl Object for Till {
    const CLASS: &'static str = "till";
    const MIGRATIONS: &'static [&'static str] = &["CREATE TABLE said (what TEXT)"];
    type Calls = (Sell, Pay, Charge, Outcome<Charge>, Charged);
}

impl Handle<Sell> for Till {
    const NAME: &'static str = "sell";
    type Reply = ();

    fn handle(&self, turn: &Turn<Self>, Sell { order, cents }: Sell) -> Result<()> {
        turn.start(Order::at(&order), ());
        turn.send(Order::at(&order).event(PAID), cents);
        Ok(())
    }
}

impl Handle<Pay> for Till {
    const NAME: &'static str = "pay";
    type Reply = ();

    fn handle(&self, turn: &Turn<Self>, Pay { order, cents }: Pay) -> Result<()> {
        turn.send(Order::at(&order).event(PAID), cents);
        Ok(())
    }
}

impl Handle<Charge> for Till {
    const NAME: &'static str = "charge";
    type Reply = ();

    fn handle(&self, turn: &Turn<Self>, charge: Charge) -> Result<()> {
        turn.perform(&charge);
        Ok(())
    }
}

impl Handle<Outcome<Charge>> for Till {
    const NAME: &'static str = "charged";
    type Reply = ();

    fn handle(&self, turn: &Turn<Self>, outcome: Outcome<Charge>) -> Result<()> {
        let said = outcome.result.unwrap_or_else(|error| format!("failed: {error}"));
        turn.sql().execute("INSERT INTO said VALUES (?1)", [said])?;
        Ok(())
    }
}

impl Handle<Charged> for Till {
    const NAME: &'static str = "read";
    type Reply = Vec<String>;

    fn handle(&self, turn: &Turn<Self>, _: Charged) -> Result<Vec<String>> {
        let mut read = turn.sql().prepare("SELECT what FROM said ORDER BY rowid")?;
        let said = read.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
        Ok(said)
    }
}

struct Bank;

impl Perform<Charge> for Bank {
    async fn perform(&self, Charge(cents): Charge, _: &str) -> Result<String> {
        Ok(format!("charged {cents}"))
    }
}

#[derive(Clone, Default)]
struct Postman(Arc<AtomicUsize>);

impl Consumer for Postman {
    type Message = String;

    async fn deliver(&self, mail: Delivery<String>) -> Result<Settled> {
        self.0.fetch_add(1, Ordering::SeqCst);
        Ok(mail.done())
    }
}

fn app() -> App {
    App::new("shop").object(Till).workflow(Order).workflow(Notifier)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_that_a_turn_or_a_run_sends_arrives_once_wherever_the_process_ends() {
    let survived = assert_survives_crashes(app, async |app| {
        app.call(Till::at("t"), Sell { order: "o-1".into(), cents: 300 }).key("sell").await?;
        app.start(Notifier::at("n-1"), ("o-1".into(), 40)).await?;
        app.advance(Duration::from_mins(1)).await;
        Ok(app.run(Order::at("o-1")).wait().await?)
    });
    assert!(8 < survived.await);
    let app = app().test().await.unwrap();
    app.call(Till::at("t"), Sell { order: "o-1".into(), cents: 300 }).await.unwrap();
    app.settle().await;
    app.send(Order::at("o-1").event(PAID), 40).await.unwrap();
    app.settle().await;
    assert_eq!(app.run(Order::at("o-1")).wait().await.unwrap(), 340);
}

#[tokio::test]
async fn an_event_for_a_run_that_cannot_take_it_becomes_a_dead_letter() {
    let app = app().test().await.unwrap();
    let refused = app.call(Till::at("t"), Pay { order: "a/b".into(), cents: 1 }).await;
    assert_eq!(refused.unwrap_err().code(), "invalid_input");
    // A run that does not exist: the message is kept with the error.
    app.call(Till::at("t"), Pay { order: "nobody".into(), cents: 1 }).await.unwrap();
    app.settle().await;
    let dead = app.store().dead(0, 10).await.unwrap();
    assert_eq!(dead.len(), 1, "{dead:?}");
    let refused = app.send(Order::at("nobody").event(PAID), 1).await.unwrap_err();
    assert_eq!(refused.code(), "run_not_found");
}

#[tokio::test]
async fn a_script_sets_the_results_of_jobs_and_deliveries() {
    let postman = Postman::default();
    let program = app().perform::<Charge>(Bank).consume(MAIL, postman.clone());
    let app = program.test().await.unwrap();
    let script = app.script_job::<Charge>().times_out().gives(&"scripted".to_owned());
    script.fails(Error::terminal("no money"));
    for cents in 1..=3 {
        app.call(Till::at("t"), Charge(cents)).await.unwrap();
        app.advance(Duration::from_mins(1)).await;
    }
    let said = app.call(Till::at("t"), Charged).await.unwrap();
    assert_eq!(said, ["scripted", "failed: no money", "charged 3"]);

    app.script_consumer(MAIL).fails(Error::retryable("later")).gives(&());
    app.send(MAIL, "one".into()).await.unwrap();
    app.advance(Duration::from_hours(1)).await;
    assert_eq!(postman.0.load(Ordering::SeqCst), 0, "both attempts were scripted");
    app.send(MAIL, "two".into()).await.unwrap();
    app.settle().await;
    assert_eq!(postman.0.load(Ordering::SeqCst), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dropping_the_last_runtime_stops_the_program_and_closes_its_store() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().to_str().unwrap();
    let program = app().open(data).await.unwrap();
    let (store, other) = (program.store().clone(), program.clone());
    drop(program);
    let sold = other.call(Till::at("t"), Sell { order: "o-1".into(), cents: 1 }).await;
    sold.expect("a clone keeps it running");
    drop(other);
    until("the store is closed", async || store.objects("till", "", None, 1).await.is_err()).await;
    drop(store);
    // Reads are refused before the folder is free for the next program, which continues.
    let mut next = None;
    until("the folder is free", async || {
        next = match app().open(data).await {
            Err(StartError::Open(OpenError::Taken { .. })) => None,
            opened => Some(opened.unwrap()),
        };
        next.is_some()
    })
    .await;
    let program = next.unwrap();
    until("the run has begun", async || {
        matches!(program.run(Order::at("o-1")).status().await, Ok(Status::Waiting))
    })
    .await;
    program.stop().await;
}

#[test]
fn a_program_that_is_dropped_outside_of_its_async_runtime_stops_in_it() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().to_str().unwrap();
    let tokio = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let program = tokio.block_on(app().open(data)).unwrap();
    let store = program.store().clone();
    drop(program);
    tokio.block_on(until("the store is closed", async || {
        store.objects("till", "", None, 1).await.is_err()
    }));
}

/// Counts its drops.
struct Dropped(Arc<AtomicUsize>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// Has one step that never ends.
struct Stuck(Arc<AtomicUsize>);

impl Workflow for Stuck {
    const NAME: &'static str = "stuck";
    type Input = ();
    type Output = ();

    async fn run(&self, ctx: &Ctx, (): ()) -> Result<()> {
        let ended = self.0.clone();
        ctx.step("wait", async || {
            let _guard = Dropped(ended.clone());
            std::future::pending().await
        })
        .await
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_under_test_that_is_dropped_ends_like_a_killed_process() {
    let ended = Arc::new(AtomicUsize::new(0));
    let app = App::new("test").workflow(Stuck(ended.clone())).test().await.unwrap();
    app.start(Stuck::at("s"), ()).await.unwrap();
    until("the step has begun", async || {
        let run = app.runs().look("stuck", "s").await.unwrap();
        !run.steps.is_empty()
    })
    .await;
    // Nothing advances its clock, so nothing may wait for time to pass.
    drop(app);
    until("the step is gone", async || ended.load(Ordering::SeqCst) == 1).await;
}

/// Refuses every connection, with a code of its own.
struct Gate;

impl Object for Gate {
    const CLASS: &'static str = "gate";
    type Calls = ();

    fn connected(&self, _: &Turn<Self>, _: &Connection) -> Result<()> {
        Err(Error::terminal("seat 3 is taken").with_code("conflict"))
    }
}

#[tokio::test]
async fn a_refused_connection_has_the_code_of_the_object_whatever_it_is() {
    let app = App::new("test").object(Gate).object(Till).test().await.unwrap();
    let refused = app.connect(Gate::at("g"), ConnectParams::new()).await.err().unwrap();
    assert!(matches!(&refused, CallError::Refused(it) if it.to_string() == "seat 3 is taken"));
    let none = app.connect(Till::at("t"), ConnectParams::new()).await.err().unwrap();
    assert!(matches!(none, CallError::NotLive { .. }));
}
