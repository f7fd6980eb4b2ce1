//! Ordered and unordered delivery.

use std::{sync::atomic::Ordering, time::Duration};

use steadfast_core::{
    Failure,
    dispatch::HandlerDelivery,
    store::{Address, Commit, Due, Message, Task},
};

use crate::{
    handlers::{Does, Gate, OPTIONS, Seen, dispatcher, ok},
    lab::{Lab, address, json},
};

laws!(on sqlite, postgres:
    ordered_commands_of_a_target_run_one_at_a_time_in_their_order,
    an_ordered_command_that_fails_holds_up_its_own_target_only,
    unordered_commands_run_side_by_side_up_to_the_limit_of_their_target,
    cancelling_the_first_of_an_ordered_target_unblocks_the_next,
);

fn message(target: &Address, ordered: bool) -> Message {
    let due = Due::After(Duration::ZERO);
    Message::new("do", json("1")).unwrap().task(Task { target: target.clone(), ordered, due })
}

async fn ordered_commands_of_a_target_run_one_at_a_time_in_their_order(lab: Lab) {
    let (target, gate) = (address("t"), Gate::closed());
    // Some before the start, some after it: more than fit into the window.
    for _ in 0..30 {
        lab.append(&address("a"), vec![message(&target, true)]).await;
    }
    let dispatcher = dispatcher(&lab).on("do", gate.clone()).start().await.unwrap();
    for _ in 0..30 {
        lab.append(&address("b"), vec![message(&target, true)]).await;
    }
    gate.open.add_permits(60);
    dispatcher.settled().await;
    assert_eq!(gate.seen.positions(), (1..=60).collect::<Vec<_>>());
    assert_eq!(gate.most.load(Ordering::SeqCst), 1);
    dispatcher.stop().await;
}

async fn an_ordered_command_that_fails_holds_up_its_own_target_only(lab: Lab) {
    let seen = Seen::default();
    let fail_first =
        |delivery: &HandlerDelivery| match (delivery.message.position, delivery.attempt) {
            (1, 1) => Err(Failure::retry("not yet")),
            _ => Ok(Commit::default()),
        };
    let messages = vec![
        message(&address("t"), true),
        message(&address("t"), true),
        message(&address("other"), true),
        message(&address("t"), false),
    ];
    lab.append(&address("a"), messages).await;
    let handler = Does(seen.clone(), fail_first);
    let dispatcher = dispatcher(&lab).on("do", handler).start().await.unwrap();
    dispatcher.settled().await;
    let mut first_round = seen.positions();
    first_round.sort_unstable();
    assert_eq!(first_round, [1, 3, 4]);
    lab.clock.advance(Duration::from_secs(1));
    dispatcher.settled().await;
    assert_eq!(seen.all()[3..], [(1, 2), (2, 1)]);
    assert_eq!(dispatcher.forgotten().await.unwrap(), Vec::<i64>::new());
    dispatcher.stop().await;
}

async fn unordered_commands_run_side_by_side_up_to_the_limit_of_their_target(lab: Lab) {
    let gate = Gate::closed();
    let dispatcher = dispatcher(&lab).on("do", gate.clone()).start().await.unwrap();
    let messages = (0..10).map(|_| message(&address("t"), false)).collect();
    lab.append(&address("a"), messages).await;
    gate.arrived(OPTIONS.concurrency_per_target).await;
    // A busy target leaves capacity for others.
    lab.append(&address("a"), vec![message(&address("other"), false)]).await;
    gate.arrived(OPTIONS.concurrency_per_target + 1).await;
    gate.open.add_permits(11);
    dispatcher.settled().await;
    assert_eq!(gate.most.load(Ordering::SeqCst), OPTIONS.concurrency_per_target + 1);
    dispatcher.stop().await;
}

async fn cancelling_the_first_of_an_ordered_target_unblocks_the_next(lab: Lab) {
    let seen = Seen::default();
    let dispatcher = dispatcher(&lab).on("do", Does(seen.clone(), ok)).start().await.unwrap();
    let target = address("t");
    let due = Due::After(Duration::from_hours(1));
    let first = Message::new("do", json("1")).unwrap();
    let first = first.task(Task { target: target.clone(), ordered: true, due });
    let positions = lab.append(&address("a"), vec![first, message(&target, true)]).await;
    dispatcher.settled().await;
    assert_eq!(seen.positions(), [] as [i64; 0]);
    assert!(lab.streams().cancel(positions[0]).await.unwrap());
    dispatcher.settled().await;
    assert_eq!(seen.positions(), positions[1..]);
    dispatcher.stop().await;
}
