//! Processes on every store.

use std::{sync::atomic::Ordering, time::Duration};

use serde_json::{Value, json};
use steadfast_core::{
    Dispatcher,
    process::{
        Action::{self, Complete},
        InputError, Processes,
    },
    store::{EntityKind, MessageKind, Retention, SettledAs, State, Write, sweep},
};

use crate::{
    handlers::dispatcher,
    lab::{self, Lab},
    shop::{Carrier, Input, MINUTE, Order, Output, paid, place},
};

struct Shop {
    processes: Processes,
    dispatcher: Dispatcher,
    carrier: Carrier,
}

async fn shop(lab: &Lab) -> Shop {
    let carrier = Carrier::default();
    let processes = Processes::new(lab.store.clone()).with::<Order>(carrier.clone());
    let dispatcher = dispatcher(lab).route(processes.clone()).start().await.unwrap();
    Shop { processes, dispatcher, carrier }
}

impl Shop {
    async fn input(&self, input: Input) -> steadfast_core::process::Decided {
        self.processes.input::<Order>(&input, None).await.unwrap()
    }
}

/// The stream as action and type, in order.
async fn stream(lab: &Lab, id: &str) -> Vec<String> {
    let address = lab::address_of(EntityKind::Process, "order", id);
    let messages = lab.store.read_stream(address.id(), 1, 1_000).await.unwrap();
    messages.iter().map(|it| format!("{} {}", it.action, it.message_type)).collect()
}

laws!(
    an_order_runs_from_its_first_input_to_its_completion,
    an_order_that_is_not_paid_in_time_expires,
    hole_11_completion_cancels_schedules,
    a_redelivered_input_returns_the_recorded_outcome,
    a_redelivered_input_that_would_be_refused_today_returns_the_recorded_decision,
    one_key_for_two_inputs_is_refused,
    fifty_duplicates_at_once_are_decided_once,
    hole_11_an_input_after_completion_is_recorded_as_ignored,
    hole_11_the_end_is_remembered_until_the_process_is_forgotten,
    a_refused_input_is_not_recorded,
    an_input_for_another_instance_is_refused,
    hole_12_a_reply_reaches_its_caller_and_is_recorded,
    a_failing_command_is_tried_again_under_the_same_key,
    inputs_that_race_are_decided_one_after_the_other,
    two_runners_on_one_instance_do_not_disturb_each_other,
    hole_15_a_long_stream_is_kept_as_a_snapshot_that_other_code_does_not_use,
    an_unknown_message_is_refused_with_its_reason,
);
laws!(also on postgres:
    fifty_duplicates_at_once_are_decided_once,
    hole_11_the_end_is_remembered_until_the_process_is_forgotten,
    inputs_that_race_are_decided_one_after_the_other,
    two_runners_on_one_instance_do_not_disturb_each_other,
);

async fn an_order_runs_from_its_first_input_to_its_completion(lab: Lab) {
    let shop = shop(&lab).await;
    let decided = shop.input(place("1")).await;
    let actions: Vec<&str> = decided.outputs.iter().map(|it| it.action.as_str()).collect();
    assert_eq!((decided.version, actions), (2, vec!["publish", "schedule"]));
    shop.input(paid("1")).await;
    shop.dispatcher.settled().await;
    let expected = [
        "begin Began",
        "initiate Place",
        "publish Placed",
        "schedule Expire",
        "receive Paid",
        "send Ship",
        "receive Shipped",
        "publish Done",
        "complete Completed",
    ];
    assert_eq!(stream(&lab, "1").await, expected);
    let address = lab::address_of(EntityKind::Process, "order", "1");
    let messages = lab.store.read_stream(address.id(), 1, 100).await.unwrap();
    assert_eq!((messages[1].kind, messages[4].kind), (MessageKind::Command, MessageKind::Event));
    assert_eq!(messages[5].processed(), Some(true));
    assert_eq!(messages[7].cause, Some(messages[6].position));
    let view = shop.processes.look("order", "1").await.unwrap().unwrap();
    assert_eq!((view.completed, view.version, view.state["paid"].clone()), (true, 9, json!(true)));
    assert_eq!(shop.dispatcher.forgotten().await.unwrap(), Vec::<i64>::new());
    lab.assert_sound().await;
}

async fn an_order_that_is_not_paid_in_time_expires(lab: Lab) {
    let shop = shop(&lab).await;
    shop.input(place("1")).await;
    lab.clock.advance(MINUTE - Duration::from_millis(1));
    shop.dispatcher.settled().await;
    assert_eq!(stream(&lab, "1").await.len(), 4);
    lab.clock.advance(Duration::from_millis(1));
    shop.dispatcher.settled().await;
    let last = ["receive Expire", "publish Expired", "complete Completed"];
    assert_eq!(stream(&lab, "1").await[4..], last);
}

async fn hole_11_completion_cancels_schedules(lab: Lab) {
    let shop = shop(&lab).await;
    shop.input(place("1")).await;
    shop.input(paid("1")).await;
    shop.dispatcher.settled().await;
    let address = lab::address_of(EntityKind::Process, "order", "1");
    let messages = lab.store.read_stream(address.id(), 4, 1).await.unwrap();
    assert!(matches!(&messages[0].state,
        Some(State::Settled(it)) if it.as_ == SettledAs::Cancelled));
    lab.clock.advance(MINUTE);
    shop.dispatcher.settled().await;
    assert_eq!(stream(&lab, "1").await.len(), 9, "nothing comes after the end");
    let open = lab.store.streams(Some((EntityKind::Process, "order")), None, 9).await.unwrap();
    assert!(open[0].closed_at.is_some());
}

async fn a_redelivered_input_returns_the_recorded_outcome(lab: Lab) {
    let shop = shop(&lab).await;
    let first = shop.processes.input::<Order>(&place("1"), Some("k")).await.unwrap();
    shop.input(paid("1")).await;
    shop.dispatcher.settled().await;
    let before = stream(&lab, "1").await;
    let again = shop.processes.input::<Order>(&place("1"), Some("k")).await.unwrap();
    assert_eq!((again.version, &again.outputs), (first.version, &first.outputs));
    assert!(again.repeated && !first.repeated);
    assert_eq!(stream(&lab, "1").await, before);
}

async fn a_redelivered_input_that_would_be_refused_today_returns_the_recorded_decision(lab: Lab) {
    let shop = shop(&lab).await;
    let once = Input::Once { order_id: "1".into() };
    let first = shop.processes.input::<Order>(&once, Some("k")).await.unwrap();
    let again = shop.processes.input::<Order>(&once, Some("k")).await.unwrap();
    assert_eq!((again.version, again.repeated), (first.version, true));
    let other = shop.processes.input::<Order>(&once, Some("another key")).await.unwrap_err();
    assert_eq!(other.code(), "refused");
    let reused = shop.processes.input::<Order>(&paid("1"), Some("k")).await.unwrap_err();
    assert_eq!(reused.code(), "key_reused");
}

async fn one_key_for_two_inputs_is_refused(lab: Lab) {
    let shop = shop(&lab).await;
    shop.processes.input::<Order>(&place("1"), Some("k")).await.unwrap();
    let error = shop.processes.input::<Order>(&paid("1"), Some("k")).await.unwrap_err();
    assert_eq!(error.code(), "key_reused");
}

async fn fifty_duplicates_at_once_are_decided_once(lab: Lab) {
    let shop = shop(&lab).await;
    let all = (0..50).map(|_| {
        let processes = shop.processes.clone();
        tokio::spawn(async move { processes.input::<Order>(&place("1"), Some("k")).await.unwrap() })
    });
    let mut fresh = 0;
    for one in all.collect::<Vec<_>>() {
        let decided = one.await.unwrap();
        fresh += i32::from(!decided.repeated);
        assert_eq!((decided.version, decided.outputs.len()), (2, 2));
    }
    assert_eq!((fresh, stream(&lab, "1").await.len()), (1, 4));
}

async fn hole_11_an_input_after_completion_is_recorded_as_ignored(lab: Lab) {
    let shop = shop(&lab).await;
    shop.input(place("1")).await;
    shop.input(paid("1")).await;
    shop.dispatcher.settled().await;
    let late = shop.input(paid("1")).await;
    assert!(late.ignored && late.outputs.is_empty());
    assert_eq!(stream(&lab, "1").await.last().unwrap(), "ignore Paid");
    // The state is the same when it is read again.
    let view = shop.processes.look("order", "1").await.unwrap().unwrap();
    assert_eq!((view.completed, view.version), (true, 10));
}

async fn hole_11_the_end_is_remembered_until_the_process_is_forgotten(lab: Lab) {
    let shop = shop(&lab).await;
    shop.input(place("1")).await;
    shop.input(paid("1")).await;
    shop.dispatcher.settled().await;
    assert!(shop.input(paid("1")).await.ignored);
    let retention = Retention { keep: Duration::from_hours(24), ..Retention::DEFAULT };
    let fresh = || Processes::new(lab.store.clone()).with::<Order>(Carrier::default());
    lab.clock.advance(Duration::from_hours(24));
    assert_eq!(sweep(&*lab.store, retention).await.unwrap(), 0);
    assert!(fresh().input::<Order>(&place("1"), None).await.unwrap().ignored);
    let view = fresh().look("order", "1").await.unwrap().unwrap();
    assert_eq!((view.completed, view.state["paid"].clone()), (true, json!(true)));
    lab.clock.advance(Duration::from_secs(1));
    assert_eq!(sweep(&*lab.store, retention).await.unwrap(), 0, "an input has just come");
    assert!(fresh().look("order", "1").await.unwrap().unwrap().completed);
    lab.clock.advance(Duration::from_hours(25));
    assert_eq!(sweep(&*lab.store, retention).await.unwrap(), 11, "it goes as a whole");
    assert_eq!(fresh().look("order", "1").await.unwrap(), None);
    assert!(!fresh().input::<Order>(&place("1"), None).await.unwrap().ignored);
    lab.assert_sound().await;
}

async fn a_refused_input_is_not_recorded(lab: Lab) {
    let shop = shop(&lab).await;
    let error = shop.processes.input::<Order>(&paid("1"), Some("k")).await.unwrap_err();
    assert!(matches!(&error, InputError::Refused(it) if it.reason == "no order"));
    assert_eq!(stream(&lab, "1").await, Vec::<String>::new());
    assert_eq!(shop.processes.look("order", "1").await.unwrap(), None);
    // Its key is free.
    shop.processes.input::<Order>(&place("1"), Some("k")).await.unwrap();
}

async fn an_input_for_another_instance_is_refused(lab: Lab) {
    let shop = shop(&lab).await;
    let send = async |instance: &str, order_id: &str| {
        let data = json!({"orderId": order_id, "items": 1});
        shop.processes.input_json("order", instance, "Place", data, None).await
    };
    assert_eq!(send("1", "2").await.unwrap_err().code(), "invalid_input");
    assert_eq!(send("1", "").await.unwrap_err().code(), "invalid_input");
    send("1", "1").await.unwrap();
    let unknown = shop.processes.input_json("nobody", "1", "x", Value::Null, None).await;
    assert_eq!(unknown.unwrap_err().code(), "process_not_found");
}

async fn hole_12_a_reply_reaches_its_caller_and_is_recorded(lab: Lab) {
    let shop = shop(&lab).await;
    shop.input(place("1")).await;
    let asked = shop.input(Input::Ask { order_id: "1".into() }).await;
    let reply = asked.reply.unwrap();
    assert_eq!((reply.message_type.as_str(), &reply.data), ("Status", &json!({"paid": false})));
    assert_eq!(stream(&lab, "1").await.last().unwrap(), "reply Status");
}

async fn a_failing_command_is_tried_again_under_the_same_key(lab: Lab) {
    let shop = shop(&lab).await;
    shop.carrier.failures.store(1, Ordering::SeqCst);
    shop.input(place("1")).await;
    shop.input(paid("1")).await;
    shop.dispatcher.settled().await;
    lab.clock.advance(Duration::from_secs(1));
    shop.dispatcher.settled().await;
    let keys = shop.carrier.keys.lock().unwrap().clone();
    assert_eq!((keys.len(), keys[0] == keys[1]), (2, true));
    assert_eq!(stream(&lab, "1").await.last().unwrap(), "complete Completed");
}

async fn inputs_that_race_are_decided_one_after_the_other(lab: Lab) {
    let shop = shop(&lab).await;
    shop.input(place("1")).await;
    let all = (0..16).map(|_| {
        let processes = shop.processes.clone();
        tokio::spawn(async move { processes.input::<Order>(&paid("1"), None).await })
    });
    for one in all.collect::<Vec<_>>() {
        one.await.unwrap().unwrap();
    }
    shop.dispatcher.settled().await;
    let sent = stream(&lab, "1").await.iter().filter(|it| *it == "send Ship").count();
    assert_eq!(sent, 1, "only the first payment ships");
    lab.assert_sound().await;
}

async fn two_runners_on_one_instance_do_not_disturb_each_other(lab: Lab) {
    let shop = shop(&lab).await;
    let other = Processes::new(lab.store.clone()).with::<Order>(Carrier::default());
    shop.input(place("1")).await;
    for _ in 0..5 {
        // Each holds a state that the other has made stale.
        other.input::<Order>(&Input::Ask { order_id: "1".into() }, None).await.unwrap();
        shop.input(Input::Ask { order_id: "1".into() }).await;
    }
    assert_eq!(stream(&lab, "1").await.len(), 4 + 20);
}

async fn hole_15_a_long_stream_is_kept_as_a_snapshot_that_other_code_does_not_use(lab: Lab) {
    let shop = shop(&lab).await;
    shop.input(place("1")).await;
    for _ in 0..120 {
        shop.input(Input::Ask { order_id: "1".into() }).await;
    }
    let stream = lab::address_of(EntityKind::Process, "order", "1");
    let snapshot = lab.store.snapshot(stream.id()).await.unwrap().unwrap();
    assert!(200 <= snapshot.version && snapshot.code == 1);
    let fresh = || Processes::new(lab.store.clone()).with::<Order>(Carrier::default());
    let view = fresh().look("order", "1").await.unwrap().unwrap();
    assert_eq!((view.version, view.state["items"].clone()), (244, json!(3)));
    // A manipulated snapshot is used only by the code version that made it.
    let mut lie = snapshot;
    lie.state = lab::json("[{\"items\":99,\"paid\":true},false,true]");
    lab.committed(steadfast_core::store::Commit::of(Write::Snapshot(lie.clone()))).await;
    assert_eq!(fresh().look("order", "1").await.unwrap().unwrap().state["items"], json!(99));
    lie.code = 2;
    lab.committed(steadfast_core::store::Commit::of(Write::Snapshot(lie))).await;
    assert_eq!(fresh().look("order", "1").await.unwrap().unwrap().state["items"], json!(3));
}

async fn an_unknown_message_is_refused_with_its_reason(lab: Lab) {
    let shop = shop(&lab).await;
    let send = async |message_type: &str, data: Value| {
        let sent = shop.processes.input_json("order", "1", message_type, data, None).await;
        sent.unwrap_err()
    };
    let unknown = send("Nonsense", json!({})).await;
    assert_eq!(unknown.code(), "malformed_message");
    let text = send("Place", json!({"orderId": "1", "items": "three"})).await.to_string();
    assert!(text.contains("`Place`") && text.contains("three"), "{text}");
    let _: Action<Input, Output> = Complete;
}
