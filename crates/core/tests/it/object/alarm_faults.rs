//! Alarms whose handlers fail: never lost, and others are not delayed.

use std::time::Duration;

use steadfast_core::{Handle, Object, ObjectOptions, Result, Turn, store::RetryPolicy};

use super::{
    Program,
    alarms::{Listed, clockwork, rung, set},
    at,
};
use crate::{
    lab::Lab,
    ledger::{Add, Clockwork, Ledger, Query, Read, Ring},
};

laws!(
    an_alarm_whose_handler_fails_rings_again_later_and_later,
    a_failed_alarm_stays_with_its_error_until_it_is_set_again,
    an_alarm_with_a_terminal_error_fails_immediately,
    a_broken_alarm_does_not_hold_up_others,
    a_repeated_alarm_that_failed_keeps_its_times,
    a_wake_up_of_an_object_that_was_deleted_does_no_harm,
    a_wake_up_of_an_object_that_was_made_anew_does_no_harm,
    an_alarm_rings_when_an_object_that_could_not_be_migrated_can_be_again,
);

async fn start(lab: &Lab) -> Program {
    let alarm_retry = RetryPolicy {
        attempts_max: 4,
        delay: Duration::from_secs(10),
        delay_max: Duration::from_mins(1),
    };
    let options = ObjectOptions { alarm_retry, ..ObjectOptions::default() };
    Program::with(lab, Ledger::default(), options).await
}

async fn error_of(app: &Program, alarm: &str) -> String {
    let sql = format!("SELECT error FROM _steadfast_alarm WHERE name = '{alarm}'");
    app.call(Ledger::at("a"), Query { sql }).await.unwrap().remove(0)
}

async fn an_alarm_whose_handler_fails_rings_again_later_and_later(lab: Lab) {
    let app = start(&lab).await;
    set(&app, "twice", 1_000).await;
    app.advance(Duration::from_secs(1)).await;
    let mut now = at(1_000);
    for (attempts, wait) in [(1, 10_000), (2, 20_000)] {
        let listed = clockwork(&app, Clockwork::List).await;
        let [(name, due_at, tried, failed)] = &listed[..] else { panic!("{listed:?}") };
        assert_eq!((name.as_str(), *tried, *failed), ("twice", attempts, false));
        assert!((wait / 2..=wait).contains(&(due_at - now)), "waits {} ms", due_at - now);
        assert!(error_of(&app, "twice").await.contains("not yet"));
        app.assert_sound().await;
        assert_eq!(rung(&app).await, []);
        let wait = Duration::from_millis(u64::try_from(due_at - now).unwrap());
        now = *due_at;
        app.advance(wait).await;
    }
    assert_eq!(rung(&app).await, [("twice".into(), now)]);
    assert_eq!(clockwork(&app, Clockwork::List).await, []);
    app.assert_sound().await;
}

async fn a_failed_alarm_stays_with_its_error_until_it_is_set_again(mut lab: Lab) {
    let app = start(&lab).await;
    set(&app, "broken", 1_000).await;
    app.advance(Duration::from_mins(10)).await;
    let given_up =
        |listed: &Listed| matches!(&listed[..], [(name, _, 4, true)] if name == "broken");
    assert!(given_up(&clockwork(&app, Clockwork::List).await));
    assert_eq!(error_of(&app, "broken").await, "out of order");
    assert_eq!(lab.store.totals().await.unwrap().pending, 0);
    app.stop().await;
    lab.reopen().await;
    let app = start(&lab).await;
    app.advance(Duration::from_hours(10)).await;
    assert!(given_up(&clockwork(&app, Clockwork::List).await));
    let listed = set(&app, "broken", 1_000).await;
    assert!(matches!(&listed[..], [(_, _, 0, false)]), "{listed:?}");
    app.assert_sound().await;
    app.advance(Duration::from_secs(1)).await;
    let listed = clockwork(&app, Clockwork::List).await;
    assert!(matches!(&listed[..], [(_, _, 1, false)]), "{listed:?}");
}

async fn an_alarm_with_a_terminal_error_fails_immediately(lab: Lab) {
    let app = start(&lab).await;
    set(&app, "final", 1_000).await;
    app.advance(Duration::from_secs(1)).await;
    let listed = clockwork(&app, Clockwork::List).await;
    assert_eq!(listed, [("final".into(), at(1_000), 1, true)]);
    assert_eq!(error_of(&app, "final").await, "not on a Sunday");
    assert_eq!(lab.store.totals().await.unwrap().pending, 0);
    assert_eq!(clockwork(&app, Clockwork::Cancel { name: "final".into() }).await, []);
}

async fn a_broken_alarm_does_not_hold_up_others(lab: Lab) {
    let app = start(&lab).await;
    for (name, millis) in [("broken", 1_000), ("good", 1_000), ("later", 2_000), ("twice", 1_000)] {
        set(&app, name, millis).await;
    }
    app.advance(Duration::from_secs(2)).await;
    assert_eq!(rung(&app).await, [("good".into(), at(1_000)), ("later".into(), at(2_000))]);
    app.advance(Duration::from_mins(10)).await;
    assert_eq!(rung(&app).await[2].0, "twice");
    app.assert_sound().await;
}

async fn a_repeated_alarm_that_failed_keeps_its_times(lab: Lab) {
    let app = start(&lab).await;
    let (name, every) = ("twice".into(), Duration::from_mins(1));
    clockwork(&app, Clockwork::Repeat { name, every, catch_up: "once".into() }).await;
    app.advance(Duration::from_secs(95)).await;
    assert_eq!(rung(&app).await.len(), 1, "the third attempt is the first that works");
    let listed = clockwork(&app, Clockwork::List).await;
    assert_eq!(listed, [("twice".into(), at(120_000), 0, false)]);
}

async fn a_wake_up_of_an_object_that_was_deleted_does_no_harm(lab: Lab) {
    let app = Program::on(&lab).await;
    set(&app, "x", 1_000).await;
    assert!(app.objects.delete("ledger", "a").await.unwrap());
    app.advance(Duration::from_mins(1)).await;
    let totals = lab.store.totals().await.unwrap();
    assert_eq!((totals.pending, totals.dead), (0, 0));
    assert!(lab.store.heads(-1, 0, 10).await.unwrap().is_empty());
    app.assert_sound().await;
}

async fn a_wake_up_of_an_object_that_was_made_anew_does_no_harm(lab: Lab) {
    let app = Program::on(&lab).await;
    set(&app, "x", 1_000).await;
    assert!(app.objects.delete("ledger", "a").await.unwrap());
    assert_eq!(app.call(Ledger::at("a"), Add { by: 1 }).await.unwrap(), 1);
    app.advance(Duration::from_hours(10)).await;
    assert_eq!(rung(&app).await, []);
    let totals = lab.store.totals().await.unwrap();
    assert_eq!((totals.pending, totals.dead), (0, 0), "the old wake-up is not done");
    assert_eq!(app.call(Ledger::at("a"), Read).await.unwrap(), (1, 1));
    app.assert_sound().await;
}

/// The same class with a migration that does not run.
struct Broken;

impl Object for Broken {
    const CLASS: &'static str = Ledger::CLASS;
    type Calls = (Ring,);
    const MIGRATIONS: &'static [&'static str] =
        &[Ledger::MIGRATIONS[0], Ledger::MIGRATIONS[1], "CREATE TABLE total (n INTEGER)"];
}

impl Handle<Ring> for Broken {
    const NAME: &'static str = "ring";
    type Reply = ();
    fn handle(&self, _: &Turn<Self>, _: Ring) -> Result<()> {
        Ok(())
    }
}

async fn an_alarm_rings_when_an_object_that_could_not_be_migrated_can_be_again(mut lab: Lab) {
    let app = Program::on(&lab).await;
    set(&app, "x", 1_000).await;
    app.stop().await;
    lab.reopen().await;
    let app = Program::of(lab.store.clone(), &lab.clock, |it| it.class(Broken)).await;
    app.advance(Duration::from_hours(20)).await;
    app.stop().await;
    lab.reopen().await;
    let app = Program::on(&lab).await;
    app.advance(Duration::from_hours(1)).await;
    set(&app, "y", 1_000).await;
    app.advance(Duration::from_hours(1)).await;
    let names: Vec<String> = rung(&app).await.into_iter().map(|it| it.0).collect();
    assert_eq!(names, ["x", "y"], "the wake-up was given up, and the object counts on it");
}
