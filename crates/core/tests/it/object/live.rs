//! Connections: events, their receivers and their order, and that every end is handled.

use std::time::Duration;

use serde_json::{Value, json};
use steadfast_core::{
    CallError, Closed, ConnectParams, LiveSocket, Object, ObjectOptions, object::ObjectsBuilder,
};

use super::{Program, sleep::awake};
use crate::{
    hall::{Hall, Hint, Look, Raze, Say, Seen},
    lab::Lab,
    play::until,
};

laws!(
    events_reach_all_connections_in_the_order_of_turns,
    a_connection_that_is_refused_leaves_nothing,
    connections_outlive_sleep_and_wake_what_sleeps,
    an_auto_reply_does_not_load_the_object,
    tags_select_the_receivers,
    an_attachment_follows_the_turns,
    connections_can_be_looked_at,
    every_end_is_handled_once_with_its_code_and_reason,
    an_end_that_the_handler_fails_on_is_an_end,
    a_failed_turn_sends_no_event_and_the_connection_stays,
    events_of_a_failed_attempt_are_not_sent,
    a_turn_without_changes_sends_its_events_as_well,
    deleting_an_object_ends_its_connections_and_does_not_make_it_again,
    a_slow_connection_is_closed_and_others_are_not,
    the_connections_of_an_object_are_limited_and_a_slot_is_released,
    all_connections_end_in_order_when_the_program_stops,
    a_reconnect_resumes_after_the_last_number_seen,
);
laws!(also on postgres: connections_outlive_sleep_and_wake_what_sleeps);

pub(super) fn add(it: ObjectsBuilder) -> ObjectsBuilder {
    it.class(Hall)
}

pub(super) async fn program(lab: &Lab) -> Program {
    Program::of(lab.store.clone(), &lab.clock, add).await
}

pub(super) async fn come(app: &Program, name: &str) -> LiveSocket {
    app.objects.connect("hall", "a", ConnectParams::new().param("name", name)).await.unwrap()
}

pub(super) async fn look(app: &Program) -> Seen {
    app.call(Hall::at("a"), Look).await.unwrap()
}

pub(super) async fn hears(socket: &LiveSocket) -> Value {
    serde_json::from_str(&socket.next().await.unwrap().text).unwrap()
}

/// Reads to the end.
async fn end_of(socket: &LiveSocket) -> Closed {
    loop {
        if let Err(closed) = socket.next().await {
            return closed;
        }
    }
}

/// Waits until the hall has handled this many ends.
async fn gone(app: &Program, count: usize) -> Seen {
    let mut seen = look(app).await;
    until("the ends are handled", async || {
        seen = look(app).await;
        seen.gone.len() == count
    })
    .await;
    seen
}

async fn events_reach_all_connections_in_the_order_of_turns(lab: Lab) {
    let app = program(&lab).await;
    let (ann, bob) = (come(&app, "ann").await, come(&app, "bob").await);
    for number in 0..50 {
        ann.send(&format!("a {number}")).await.unwrap();
        app.call(Hall::at("a"), Say { text: format!("b {number}") }).await.unwrap();
    }
    for socket in [&ann, &bob] {
        for id in 1..=100 {
            let event = socket.next().await.unwrap();
            assert_eq!(event.number, Some(id));
            let line: Value = serde_json::from_str(&event.text).unwrap();
            assert_eq!(line["id"], id);
        }
    }
    assert_eq!(app.objects.connections(), 2);
    app.assert_sound().await;
}

async fn a_connection_that_is_refused_leaves_nothing(lab: Lab) {
    let app = program(&lab).await;
    let nobody = ConnectParams::new().param("name", "nobody");
    let refused = app.objects.connect("hall", "a", nobody).await.err().unwrap();
    assert!(matches!(&refused, CallError::Refused(it) if it.code() == "no_entry"), "{refused}");
    assert_eq!(app.objects.connections(), 0);
    assert_eq!(look(&app).await, Seen::default());
    let no_door = app.objects.connect("wall", "a", ConnectParams::new()).await.err().unwrap();
    assert_eq!(no_door.code(), "class_not_found");
    let no_name = app.objects.connect("hall", "", ConnectParams::new()).await.err().unwrap();
    assert_eq!(no_name.code(), "invalid_name");
}

async fn connections_outlive_sleep_and_wake_what_sleeps(lab: Lab) {
    let app = program(&lab).await;
    let (ann, bob) = (come(&app, "ann").await, come(&app, "bob").await);
    awake(&lab, &app, 0).await;
    ann.send("hello").await.unwrap();
    assert_eq!(hears(&bob).await, json!({ "id": 1, "who": "ann", "text": "hello" }));
    awake(&lab, &app, 0).await;
    app.call(Hall::at("a"), Say { text: "still here".into() }).await.unwrap();
    hears(&ann).await;
    assert_eq!(hears(&ann).await["text"], "still here");
    awake(&lab, &app, 0).await;
    drop(bob);
    let seen = gone(&app, 1).await;
    assert_eq!((seen.here, seen.connected), (vec!["ann".into()], vec!["ann".into()]));
}

async fn an_auto_reply_does_not_load_the_object(lab: Lab) {
    let app = program(&lab).await;
    let ann = come(&app, "ann").await;
    awake(&lab, &app, 0).await;
    let commits = lab.store.activity().commits;
    ann.send("ping").await.unwrap();
    assert_eq!(hears(&ann).await, "pong");
    assert_eq!((app.objects.awake(), lab.store.activity().commits), (0, commits));
}

async fn tags_select_the_receivers(lab: Lab) {
    let app = program(&lab).await;
    let (ann, bob, cy) = (come(&app, "ann").await, come(&app, "bob").await, come(&app, "cy").await);
    ann.send("whisper bob").await.unwrap();
    ann.send("whisper guest").await.unwrap();
    ann.send("whisper stranger").await.unwrap();
    let mut heard = Vec::new();
    for (socket, count) in [(&ann, 4), (&bob, 5), (&cy, 4)] {
        let mut whispers = 0;
        for _ in 0..count {
            whispers += usize::from(hears(socket).await == "ann whispers");
        }
        heard.push(whispers);
    }
    assert_eq!(heard, [1, 2, 1]);
}

async fn an_attachment_follows_the_turns(lab: Lab) {
    let app = program(&lab).await;
    let ann = come(&app, "ann").await;
    ann.send("rename Anna").await.unwrap();
    ann.send("hello").await.unwrap();
    hears(&ann).await;
    assert_eq!(hears(&ann).await["who"], "Anna");
    assert_eq!(look(&app).await.connected, ["Anna"]);
}

async fn connections_can_be_looked_at(lab: Lab) {
    let app = program(&lab).await;
    let (ann, bob) = (come(&app, "ann").await, come(&app, "bob").await);
    let shown = async || {
        let view = app.objects.look_at(None, "hall", "a").await.unwrap();
        let shown = view.connections.into_iter();
        shown.map(|it| (it.id, it.tags, it.attachment)).collect::<Vec<_>>()
    };
    let of = |socket: &LiveSocket, name: &str| {
        let id = serde_json::to_value(socket.id()).unwrap().as_i64().unwrap();
        (id, vec![name.to_owned(), "guest".to_owned()], json!(name))
    };
    assert_eq!(shown().await, [of(&ann, "ann"), of(&bob, "bob")]);
    ann.send("kick bob").await.unwrap();
    assert_eq!(shown().await, [of(&ann, "ann")]);
}

async fn every_end_is_handled_once_with_its_code_and_reason(lab: Lab) {
    let app = program(&lab).await;
    let (ann, bob, cy) = (come(&app, "ann").await, come(&app, "bob").await, come(&app, "cy").await);
    ann.close(Closed::new(4_000, "had enough")).await;
    let one = look(&app).await;
    assert_eq!(one.gone, [("ann".into(), 4_000, "had enough".into())]);
    assert_eq!(one.here, ["bob", "cy"]);
    drop(bob);
    gone(&app, 2).await;
    cy.send("kick cy").await.unwrap();
    let refused = cy.send("once more").await.unwrap_err();
    assert_eq!(refused.code(), "conflict");
    let closed = end_of(&cy).await;
    assert_eq!(closed, Closed::new(Closed::NORMAL, "kicked"));
    cy.close(closed).await;
    let all = look(&app).await;
    assert_eq!(all.gone[1].1, Closed::BROKEN);
    assert_eq!(all.gone[2], ("cy".into(), 1_000, "kicked".into()));
    assert_eq!((all.here, all.connected), (Vec::new(), Vec::new()));
    assert_eq!(app.objects.connections(), 0);
    app.assert_sound().await;
}

async fn an_end_that_the_handler_fails_on_is_an_end(lab: Lab) {
    let app = program(&lab).await;
    for name in ["stubborn", "angry"] {
        let socket = come(&app, name).await;
        socket.close(Closed::new(1_000, "")).await;
    }
    let seen = look(&app).await;
    assert_eq!(seen.connected, Vec::<String>::new());
    assert_eq!(seen.here, ["angry", "stubborn"], "what the handler did is undone");
}

async fn a_failed_turn_sends_no_event_and_the_connection_stays(lab: Lab) {
    let app = program(&lab).await;
    let ann = come(&app, "ann").await;
    assert_eq!(ann.send("refuse").await.unwrap_err().code(), "no_such_word");
    assert_eq!(ann.send("panic").await.unwrap_err().code(), "handler_panicked");
    ann.send("hello").await.unwrap();
    assert_eq!(hears(&ann).await, json!({ "id": 1, "who": "ann", "text": "hello" }));
}

async fn events_of_a_failed_attempt_are_not_sent(lab: Lab) {
    let app = program(&lab).await;
    let ann = come(&app, "ann").await;
    ann.send("maybe").await.unwrap();
    ann.send("whisper guest").await.unwrap();
    assert_eq!(hears(&ann).await["text"], "maybe");
    assert_eq!(hears(&ann).await["text"], "whisper guest");
    assert_eq!(hears(&ann).await, "ann whispers");
}

async fn a_turn_without_changes_sends_its_events_as_well(lab: Lab) {
    let app = program(&lab).await;
    let ann = come(&app, "ann").await;
    let commits = lab.store.activity().commits;
    app.call(Hall::at("a"), Hint).await.unwrap();
    assert_eq!(hears(&ann).await, "hint");
    assert_eq!(lab.store.activity().commits, commits);
}

async fn deleting_an_object_ends_its_connections_and_does_not_make_it_again(lab: Lab) {
    let app = program(&lab).await;
    let ann = come(&app, "ann").await;
    app.call(Hall::at("a"), Raze).await.unwrap();
    assert_eq!(hears(&ann).await, "razed");
    assert_eq!(ann.next().await, Err(Closed::new(Closed::GOING_AWAY, "the object was deleted")));
    assert_eq!(ann.send("hello?").await.unwrap_err().code(), "conflict");
    let closed = ann.ended().await;
    ann.close(closed).await;
    let bob = come(&app, "bob").await;
    assert!(app.objects.delete("hall", "a").await.unwrap());
    assert_eq!(bob.next().await.unwrap_err().code, Closed::GOING_AWAY);
    let closed = bob.ended().await;
    bob.close(closed).await;
    let head = lab.store.head(crate::lab::address_of(super::EntityKind::Object, "hall", "a").id());
    assert_eq!(head.await.unwrap(), None);
    app.assert_sound().await;
}

async fn a_slow_connection_is_closed_and_others_are_not(lab: Lab) {
    let options = ObjectOptions { unread_bytes_max: 10_000, ..ObjectOptions::default() };
    let app = Program::of(lab.store.clone(), &lab.clock, |it| add(it).options(options)).await;
    let (reader, slow) = (come(&app, "reader").await, come(&app, "slow").await);
    for number in 0..200 {
        app.call(Hall::at("a"), Say { text: "x".repeat(100) }).await.unwrap();
        assert_eq!(hears(&reader).await["id"], number + 1);
    }
    let closed = slow.next().await.unwrap_err();
    assert_eq!(closed.code, Closed::TRY_AGAIN);
    assert!(closed.reason.starts_with("too slow"), "{}", closed.reason);
    slow.close(closed).await;
    assert_eq!(look(&app).await.gone[0].1, Closed::TRY_AGAIN);
}

async fn the_connections_of_an_object_are_limited_and_a_slot_is_released(lab: Lab) {
    let options = ObjectOptions { connections_max: 2, ..ObjectOptions::default() };
    let app = Program::of(lab.store.clone(), &lab.clock, |it| add(it).options(options)).await;
    let (ann, _bob) = (come(&app, "ann").await, come(&app, "bob").await);
    let refused = app.objects.connect("hall", "a", ConnectParams::new()).await.err().unwrap();
    assert_eq!(refused.code(), "busy");
    assert!(refused.is_retryable());
    let elsewhere = app.objects.connect("hall", "b", ConnectParams::new()).await;
    assert!(elsewhere.is_ok(), "another object has places of its own");
    ann.close(Closed::new(1_000, "")).await;
    come(&app, "cy").await;
}

async fn all_connections_end_in_order_when_the_program_stops(lab: Lab) {
    let app = program(&lab).await;
    let (ann, bob) = (come(&app, "ann").await, come(&app, "bob").await);
    let ends = |socket: LiveSocket| async move {
        let closed = end_of(&socket).await;
        assert_eq!(closed.code, Closed::GOING_AWAY);
        socket.close(closed).await;
    };
    tokio::join!(app.objects.hang_up(), ends(ann), ends(bob));
    let seen = look(&app).await;
    assert_eq!(seen.gone.len(), 2);
    assert_eq!((seen.here, seen.connected), (Vec::new(), Vec::new()));
    let late = app.objects.connect("hall", "a", ConnectParams::new()).await.err().unwrap();
    assert_eq!(late.code(), "closed");
}

async fn a_reconnect_resumes_after_the_last_number_seen(lab: Lab) {
    let app = program(&lab).await;
    for number in 1..=9 {
        app.call(Hall::at("a"), Say { text: format!("{number}") }).await.unwrap();
    }
    let again = ConnectParams::new().param("name", "ann").after(6);
    let ann = app.objects.connect("hall", "a", again).await.unwrap();
    app.call(Hall::at("a"), Say { text: "10".into() }).await.unwrap();
    for number in 7..=10 {
        assert_eq!(ann.next().await.unwrap().number, Some(number));
    }
    app.advance(Duration::from_secs(1)).await;
}
