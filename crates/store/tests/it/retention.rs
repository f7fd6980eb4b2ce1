//! Which data retention deletes and which it keeps.

use std::time::Duration;

use steadfast_store::{
    Address, Clock, Commit, EntityKind, Expect, ExpiryList, InvalidInput, Moment, Outcome, Query,
    Remember, Retention, SettledAs, StoreError, Sweep, SweepList, Timestamp, Turn, Write, sweep,
};

use crate::lab::{Lab, address, address_of, command, event};

crate::laws::laws!(
    retention_deletes_old_settled_messages_and_nothing_else,
    a_stream_continues_at_its_version_after_retention,
    keys_are_removed_when_their_time_is_over,
    messages_of_a_state_stay_until_their_stream_is_closed,
    a_message_that_is_not_needed_after_the_sweep_is_deleted_by_a_later_one,
    a_message_that_is_not_needed_around_a_step_that_passes_it_is_deleted,
    a_step_deletes_a_bounded_number_of_messages_and_moves_the_cursor_with_them,
    a_step_begins_no_other_entity_after_many_messages,
    a_step_deletes_nothing_while_the_clock_is_not_reliable,
    a_step_is_alone_in_its_commit,
    an_object_that_was_deleted_leaves_nothing_behind_and_not_too_early,
);

const KEEP: Retention = Retention { keep: Duration::from_hours(1), ..Retention::DEFAULT };

async fn retention_deletes_old_settled_messages_and_nothing_else(lab: Lab) {
    let stream = address("a");
    let (old_event, done, dead, pending) = (
        lab.append(&stream, vec![event("old")]).await[0],
        lab.command(&stream).await,
        lab.command(&stream).await,
        lab.command(&stream).await,
    );
    lab.settle(done, None).await.committed().unwrap();
    let retry =
        Write::Retry { position: dead, lease: None, error: "once".into(), after: Duration::ZERO };
    lab.committed(Commit::of(retry)).await;
    let die = Write::Settle { position: dead, lease: None, as_: SettledAs::Dead, error: None };
    lab.committed(Commit::of(die)).await;
    lab.clock.advance(Duration::from_mins(61));
    let young = lab.append(&stream, vec![event("young"), event("last")]).await;

    assert_eq!(sweep(&*lab.store, KEEP).await.unwrap(), 2);
    let left: Vec<i64> =
        lab.store.read_all(0, 100).await.unwrap().iter().map(|it| it.position).collect();
    assert_eq!(left, [dead, pending, young[0], young[1]]);
    assert!(!left.contains(&old_event));
    assert_eq!(sweep(&*lab.store, KEEP).await.unwrap(), 0);
    lab.assert_sound().await;
}

async fn a_stream_continues_at_its_version_after_retention(lab: Lab) {
    let stream = address("a");
    for _ in 0..600 {
        lab.append(&stream, vec![event("x"), event("y")]).await;
    }
    lab.clock.advance(Duration::from_hours(2));
    assert_eq!(sweep(&*lab.store, KEEP).await.unwrap(), 1_199);
    assert_eq!(lab.version(&stream).await, 1_200);
    lab.committed(Commit::append(&stream, 1_200, vec![event("next")])).await;
}

async fn keys_are_removed_when_their_time_is_over(lab: Lab) {
    let stream = address("a");
    for (key, hours) in [("short", 1), ("long", 3)] {
        let key = Remember::new(stream.id(), key, b"").unwrap().keep(Duration::from_hours(hours));
        lab.committed(Commit::of(Write::Remember(key))).await;
    }
    lab.clock.advance(Duration::from_hours(2));
    sweep(&*lab.store, KEEP).await.unwrap();
    let keys = lab.store.dump().await.unwrap().rows;
    assert_eq!(keys.iter().filter(|row| row.starts_with("KeyRow")).count(), 1);
    let again = Remember::new(stream.id(), "long", b"").unwrap();
    let again = lab.commit(Commit::of(Write::Remember(again))).await;
    assert!(matches!(again, Outcome::Duplicate(_)));
}

async fn messages_of_a_state_stay_until_their_stream_is_closed(lab: Lab) {
    let process: Address = "process/checkout/1".parse().unwrap();
    lab.append(&process, vec![event("began"), event("continued"), event("waits")]).await;
    lab.clock.advance(Duration::from_hours(2));
    assert_eq!(sweep(&*lab.store, KEEP).await.unwrap(), 0);
    lab.committed(Commit::of(Write::Close { stream: process.id() })).await;
    assert_eq!(sweep(&*lab.store, KEEP).await.unwrap(), 0, "it has just ended");
    let within = Some((EntityKind::Process, "checkout"));
    let listed = lab.store.streams(within, None, 10).await.unwrap();
    assert_eq!((listed.len(), listed[0].closed_at.is_some()), (1, true));
    assert_eq!(lab.store.streams(Some((EntityKind::Process, "chec")), None, 9).await.unwrap(), []);
    lab.clock.advance(Duration::from_hours(2));
    assert_eq!(sweep(&*lab.store, KEEP).await.unwrap(), 3, "it goes as a whole");
    assert_eq!(lab.store.streams(within, None, 10).await.unwrap(), []);
    lab.assert_sound().await;
}

/// A message becomes free just before a step that passes it, another one just after.
async fn free_around_a_step(lab: &Lab, late: i64) {
    let pass = Commit::of(Write::Sweep(step(lab)));
    let next = Write::Append { stream: address("b"), messages: vec![event("next")] };
    let as_ = SettledAs::Done;
    let settle = Write::Settle { position: late, lease: None, as_, error: None };
    let all = [Commit::of(next), pass, Commit::of(settle)];
    let outcomes = futures_util::future::join_all(all.map(|it| lab.store.commit(it))).await;
    outcomes.into_iter().for_each(|it| _ = it.unwrap().committed().unwrap());
    lab.clock.advance(Duration::from_hours(2));
    sweep(&*lab.store, KEEP).await.unwrap();
    let left = lab.store.read_all(0, 100).await.unwrap();
    let left: Vec<&str> = left.iter().map(|it| &*it.message_type).collect();
    assert_eq!(left, ["newer", "next"], "only the last of each stream is left");
    lab.assert_sound().await;
}

/// One message is pending, and two are the last of their streams.
async fn needed(lab: &Lab) -> i64 {
    let stream = address("a");
    let late = lab.command(&stream).await;
    lab.append(&address("b"), vec![event("last")]).await;
    lab.append(&stream, vec![event("newer")]).await;
    lab.clock.advance(Duration::from_hours(2));
    late
}

async fn a_message_that_is_not_needed_after_the_sweep_is_deleted_by_a_later_one(lab: Lab) {
    let late = needed(&lab).await;
    assert_eq!(sweep(&*lab.store, KEEP).await.unwrap(), 0, "one is pending, two are the last");
    free_around_a_step(&lab, late).await;
}

async fn a_message_that_is_not_needed_around_a_step_that_passes_it_is_deleted(lab: Lab) {
    let late = needed(&lab).await;
    free_around_a_step(&lab, late).await;
}

async fn a_step_deletes_a_bounded_number_of_messages_and_moves_the_cursor_with_them(lab: Lab) {
    let a = address("a");
    lab.append(&a, (0..700).map(|_| event("x")).collect()).await;
    lab.clock.advance(Duration::from_hours(2));
    let unswept = async || {
        let step = Sweep { until: Timestamp::MAX, ..step(&lab) };
        lab.store.read(Query::candidates(step, 9_000)).await.unwrap().len()
    };
    for (deleted, more, left) in [(500, true, 200), (199, false, 0), (0, false, 0)] {
        let done = lab.committed(Commit::of(Write::Sweep(step(&lab)))).await;
        assert_eq!((done.forgotten, done.more, unswept().await), (deleted, more, left));
        lab.assert_sound().await;
    }
}

async fn a_step_begins_no_other_entity_after_many_messages(lab: Lab) {
    let process = |name: usize| address_of(EntityKind::Process, "checkout", &name.to_string());
    for name in 0..3 {
        lab.append(&process(name), (0..1_500).map(|_| event("x")).collect()).await;
        lab.committed(Commit::of(Write::Close { stream: process(name).id() })).await;
    }
    lab.clock.advance(Duration::from_hours(2));
    let ended = Sweep { list: SweepList::Listed(ExpiryList::Ended), ..step(&lab) };
    for (deleted, more) in [(3_000, true), (1_500, false), (0, false)] {
        let done = lab.committed(Commit::of(Write::Sweep(ended))).await;
        assert_eq!((done.forgotten, done.more), (deleted, more));
        lab.assert_sound().await;
    }
}

async fn a_step_deletes_nothing_while_the_clock_is_not_reliable(lab: Lab) {
    let a = address("a");
    lab.append(&a, vec![event("x"), event("last")]).await;
    lab.committed(Commit::of(Write::Remember(Remember::new(a.id(), "k", b"").unwrap()))).await;
    let before = lab.store.dump().await.unwrap();
    // Whatever time its caller believes in.
    lab.clock.set(lab.clock.now().after(Duration::from_hours(24 * 90)));
    for list in [SweepList::Messages, SweepList::Listed(ExpiryList::Ended), SweepList::Keys] {
        let sweep = Sweep { list, until: Timestamp::MAX, dead_until: Timestamp::MAX };
        assert_eq!(lab.committed(Commit::of(Write::Sweep(sweep))).await.forgotten, 0);
        assert_eq!(lab.store.dump().await.unwrap(), before);
    }
}

async fn a_step_is_alone_in_its_commit(lab: Lab) {
    let step = || Write::Sweep(step(&lab));
    let (stream, version) = (address("a").id(), 0);
    for commit in [
        Commit::of(step()).write(step()),
        Commit::of(Write::Close { stream }).write(step()),
        Commit::of(step()).expect(Expect::Version { stream, version }),
    ] {
        let error = lab.store.commit(commit).await.unwrap_err();
        assert!(matches!(error, StoreError::Invalid(InvalidInput::SweepNotAlone)), "{error}");
    }
}

/// A step over all messages so far.
fn step(lab: &Lab) -> Sweep {
    let (list, until) = (SweepList::Messages, lab.clock.now());
    Sweep { list, until, dead_until: until }
}

async fn an_object_that_was_deleted_leaves_nothing_behind_and_not_too_early(lab: Lab) {
    let object: Address = "object/thing/a".parse().unwrap();
    let erase = Write::Erase { entity: object.id() };
    // It is addressed long before it exists.
    lab.append(&address("a"), vec![command(&object)]).await;
    let position = lab.store.totals().await.unwrap().position;
    lab.settle(position, None).await.committed().unwrap();
    lab.clock.advance(Duration::from_mins(50));
    let turn = Turn {
        object: object.clone(),
        cause: None,
        sent: 1,
        chk: 1,
        input: "x".into(),
        delta: vec![1].into(),
    };
    let sent = Write::Append { stream: object.clone(), messages: vec![event("sent")] };
    lab.committed(Commit::of(Write::Turn(turn)).write(sent).write(erase)).await;
    let is_known = async || !lab.store.addresses(&[object.id()]).await.unwrap().is_empty();
    for (minutes, expected) in [(11, true), (40, true), (70, false)] {
        lab.clock.advance(Duration::from_mins(minutes));
        sweep(&*lab.store, KEEP).await.unwrap();
        assert_eq!(is_known().await, expected, "after {minutes} minutes more");
    }
    assert_eq!(lab.version(&object).await, 0);
    lab.assert_sound().await;
}

/// Something for each step of a sweep, and for several steps over a long record.
async fn fill(lab: &Lab) {
    let (a, b) = (address("a"), address("b"));
    let positions = lab.append(&a, vec![event("x"), command(&a), command(&a), event("y")]).await;
    lab.append(&b, vec![command(&a), event("z")]).await;
    lab.append(&b, (0..600).map(|_| event("many")).collect()).await;
    let (position, as_) = (positions[1], SettledAs::Dead);
    lab.committed(Commit::of(Write::Settle { position, lease: None, as_, error: None })).await;
    let process = address_of(EntityKind::Process, "checkout", "1");
    lab.append(&process, (0..2_100).map(|_| event("x")).collect()).await;
    let key = Remember::new(a.id(), "k", b"").unwrap().keep(Duration::from_hours(1));
    let close = Write::Close { stream: process.id() };
    lab.committed(Commit::of(close).write(Write::Remember(key))).await;
    lab.clock.advance(Duration::from_hours(2));
    // The last one is needed until after a step has passed it.
    lab.settle(positions[2], None).await.committed().unwrap();
}

/// The rows that are left when a sweep is killed at its n-th step and is done again; `None` if it
/// has fewer steps.
async fn left_after(kill: Option<(usize, Moment)>) -> Option<Vec<String>> {
    let keep = Retention { keep_dead: KEEP.keep, ..KEEP };
    let mut lab = Lab::memory().await;
    fill(&lab).await;
    if let Some((step, moment)) = kill {
        lab.memory.as_ref().unwrap().crash_at(step, moment);
        if sweep(&*lab.store, keep).await.is_ok() {
            return None;
        }
    }
    lab.restart().await;
    for _ in 0..3 {
        lab.clock.advance(Duration::from_hours(2));
        sweep(&*lab.store, keep).await.unwrap();
    }
    lab.assert_sound().await;
    let rows = lab.store.dump().await.unwrap().rows;
    Some(rows.into_iter().filter(|it| !it.starts_with("counter")).collect())
}

#[tokio::test]
async fn a_sweep_that_is_killed_at_any_step_is_completed_by_the_next_one() {
    let expected = left_after(None).await.unwrap();
    let mut steps = 0;
    for step in 1.. {
        let Some(left) = left_after(Some((step, Moment::Before))).await else { break };
        assert_eq!(left, expected, "killed before step {step}");
        let left = left_after(Some((step, Moment::After))).await.unwrap();
        assert_eq!(left, expected, "killed after step {step}");
        steps = step;
    }
    assert!(8 < steps, "{steps}");
}
