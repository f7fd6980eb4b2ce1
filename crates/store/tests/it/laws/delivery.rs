//! Delivering: due, claimed, done, failed, dead, revived, cancelled.

use std::time::Duration;

use steadfast_store::{
    Commit, Due, DueCursor, Expect, Message, Outcome, Rejection, RetryPolicy, SeededEntropy,
    SettledAs, State, Task, Write,
};

use crate::lab::{Lab, START, address, command, event, json, lease};

crate::laws::laws!(
    work_becomes_due_in_the_order_of_its_time,
    a_command_cannot_be_claimed_before_it_is_due,
    a_claimed_command_cannot_be_claimed_before_its_lease_ends,
    an_expired_lease_is_claimed_again_and_the_late_finisher_learns_that_it_lost,
    of_two_markers_the_second_learns_that_it_lost,
    of_many_claims_at_once_just_one_is_granted,
    a_failed_attempt_is_retried_later_and_is_logged,
    after_the_last_attempt_a_command_is_dead_with_its_last_error,
    a_dead_command_revives_with_new_attempts_and_keeps_its_log,
    a_pending_command_cannot_be_revived,
    a_cancelled_command_is_not_delivered,
    a_released_claim_does_not_count,
    a_processed_command_can_be_made_pending_again,
    an_input_is_settled_in_the_commit_of_its_consequences,
    claims_of_owners_before_us_are_found,
    a_message_held_by_its_writer_is_claimed_from_the_beginning_until_it_is_released,
);

fn later(after: Duration) -> Message {
    let task = Task { target: address("t"), ordered: false, due: Due::After(after) };
    Message::new("later", json("{}")).unwrap().action("schedule").task(task)
}

async fn work_becomes_due_in_the_order_of_its_time(lab: Lab) {
    let stream = address("a");
    let seconds = [30, 0, 10, 0, 20];
    let messages = seconds.iter().map(|it| later(Duration::from_secs(*it))).collect();
    lab.append(&stream, messages).await;
    let due = lab.store.due(DueCursor::START, 10).await.unwrap();
    assert_eq!(due.iter().map(|it| it.position).collect::<Vec<_>>(), [2, 4, 3, 5, 1]);
    assert_eq!(due[4].due_at, START.after(Duration::from_secs(30)));
    let cursor = DueCursor { due_at: due[1].due_at, position: due[1].position };
    let rest = lab.store.due(cursor, 2).await.unwrap();
    assert_eq!(rest, due[2..4]);
}

async fn a_command_cannot_be_claimed_before_it_is_due(lab: Lab) {
    let position = lab.append(&address("a"), vec![later(Duration::from_secs(60))]).await[0];
    lab.clock.advance(Duration::from_millis(59_999));
    let due_at = START.after(Duration::from_secs(60));
    let early = lab.claim(position, 1).await;
    assert_eq!(early, Outcome::Rejected(Rejection::NotDue { position, due_at }));
    lab.clock.advance(Duration::from_millis(1));
    let claimed = lab.claim(position, 1).await.committed().unwrap().claimed;
    assert_eq!((claimed[0].attempt, claimed[0].until), (1, due_at.after(Duration::from_secs(30))));
}

async fn a_claimed_command_cannot_be_claimed_before_its_lease_ends(lab: Lab) {
    let position = lab.command(&address("a")).await;
    lab.claim(position, 1).await.committed().unwrap();
    lab.clock.advance(Duration::from_millis(29_999));
    let due_at = START.after(Duration::from_secs(30));
    let second = lab.claim(position, 2).await;
    assert_eq!(second, Outcome::Rejected(Rejection::NotDue { position, due_at }));
    let state = lab.store.message(position).await.unwrap().unwrap().state.unwrap();
    assert_eq!(state, State::InFlight { lease: lease(1), until: due_at, attempts: 1 });
}

async fn an_expired_lease_is_claimed_again_and_the_late_finisher_learns_that_it_lost(lab: Lab) {
    let position = lab.command(&address("a")).await;
    lab.claim(position, 1).await.committed().unwrap();
    lab.clock.advance(Duration::from_secs(30));
    let second = lab.claim(position, 2).await.committed().unwrap();
    assert_eq!(second.claimed[0].attempt, 2);
    let late = lab.settle(position, Some(1)).await;
    assert_eq!(late, Outcome::Rejected(Rejection::LeaseLost { position }));
    lab.settle(position, Some(2)).await.committed().unwrap();
    let log = lab.store.attempts(position).await.unwrap();
    assert_eq!(log.len(), 1);
    assert_eq!((log[0].number, log[0].started_at), (1, START));
    assert_eq!(log[0].error, "the lease ended without an answer");
}

async fn of_two_markers_the_second_learns_that_it_lost(lab: Lab) {
    let (stream, streams) = (address("a"), lab.streams());
    lab.command(&stream).await;
    assert!(streams.mark_command_processed(&stream, 1).await.unwrap());
    assert!(!streams.mark_command_processed(&stream, 1).await.unwrap());
    assert!(!streams.mark_command_processed(&stream, 2).await.unwrap());
    let message = &streams.read_stream(&stream, 1, 10).await.unwrap()[0];
    assert_eq!(message.processed(), Some(true));
    assert_eq!(streams.pending_commands(None, 10).await.unwrap(), []);
}

async fn of_many_claims_at_once_just_one_is_granted(lab: Lab) {
    let position = lab.command(&address("a")).await;
    let claims = (0..32).map(|number| {
        let store = lab.store.clone();
        let lasts = Duration::from_secs(30);
        let write = Write::Claim { position, lease: lease(number), lasts };
        tokio::spawn(async move { store.commit(Commit::of(write)).await.unwrap() })
    });
    let mut granted = 0;
    for claim in claims.collect::<Vec<_>>() {
        granted += i32::from(matches!(claim.await.unwrap(), Outcome::Committed(_)));
    }
    assert_eq!(granted, 1);
}

async fn a_failed_attempt_is_retried_later_and_is_logged(lab: Lab) {
    let position = lab.command(&address("a")).await;
    lab.claim(position, 1).await.committed().unwrap();
    lab.clock.advance(Duration::from_secs(2));
    let after = Duration::from_secs(10);
    let (held, error) = (Some(lease(1)), String::from("no answer"));
    lab.committed(Commit::of(Write::Retry { position, lease: held, error, after })).await;
    let message = lab.store.message(position).await.unwrap().unwrap();
    let due_at = START.after(Duration::from_secs(12));
    assert_eq!(message.state, Some(State::Pending { due_at, attempts: 1 }));
    assert_eq!(message.last_error.as_deref(), Some("no answer"));
    let log = lab.store.attempts(position).await.unwrap();
    assert_eq!((log[0].started_at, log[0].ended_at), (START, START.after(Duration::from_secs(2))));
}

async fn after_the_last_attempt_a_command_is_dead_with_its_last_error(lab: Lab) {
    let (streams, entropy) = (lab.streams(), SeededEntropy::new(1));
    let policy = RetryPolicy { attempts_max: 3, ..RetryPolicy::DEFAULT };
    let position = lab.command(&address("a")).await;
    let lasts = Duration::from_secs(30);
    for attempt in 1..=3 {
        let now = steadfast_store::Clock::now(&lab.clock);
        let claimed = streams.claim_due(now, lease(attempt), lasts, 10).await.unwrap();
        let error = format!("failure {attempt}");
        let failed = streams.mark_failed(claimed[0], lease(attempt), &error, &policy, &entropy);
        assert!(failed.await.unwrap());
        lab.clock.advance(Duration::from_mins(5));
    }
    let now = steadfast_store::Clock::now(&lab.clock);
    assert_eq!(streams.claim_due(now, lease(9), lasts, 10).await.unwrap(), []);
    let dead = lab.store.dead(0, 10).await.unwrap();
    let Some(State::Settled(settled)) = &dead[0].state else { panic!("{dead:?}") };
    assert_eq!((settled.as_, settled.attempts), (SettledAs::Dead, 3));
    assert_eq!(settled.error.as_deref(), Some("failure 3"));
    let log = lab.store.attempts(position).await.unwrap();
    let errors: Vec<&str> = log.iter().map(|it| it.error.as_str()).collect();
    assert_eq!(errors, ["failure 1", "failure 2", "failure 3"]);
    assert_eq!(lab.store.totals().await.unwrap().dead, 1);
    lab.assert_sound().await;
}

async fn a_dead_command_revives_with_new_attempts_and_keeps_its_log(lab: Lab) {
    let position = lab.command(&address("a")).await;
    let die =
        Write::Settle { position, lease: None, as_: SettledAs::Dead, error: Some("poison".into()) };
    lab.committed(Commit::of(die.clone())).await;
    lab.committed(Commit::of(Write::Revive { position })).await;
    assert_eq!(lab.store.dead(0, 10).await.unwrap(), []);
    let claimed = lab.claim(position, 1).await.committed().unwrap().claimed;
    assert_eq!(claimed[0].attempt, 1);
    lab.committed(Commit::of(die)).await;
    let log = lab.store.attempts(position).await.unwrap();
    assert_eq!(log.iter().map(|it| it.number).collect::<Vec<_>>(), [1, 2]);
    lab.assert_sound().await;
}

async fn a_pending_command_cannot_be_revived(lab: Lab) {
    let position = lab.command(&address("a")).await;
    let rejection = lab.rejected(Commit::of(Write::Revive { position })).await;
    assert_eq!(rejection, Rejection::NotSettled { position });
    let unknown = lab.rejected(Commit::of(Write::Revive { position: 77 })).await;
    assert_eq!(unknown, Rejection::NotSettled { position: 77 });
    let event = lab.append(&address("a"), vec![event("x")]).await[0];
    lab.rejected(Commit::of(Write::Revive { position: event })).await;
}

async fn a_cancelled_command_is_not_delivered(lab: Lab) {
    let streams = lab.streams();
    let position = lab.append(&address("a"), vec![later(Duration::from_secs(60))]).await[0];
    assert!(streams.cancel(position).await.unwrap());
    assert!(!streams.cancel(position).await.unwrap());
    lab.clock.advance(Duration::from_hours(1));
    assert_eq!(lab.claim(position, 1).await, Outcome::Rejected(Rejection::NotPending { position }));
    let message = lab.store.message(position).await.unwrap().unwrap();
    assert_eq!(message.processed(), Some(false));
    assert!(matches!(message.state, Some(State::Settled(it)) if it.as_ == SettledAs::Cancelled));
}

async fn a_released_claim_does_not_count(lab: Lab) {
    let position = lab.command(&address("a")).await;
    lab.claim(position, 1).await.committed().unwrap();
    let release = Commit::of(Write::Release { position, lease: lease(1) });
    lab.committed(release.clone()).await;
    assert_eq!(lab.rejected(release).await, Rejection::LeaseLost { position });
    let claimed = lab.claim(position, 2).await.committed().unwrap().claimed;
    assert_eq!(claimed[0].attempt, 1);
    assert_eq!(lab.store.attempts(position).await.unwrap(), []);
}

async fn a_processed_command_can_be_made_pending_again(lab: Lab) {
    let (stream, streams) = (address("a"), lab.streams());
    lab.command(&stream).await;
    assert!(!streams.mark_command_unprocessed(&stream, 1).await.unwrap());
    assert!(streams.mark_command_processed(&stream, 1).await.unwrap());
    assert!(streams.mark_command_unprocessed(&stream, 1).await.unwrap());
    assert_eq!(streams.pending_commands(Some(&stream), 10).await.unwrap().len(), 1);
    assert!(streams.mark_command_processed(&stream, 1).await.unwrap());
    lab.assert_sound().await;
}

async fn an_input_is_settled_in_the_commit_of_its_consequences(lab: Lab) {
    let (sender, receiver) = (address("sender"), address("receiver"));
    let position = lab.append(&sender, vec![command(&receiver)]).await[0];
    let receive = |version| {
        let done = Write::Settle { position, lease: None, as_: SettledAs::Done, error: None };
        Commit::append(&receiver, version, vec![event("received").input()])
            .expect(Expect::Pending { position })
            .write(done)
    };
    lab.committed(receive(0)).await;
    // Delivered again, it changes nothing, even at the right version.
    assert_eq!(lab.rejected(receive(1)).await, Rejection::NotPending { position });
    assert_eq!(lab.version(&receiver).await, 1);
}

async fn claims_of_owners_before_us_are_found(lab: Lab) {
    let positions: Vec<i64> =
        [lab.command(&address("a")).await, lab.command(&address("b")).await].into_iter().collect();
    for (position, holder) in positions.iter().zip([1, 0]) {
        let (position, lasts) = (*position, Duration::from_secs(30));
        let lease = steadfast_store::Lease { holder, number: 1 };
        lab.committed(Commit::of(Write::Claim { position, lease, lasts })).await;
    }
    assert_eq!(lab.store.orphans(1, false, 10).await.unwrap(), []);
    let orphans = lab.store.orphans(2, false, 10).await.unwrap();
    // The claim of an outside consumer (holder 0) outlives owners.
    assert_eq!(orphans.iter().map(|it| it.position).collect::<Vec<_>>(), positions[..1]);
}

async fn a_message_held_by_its_writer_is_claimed_from_the_beginning_until_it_is_released(lab: Lab) {
    lab.store.notices().listen();
    let due = Due::Held(lease(7), Duration::from_secs(60));
    let task = Task { target: address("t"), ordered: false, due };
    let message = Message::new("held", json("{}")).unwrap().task(task);
    let position = lab.append(&address("a"), vec![message]).await[0];
    let until = START.after(Duration::from_secs(60));
    let state = lab.store.message(position).await.unwrap().unwrap().state.unwrap();
    assert_eq!(state, State::InFlight { lease: lease(7), until, attempts: 1 });
    assert!(lab.store.notices().is_empty(), "its writer knows of it");
    let other = lab.claim(position, 1).await;
    assert_eq!(other, Outcome::Rejected(Rejection::NotDue { position, due_at: until }));
    assert_eq!(lab.store.orphans(2, false, 10).await.unwrap()[0].position, position);
    let release = Write::Release { position, lease: lease(7) };
    lab.committed(Commit::of(release)).await;
    assert!(!lab.store.notices().is_empty(), "now it is due to anybody");
    let claimed = lab.claim(position, 1).await.committed().unwrap().claimed;
    assert_eq!(claimed[0].attempt, 1, "it was given back as if it had not been claimed");
    lab.assert_sound().await;
}
