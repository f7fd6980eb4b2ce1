//! Which data retention deletes and which it keeps.

use std::time::Duration;

use steadfast_store::{
    Address, Commit, EntityKind, Outcome, Remember, Retention, SettledAs, Turn, Write, sweep,
};

use crate::lab::{Lab, address, command, event};

crate::laws::laws!(
    retention_deletes_old_settled_messages_and_nothing_else,
    a_stream_continues_at_its_version_after_retention,
    keys_are_removed_when_their_time_is_over,
    messages_of_a_state_stay_until_their_stream_is_closed,
    a_message_that_is_not_needed_after_the_sweep_is_deleted_by_a_later_one,
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

async fn a_message_that_is_not_needed_after_the_sweep_is_deleted_by_a_later_one(lab: Lab) {
    let stream = address("a");
    let late = lab.command(&stream).await;
    let last = lab.append(&address("b"), vec![event("last")]).await[0];
    lab.append(&stream, vec![event("newer")]).await;
    lab.clock.advance(Duration::from_hours(2));
    assert_eq!(sweep(&*lab.store, KEEP).await.unwrap(), 0, "one is pending, two are the last");
    // In the same batch as a sweep that passes it, before it and after it.
    let to = lab.store.totals().await.unwrap().position;
    let pass = Commit::of(Write::Forget { positions: vec![late, last] }).write(Write::Swept { to });
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
