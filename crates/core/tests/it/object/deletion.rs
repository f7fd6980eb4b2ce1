//! Deletion of objects.

use std::time::Duration;

use steadfast_core::{
    Object,
    object::{HistoryRetention, sweep_history},
};

use super::{Program, in_order, ledger};
use crate::{
    lab::Lab,
    ledger::{Add, AddBoth, Clockwork, Forget, Ledger, Misbehave, Read, Sql},
};

laws!(on sqlite, postgres:
    a_deleted_object_is_gone_and_the_next_call_finds_an_empty_one,
    a_turn_that_deletes_its_object_sends_its_messages,
    a_turn_that_fails_deletes_nothing,
    an_object_can_be_deleted_and_made_anew_while_commits_are_on_their_way,
    of_a_deleted_object_nothing_is_left_after_a_sweep,
);

/// Enough for images.
async fn fill(app: &Program) {
    let big = "CREATE TABLE big AS SELECT randomblob(100000) AS data".to_owned();
    let big = Sql { statements: vec![big], strict: true };
    app.call(Ledger::at("a"), big).await.unwrap();
    app.call(Ledger::at("a"), Add { by: 5 }).await.unwrap();
}

async fn a_deleted_object_is_gone_and_the_next_call_finds_an_empty_one(mut lab: Lab) {
    let app = Program::on(&lab).await;
    let id = ledger("a").id();
    assert!(!app.objects.delete("ledger", "a").await.unwrap());
    fill(&app).await;
    assert!(!lab.store.images(id, &[0..=u32::MAX]).await.unwrap().is_empty());
    assert!(app.objects.delete("ledger", "a").await.unwrap());
    assert!(lab.store.head(id).await.unwrap().is_none());
    assert!(lab.store.images(id, &[0..=u32::MAX]).await.unwrap().is_empty());
    assert!(!app.objects.delete("ledger", "a").await.unwrap());
    assert_eq!(app.call(Ledger::at("a"), Read).await.unwrap(), (0, 0));
    assert_eq!(app.call(Ledger::at("a"), Add { by: 1 }).await.unwrap(), 1);
    assert_eq!(lab.store.head(id).await.unwrap().unwrap().seq, 1);
    app.stop().await;
    lab.assert_sound().await;
    lab.reopen().await;
    let app = Program::on(&lab).await;
    assert_eq!(app.call(Ledger::at("a"), Read).await.unwrap(), (1, 1));
    fill(&app).await;
    assert_eq!(app.call(Ledger::at("a"), Read).await.unwrap(), (6, 6));
}

async fn a_turn_that_deletes_its_object_sends_its_messages(lab: Lab) {
    let app = Program::on(&lab).await;
    fill(&app).await;
    let alarm = Clockwork::Set { name: "x".into(), after: Duration::from_secs(1) };
    app.call(Ledger::at("a"), alarm).await.unwrap();
    app.call(Ledger::at("a"), Forget).await.unwrap();
    assert!(lab.store.head(ledger("a").id()).await.unwrap().is_none());
    assert!(lab.store.images(ledger("a").id(), &[0..=u32::MAX]).await.unwrap().is_empty());
    app.advance(Duration::from_mins(1)).await;
    let pending = lab.store.pending(None, 0, 10).await.unwrap();
    let actions: Vec<&str> = pending.iter().map(|it| it.action.as_str()).collect();
    assert_eq!(actions, ["enqueue"]);
    assert_eq!(lab.store.totals().await.unwrap().dead, 0);
    // Deleting an object that never existed sends its message, too.
    app.call(Ledger::at("b"), Forget).await.unwrap();
    assert_eq!(lab.store.pending(Some(ledger("b").id()), 0, 10).await.unwrap().len(), 1);
    assert!(lab.store.head(ledger("b").id()).await.unwrap().is_none());
    app.assert_sound().await;
}

async fn a_turn_that_fails_deletes_nothing(lab: Lab) {
    let app = Program::on(&lab).await;
    app.call(Ledger::at("a"), Add { by: 5 }).await.unwrap();
    app.call(Ledger::at("a"), Misbehave::Panic).await.unwrap_err();
    let error = app.call(Ledger::at("a"), AddBoth { other: String::new(), by: 1 }).await;
    error.unwrap_err();
    assert_eq!(app.call(Ledger::at("a"), Read).await.unwrap(), (5, 5));
}

async fn an_object_can_be_deleted_and_made_anew_while_commits_are_on_their_way(mut lab: Lab) {
    let app = Program::on(&lab).await;
    for _ in 0..5 {
        let mut calls: Vec<_> = (0..10).map(|_| app.call(Ledger::at("a"), Add { by: 1 })).collect();
        let forget = app.call(Ledger::at("a"), Forget);
        calls.push(Box::pin(async { forget.await.map(|()| 0) }));
        calls.extend((0..10).map(|_| app.call(Ledger::at("a"), Add { by: 2 })));
        let gone = app.objects.delete("ledger", "a");
        calls.push(Box::pin(async { gone.await.map(i64::from) }));
        let replies: Vec<i64> = in_order(calls).await.into_iter().map(Result::unwrap).collect();
        let wanted = (1..=10).chain([0]).chain((1..=10).map(|it| 2 * it)).chain([1]);
        assert_eq!(replies, wanted.collect::<Vec<_>>());
    }
    assert_eq!(app.call(Ledger::at("a"), Add { by: 7 }).await.unwrap(), 7);
    app.stop().await;
    lab.assert_sound().await;
    lab.reopen().await;
    let app = Program::on(&lab).await;
    assert_eq!(app.call(Ledger::at("a"), Read).await.unwrap(), (7, 7));
}

async fn of_a_deleted_object_nothing_is_left_after_a_sweep(lab: Lab) {
    let app = Program::on(&lab).await;
    fill(&app).await;
    assert!(app.objects.delete("ledger", "a").await.unwrap());
    app.call(Ledger::at("a"), Add { by: 1 }).await.unwrap();
    assert!(app.objects.delete("ledger", "a").await.unwrap());
    lab.clock.advance(Duration::from_hours(24 * 8));
    sweep_history(&*lab.store, HistoryRetention::DEFAULT).await.unwrap();
    assert!(lab.store.old_turns(0, 10).await.unwrap().is_empty());
    assert!(lab.store.images(ledger("a").id(), &[0..=u32::MAX]).await.unwrap().is_empty());
    lab.assert_sound().await;
}
