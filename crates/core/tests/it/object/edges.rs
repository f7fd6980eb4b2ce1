//! Regressions that reviews found.

use std::{sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};
use steadfast_core::{
    CallError, Handle, Job, Object, ObjectOptions, Objects, Outcome, Perform, Queue, Result, Turn,
    store::{ManualClock, MemoryStore, Store, StoreError},
};

use super::{Program, by_now};
use crate::{
    gated_store::GatedStore,
    lab::{Lab, START},
    ledger::{Ledger, Query, Read, Sql},
};

const LOUD: Queue<String> = Queue::named("loud");

/// Sends more than a commit takes, waits for others, requests slow jobs.
#[derive(Clone, Default)]
struct Odd {
    objects: Arc<std::sync::OnceLock<Objects>>,
}

#[derive(Serialize, Deserialize)]
struct Shout;
#[derive(Serialize, Deserialize)]
struct Ring;
#[derive(Serialize, Deserialize)]
struct Set {
    effects: u32,
    shouts: bool,
}
#[derive(Serialize, Deserialize)]
struct Rang;
#[derive(Serialize, Deserialize)]
struct CallMyself;
#[derive(Debug, Serialize, Deserialize)]
struct Long;

impl Job for Long {
    const NAME: &'static str = "long";
    type Output = ();
}

struct Never;

impl Perform<Long> for Never {
    async fn perform(&self, _: Long, _: &str) -> Result<()> {
        std::future::pending().await
    }
}

impl Object for Odd {
    const CLASS: &'static str = "odd";
    type Calls = (Shout, Ring, Set, Rang, CallMyself, Outcome<Long>);
    const MIGRATIONS: &'static [&'static str] = &["CREATE TABLE rang (n INTEGER)"];
}

impl Handle<Shout> for Odd {
    const NAME: &'static str = "shout";
    type Reply = ();
    fn handle(&self, turn: &Turn<Self>, _: Shout) -> Result<()> {
        (0..40).for_each(|_| turn.send(LOUD, "x".repeat(1_000_000)));
        Ok(())
    }
}

impl Handle<Ring> for Odd {
    const NAME: &'static str = "ring";
    type Reply = ();
    fn handle(&self, turn: &Turn<Self>, _: Ring) -> Result<()> {
        turn.sql().execute("INSERT INTO rang VALUES (1)", ())?;
        Ok(())
    }
}

impl Handle<Set> for Odd {
    const NAME: &'static str = "set";
    type Reply = ();
    fn handle(&self, turn: &Turn<Self>, msg: Set) -> Result<()> {
        (0..msg.effects).for_each(|_| turn.perform(&Long));
        if msg.shouts {
            turn.set_alarm("a shout", Duration::from_secs(1), Shout);
        }
        turn.set_alarm("b ring", Duration::from_secs(1), Ring);
        Ok(())
    }
}

impl Handle<Rang> for Odd {
    const NAME: &'static str = "rang";
    type Reply = i64;
    fn handle(&self, turn: &Turn<Self>, _: Rang) -> Result<i64> {
        Ok(turn.sql().query_row("SELECT count(*) FROM rang", (), |row| row.get(0))?)
    }
}

impl Handle<CallMyself> for Odd {
    const NAME: &'static str = "call-myself";
    type Reply = String;
    fn handle(&self, turn: &Turn<Self>, _: CallMyself) -> Result<String> {
        let objects = self.objects.get().expect("set");
        let call = objects.call(turn.address(), Rang);
        let tokio = tokio::runtime::Builder::new_current_thread().build()?;
        let said = tokio.block_on(async { call.await });
        Ok(said.expect_err("it would wait for itself").code().to_owned())
    }
}

impl Handle<Outcome<Long>> for Odd {
    const NAME: &'static str = "long-done";
    type Reply = ();
    fn handle(&self, _: &Turn<Self>, _: Outcome<Long>) -> Result<()> {
        Ok(())
    }
}

laws!(
    an_alarm_that_sends_too_much_does_not_hold_up_the_others,
    effects_that_take_long_do_not_hold_up_alarms,
    a_handler_that_calls_an_object_gets_an_error,
);

async fn program(lab: &Lab, odd: Odd) -> Program {
    Program::of(lab.store.clone(), &lab.clock, |it| it.class(odd).perform(Never)).await
}

async fn an_alarm_that_sends_too_much_does_not_hold_up_the_others(lab: Lab) {
    let app = program(&lab, Odd::default()).await;
    let error = app.call(Odd::at("b"), Shout).await.unwrap_err();
    assert!(matches!(&error, CallError::RolledBack { .. }), "{error}");
    app.call(Odd::at("a"), Set { effects: 0, shouts: true }).await.unwrap();
    app.advance(Duration::from_secs(2)).await;
    assert_eq!(app.call(Odd::at("a"), Rang).await.unwrap(), 1);
    app.assert_sound().await;
}

async fn effects_that_take_long_do_not_hold_up_alarms(lab: Lab) {
    let app = program(&lab, Odd::default()).await;
    for number in 0..12 {
        let name = Odd::at(format!("{number}"));
        app.call(name, Set { effects: 16, shouts: false }).await.unwrap();
    }
    // Effects are in flight, so it is never idle: time advances until the alarms have fired.
    for number in 0..12 {
        let name = || Odd::at(format!("{number}"));
        for _ in 0..10_000 {
            if app.call(name(), Rang).await.unwrap() == 1 {
                break;
            }
            lab.clock.advance(Duration::from_millis(20));
        }
        assert_eq!(app.call(name(), Rang).await.unwrap(), 1, "of {number}");
    }
}

async fn a_handler_that_calls_an_object_gets_an_error(lab: Lab) {
    let odd = Odd::default();
    let app = program(&lab, odd.clone()).await;
    assert!(odd.objects.set(app.objects.clone()).is_ok());
    assert_eq!(app.call(Odd::at("a"), CallMyself).await.unwrap(), "internal");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_checkpoint_that_lacks_a_part_does_not_count() {
    let clock = ManualClock::at(START);
    let store = GatedStore::new(MemoryStore::new(Arc::new(clock.clone())));
    let options = ObjectOptions { turn_time: Duration::from_mins(1), ..ObjectOptions::default() };
    let add =
        |it: steadfast_core::object::ObjectsBuilder| it.class(Ledger::default()).options(options);
    let app = Program::of(store.clone(), &clock, add).await;
    let sql = |statement: &str| Sql { statements: vec![statement.into()], strict: true };
    let fill = "CREATE TABLE big (id INTEGER PRIMARY KEY, v INTEGER, x BLOB); \
         WITH RECURSIVE c (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c LIMIT 3000) \
         INSERT INTO big SELECT n, 1, randomblob(3500) FROM c";
    app.call(Ledger::at("a"), sql(fill)).await.unwrap();
    app.call(Ledger::at("a"), Read).await.unwrap();
    store.hold();
    let mut call = app.call(Ledger::at("a"), sql("UPDATE big SET v = 2, x = randomblob(3500)"));
    assert!(by_now(&mut call).is_none());
    store.came().await;
    store.release();
    call.await.unwrap();
    // The first part of the images is refused, the others are committed.
    store.came().await;
    store.fail(StoreError::Busy { waiting: 8_192 });
    store.let_go();
    let count = || Query { sql: "SELECT v || ' x ' || count(*) FROM big GROUP BY v".into() };
    // The first may still get the error of the failed commit.
    let _ = app.call(Ledger::at("a"), count()).await;
    assert_eq!(app.call(Ledger::at("a"), count()).await.unwrap(), ["2 x 3000"]);
}

#[test]
fn callers_get_an_error_when_the_runtime_that_reads_objects_is_gone() {
    let runtime = || tokio::runtime::Builder::new_current_thread().build().unwrap();
    let (first, second) = (runtime(), runtime());
    let clock = ManualClock::at(START);
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new(Arc::new(clock.clone())));
    let builder = Objects::builder(store).class(Ledger::default());
    let objects = first.block_on(async { builder.start().unwrap() });
    drop(first);
    let said = second.block_on(async { objects.call(Ledger::at("a"), Read).await });
    assert!(matches!(said, Err(CallError::Store(StoreError::Closed))), "{said:?}");
}
