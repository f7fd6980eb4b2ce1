//! The guarantees of the dispatcher.

use std::{sync::Arc, time::Duration};

use steadfast_core::{
    Dispatcher, DispatcherOptions, Failure, Unknown,
    store::{
        Commit, Due, Lease, ManualClock, MemoryStore, Message, Moment, Outcome, SettledAs, State,
        Store, Task, Timestamp, Write,
    },
};

use crate::{
    handlers::{Does, Gate, Inside, OPTIONS, Seen, dispatcher, ok},
    lab::{Lab, address, command, event, json},
    play::until,
};

laws!(on sqlite, postgres:
    each_command_is_executed_once_and_marked,
    messages_pending_before_the_start_are_executed,
    consequences_are_committed_with_the_end_of_the_delivery,
    a_failing_command_is_retried_and_then_dead_and_others_continue,
    a_final_failure_is_dead_at_once,
    a_panicking_handler_is_a_failed_attempt,
    a_handler_that_hangs_past_its_lease_is_abandoned_and_tried_again,
    a_message_of_an_unknown_type_dies_with_a_clear_error_and_can_be_revived,
    a_message_of_an_unknown_type_can_be_left_to_another_program,
    an_idle_dispatcher_does_not_query_the_store,
    a_stop_gives_leases_back,
    claims_of_an_owner_that_ended_are_counted_and_delivered_again,
    a_handler_without_outside_effects_needs_no_claim,
    a_message_of_an_inside_handler_can_be_revived_too,
    a_command_settled_by_another_is_not_executed,
    a_dead_command_is_executed_when_it_is_revived,
);

async fn state(lab: &Lab, position: i64) -> State {
    lab.store.message(position).await.unwrap().unwrap().state.unwrap()
}

async fn settled_as(lab: &Lab, position: i64) -> (SettledAs, u32, Option<String>) {
    match state(lab, position).await {
        State::Settled(it) => (it.as_, it.attempts, it.error),
        other => panic!("{other:?}"),
    }
}

async fn finish(lab: &Lab, dispatcher: Dispatcher) {
    dispatcher.settled().await;
    assert_eq!(dispatcher.forgotten().await.unwrap(), Vec::<i64>::new());
    dispatcher.stop().await;
    lab.assert_sound().await;
}

async fn each_command_is_executed_once_and_marked(lab: Lab) {
    let seen = Seen::default();
    let dispatcher = dispatcher(&lab).on("do", Does(seen.clone(), ok)).start().await.unwrap();
    for number in 0..50 {
        lab.command(&address(&(number % 7).to_string())).await;
    }
    dispatcher.settled().await;
    let mut positions = seen.positions();
    positions.sort_unstable();
    assert_eq!(positions, (1..=50).collect::<Vec<_>>());
    assert_eq!(settled_as(&lab, 7).await, (SettledAs::Done, 1, None));
    assert_eq!(lab.store.totals().await.unwrap().pending, 0);
    finish(&lab, dispatcher).await;
}

async fn messages_pending_before_the_start_are_executed(lab: Lab) {
    for number in 0..250 {
        lab.command(&address(&(number % 3).to_string())).await;
    }
    let seen = Seen::default();
    let dispatcher = dispatcher(&lab).on("do", Does(seen.clone(), ok)).start().await.unwrap();
    dispatcher.settled().await;
    assert_eq!(seen.all().len(), 250);
    finish(&lab, dispatcher).await;
}

async fn consequences_are_committed_with_the_end_of_the_delivery(lab: Lab) {
    let receiver = address("receiver");
    let to = receiver.clone();
    let answer = move |delivery: &steadfast_core::dispatch::HandlerDelivery| {
        let input = event("answered").input();
        let append = Write::Append { stream: to.clone(), messages: vec![input] };
        assert!(delivery.id().ends_with("/1"));
        Ok(Commit::of(append))
    };
    let handler = Does(Seen::default(), answer);
    let dispatcher = dispatcher(&lab).on("do", handler).start().await.unwrap();
    let position = lab.command(&address("a")).await;
    dispatcher.settled().await;
    let received = lab.store.read_stream(receiver.id(), 1, 10).await.unwrap();
    let State::Settled(settled) = state(&lab, position).await else { panic!("not settled") };
    assert_eq!((received.len(), received[0].created_at), (1, settled.at));
    finish(&lab, dispatcher).await;
}

async fn a_failing_command_is_retried_and_then_dead_and_others_continue(lab: Lab) {
    let (seen, poison) = (Seen::default(), lab.command(&address("a")).await);
    let fail_one =
        move |delivery: &steadfast_core::dispatch::HandlerDelivery| match delivery.message.position
        {
            it if it == poison => Err(Failure::retry(format!("failure {}", delivery.attempt))),
            _ => Ok(Commit::default()),
        };
    let handler = Does(seen.clone(), fail_one);
    let dispatcher = dispatcher(&lab).on("do", handler).start().await.unwrap();
    for _ in 0..3 {
        lab.command(&address("a")).await;
    }
    dispatcher.settled().await;
    assert_eq!(seen.all().len(), 4, "the poison once, the others once");
    for attempts in [5, 6] {
        lab.clock.advance(Duration::from_secs(2));
        dispatcher.settled().await;
        assert_eq!(seen.all().len(), attempts);
    }
    let dead = (SettledAs::Dead, 3, Some("failure 3".into()));
    assert_eq!(settled_as(&lab, poison).await, dead);
    finish(&lab, dispatcher).await;
}

async fn a_final_failure_is_dead_at_once(lab: Lab) {
    let no = |_: &steadfast_core::dispatch::HandlerDelivery| Err(Failure::fatal("no such guest"));
    let handler = Does(Seen::default(), no);
    let dispatcher = dispatcher(&lab).on("do", handler).start().await.unwrap();
    let position = lab.command(&address("a")).await;
    dispatcher.settled().await;
    let dead = (SettledAs::Dead, 1, Some("no such guest".into()));
    assert_eq!(settled_as(&lab, position).await, dead);
    finish(&lab, dispatcher).await;
}

async fn a_panicking_handler_is_a_failed_attempt(lab: Lab) {
    let seen = Seen::default();
    let panic_once = |delivery: &steadfast_core::dispatch::HandlerDelivery| {
        assert!(delivery.attempt != 1, "the first time is hard");
        Ok(Commit::default())
    };
    let handler = Does(seen.clone(), panic_once);
    let dispatcher = dispatcher(&lab).on("do", handler).start().await.unwrap();
    let position = lab.command(&address("a")).await;
    dispatcher.settled().await;
    lab.clock.advance(Duration::from_secs(1));
    dispatcher.settled().await;
    assert_eq!(seen.all(), [(position, 1), (position, 2)]);
    let log = lab.store.attempts(position).await.unwrap();
    assert_eq!(log[0].error, "the handler panicked: the first time is hard");
    finish(&lab, dispatcher).await;
}

async fn a_handler_that_hangs_past_its_lease_is_abandoned_and_tried_again(lab: Lab) {
    let gate = Gate::closed();
    let dispatcher = dispatcher(&lab).on("do", gate.clone()).start().await.unwrap();
    let position = lab.command(&address("a")).await;
    gate.arrived(1).await;
    lab.clock.advance(Duration::from_secs(30));
    let is_over =
        async || matches!(state(&lab, position).await, State::Pending { attempts: 1, .. });
    until("the attempt is over", is_over).await;
    let log = lab.store.attempts(position).await.unwrap();
    assert_eq!(log[0].error, "no answer within its lease of 30 s");
    gate.open.add_permits(1);
    lab.clock.advance(Duration::from_secs(1));
    dispatcher.settled().await;
    assert_eq!(gate.seen.all(), [(position, 1), (position, 2)]);
    assert_eq!(settled_as(&lab, position).await, (SettledAs::Done, 2, None));
    finish(&lab, dispatcher).await;
}

async fn a_message_of_an_unknown_type_dies_with_a_clear_error_and_can_be_revived(lab: Lab) {
    let first = dispatcher(&lab).start().await.unwrap();
    let position = lab.command(&address("a")).await;
    for _ in 0..3 {
        first.settled().await;
        lab.clock.advance(Duration::from_mins(1));
    }
    first.settled().await;
    let (as_, _, error) = settled_as(&lab, position).await;
    let text = "no handler for message type `do`; register one, then revive the message";
    assert_eq!((as_, error.as_deref()), (SettledAs::Dead, Some(text)));
    first.stop().await;
    let second = dispatcher(&lab).on("do", Does(Seen::default(), ok)).start().await.unwrap();
    lab.committed(Commit::of(Write::Revive { position })).await;
    second.settled().await;
    assert_eq!(settled_as(&lab, position).await.0, SettledAs::Done);
    finish(&lab, second).await;
}

async fn a_message_of_an_unknown_type_can_be_left_to_another_program(lab: Lab) {
    let options = DispatcherOptions { unknown: Unknown::Waits, ..OPTIONS };
    let dispatcher = dispatcher(&lab).options(options).start().await.unwrap();
    let position = lab.command(&address("a")).await;
    for _ in 0..30 {
        dispatcher.settled().await;
        lab.clock.advance(Duration::from_hours(1));
    }
    assert!(matches!(state(&lab, position).await, State::Pending { attempts: 0, .. }));
    finish(&lab, dispatcher).await;
}

async fn an_idle_dispatcher_does_not_query_the_store(lab: Lab) {
    let seen = Seen::default();
    let dispatcher = dispatcher(&lab).on("do", Does(seen.clone(), ok)).start().await.unwrap();
    let later =
        Task { target: address("t"), ordered: false, due: Due::After(Duration::from_hours(48)) };
    lab.append(&address("a"), vec![Message::new("do", json("1")).unwrap().task(later)]).await;
    lab.command(&address("a")).await;
    dispatcher.settled().await;
    let before = lab.store.activity();
    for _ in 0..24 {
        lab.clock.advance(Duration::from_hours(1));
        dispatcher.settled().await;
    }
    let after = lab.store.activity();
    let count = |it: steadfast_core::store::Activity| (it.commits, it.batches, it.reads);
    assert_eq!(count(after), count(before), "a day without work is a day without statements");
    lab.clock.advance(Duration::from_hours(24));
    dispatcher.settled().await;
    assert_eq!(seen.positions(), [2, 1], "and yet it wakes in time");
    finish(&lab, dispatcher).await;
}

async fn a_stop_gives_leases_back(lab: Lab) {
    let gate = Gate::closed();
    let dispatcher = dispatcher(&lab).on("do", gate.clone()).start().await.unwrap();
    let position = lab.command(&address("a")).await;
    gate.arrived(1).await;
    let stop = tokio::spawn(dispatcher.stop());
    // The grace of 10 s ends before the lease of 30 s does, and the handler still hangs.
    let mut moments = 0..2_900;
    until("it has stopped", async || {
        if moments.next().is_some() {
            lab.clock.advance(Duration::from_millis(10));
        }
        stop.is_finished()
    })
    .await;
    stop.await.unwrap();
    assert!(matches!(state(&lab, position).await, State::Pending { attempts: 0, .. }));
    assert_eq!(lab.store.attempts(position).await.unwrap(), []);
}

async fn claims_of_an_owner_that_ended_are_counted_and_delivered_again(mut lab: Lab) {
    let position = lab.command(&address("a")).await;
    let lease = Lease { holder: lab.store.owner().epoch, number: 77 };
    let lasts = Duration::from_hours(1);
    lab.committed(Commit::of(Write::Claim { position, lease, lasts })).await;
    lab.reopen().await;
    if lab.store.owner().epoch == lease.holder {
        return; // Memory has no owner after the first.
    }
    let seen = Seen::default();
    let dispatcher = dispatcher(&lab).on("do", Does(seen.clone(), ok)).start().await.unwrap();
    dispatcher.settled().await;
    assert_eq!(seen.all(), [(position, 2)], "at once, not when the lease of an hour ends");
    let log = lab.store.attempts(position).await.unwrap();
    assert_eq!(log[0].error, "the process ended during attempt 1");
    finish(&lab, dispatcher).await;
}

async fn a_handler_without_outside_effects_needs_no_claim(lab: Lab) {
    let to = address("receiver");
    let receive = move |_: &steadfast_core::dispatch::HandlerDelivery| {
        let messages = vec![event("received").input()];
        Ok(Commit::of(Write::Append { stream: to.clone(), messages }))
    };
    let dispatcher =
        dispatcher(&lab).on("do", Inside(Seen::default(), receive)).start().await.unwrap();
    // Its first scan may find the message before the notice arrives, and try it once more in vain.
    dispatcher.settled().await;
    let before = lab.store.activity().commits;
    let position = lab.command(&address("a")).await;
    dispatcher.settled().await;
    assert_eq!(lab.store.activity().commits - before, 2, "the send and the receipt");
    assert_eq!(settled_as(&lab, position).await, (SettledAs::Done, 1, None));
    finish(&lab, dispatcher).await;
}

async fn a_message_of_an_inside_handler_can_be_revived_too(lab: Lab) {
    let seen = Seen::default();
    let fail = |delivery: &steadfast_core::dispatch::HandlerDelivery| match delivery.message.state {
        // Three times, then it is revived and succeeds.
        Some(State::Pending { attempts, .. }) if delivery.attempt != attempts + 1 => unreachable!(),
        _ => Err(Failure::fatal("not today")),
    };
    let first = dispatcher(&lab).on("do", Inside(seen.clone(), fail)).start().await.unwrap();
    // Its first scan may find the message before the notice arrives, and try it once more in vain.
    first.settled().await;
    let position = lab.command(&address("a")).await;
    first.settled().await;
    for _ in 0..3 {
        lab.committed(Commit::of(Write::Revive { position })).await;
        first.settled().await;
    }
    assert_eq!(settled_as(&lab, position).await.0, SettledAs::Dead);
    first.stop().await;
    let second = dispatcher(&lab).on("do", Inside(seen.clone(), ok)).start().await.unwrap();
    lab.committed(Commit::of(Write::Revive { position })).await;
    second.settled().await;
    assert_eq!(seen.all(), [(position, 1); 5], "each revival begins to count anew");
    assert_eq!(settled_as(&lab, position).await.0, SettledAs::Done);
    finish(&lab, second).await;
}

async fn a_command_settled_by_another_is_not_executed(lab: Lab) {
    let seen = Seen::default();
    let due = Due::After(Duration::from_secs(60));
    let task = |target: &str| Task { target: address(target), ordered: false, due };
    let message = |target| Message::new("do", json("1")).unwrap().task(task(target));
    let dispatcher = dispatcher(&lab).on("do", Does(seen.clone(), ok)).start().await.unwrap();
    let positions = lab.append(&address("a"), vec![message("b"), message("c")]).await;
    assert!(lab.streams().cancel(positions[0]).await.unwrap());
    lab.clock.advance(Duration::from_secs(60));
    dispatcher.settled().await;
    assert_eq!(seen.positions(), positions[1..]);
    finish(&lab, dispatcher).await;
}

async fn a_dead_command_is_executed_when_it_is_revived(lab: Lab) {
    let seen = Seen::default();
    let dispatcher = dispatcher(&lab).on("do", Does(seen.clone(), ok)).start().await.unwrap();
    let position = lab.append(&address("a"), vec![later(&address("t"))]).await[0];
    let error = Some(String::from("given up by hand"));
    let die = Write::Settle { position, lease: None, as_: SettledAs::Dead, error };
    lab.committed(Commit::of(die)).await;
    let outcome = lab.commit(Commit::of(Write::Revive { position })).await;
    assert!(matches!(outcome, Outcome::Committed(_)));
    dispatcher.settled().await;
    assert_eq!(seen.all(), [(position, 1)]);
    finish(&lab, dispatcher).await;
}

fn later(target: &steadfast_core::store::Address) -> Message {
    let due = Due::After(Duration::from_hours(1));
    command(target).task(Task { target: target.clone(), ordered: false, due })
}

#[tokio::test(flavor = "multi_thread")]
async fn with_little_memory_everything_is_still_delivered_in_time() {
    let lab = Lab::memory().await;
    let seen = Seen::default();
    let options =
        DispatcherOptions { timers_max: 4, targets_max: 3, window: 2, page: 5, ..OPTIONS };
    let dispatcher = dispatcher(&lab).options(options).on("do", Does(seen.clone(), ok));
    let dispatcher = dispatcher.start().await.unwrap();
    for number in 0..200_u64 {
        let due = Due::After(Duration::from_secs(number % 40));
        let target = address(&(number % 11).to_string());
        let task = Task { target, ordered: number % 11 < 4, due };
        let message = Message::new("do", json("1")).unwrap().task(task);
        lab.append(&address("a"), vec![message]).await;
    }
    for _ in 0..40 {
        dispatcher.settled().await;
        assert_eq!(dispatcher.forgotten().await.unwrap(), Vec::<i64>::new());
        lab.clock.advance(Duration::from_secs(1));
    }
    dispatcher.settled().await;
    assert_eq!(seen.all().len(), 200);
    finish(&lab, dispatcher).await;
}

/// Current thread, so that the first read of the store is after its end.
#[tokio::test]
async fn a_lost_store_is_not_waited_for_while_the_clock_is_stopped() {
    let clock = ManualClock::at(Timestamp(1_000));
    let store = Arc::new(MemoryStore::new(Arc::new(clock.clone())));
    store.crash_at(1, Moment::Before);
    let dispatcher = Dispatcher::builder(store.clone()).start().await.unwrap();
    let lost = Commit::append(&address("one"), 0, vec![event("e")]);
    assert!(store.commit(lost).await.is_err());
    dispatcher.settled().await;
    clock.advance(Duration::from_mins(1));
    dispatcher.settled().await;
}
