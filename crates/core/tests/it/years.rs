//! A program that runs for years: nothing grows for ever, and a sweep costs in proportion to the
//! deleted data.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use steadfast_core::{
    App, Consumer, Ctx, Delivery, Error, Handle, Object, Queue, Result, RetentionSettings, Settled,
    Turn, Workflow,
    object::HistoryRetention,
    store::{Remember, Retention, Write},
    test::TestApp,
};

use crate::{
    lab::{self, Lab},
    shop::{Carrier, Order, paid, place},
};

laws!(on sqlite, postgres:
    after_a_year_of_constant_load_a_store_is_no_larger_than_after_two_periods,
    a_sweep_reads_as_much_in_a_large_store_as_in_a_small_one,
    a_run_with_a_dead_message_is_deleted_with_it_or_on_request,
    a_program_forgets_by_itself,
);

const DAY: Duration = Duration::from_hours(24);

/// A visitor, which sends to others and is deleted.
struct Visitor;

#[derive(Serialize, Deserialize)]
struct Greet {
    to: Option<String>,
}

impl Object for Visitor {
    const CLASS: &'static str = "visitor";
    type Calls = (Greet,);
    const MIGRATIONS: &'static [&'static str] =
        &["CREATE TABLE seen (n INTEGER NOT NULL); INSERT INTO seen VALUES (0)"];
}

impl Handle<Greet> for Visitor {
    const NAME: &'static str = "greet";
    type Reply = i64;

    fn handle(&self, turn: &Turn<Self>, msg: Greet) -> Result<i64> {
        let count = "UPDATE seen SET n = n + 1 RETURNING n";
        let seen = turn.sql().query_row(count, (), |row| row.get(0))?;
        match msg.to.as_deref() {
            Some("nobody") => return Err(Error::terminal("there is nobody")),
            Some(to) => turn.send(Visitor::at(to), Greet { to: None }),
            None => {}
        }
        Ok(seen)
    }
}

#[derive(Serialize, Deserialize)]
struct Mail {
    good: bool,
}

const MAIL: Queue<Mail> = Queue::named("mail");

struct Post;

impl Consumer for Post {
    type Message = Mail;

    async fn deliver(&self, delivery: Delivery<Mail>) -> Result<Settled> {
        if delivery.message.good { Ok(delivery.done()) } else { Ok(delivery.bury("torn")) }
    }
}

/// A run that sends to a visitor and to a queue.
struct Visit;

impl Workflow for Visit {
    const NAME: &'static str = "visit";
    type Input = bool;
    type Output = i64;

    async fn run(&self, ctx: &Ctx, good: bool) -> Result<i64> {
        let seen = ctx.step("look", async || Ok(7_i64)).await?;
        ctx.send(MAIL, Mail { good }).await?;
        Ok(seen)
    }
}

fn keep() -> RetentionSettings {
    RetentionSettings {
        messages: Retention { keep: 10 * DAY, keep_dead: 20 * DAY },
        turns: HistoryRetention { keep: 10 * DAY, ..HistoryRetention::DEFAULT },
    }
}

async fn app(lab: &Lab) -> TestApp {
    app_that(lab, keep()).await
}

async fn app_that(lab: &Lab, keep: RetentionSettings) -> TestApp {
    App::new("test")
        .object(Visitor)
        .process::<Order>(Carrier::default())
        .workflow(Visit)
        .queue(MAIL)
        .consume(MAIL, Post)
        .retention(keep)
        .test_on(lab.store.clone(), lab.clock.clone())
        .await
        .unwrap()
}

/// The operations of one day: the same each time, with other names.
async fn day(app: &TestApp, number: u32) {
    let name = |what: &str| format!("{what}-{number}");
    for greeted in [name("a"), "host".into()] {
        app.call(Visitor::at(name("guest")), Greet { to: Some(greeted) }).await.unwrap();
    }
    // This one is only addressed.
    let guest = Visitor::at(name("guest"));
    app.call(guest.clone(), Greet { to: Some(name("b")) }).await.unwrap();
    assert!(app.call(guest, Greet { to: Some("nobody".into()) }).await.is_err());
    app.input::<Order>(place(&name("order"))).await.unwrap();
    app.input::<Order>(paid(&name("order"))).await.unwrap();
    app.start(Visit::at(name("run")), !number.is_multiple_of(3)).await.unwrap();
    app.queues().send(MAIL, &Mail { good: !number.is_multiple_of(5) }).await.unwrap();
    app.settle().await;
    for gone in [name("guest"), name("a"), name("b")] {
        assert!(app.delete(Visitor::at(gone)).await.unwrap());
    }
}

/// The number of rows, table by table.
async fn rows(lab: &Lab) -> usize {
    lab.store.dump().await.unwrap().rows.len()
}

async fn after_a_year_of_constant_load_a_store_is_no_larger_than_after_two_periods(lab: Lab) {
    let app = app(&lab).await;
    let mut largest = 0;
    for number in (0..365).step_by(2) {
        day(&app, number).await;
        app.advance(2 * DAY).await;
        app.sweep().await;
        if number % 10 != 0 {
            continue;
        }
        let rows = rows(&lab).await;
        // Runs have the longest retention, thirty days.
        match number {
            40..120 => largest = largest.max(rows),
            120.. => assert!(rows <= largest, "{rows} rows on day {number}, {largest} before"),
            _ => {}
        }
    }
    lab.assert_sound().await;
    app.advance(100 * DAY).await;
    app.sweep().await;
    // A stream keeps its last message: that of the host, of the queue, and of the manual send.
    let left = lab.store.dump().await.unwrap().rows;
    assert!(left.len() < 25, "{left:#?}");
}

/// The cost of another sweep that finds nothing: its commits, reads and steps. Other tasks may
/// still run for a moment, so this is the minimum of several.
async fn sweep_again(app: &TestApp, lab: &Lab) -> [u64; 3] {
    let mut least = [u64::MAX; 3];
    for _ in 0..10 {
        let before = lab.store.activity();
        app.sweep().await;
        let after = lab.store.activity();
        least[0] = least[0].min(after.commits - before.commits);
        least[1] = least[1].min(after.reads - before.reads);
        least[2] = least[2].min(after.steps - before.steps);
    }
    least
}

async fn a_sweep_reads_as_much_in_a_large_store_as_in_a_small_one(lab: Lab) {
    let app = app(&lab).await;
    app.queues().pause("mail").await.unwrap();
    let kept = async |range: std::ops::Range<u32>| {
        for number in range {
            let stream = lab::address(&format!("s{number}"));
            lab.append(&stream, vec![lab::event("kept")]).await;
            let key = Remember::new(stream.id(), "k", b"").unwrap().keep(1_000 * DAY);
            lab.committed(steadfast_core::store::Commit::of(Write::Remember(key))).await;
            let name = format!("v{number}");
            app.call(Visitor::at(&name), Greet { to: None }).await.unwrap();
            app.queues().send(MAIL, &Mail { good: true }).await.unwrap();
            app.input::<Order>(crate::shop::once(&name)).await.unwrap();
        }
        app.advance(11 * DAY).await;
    };
    kept(0..5).await;
    let small = sweep_again(&app, &lab).await;
    kept(5..250).await;
    let large = sweep_again(&app, &lab).await;
    assert_eq!((small[0], large[0]), (0, 0), "nothing is to be forgotten");
    assert_eq!(small[1], large[1]);
    // A tree of fifty times as much is a little deeper.
    assert!(large[2] <= small[2] + small[2] / 4, "{small:?} {large:?}");
    lab.assert_sound().await;
}

async fn a_run_with_a_dead_message_is_deleted_with_it_or_on_request(lab: Lab) {
    let messages = Retention { keep: DAY, keep_dead: 60 * DAY };
    let app = app_that(&lab, RetentionSettings { messages, ..keep() }).await;
    for id in ["kept", "deleted"] {
        app.start(Visit::at(id), false).await.unwrap();
    }
    app.settle().await;
    let dead = async || lab.store.totals().await.unwrap().dead;
    assert_eq!(dead().await, 2);
    app.runs().delete("visit", "deleted").await.unwrap();
    assert_eq!(dead().await, 1);
    // The retention of a run is thirty days, and that of dead messages sixty.
    app.advance(31 * DAY).await;
    let is_there = async || app.runs().status("visit", "kept").await.is_ok();
    app.sweep().await;
    assert_eq!((is_there().await, dead().await), (true, 1));
    app.advance(30 * DAY).await;
    app.sweep().await;
    assert_eq!((is_there().await, dead().await), (false, 0));
    lab.assert_sound().await;
}

async fn a_program_forgets_by_itself(lab: Lab) {
    let app = app(&lab).await;
    for number in 0..3 {
        day(&app, number).await;
    }
    let before = rows(&lab).await;
    app.advance(100 * DAY).await;
    // It runs by itself.
    crate::play::until("it has swept", async || rows(&lab).await < before / 3).await;
    lab.assert_sound().await;
}
