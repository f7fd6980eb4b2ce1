//! Effects: work outside of a turn, whose outcome arrives as a turn.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use steadfast_core::{
    Error, Object, Perform, Result,
    store::{Recorded, State},
};

use super::Program;
use crate::{
    lab::Lab,
    ledger::{Add, Download, Fetch, Ledger, Read},
    play::until,
};

laws!(
    the_outcome_of_an_effect_arrives_as_a_turn,
    an_effect_that_fails_is_tried_again_later_and_later,
    an_effect_that_fails_too_often_returns_an_error,
    an_effect_that_fails_for_good_returns_its_outcome_immediately,
    an_effect_that_panics_returns_an_error_after_its_attempts,
    an_effect_that_never_ends_returns_an_error_after_its_attempts,
    an_effect_survives_a_restart,
    an_object_runs_turns_while_its_effect_is_performed,
    a_performer_sets_its_concurrency,
);
laws!(also on postgres: an_effect_survives_a_restart);

#[derive(Clone, Copy, PartialEq)]
enum Way {
    Works,
    Fails(usize),
    FailsForGood,
    Panics,
    Hangs,
}

/// Performs downloads as configured, and records the keys.
#[derive(Clone)]
struct Performer {
    way: Way,
    keys: Arc<Mutex<Vec<String>>>,
}

impl Performer {
    fn new(way: Way) -> Self {
        Self { way, keys: Arc::default() }
    }

    /// The number of attempts, all with the same key.
    fn attempts(&self) -> usize {
        let keys = self.keys.lock().unwrap();
        assert!(keys.iter().all(|it| *it == keys[0]), "{keys:?}");
        keys.len()
    }
}

impl Perform<Download> for Performer {
    async fn perform(&self, _: Download, key: &str) -> Result<i64> {
        let attempt = {
            let mut keys = self.keys.lock().unwrap();
            keys.push(key.into());
            keys.len()
        };
        match self.way {
            Way::Fails(times) if attempt <= times => Err(Error::retryable("503")),
            Way::Works | Way::Fails(_) => Ok(7),
            Way::FailsForGood => Err(Error::terminal("404")),
            Way::Panics => panic!("as the test wanted"),
            Way::Hangs => std::future::pending().await,
        }
    }
}

async fn start(lab: &Lab, performer: &Performer) -> Program {
    let performer = performer.clone();
    let add = |it: steadfast_core::object::ObjectsBuilder| {
        it.class(Ledger::default()).perform::<Download>(performer)
    };
    Program::of(lab.store.clone(), &lab.clock, add).await
}

async fn fetch(app: &Program) {
    app.call(Ledger::at("a"), Fetch { failures: 0 }).await.unwrap();
}

/// The sum of the outcomes: 7 for each success, -1 for each failure.
async fn sum(app: &Program) -> i64 {
    app.call(Ledger::at("a"), Read).await.unwrap().1
}

async fn settled(lab: &Lab, app: &Program) {
    app.assert_sound().await;
    let totals = lab.store.totals().await.unwrap();
    assert_eq!((totals.pending, totals.dead), (0, 0));
}

async fn the_outcome_of_an_effect_arrives_as_a_turn(lab: Lab) {
    let performer = Performer::new(Way::Works);
    let app = start(&lab, &performer).await;
    fetch(&app).await;
    settled(&lab, &app).await;
    assert_eq!((sum(&app).await, performer.attempts()), (7, 1));
}

async fn an_effect_that_fails_is_tried_again_later_and_later(lab: Lab) {
    let performer = Performer::new(Way::Fails(2));
    let app = start(&lab, &performer).await;
    fetch(&app).await;
    app.dispatcher.settled().await;
    for (attempts, wait) in [(1, 1_000), (2, 2_000)] {
        assert_eq!((sum(&app).await, performer.attempts()), (0, attempts));
        let pending = lab.store.pending(None, 0, 10).await.unwrap().remove(0);
        let Some(State::Pending { due_at, .. }) = pending.state else { panic!("{pending:?}") };
        let now = super::Clock::now(&lab.clock);
        let waits = due_at.since(now);
        assert!((wait / 2..=wait).contains(&waits.as_millis()), "waits {waits:?}");
        app.advance(waits).await;
    }
    settled(&lab, &app).await;
    assert_eq!((sum(&app).await, performer.attempts()), (7, 3));
}

async fn an_effect_that_fails_too_often_returns_an_error(lab: Lab) {
    let performer = Performer::new(Way::Fails(100));
    let app = start(&lab, &performer).await;
    fetch(&app).await;
    app.advance(Duration::from_hours(1)).await;
    settled(&lab, &app).await;
    assert_eq!((sum(&app).await, performer.attempts()), (-1, 3));
}

async fn an_effect_that_fails_for_good_returns_its_outcome_immediately(lab: Lab) {
    let performer = Performer::new(Way::FailsForGood);
    let app = start(&lab, &performer).await;
    fetch(&app).await;
    settled(&lab, &app).await;
    assert_eq!((sum(&app).await, performer.attempts()), (-1, 1));
}

async fn an_effect_that_panics_returns_an_error_after_its_attempts(lab: Lab) {
    let performer = Performer::new(Way::Panics);
    let app = start(&lab, &performer).await;
    fetch(&app).await;
    app.advance(Duration::from_hours(1)).await;
    settled(&lab, &app).await;
    assert_eq!((sum(&app).await, performer.attempts()), (-1, 3));
}

async fn an_effect_that_never_ends_returns_an_error_after_its_attempts(lab: Lab) {
    let performer = Performer::new(Way::Hangs);
    let app = start(&lab, &performer).await;
    fetch(&app).await;
    for attempt in 1..=3 {
        until("it is attempted", async || attempt <= performer.attempts()).await;
        // The lease of the attempt, and the delay after it.
        lab.clock.advance(Duration::from_mins(2));
        until("its lease ends", async || {
            let pending = lab.store.pending(None, 0, 1).await.unwrap();
            let is_held = |it: &Recorded| matches!(it.state, Some(State::InFlight { .. }));
            !pending.iter().any(|it| is_held(it) && it.action == "perform")
        })
        .await;
        lab.clock.advance(Duration::from_secs(10));
    }
    settled(&lab, &app).await;
    assert_eq!((sum(&app).await, performer.attempts()), (-1, 3));
}

async fn an_effect_survives_a_restart(mut lab: Lab) {
    let performer = Performer::new(Way::Fails(1));
    let app = start(&lab, &performer).await;
    fetch(&app).await;
    app.dispatcher.settled().await;
    app.stop().await;
    lab.reopen().await;
    let app = start(&lab, &performer).await;
    assert_eq!(sum(&app).await, 0);
    app.advance(Duration::from_mins(1)).await;
    settled(&lab, &app).await;
    assert_eq!((sum(&app).await, performer.attempts()), (7, 2));
}

async fn an_object_runs_turns_while_its_effect_is_performed(lab: Lab) {
    let performer = Performer::new(Way::Hangs);
    let app = start(&lab, &performer).await;
    fetch(&app).await;
    until("it is performed", async || 1 <= performer.attempts()).await;
    assert_eq!(app.call(Ledger::at("a"), Add { by: 3 }).await.unwrap(), 3);
}

/// Performs many concurrently, and none of them ends.
struct Wide(Performer);

impl Perform<Download> for Wide {
    async fn perform(&self, job: Download, key: &str) -> Result<i64> {
        self.0.perform(job, key).await
    }

    fn at_once(&self) -> Option<usize> {
        Some(40)
    }
}

async fn a_performer_sets_its_concurrency(lab: Lab) {
    let performer = Performer::new(Way::Hangs);
    let wide = Wide(performer.clone());
    let add = |it: steadfast_core::object::ObjectsBuilder| {
        it.class(Ledger::default()).perform::<Download>(wide)
    };
    let app = Program::of(lab.store.clone(), &lab.clock, add).await;
    for name in 0..41 {
        app.call(Ledger::at(name.to_string()), Fetch { failures: 0 }).await.unwrap();
    }
    let performed = async || 40 <= performer.keys.lock().unwrap().len();
    until("40 are performed", performed).await;
    // The next one waits for a permit, and nothing else waits for it.
    assert_eq!(app.call(Ledger::at("a"), Add { by: 3 }).await.unwrap(), 3);
    assert_eq!(performer.keys.lock().unwrap().len(), 40);
}
