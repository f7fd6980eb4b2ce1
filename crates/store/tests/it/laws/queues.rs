//! Messages in queues: separate from other work, in due order, and moved without being copied.

use std::time::Duration;

use steadfast_store::{
    Address, Clock, Commit, Due, DueCursor, EntityKind, Expect, Lease, Message, Notice,
    NoticeBatch, Outcome, Position, QueueDepth, QueuedMessage, Recorded, Rejection, SettledAs,
    State, Task, Timestamp, Work, Write,
};

use crate::lab::{Lab, START, address, address_of, command, json, lease};

crate::laws::laws!(
    a_message_to_a_queue_is_for_its_consumers_alone,
    messages_are_in_due_order_after_a_cursor,
    a_moved_message_keeps_its_id_time_and_body_and_is_counted_anew,
    a_move_is_an_attempt_only_with_an_error,
    a_move_needs_the_lease_that_is_in_force,
    moving_away_from_an_ordered_target_unblocks_it,
    a_message_moved_out_of_a_queue_is_due_to_the_dispatcher,
    a_dead_letter_in_place_remembers_its_queue_and_is_revived_there,
    a_message_that_died_outside_of_queues_is_in_no_queue,
    depth_counts_what_is_ready_delayed_leased_and_dead,
    a_queue_without_room_takes_nothing_more,
    leased_messages_are_listed_while_the_lease_lasts,
    a_rejected_commit_with_a_move_leaves_no_trace,
    orphans_of_queues_are_apart_from_others,
    a_dead_message_leaves_its_queue_when_it_is_deleted,
);

fn queue(name: &str) -> Address {
    address_of(EntityKind::Queue, name, "0")
}

fn queued_message(to: &Address, body: &str, seconds: u64) -> Message {
    let due = Due::After(Duration::from_secs(seconds));
    let task = Task { target: to.clone(), ordered: false, due };
    Message::new("mail", json(body)).unwrap().input().action("enqueue").task(task)
}

async fn send(lab: &Lab, to: &Address, seconds: &[u64]) -> Vec<Position> {
    lab.append(to, seconds.iter().map(|it| queued_message(to, "{}", *it)).collect()).await
}

async fn queue_messages(lab: &Lab, of: &Address) -> Vec<QueuedMessage> {
    lab.store.queue_messages(of.id(), DueCursor::START, Timestamp::MAX, 100).await.unwrap()
}

async fn positions(lab: &Lab, of: &Address) -> Vec<Position> {
    queue_messages(lab, of).await.iter().map(|it| it.message.position).collect()
}

async fn depth(lab: &Lab, of: &Address) -> QueueDepth {
    lab.store.queue_depth(of.id(), lab.clock.now()).await.unwrap()
}

async fn message(lab: &Lab, position: Position) -> Recorded {
    lab.store.message(position).await.unwrap().unwrap()
}

fn moved(position: Position, to: &Address, error: Option<&str>) -> Write {
    let (to, error) = (to.clone(), error.map(str::to_owned));
    Write::Move { position, lease: None, to, error, after: Duration::ZERO }
}

fn settled(position: Position, as_: SettledAs, error: Option<&str>) -> Write {
    Write::Settle { position, lease: None, as_, error: error.map(str::to_owned) }
}

async fn a_message_to_a_queue_is_for_its_consumers_alone(lab: Lab) {
    let (a, b) = (queue("a"), queue("b"));
    let sent = send(&lab, &a, &[0, 5]).await;
    let other = lab.command(&address("stream")).await;
    let due = lab.store.due(DueCursor::START, 10).await.unwrap();
    assert_eq!(due.iter().map(|it| it.position).collect::<Vec<_>>(), [other]);
    assert_eq!(positions(&lab, &a).await, sent);
    assert_eq!(positions(&lab, &b).await, [0; 0]);
    assert_eq!(lab.store.classes(EntityKind::Queue, None, 9).await.unwrap(), ["a"]);
    lab.assert_sound().await;
}

async fn messages_are_in_due_order_after_a_cursor(lab: Lab) {
    let (a, b) = (queue("a"), queue("b"));
    let sent = send(&lab, &a, &[30, 0, 10, 0, 20]).await;
    send(&lab, &b, &[0, 10]).await;
    let order = [sent[1], sent[3], sent[2], sent[4], sent[0]];
    let all = queue_messages(&lab, &a).await;
    assert_eq!(all.iter().map(|it| it.message.position).collect::<Vec<_>>(), order);
    assert_eq!(all[2].due_at(), START.after(Duration::from_secs(10)));
    assert_eq!((all[2].queue, all[2].attempts, all[2].tries()), (a.id(), 0, 0));
    let after = DueCursor { due_at: START, position: sent[1] };
    let until = START.after(Duration::from_secs(20));
    let found = lab.store.queue_messages(a.id(), after, until, 2).await.unwrap();
    assert_eq!(found, all[1..3]);
    let found = lab.store.queue_messages(a.id(), after, until, 9).await.unwrap();
    assert_eq!(found, all[1..4], "not messages that are due later");
    let next = lab.store.next_due(a.id(), START).await.unwrap();
    assert_eq!(next, Some(START.after(Duration::from_secs(10))));
    let last = START.after(Duration::from_secs(30));
    assert_eq!(lab.store.next_due(a.id(), last).await.unwrap(), None);
}

async fn a_moved_message_keeps_its_id_time_and_body_and_is_counted_anew(lab: Lab) {
    let (a, b) = (queue("a"), queue("b"));
    let position = lab.append(&a, vec![queued_message(&a, r#"{"n":1}"#, 0)]).await[0];
    for number in 1..=2 {
        let (error, after) = (format!("failure {number}"), Duration::ZERO);
        let retry = Write::Retry { position, lease: None, error, after };
        lab.committed(Commit::of(retry)).await;
    }
    lab.clock.advance(Duration::from_secs(9));
    let before = queue_messages(&lab, &a).await.remove(0);
    lab.committed(Commit::of(moved(position, &b, Some("failure 3")))).await;
    assert_eq!(queue_messages(&lab, &a).await, []);
    let found = queue_messages(&lab, &b).await.remove(0);
    assert_eq!((found.attempts, found.tries()), (3, 0));
    assert_eq!((found.queue, found.message.target), (b.id(), Some(a.id())));
    assert_eq!(found.message.last_error.as_deref(), Some("failure 3"));
    assert_eq!(found.due_at(), START.after(Duration::from_secs(9)));
    assert_eq!(found.message.created_at, START);
    let (state, last_error) = (found.message.state.clone(), found.message.last_error.clone());
    assert_eq!(found.message, Recorded { state, last_error, ..before.message });
    let log = lab.store.attempts(position).await.unwrap();
    assert_eq!(log.iter().map(|it| it.number).collect::<Vec<_>>(), [1, 2, 3]);
    let claimed = lab.claim(position, 1).await.committed().unwrap().claimed;
    assert_eq!(claimed[0].attempt, 1);
    assert_eq!(queue_messages(&lab, &b).await[0].attempts, 4);
    lab.assert_sound().await;
}

async fn a_move_is_an_attempt_only_with_an_error(lab: Lab) {
    let (a, b) = (queue("a"), queue("b"));
    let sent = send(&lab, &a, &[0, 0, 0, 0]).await;
    lab.claim(sent[1], 1).await.committed().unwrap();
    lab.claim(sent[3], 1).await.committed().unwrap();
    let with_lease = |position, error: Option<&str>| {
        let (to, error, after) = (b.clone(), error.map(str::to_owned), Duration::ZERO);
        Write::Move { position, lease: Some(lease(1)), to, error, after }
    };
    lab.committed(Commit::of(moved(sent[0], &b, None))).await;
    lab.committed(Commit::of(with_lease(sent[1], None))).await;
    lab.committed(Commit::of(moved(sent[2], &b, Some("no")))).await;
    lab.committed(Commit::of(with_lease(sent[3], Some("no")))).await;
    let found = queue_messages(&lab, &b).await;
    assert_eq!(found.iter().map(|it| it.attempts).collect::<Vec<_>>(), [0, 1, 1, 1]);
    assert!(found.iter().all(|it| it.tries() == 0));
    let mut logged = Vec::new();
    for position in sent {
        logged.push(lab.store.attempts(position).await.unwrap().len());
    }
    assert_eq!(logged, [0, 0, 1, 1]);
    lab.assert_sound().await;
}

async fn a_move_needs_the_lease_that_is_in_force(lab: Lab) {
    let (a, b) = (queue("a"), queue("b"));
    let position = send(&lab, &a, &[0]).await[0];
    let with = |lease: Option<Lease>| {
        let (to, error, after) = (b.clone(), None, Duration::ZERO);
        Commit::of(Write::Move { position, lease, to, error, after })
    };
    assert_eq!(lab.rejected(with(Some(lease(1)))).await, Rejection::LeaseLost { position });
    lab.claim(position, 1).await.committed().unwrap();
    assert_eq!(lab.rejected(with(None)).await, Rejection::LeaseLost { position });
    assert_eq!(lab.rejected(with(Some(lease(2)))).await, Rejection::LeaseLost { position });
    lab.committed(with(Some(lease(1)))).await;
    let state = State::Pending { due_at: START, attempts: 0 };
    assert_eq!(message(&lab, position).await.state, Some(state));
    lab.settle(position, None).await.committed().unwrap();
    assert_eq!(lab.rejected(with(None)).await, Rejection::NotPending { position });
}

async fn moving_away_from_an_ordered_target_unblocks_it(lab: Lab) {
    let (target, to) = (address("t"), queue("a"));
    let due = Due::After(Duration::ZERO);
    let task = Task { target: target.clone(), ordered: true, due };
    let ordered = || Message::new("do", json("{}")).unwrap().task(task.clone());
    let sent = lab.append(&target, vec![ordered(), ordered()]).await;
    let backlog = async || {
        let works = lab.store.backlog(target.id(), true, DueCursor::START, 9).await.unwrap();
        works.iter().map(|it| it.position).collect::<Vec<_>>()
    };
    assert_eq!(backlog().await, sent);
    lab.store.notices().listen();
    lab.committed(Commit::of(moved(sent[0], &to, Some("stuck")))).await;
    assert_eq!(backlog().await, sent[1..]);
    let NoticeBatch::Notices(news) = lab.store.notices().next().await else { panic!("no news") };
    let is_first = |it: &Work| it.position == sent[0];
    let unblocked = |it: &Notice| match it {
        Notice::Unblocked(it) => is_first(it) && it.target == target.id(),
        Notice::Due(_) => false,
    };
    let is_there = |it: &Notice| match it {
        Notice::Due(it) => is_first(it) && it.target == to.id() && it.queued,
        Notice::Unblocked(_) => false,
    };
    assert!(news.iter().any(unblocked) && news.iter().any(is_there), "{news:?}");
    assert_eq!(positions(&lab, &to).await, sent[..1]);
    lab.assert_sound().await;
}

async fn a_message_moved_out_of_a_queue_is_due_to_the_dispatcher(lab: Lab) {
    let a = queue("a");
    let position = send(&lab, &a, &[0]).await[0];
    lab.committed(Commit::of(moved(position, &address("stream"), None))).await;
    assert_eq!(queue_messages(&lab, &a).await, []);
    let due = lab.store.due(DueCursor::START, 9).await.unwrap();
    assert_eq!((due[0].position, due[0].target), (position, address("stream").id()));
    lab.assert_sound().await;
}

async fn a_dead_letter_in_place_remembers_its_queue_and_is_revived_there(lab: Lab) {
    let (a, b) = (queue("a"), queue("b"));
    let sent = send(&lab, &a, &[0, 0]).await;
    lab.committed(Commit::of(moved(sent[0], &b, Some("first")))).await;
    for position in &sent {
        lab.committed(Commit::of(settled(*position, SettledAs::Dead, Some("then")))).await;
    }
    let dead = async |of: &Address, after| {
        let dead = lab.store.dead_letters(of.id(), after, 9).await.unwrap();
        dead.iter().map(|it| it.position).collect::<Vec<_>>()
    };
    assert_eq!((dead(&a, 0).await, dead(&b, 0).await), (sent[1..].to_vec(), sent[..1].to_vec()));
    assert_eq!(dead(&a, sent[1]).await, [0; 0]);
    let Some(State::Settled(end)) = message(&lab, sent[0]).await.state else { panic!("alive") };
    assert_eq!((end.queue, end.attempts, end.error.as_deref()), (Some(b.id()), 2, Some("then")));
    for position in &sent {
        lab.committed(Commit::of(Write::Revive { position: *position })).await;
    }
    assert_eq!((positions(&lab, &a).await, positions(&lab, &b).await), {
        (sent[1..].to_vec(), sent[..1].to_vec())
    });
    let revived = queue_messages(&lab, &b).await.remove(0);
    assert_eq!((revived.attempts, revived.tries()), (2, 0));
    assert_eq!(dead(&b, 0).await, [0; 0]);
    assert_eq!(lab.store.due(DueCursor::START, 9).await.unwrap(), []);
    lab.assert_sound().await;
}

async fn a_message_that_died_outside_of_queues_is_in_no_queue(lab: Lab) {
    let a = queue("a");
    let sent = send(&lab, &a, &[0, 0]).await;
    let other = lab.append(&a, vec![command(&address("stream"))]).await[0];
    lab.committed(Commit::of(settled(sent[0], SettledAs::Done, None))).await;
    lab.committed(Commit::of(settled(sent[1], SettledAs::Cancelled, Some("no")))).await;
    lab.committed(Commit::of(settled(other, SettledAs::Dead, Some("no")))).await;
    for position in [sent[0], sent[1], other] {
        let Some(State::Settled(end)) = message(&lab, position).await.state else { panic!() };
        assert_eq!(end.queue, None, "{position}");
    }
    assert_eq!(lab.store.dead_letters(a.id(), 0, 9).await.unwrap(), []);
    assert_eq!(depth(&lab, &a).await, QueueDepth::default());
}

async fn depth_counts_what_is_ready_delayed_leased_and_dead(lab: Lab) {
    let (a, b) = (queue("a"), queue("b"));
    assert_eq!(depth(&lab, &a).await, QueueDepth::default());
    send(&lab, &b, &[0, 0, 7]).await;
    lab.clock.advance(Duration::from_secs(1));
    let sent = send(&lab, &a, &[0, 0, 0, 60, 40]).await;
    lab.claim(sent[0], 1).await.committed().unwrap();
    lab.committed(Commit::of(settled(sent[1], SettledAs::Dead, Some("no")))).await;
    let oldest = Some(START.after(Duration::from_secs(1)));
    let expected = QueueDepth { ready: 1, delayed: 2, leased: 1, dead: 1, oldest };
    assert_eq!(depth(&lab, &a).await, expected);
    lab.clock.advance(Duration::from_secs(30));
    let expected = QueueDepth { ready: 2, leased: 0, ..expected };
    assert_eq!(depth(&lab, &a).await, expected, "the lease has ended");
    lab.clock.advance(Duration::from_secs(10));
    let expected = QueueDepth { ready: 3, delayed: 1, ..expected };
    assert_eq!(depth(&lab, &a).await, expected);
    // By the time it was sent, not the time it was moved here.
    lab.committed(Commit::of(moved(1, &a, None))).await;
    let expected = QueueDepth { ready: 4, oldest: Some(START), ..expected };
    assert_eq!(depth(&lab, &a).await, expected);
}

async fn a_queue_without_room_takes_nothing_more(lab: Lab) {
    let mail = queue("mail");
    let sent = send(&lab, &mail, &[0, 60]).await;
    let room = |more: u64| Expect::Room { queue: mail.id(), more, max: 5 };
    let one = || {
        let (stream, messages) = (mail.clone(), vec![queued_message(&mail, "{}", 0)]);
        Commit::of(Write::Append { stream, messages }).expect(room(1))
    };
    // Those of one batch count each other.
    let all = futures_util::future::join_all((0..6).map(|_| lab.store.commit(one()))).await;
    let full = Rejection::Full { queue: mail.id(), waiting: 5, max: 5 };
    let is_full = |it: &Outcome| *it == Outcome::Rejected(full.clone());
    let outcomes: Vec<Outcome> = all.into_iter().map(Result::unwrap).collect();
    assert_eq!(outcomes.iter().filter(|it| is_full(it)).count(), 3, "{outcomes:?}");
    assert_eq!(depth(&lab, &mail).await.waiting(), 5);
    // A message leaves in each of the ways in which one can leave, and then there is room.
    let (done, away) = (settled(sent[0], SettledAs::Done, None), moved(sent[1], &queue("b"), None));
    for write in [done, away] {
        assert_eq!(lab.rejected(one()).await, full);
        lab.committed(Commit::of(write)).await;
        lab.committed(one()).await;
    }
    // Dead messages take no room, and one that is revived does.
    let next = positions(&lab, &mail).await[0];
    lab.committed(Commit::of(settled(next, SettledAs::Dead, Some("broken")))).await;
    lab.committed(Commit::default().expect(room(1))).await;
    lab.committed(Commit::of(Write::Revive { position: next })).await;
    assert_eq!(lab.rejected(one()).await, full);
    assert!(lab.store.violations().await.unwrap().is_empty());
}

async fn leased_messages_are_listed_while_the_lease_lasts(lab: Lab) {
    let a = queue("a");
    let sent = send(&lab, &a, &[0, 0, 50]).await;
    lab.claim(sent[1], 1).await.committed().unwrap();
    let leased = async || {
        let found = lab.store.leased(a.id(), lab.clock.now(), 9).await.unwrap();
        found.iter().map(|it| (it.message.position, it.tries())).collect::<Vec<_>>()
    };
    assert_eq!(leased().await, [(sent[1], 1)]);
    lab.clock.advance(Duration::from_secs(30));
    assert_eq!(leased().await, []);
}

async fn a_rejected_commit_with_a_move_leaves_no_trace(lab: Lab) {
    let (a, b) = (queue("a"), queue("b"));
    let position = send(&lab, &a, &[0]).await[0];
    let before = lab.store.dump().await.unwrap();
    let step = || Commit::of(moved(position, &b, Some("no")));
    let late = step().expect(Expect::Settled { position, as_: SettledAs::Dead });
    assert_eq!(lab.rejected(late).await, Rejection::NotSettled { position });
    let other = step().write(settled(77, SettledAs::Done, None));
    assert_eq!(lab.rejected(other).await, Rejection::NotPending { position: 77 });
    assert_eq!(lab.store.dump().await.unwrap(), before);
    assert_eq!(lab.store.classes(EntityKind::Queue, None, 9).await.unwrap(), ["a"]);
    lab.committed(step()).await;
    assert_eq!(lab.store.classes(EntityKind::Queue, None, 9).await.unwrap(), ["a", "b"]);
}

async fn orphans_of_queues_are_apart_from_others(lab: Lab) {
    let a = queue("a");
    let sent = send(&lab, &a, &[0, 0]).await;
    let other = lab.command(&address("stream")).await;
    for (position, holder) in [(sent[0], 1), (sent[1], 0), (other, 1)] {
        let lease = Lease { holder, number: 1 };
        let lasts = Duration::from_secs(30);
        lab.committed(Commit::of(Write::Claim { position, lease, lasts })).await;
    }
    let orphans = async |epoch, queued| {
        let found = lab.store.orphans(epoch, queued, 9).await.unwrap();
        found.iter().map(|it| it.position).collect::<Vec<_>>()
    };
    assert_eq!(orphans(1, true).await, [0; 0]);
    // A lease of a consumer outside outlives owners.
    assert_eq!(orphans(2, true).await, sent[..1]);
    assert_eq!(orphans(2, false).await, [other]);
}

async fn a_dead_message_leaves_its_queue_when_it_is_deleted(lab: Lab) {
    let a = queue("a");
    let position = send(&lab, &a, &[0]).await[0];
    lab.committed(Commit::of(settled(position, SettledAs::Dead, Some("no")))).await;
    let purge = Commit::of(Write::Revive { position }).write(settled(
        position,
        SettledAs::Cancelled,
        Some("purged"),
    ));
    lab.committed(purge).await;
    assert_eq!(depth(&lab, &a).await, QueueDepth::default());
    assert_eq!(lab.store.dead_letters(a.id(), 0, 9).await.unwrap(), []);
    lab.assert_sound().await;
}
