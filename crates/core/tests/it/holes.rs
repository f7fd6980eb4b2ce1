//! The holes of the original note that concern dispatching, each closed by a test of its name.

use std::time::Duration;

use steadfast_core::{
    Failure,
    store::{Commit, Due, Message, Task},
};

use crate::{
    handlers::{Does, Seen, dispatcher, ok},
    lab::{Lab, address, json},
};

laws!(
    hole_4_a_poison_command_does_not_starve_later_commands,
    hole_5_a_scheduled_command_waits_for_its_time_and_something_wakes_it,
    hole_5_a_later_command_does_not_pass_over_a_scheduled_one,
    hole_9_commands_can_keep_their_order,
);
laws!(also on postgres: hole_5_a_scheduled_command_waits_for_its_time_and_something_wakes_it);

fn scheduled(seconds: u64, ordered: bool) -> Message {
    let due = Due::After(Duration::from_secs(seconds));
    let task = Task { target: address("t"), ordered, due };
    Message::new("do", json("1")).unwrap().action("schedule").task(task)
}

async fn hole_4_a_poison_command_does_not_starve_later_commands(lab: Lab) {
    let seen = Seen::default();
    let poison =
        |delivery: &steadfast_core::dispatch::HandlerDelivery| match delivery.message.position {
            1 => Err(Failure::retry("poison")),
            _ => Ok(Commit::default()),
        };
    lab.append(&address("a"), (0..20).map(|_| scheduled(0, false)).collect()).await;
    let handler = Does(seen.clone(), poison);
    let dispatcher = dispatcher(&lab).on("do", handler).start().await.unwrap();
    dispatcher.settled().await;
    let mut positions = seen.positions();
    positions.sort_unstable();
    assert_eq!(positions, (1..=20).collect::<Vec<_>>());
    dispatcher.stop().await;
}

async fn hole_5_a_scheduled_command_waits_for_its_time_and_something_wakes_it(lab: Lab) {
    let seen = Seen::default();
    let dispatcher = dispatcher(&lab).on("do", Does(seen.clone(), ok)).start().await.unwrap();
    lab.append(&address("a"), vec![scheduled(900, false)]).await;
    lab.clock.advance(Duration::from_secs(899));
    dispatcher.settled().await;
    assert_eq!(seen.all(), []);
    lab.clock.advance(Duration::from_secs(1));
    dispatcher.settled().await;
    assert_eq!(seen.all(), [(1, 1)]);
    dispatcher.stop().await;
}

async fn hole_5_a_later_command_does_not_pass_over_a_scheduled_one(lab: Lab) {
    let seen = Seen::default();
    let dispatcher = dispatcher(&lab).on("do", Does(seen.clone(), ok)).start().await.unwrap();
    lab.append(&address("a"), vec![scheduled(60, false), scheduled(0, false)]).await;
    dispatcher.settled().await;
    assert_eq!(seen.positions(), [2]);
    lab.clock.advance(Duration::from_secs(60));
    dispatcher.settled().await;
    assert_eq!(seen.positions(), [2, 1]);
    dispatcher.stop().await;
}

async fn hole_9_commands_can_keep_their_order(lab: Lab) {
    let fails_once =
        |delivery: &steadfast_core::dispatch::HandlerDelivery| match delivery.message.version {
            1 if delivery.attempt == 1 => Err(Failure::retry("not yet")),
            _ => Ok(Commit::default()),
        };
    for (name, ordered) in [("ordered", true), ("free", false)] {
        let seen = Seen::default();
        let commands = (0..40).map(|_| scheduled(0, ordered)).collect();
        let first = lab.append(&address(name), commands).await[0];
        let handler = Does(seen.clone(), fails_once);
        let dispatcher = dispatcher(&lab).on("do", handler).start().await.unwrap();
        dispatcher.settled().await;
        // The first has failed. In order, those behind it wait until it is done.
        assert_eq!(seen.all().len(), if ordered { 1 } else { 40 }, "{name}");
        lab.clock.advance(Duration::from_mins(10));
        dispatcher.settled().await;
        let mut positions = seen.positions();
        assert_eq!(positions.len(), 41, "{name}");
        if ordered {
            positions.remove(0);
            assert_eq!(positions, (first..first + 40).collect::<Vec<_>>());
        } else {
            assert_eq!(positions.last(), Some(&first), "it did not hold up the others");
        }
        dispatcher.stop().await;
    }
}
