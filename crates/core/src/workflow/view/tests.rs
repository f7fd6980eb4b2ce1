//! Views of handmade records.

use serde_json::{Value, json};
use steadfast_store::{Address, EntityKind, Timestamp};

use super::{LiveState, RunView};
use crate::{
    Error,
    workflow::{
        fold::RunFold,
        record::{Attempt, Entry, Key, Progress, Report, Wait},
        state::AttemptInFlight,
        status::{Phase, StepStatus},
    },
};

/// Adds entries, each 10 ms after the one before; the first at 10.
fn fold(entries: Vec<Entry>) -> RunFold {
    let mut fold = RunFold::default();
    for (number, entry) in (1..).zip(entries) {
        fold.head.version = number;
        fold.apply(number, Timestamp(number * 10), entry);
    }
    fold
}

fn live(now: i64) -> LiveState {
    LiveState { now: Timestamp(now), in_flight: None, progress: None, running: 2, served: true }
}

fn look_at(fold: &RunFold, live: &LiveState) -> RunView {
    let run = Address::new(EntityKind::Run, "order", "o-1").unwrap();
    let view = RunView::of(fold, &run, live);
    let explained = view.status.is_final() || view.status == Phase::Running;
    assert!(explained || !view.waiting.is_empty(), "nothing explains {view:#?}");
    view
}

fn look(entries: Vec<Entry>, now: i64) -> RunView {
    look_at(&fold(entries), &live(now))
}

fn key(scope: &str, kind: &str, name: &str) -> Key {
    Key { scope: scope.into(), kind: kind.into(), name: name.into(), count: 1 }
}

fn started() -> Entry {
    Entry::Started { input: json!({ "a": 1 }), on_end: None }
}

fn wake(waits: &[(Key, Option<i64>)]) -> Entry {
    let wait = |(key, until): &(Key, Option<i64>)| Wait { key: key.clone(), until: *until };
    Entry::Wake { waits: waits.iter().map(wait).collect() }
}

fn done(key: Key, value: Value, began_at: i64) -> Entry {
    let attempt = Some(Attempt { number: 1, began_at });
    Entry::Done { key, value, attempt, input: None }
}

fn tried(key: Key, number: u32, began_at: i64, retry_at: i64) -> Entry {
    let error = Error::retryable("no result").with_code("timeout");
    Entry::Tried { key, error, attempt: Attempt { number, began_at }, retry_at, input: None }
}

/// Name, status and times of each step.
fn steps(view: &RunView) -> Vec<(&str, StepStatus, i64, Option<i64>)> {
    let step = |it: &'_ super::StepView| (it.status, it.started_at.0.0, it.ended_at);
    let named = view.steps.iter().map(|it| (it.name.as_str(), step(it)));
    named.map(|(name, (status, from, to))| (name, status, from, to.map(|it| it.0.0))).collect()
}

#[test]
fn a_started_run_waits_for_capacity() {
    let view = look(vec![started(), wake(&[])], 30);
    assert_eq!((view.status, view.version), (Phase::Queued, 2));
    assert_eq!((view.created_at.0.0, view.changed_at.0.0), (10, 20));
    assert_eq!(view.input, json!({ "a": 1 }));
    assert_eq!(view.waiting[0].why, "queued: waits for capacity; 2 runs of `order` are active");
    let foreign = LiveState { served: false, ..live(30) };
    let view = look_at(&fold(vec![started(), wake(&[])]), &foreign);
    assert!(view.waiting[0].why.contains("no program that has the workflow `order`"));
}

#[test]
fn attempts_of_a_key_are_one_step() {
    let charge = key("", "step", "charge");
    let entries = vec![
        started(),
        tried(charge.clone(), 1, 12, 24),
        tried(charge.clone(), 2, 24, 60),
        wake(&[(charge.clone(), Some(60))]),
    ];
    let view = look(entries.clone(), 50);
    assert_eq!(steps(&view), [("charge", StepStatus::Retrying, 12, None)]);
    let step = &view.steps[0];
    assert_eq!(step.until.map(|it| it.0.0), Some(60));
    assert_eq!(step.error.as_ref().map(|it| it.code.as_str()), Some("timeout"));
    let why = "step `charge` failed 2 times (timeout: no result); the next attempt is at \
               1970-01-01T00:00:00.060Z";
    assert_eq!(view.waiting[0].why, why);
    assert!(look(entries.clone(), 60).waiting[0].why.ends_with("it waits for capacity"));
    let mut entries = entries;
    entries.push(done(charge, json!(7), 45));
    let view = look(entries, 70);
    assert_eq!(steps(&view), [("charge", StepStatus::Done, 12, Some(50))]);
    let step = &view.steps[0];
    assert_eq!((step.output.clone(), step.error.clone()), (Some(json!(7)), None));
    let times = step.attempts.iter().map(|it| (it.number, it.error.is_some()));
    assert_eq!(times.collect::<Vec<_>>(), [(1, true), (2, true), (1, false)]);
}

#[test]
fn attempts_in_flight_are_shown_from_memory() {
    let charge = key("", "step", "charge");
    let other = key("join#1.1/", "step", "other");
    let fold = fold(vec![started(), tried(charge.clone(), 1, 12, 24), tried(other, 1, 12, 90)]);
    let began_at = Timestamp(40);
    let now = AttemptInFlight { key: charge, attempt: 2, began_at };
    let ship = AttemptInFlight { key: key("", "step", "ship"), attempt: 1, began_at };
    let active = LiveState { in_flight: Some(vec![now, ship]), ..live(50) };
    let view = look_at(&fold, &active);
    assert_eq!((view.status, view.progress.step.as_deref()), (Phase::Running, Some("charge")));
    let expected = [
        ("charge", StepStatus::Running, 12, None),
        ("other", StepStatus::Retrying, 12, None),
        ("ship", StepStatus::Running, 40, None),
    ];
    assert_eq!(steps(&view), expected);
    assert_eq!(view.steps[0].attempts[1].ended_at, None);
    assert_eq!(view.waiting.len(), 1, "the other branch waits for its next attempt");
    assert_eq!(view.waiting[0].name, "other");
}

#[test]
fn an_attempt_that_was_recorded_meanwhile_is_shown_once() {
    let charge = key("", "step", "charge");
    let tried = tried(charge.clone(), 1, 12, 24);
    let fold = fold(vec![started(), tried, done(charge.clone(), json!(7), 45)]);
    let attempts = look_at(&fold, &live(70)).steps[0].attempts.clone();
    // Memory was read before the record.
    let last = &attempts[1];
    let now = AttemptInFlight { key: charge, attempt: last.number, began_at: last.started_at.0 };
    let view = look_at(&fold, &LiveState { in_flight: Some(vec![now]), ..live(70) });
    assert_eq!(view.steps[0].attempts, attempts);
}

#[test]
fn a_sleep_ends_at_its_time_or_with_the_next_entry() {
    let sleep = key("", "sleep", "a month");
    let timer = Entry::Timer { key: sleep.clone(), due_at: 100 };
    let entries = vec![started(), timer, wake(&[(sleep, Some(100))])];
    let view = look(entries.clone(), 50);
    assert_eq!(steps(&view), [("a month", StepStatus::Waiting, 20, None)]);
    assert_eq!(view.waiting[0].why, "sleeps `a month` until 1970-01-01T00:00:00.100Z");
    assert_eq!((view.status, view.progress.step.as_deref()), (Phase::Waiting, Some("a month")));
    let late = look(entries.clone(), 200);
    assert_eq!(steps(&late), [("a month", StepStatus::Done, 20, Some(100))]);
    let mut entries = entries;
    entries.push(done(key("", "step", "remind"), json!(null), 35));
    // The clock of the reader may be behind.
    assert_eq!(steps(&look(entries, 50))[0], ("a month", StepStatus::Done, 20, Some(35)));
}

#[test]
fn a_pause_moves_sleeps_and_is_a_reason() {
    let sleep = key("", "sleep", "nap");
    let timer = Entry::Timer { key: sleep.clone(), due_at: 50 };
    let paused = Entry::Paused { report: None };
    let mut entries = vec![started(), timer, wake(&[(sleep, Some(50))]), paused];
    let view = look(entries.clone(), 1_000);
    assert_eq!(
        view.waiting[0].why,
        "paused by an operator since 1970-01-01T00:00:00.040Z; resume it"
    );
    assert_eq!(view.steps[0].status, StepStatus::Waiting, "its timer does not advance");
    entries.push(Entry::Resumed { shift_ms: 960 });
    let view = look(entries, 1_000);
    assert_eq!(view.steps[0].until.map(|it| it.0.0), Some(1_010));
}

#[test]
fn a_run_whose_code_has_changed_says_what_differs() {
    let report = Report {
        reason: "the code does something else than the record says".into(),
        position: Some(2),
        expected: Some("step `a`".into()),
        found: Some("step `b`".into()),
        line: Some("src/a.rs:7".into()),
    };
    let view = look(vec![started(), Entry::Paused { report: Some(report.clone()) }], 30);
    assert_eq!(view.report, Some(report));
    let why = "the code does something else than the record says: the record has step `a`, the \
               code has step `b`, at position 2 (src/a.rs:7)";
    assert_eq!((view.waiting[0].kind.as_str(), view.waiting[0].why.as_str()), ("report", why));
}

/// An order that waits for its payment, 15 minutes at most.
fn waiting_order() -> Vec<Entry> {
    let (event, sleep) =
        (key("select#1.0/", "event", "payment"), key("select#1.1/", "sleep", "payment"));
    vec![
        started(),
        Entry::Event { name: "late".into(), payload: json!(1) },
        done(key("", "call", "reserve"), json!(null), 12),
        Entry::Timer { key: sleep.clone(), due_at: 900_000 },
        wake(&[(event, None), (sleep, Some(900_000))]),
    ]
}

#[test]
fn a_wait_for_an_event_names_the_request_and_an_untaken_event_is_kept() {
    let view = look(waiting_order(), 100);
    let expected = [
        ("reserve", StepStatus::Done, 12, Some(30)),
        ("payment", StepStatus::Waiting, 50, None),
        ("payment", StepStatus::Waiting, 40, None),
    ];
    assert_eq!(steps(&view), expected);
    let branches: Vec<&str> = view.steps.iter().map(|it| it.branch.as_str()).collect();
    assert_eq!(branches, ["", "select#1.0", "select#1.1"]);
    let why = "waits for the event `payment`; send it with POST \
               /v1/workflows/order/runs/o-1/events/payment";
    assert_eq!(view.waiting[0].why, why);
    assert_eq!(view.waiting[1].kind, "sleep");
    let event = &view.events[0];
    assert_eq!((event.name.as_str(), event.at.0.0, &event.payload), ("late", 20, &json!(1)));
}

#[test]
fn steps_of_a_branch_that_lost_are_dropped() {
    let mut entries = waiting_order();
    entries.extend([
        Entry::Event { name: "payment".into(), payload: json!(500) },
        wake(&[]),
        Entry::Took { key: key("select#1.0/", "event", "payment"), event: 6 },
        Entry::Done { key: key("", "select", ""), value: json!(0), attempt: None, input: None },
        Entry::Completed { output: json!("shipped") },
    ]);
    let view = look(entries, 2_000_000);
    let expected = [
        ("reserve", StepStatus::Done, 12, Some(30)),
        ("", StepStatus::Done, 40, Some(90)),
        ("payment", StepStatus::Done, 50, Some(80)),
        ("payment", StepStatus::Dropped, 40, Some(90)),
    ];
    assert_eq!(steps(&view), expected);
    assert_eq!(view.steps[2].output, Some(json!(500)));
    assert_eq!((view.status, view.output.clone()), (Phase::Complete, Some(json!("shipped"))));
    assert_eq!((view.ended_at.map(|it| it.0.0), view.waiting.len()), (Some(100), 0));
}

#[test]
fn a_restart_removes_the_same_steps_as_a_replay() {
    let ship = key("", "step", "ship");
    let mut entries = waiting_order();
    entries.extend([
        Entry::Done { key: key("", "select", ""), value: json!(1), attempt: None, input: None },
        done(ship.clone(), json!(null), 61),
        Entry::Progress(Progress { message: "shipped".into(), percent: Some(50.0) }),
        Entry::Terminated,
    ]);
    let ended = look(entries.clone(), 100);
    assert_eq!((ended.status, ended.progress.percent), (Phase::Terminated, Some(50.0)));
    let mut anew = entries.clone();
    anew.extend([Entry::Restarted { from: None }, wake(&[])]);
    let view = look(anew, 200);
    assert_eq!((view.steps.len(), view.restarts, view.ended_at), (0, 1, None));
    assert_eq!((view.status, view.progress.message.as_deref()), (Phase::Queued, None));
    entries.extend([Entry::Restarted { from: Some(ship) }, wake(&[])]);
    let fold = fold(entries);
    let view = look_at(&fold, &live(200));
    let names: Vec<&str> = view.steps.iter().map(|it| it.kind.as_str()).collect();
    assert_eq!(names, ["call", "select", "sleep"], "the event was not taken: it is not known");
    assert!(fold.steps.iter().all(|it| it.result.is_some()));
}

#[test]
fn steps_of_a_branch_are_together() {
    let step = |scope: &str, name: &str, began| done(key(scope, "step", name), json!(1), began);
    let view = look(
        vec![
            started(),
            step("", "first", 11),
            step("map#1.10/", "k", 22),
            step("map#1.2/", "b", 21),
            step("map#1.0/", "a", 20),
            step("map#1.2/join#1.0/", "c", 31),
            step("map#1.0/", "d", 32),
            step("", "last", 60),
        ],
        100,
    );
    let names: Vec<&str> = view.steps.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(names, ["first", "a", "d", "b", "c", "k", "last"]);
}

#[test]
fn a_view_survives_its_json() {
    let view = look(waiting_order(), 100);
    let text = serde_json::to_string(&view).unwrap();
    assert!(text.contains("\"createdAt\":\"1970-01-01T00:00:00.010Z\""), "{text}");
    assert_eq!(serde_json::from_str::<RunView>(&text).unwrap(), view);
}
