//! The holes of the original note ("Processed Flag Design Decision") that concern storage, each
//! closed by a test of its name. Scheduling (5) and order of execution (9) are closed in
//! crates/core; completion, replies, upcasting and snapshots (11, 12, 14, 15) in its processes.

use std::{collections::BTreeSet, time::Duration};

use steadfast_store::{
    AppendOutcome, Clock, Commit, Due, Message, Outcome, Rejection, RetryPolicy, SeededEntropy,
    State, Task, Write,
};

use crate::lab::{self, Lab, Place, START, address, command, event, json, lease};

crate::laws::laws!(
    hole_1_a_crash_between_mark_and_execute_loses_no_command,
    hole_1_in_flight_is_a_state_of_its_own,
    hole_2_two_pollers_never_get_the_same_command,
    hole_4_a_poison_command_dies_and_starves_no_other,
    hole_6_send_publish_reply_schedule_and_complete_stay_apart,
    hole_7_input_and_outputs_are_one_append_with_an_expected_version,
    hole_7_a_redelivered_input_is_not_decided_again,
    hole_8_there_is_one_order_over_all_streams,
    hole_10_message_rows_never_change_and_attempts_have_their_own_log,
    hole_13_times_are_integer_milliseconds,
    hole_14_types_are_stable_tags_with_a_schema_version,
);

async fn hole_1_a_crash_between_mark_and_execute_loses_no_command(lab: Lab) {
    let streams = lab.streams();
    let position = lab.command(&address("a")).await;
    let lasts = Duration::from_secs(30);
    let claimed = streams.claim_due(lab.clock.now(), lease(1), lasts, 10).await.unwrap();
    assert_eq!(claimed[0].position, position);
    // Here the process crashes: the command is not executed and not settled.
    lab.clock.advance(lasts);
    let again = streams.claim_due(lab.clock.now(), lease(2), lasts, 10).await.unwrap();
    assert_eq!((again[0].position, again[0].attempt), (position, 2));
}

async fn hole_1_in_flight_is_a_state_of_its_own(lab: Lab) {
    let position = lab.command(&address("a")).await;
    let state = async || lab.store.message(position).await.unwrap().unwrap().state.unwrap();
    assert!(matches!(state().await, State::Pending { attempts: 0, .. }));
    lab.claim(position, 1).await.committed().unwrap();
    assert!(matches!(state().await, State::InFlight { attempts: 1, .. }));
    lab.settle(position, Some(1)).await.committed().unwrap();
    assert!(matches!(state().await, State::Settled(_)));
}

async fn hole_2_two_pollers_never_get_the_same_command(lab: Lab) {
    for _ in 0..40 {
        lab.command(&address("a")).await;
    }
    let pollers = (0..4).map(|poller| {
        let (streams, now) = (lab.streams(), lab.clock.now());
        let lasts = Duration::from_secs(30);
        tokio::spawn(async move { streams.claim_due(now, lease(poller), lasts, 40).await.unwrap() })
    });
    let mut seen = BTreeSet::new();
    for poller in pollers.collect::<Vec<_>>() {
        for claimed in poller.await.unwrap() {
            assert!(seen.insert(claimed.position), "{} was claimed twice", claimed.position);
        }
    }
    assert_eq!(seen.len(), 40);
}

#[tokio::test(flavor = "multi_thread")]
async fn hole_3_claims_hold_no_advisory_lock() {
    let lab = Lab::postgres().await;
    let position = lab.command(&address("a")).await;
    lab.claim(position, 1).await.committed().unwrap();
    let Place::Database(url) = &lab.place else { unreachable!() };
    let sql = "SELECT count(*) FROM pg_locks l JOIN pg_stat_activity a USING (pid) WHERE \
        l.locktype = 'advisory' AND a.application_name = current_setting('application_name')";
    let locks: i64 = lab::client(url).await.query_one(sql, &[]).await.unwrap().get(0);
    assert_eq!(locks, 0);
}

async fn hole_4_a_poison_command_dies_and_starves_no_other(lab: Lab) {
    let (streams, entropy) = (lab.streams(), SeededEntropy::new(1));
    let policy = RetryPolicy { attempts_max: 2, ..RetryPolicy::DEFAULT };
    let poison = lab.command(&address("a")).await;
    let healthy = lab.command(&address("a")).await;
    let lasts = Duration::from_secs(30);
    for attempt in 1..=2 {
        for claimed in streams.claim_due(lab.clock.now(), lease(attempt), lasts, 10).await.unwrap()
        {
            if claimed.position == poison {
                let failed =
                    streams.mark_failed(claimed, lease(attempt), "poison", &policy, &entropy);
                failed.await.unwrap();
            } else {
                lab.settle(claimed.position, Some(attempt)).await.committed().unwrap();
                assert_eq!((claimed.position, attempt), (healthy, 1), "done in the first round");
            }
        }
        lab.clock.advance(Duration::from_mins(5));
    }
    let dead = lab.store.dead(0, 10).await.unwrap();
    assert_eq!(dead.iter().map(|it| it.position).collect::<Vec<_>>(), [poison]);
    assert_eq!(streams.pending_commands(None, 10).await.unwrap(), []);
}

async fn hole_6_send_publish_reply_schedule_and_complete_stay_apart(lab: Lab) {
    let actions = ["send", "publish", "reply", "schedule", "complete"];
    let message = |action: &&'static str| Message::new("same", json("{}")).unwrap().action(action);
    lab.append(&address("a"), actions.iter().map(message).collect()).await;
    let read = lab.store.read_stream(address("a").id(), 1, 10).await.unwrap();
    assert_eq!(read.iter().map(|it| it.action.as_str()).collect::<Vec<_>>(), actions);
}

async fn hole_7_input_and_outputs_are_one_append_with_an_expected_version(lab: Lab) {
    let stream = address("a");
    let decided = || vec![event("in").input(), event("happened"), command(&stream)];
    lab.committed(Commit::append(&stream, 0, decided())).await;
    // Another one decided on the same state: nothing of it is appended.
    let rejection = lab.rejected(Commit::append(&stream, 0, decided())).await;
    assert!(matches!(rejection, Rejection::Version { expected: 0, actual: 3, .. }));
    assert_eq!(lab.version(&stream).await, 3);
}

async fn hole_7_a_redelivered_input_is_not_decided_again(lab: Lab) {
    let (stream, streams) = (address("a"), lab.streams());
    let messages = || vec![event("in").input(), command(&stream)];
    let first = streams.append_input(&stream, 0, "id-1", messages()).await.unwrap();
    let again = streams.append_input(&stream, 2, "id-1", messages()).await.unwrap();
    assert!(matches!(first, AppendOutcome::New(_)) && matches!(again, AppendOutcome::Before(_)));
    assert_eq!(streams.pending_commands(None, 10).await.unwrap().len(), 1);
}

async fn hole_8_there_is_one_order_over_all_streams(lab: Lab) {
    for name in ["b", "a", "c", "a", "b"] {
        lab.command(&address(name)).await;
    }
    let oldest_first = lab.streams().pending_commands(None, 10).await.unwrap();
    let order: Vec<(i64, i64)> = oldest_first.iter().map(|it| (it.position, it.version)).collect();
    assert_eq!(order, [(1, 1), (2, 1), (3, 1), (4, 2), (5, 2)]);
    assert_eq!(lab.store.read_all(3, 10).await.unwrap(), oldest_first[3..]);
}

async fn hole_10_message_rows_never_change_and_attempts_have_their_own_log(lab: Lab) {
    let stream = address("a");
    let position = lab.command(&stream).await;
    let rows = async || -> Vec<String> {
        let rows = lab.store.dump().await.unwrap().rows;
        rows.into_iter().filter(|it| it.starts_with("MessageRow")).collect()
    };
    let before = rows().await;
    for attempt in 1..=3 {
        lab.claim(position, attempt).await.committed().unwrap();
        let (lease, error) = (Some(lease(attempt)), format!("failure {attempt}"));
        let after = Duration::ZERO;
        lab.committed(Commit::of(Write::Retry { position, lease, error, after })).await;
    }
    lab.settle(position, None).await.committed().unwrap();
    assert_eq!(rows().await, before);
    assert_eq!(lab.store.attempts(position).await.unwrap().len(), 3);
}

async fn hole_13_times_are_integer_milliseconds(lab: Lab) {
    lab.clock.advance(Duration::from_millis(1));
    let due = Due::After(Duration::from_millis(1));
    let task = Task { target: address("t"), ordered: false, due };
    let message = Message::new("x", json("1")).unwrap().task(task);
    let position = lab.append(&address("a"), vec![message]).await[0];
    let message = lab.store.message(position).await.unwrap().unwrap();
    assert_eq!(message.created_at.0, START.0 + 1);
    assert!(
        matches!(message.state, Some(State::Pending { due_at, .. }) if due_at.0 == START.0 + 2)
    );
    assert!(matches!(lab.claim(position, 1).await, Outcome::Rejected(_)));
}

async fn hole_14_types_are_stable_tags_with_a_schema_version(lab: Lab) {
    let message = Message::new("guest-checked-out", json("{}")).unwrap().schema(3);
    lab.append(&address("a"), vec![message]).await;
    let read = &lab.store.read_all(0, 1).await.unwrap()[0];
    assert_eq!((read.message_type.as_str(), read.schema), ("guest-checked-out", 3));
}
