//! Idle objects are not in memory, and results do not differ.

use std::time::Duration;

use steadfast_core::{Object, ObjectOptions};

use super::{
    Program,
    alarms::{rung, set},
    at,
};
use crate::{
    lab::Lab,
    ledger::{Add, AddBoth, Ledger, Read},
    play::until,
};

laws!(
    an_idle_object_is_evicted_and_loaded_unchanged,
    an_object_that_is_used_stays_awake,
    an_alarm_wakes_an_object_that_sleeps,
    a_message_wakes_an_object_that_sleeps,
    beyond_the_bytes_in_memory_the_least_recently_used_are_evicted,
);
laws!(also on postgres: an_idle_object_is_evicted_and_loaded_unchanged);

const IDLE: Duration = Duration::from_secs(30);

/// Advances the clock, and waits until this many objects are in memory.
pub(super) async fn awake(lab: &Lab, app: &Program, wanted: usize) {
    let mut polls = 0;
    until(&format!("{wanted} objects are awake"), async || {
        let is_reached = app.objects.awake() == wanted;
        // Other tasks must run before time advances.
        if !is_reached && polls % 50 == 0 {
            lab.clock.advance(IDLE);
        }
        polls += 1;
        is_reached
    })
    .await;
}

async fn an_idle_object_is_evicted_and_loaded_unchanged(lab: Lab) {
    let app = Program::on(&lab).await;
    for name in ["a", "b", "c"] {
        app.call(Ledger::at(name), Add { by: 2 }).await.unwrap();
    }
    assert_eq!(app.objects.awake(), 3);
    awake(&lab, &app, 0).await;
    assert_eq!(app.call(Ledger::at("b"), Read).await.unwrap(), (2, 2));
    assert_eq!(app.call(Ledger::at("b"), Add { by: 1 }).await.unwrap(), 3);
    assert_eq!(app.objects.awake(), 1);
    app.assert_sound().await;
}

async fn an_object_that_is_used_stays_awake(lab: Lab) {
    let app = Program::on(&lab).await;
    app.call(Ledger::at("idle"), Add { by: 1 }).await.unwrap();
    for by in 1..=20 {
        app.call(Ledger::at("a"), Add { by }).await.unwrap();
        lab.clock.advance(IDLE / 2);
        tokio::task::yield_now().await;
    }
    awake(&lab, &app, 1).await;
    let reads = lab.store.activity().reads;
    assert_eq!(app.call(Ledger::at("a"), Read).await.unwrap(), (210, 210));
    assert_eq!(lab.store.activity().reads, reads, "it was in memory");
}

async fn an_alarm_wakes_an_object_that_sleeps(lab: Lab) {
    let app = Program::on(&lab).await;
    set(&app, "x", 3_600_000).await;
    awake(&lab, &app, 0).await;
    app.advance(Duration::from_hours(1)).await;
    let rung = rung(&app).await;
    assert_eq!(rung.len(), 1);
    assert!(at(3_600_000) <= rung[0].1);
}

async fn a_message_wakes_an_object_that_sleeps(lab: Lab) {
    let app = Program::on(&lab).await;
    app.call(Ledger::at("b"), Add { by: 1 }).await.unwrap();
    awake(&lab, &app, 0).await;
    app.call(Ledger::at("a"), AddBoth { other: "b".into(), by: 5 }).await.unwrap();
    app.dispatcher.settled().await;
    assert_eq!(app.call(Ledger::at("b"), Read).await.unwrap(), (6, 6));
}

async fn beyond_the_bytes_in_memory_the_least_recently_used_are_evicted(lab: Lab) {
    let options = ObjectOptions { awake_bytes_max: 1 << 20, ..ObjectOptions::default() };
    let app = Program::with(&lab, Ledger::default(), options).await;
    for number in 0..60 {
        app.call(Ledger::at(format!("n {number}")), Add { by: number }).await.unwrap();
    }
    assert!(app.objects.awake() < 20, "{} are awake", app.objects.awake());
    // The last one is in memory, the first one has to be read again.
    for (number, is_read) in [(59, false), (0, true)] {
        let reads = lab.store.activity().reads;
        app.call(Ledger::at(format!("n {number}")), Read).await.unwrap();
        assert_eq!(reads < lab.store.activity().reads, is_read, "n {number}");
    }
    for number in 0..60 {
        let found = app.call(Ledger::at(format!("n {number}")), Read).await.unwrap();
        assert_eq!(found, (number, number));
    }
}
