//! Connections and the end of the process: every end is handled, and clients that reconnect lose
//! nothing.

use std::sync::{Arc, atomic::Ordering};

use steadfast_core::{
    App, Closed, ConnectParams, Object, Result,
    store::{ManualClock, MemoryStore, StoreError},
    test::assert_survives_crashes,
};

use super::{
    Program, by_now,
    live::{add, come, hears, look, program},
};
use crate::{
    gated_store::GatedStore,
    hall::{Hall, Hint, Line, Look, Say},
    lab::{Lab, START},
    play::until,
};

laws!(on sqlite, postgres:
    connections_that_ended_with_the_process_are_handled_before_anything_else,
    ends_that_are_too_much_for_one_turn_are_handled_one_by_one
);

async fn connections_that_ended_with_the_process_are_handled_before_anything_else(mut lab: Lab) {
    let app = program(&lab).await;
    let (ann, bob) = (come(&app, "ann").await, come(&app, "bob").await);
    ann.send("hello").await.unwrap();
    app.dispatcher.settled().await;
    // Like a kill: no end is reported.
    std::mem::forget((ann, bob));
    app.stop().await;
    lab.reopen().await;
    let app = program(&lab).await;
    let cy = come(&app, "cy").await;
    let seen = look(&app).await;
    let gone: Vec<_> = seen.gone.iter().map(|it| (&*it.0, it.1)).collect();
    assert_eq!(gone, [("ann", Closed::BROKEN), ("bob", Closed::BROKEN)]);
    assert_eq!((seen.here, seen.connected), (vec!["cy".into()], vec!["cy".into()]));
    cy.send("hello again").await.unwrap();
    assert_eq!(hears(&cy).await["who"], "cy", "the others went before it came");
    app.assert_sound().await;
}

async fn ends_that_are_too_much_for_one_turn_are_handled_one_by_one(mut lab: Lab) {
    let app = program(&lab).await;
    for number in 0..180 {
        std::mem::forget(come(&app, &format!("chatty {number}")).await);
    }
    app.stop().await;
    lab.reopen().await;
    let app = program(&lab).await;
    let seen = look(&app).await;
    assert_eq!((seen.gone.len(), seen.here, seen.connected), (180, Vec::new(), Vec::new()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wherever_the_process_ends_a_reconnecting_client_gets_every_event_and_is_there_once() {
    let survived = assert_survives_crashes(
        || App::new("test").object(Hall),
        async |app| {
            let arrival = ConnectParams::new().param("name", "ann").after(0);
            let ann = app.connect(Hall::at("a"), arrival).await?;
            for text in ["one", "two", "three"] {
                app.call(Hall::at("a"), Say { text: text.into() }).key(text).await?;
            }
            let mut heard = Vec::new();
            while heard.len() < 3 {
                let event =
                    ann.next().await.map_err(|it| steadfast_core::Error::retryable(it.reason))?;
                let line: Line = serde_json::from_str(&event.text)?;
                assert_eq!(Some(line.id), event.number);
                heard.push(line.text);
            }
            let there = app.call(Hall::at("a"), Look).await?;
            assert_eq!(there.connected, ["ann"]);
            ann.close(Closed::new(1_000, "")).await;
            let after = app.call(Hall::at("a"), Look).await?;
            Result::Ok((heard, there.here, after.here, after.connected))
        },
    )
    .await;
    assert!(10 <= survived, "{survived}");
}

/// Halls on a store that can hold commits back.
async fn held() -> (ManualClock, Arc<GatedStore>, Program) {
    let clock = ManualClock::at(START);
    let store = GatedStore::new(MemoryStore::new(Arc::new(clock.clone())));
    let app = Program::of(store.clone(), &clock, add).await;
    (clock, store, app)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_event_is_sent_before_the_turn_is_durable_nor_when_it_never_is() {
    let (_, store, app) = held().await;
    let (ann, bob) = (come(&app, "ann").await, come(&app, "bob").await);
    store.hold();
    let mut says = Box::pin(ann.send("one"));
    assert!(by_now(&mut says).is_none());
    store.came().await;
    // This one changes nothing, but it comes after.
    let mut hint = app.call(Hall::at("a"), Hint);
    assert!(by_now(&mut hint).is_none());
    let mut hears_bob = Box::pin(hears(&bob));
    for _ in 0..100 {
        tokio::task::yield_now().await;
        assert!(by_now(&mut hears_bob).is_none() && by_now(&mut hint).is_none());
    }
    store.release();
    assert_eq!(hears_bob.await["text"], "one");
    says.await.unwrap();
    hint.await.unwrap();
    assert_eq!(hears(&bob).await, "hint");

    let mut says = Box::pin(ann.send("never"));
    assert!(by_now(&mut says).is_none());
    store.came().await;
    store.fail(StoreError::Unavailable { reason: "as the test wanted".into() });
    assert_eq!(says.await.unwrap_err().code(), "store_unavailable");
    store.let_go();
    ann.send("two").await.unwrap();
    assert_eq!(hears(&bob).await["text"], "two");
    assert_eq!(look(&app).await.said, ["one", "two"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_leaves_while_it_is_accepted_is_handled_as_ended() {
    let (_, store, app) = held().await;
    app.call(Hall::at("a"), Say { text: "made".into() }).await.unwrap();
    store.hold();
    let arrival = ConnectParams::new().param("name", "ann");
    let mut comes = Box::pin(app.objects.connect("hall", "a", arrival));
    assert!(by_now(&mut comes).is_none());
    store.came().await;
    drop(comes);
    store.let_go();
    until("it is handled", async || app.objects.connections() == 0).await;
    let seen = look(&app).await;
    assert_eq!(seen.gone.len(), 1);
    assert_eq!((seen.here, seen.connected), (Vec::new(), Vec::new()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_may_have_missed_an_event_has_to_reconnect() {
    let (_, store, app) = held().await;
    let (ann, bob) = (come(&app, "ann").await, come(&app, "bob").await);
    store.hold();
    let mut says = Box::pin(ann.send("one"));
    assert!(by_now(&mut says).is_none());
    store.came().await;
    store.lose();
    assert_eq!(says.await.unwrap_err().code(), "outcome_unknown");
    assert_eq!(bob.next().await.unwrap_err().code, Closed::TRY_AGAIN);
    store.let_go();
    drop((ann, bob));
    let again = ConnectParams::new().param("name", "cy").after(0);
    let cy = app.objects.connect("hall", "a", again).await.unwrap();
    assert_eq!(hears(&cy).await["text"], "one", "it was committed");
}

/// If a page cannot be read when the object closes lost connections, the request fails once, and
/// nothing is overtaken or lost by it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_object_that_cannot_close_connections_reports_it_and_closes_them_later() {
    let (clock, store, app) = held().await;
    let fill = async || {
        for _ in 0..300 {
            app.call(Hall::at("a"), Say { text: "x".repeat(2_000) }).await.unwrap();
        }
    };
    fill().await;
    std::mem::forget(come(&app, "ann").await);
    // The page of her row is stored by now, and no longer among the last that were changed.
    fill().await;
    let store = GatedStore::new(store.inner.restart());
    let app = Program::of(store.clone(), &clock, add).await;
    store.images_left.store(1, Ordering::SeqCst);
    let bob = ConnectParams::new().param("name", "bob");
    let refused = app.objects.connect("hall", "a", bob).await.err().unwrap();
    assert_eq!(refused.code(), "store_unavailable");
    assert_eq!(app.objects.connections(), 0);
    store.images_left.store(usize::MAX, Ordering::SeqCst);
    let seen = look(&app).await;
    let gone: Vec<_> = seen.gone.iter().map(|it| &*it.0).collect();
    assert_eq!((gone, seen.here, seen.connected), (vec!["ann"], Vec::new(), Vec::new()));
}
