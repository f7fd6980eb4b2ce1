//! Turns, replies, keys.

use steadfast_core::{CallError, Object};

use super::runtime;
use crate::{
    lab::Lab,
    ledger::{Add, Ledger, Misbehave, Read},
};

laws!(
    a_turn_changes_its_object_and_replies,
    replied_state_is_there_after_a_restart,
    a_turn_that_fails_changes_nothing_and_the_next_one_works,
    reading_commits_nothing,
);
laws!(also on postgres: replied_state_is_there_after_a_restart);

async fn a_turn_changes_its_object_and_replies(lab: Lab) {
    let app = runtime(&lab, Ledger::default()).await;
    assert_eq!(app.call(Ledger::at("a"), Add { by: 2 }).await.unwrap(), 2);
    assert_eq!(app.call(Ledger::at("a"), Add { by: 3 }).await.unwrap(), 5);
    assert_eq!(app.call(Ledger::at("b"), Add { by: 1 }).await.unwrap(), 1);
    assert_eq!(app.call(Ledger::at("a"), Read).await.unwrap(), (5, 5));
    lab.assert_sound().await;
}

async fn replied_state_is_there_after_a_restart(mut lab: Lab) {
    let app = runtime(&lab, Ledger::default()).await;
    for by in 1..=600 {
        app.call(Ledger::at("a"), Add { by }).await.unwrap();
    }
    app.stop().await;
    lab.reopen().await;
    let app = runtime(&lab, Ledger::default()).await;
    assert_eq!(app.call(Ledger::at("a"), Read).await.unwrap(), (180_300, 180_300));
    lab.assert_sound().await;
}

async fn a_turn_that_fails_changes_nothing_and_the_next_one_works(lab: Lab) {
    let app = runtime(&lab, Ledger::default()).await;
    app.call(Ledger::at("a"), Add { by: 1 }).await.unwrap();
    let before = lab.store.dump().await.unwrap();
    for way in
        [Misbehave::Panic, Misbehave::Refuse, Misbehave::RefuseForGood, Misbehave::SendTooMuch]
    {
        app.call(Ledger::at("a"), way).await.unwrap_err();
    }
    let refused = app.call(Ledger::at("a"), Misbehave::RefuseForGood).await.unwrap_err();
    assert!(matches!(&refused, CallError::Refused(it) if it.code() == "ledger_closed"));
    assert!(!refused.is_retryable() && refused.surely_unapplied());
    assert_eq!(lab.store.dump().await.unwrap(), before);
    assert_eq!(app.call(Ledger::at("a"), Read).await.unwrap(), (1, 1));
    assert_eq!(app.call(Ledger::at("a"), Add { by: 1 }).await.unwrap(), 2);
}

async fn reading_commits_nothing(lab: Lab) {
    let app = runtime(&lab, Ledger::default()).await;
    app.call(Ledger::at("a"), Add { by: 1 }).await.unwrap();
    let before = lab.store.activity().commits;
    assert_eq!(app.call(Ledger::at("a"), Read).await.unwrap(), (1, 1));
    // Reading an object that does not exist does not create it.
    assert_eq!(app.call(Ledger::at("b"), Read).await.unwrap(), (0, 0));
    assert_eq!(lab.store.activity().commits, before);
    assert_eq!(app.call(Ledger::at("b"), Add { by: 1 }).await.unwrap(), 1);
}
