//! No reply leaves before every commit that it depends on is durable. On a store that the test
//! holds back: the others differ only in when they answer.

use std::sync::Arc;

use steadfast_core::{
    CallError, Object, ObjectOptions,
    object::ObjectsBuilder,
    store::{ManualClock, MemoryStore, StoreError},
};

use super::{Program, by_now};
use crate::{
    gated_store::GatedStore,
    lab::START,
    ledger::{Add, Ledger, Misbehave, Read, Wait},
};

struct Bench {
    store: Arc<GatedStore>,
    app: Program,
    ledger: Ledger,
}

/// A program on a store that holds commits back from now on; `a` is at 1.
async fn bench() -> Bench {
    let clock = ManualClock::at(START);
    let store = GatedStore::new(MemoryStore::new(Arc::new(clock.clone())));
    let ledger = Ledger::default();
    let class = ledger.clone();
    let app = Program::of(store.clone(), &clock, |it| it.class(class)).await;
    assert_eq!(app.call(Ledger::at("a"), Add { by: 1 }).await.unwrap(), 1);
    store.hold();
    Bench { store, app, ledger }
}

fn outage() -> StoreError {
    StoreError::Unavailable { reason: "as the test wanted".into() }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_reply_leaves_before_all_that_it_rests_on_is_durable() {
    let Bench { store, app, .. } = bench().await;
    let mut first = app.call(Ledger::at("a"), Add { by: 10 });
    let mut read = app.call(Ledger::at("a"), Read);
    let mut refused = app.call(Ledger::at("a"), Misbehave::RefuseForGood);
    let mut panicked = app.call(Ledger::at("a"), Misbehave::Panic);
    let mut second = app.call(Ledger::at("a"), Add { by: 100 });
    assert!(by_now(&mut first).is_none() && by_now(&mut read).is_none());
    assert!(by_now(&mut refused).is_none() && by_now(&mut panicked).is_none());
    assert!(by_now(&mut second).is_none());
    // Turns are sequential: when the last is in flight, all have run.
    store.came().await;
    store.came().await;
    assert!(by_now(&mut first).is_none() && by_now(&mut read).is_none());
    assert!(by_now(&mut refused).is_none() && by_now(&mut panicked).is_none());
    assert!(by_now(&mut second).is_none());
    store.release();
    assert_eq!(by_now(&mut first).unwrap().unwrap(), 11);
    assert_eq!(by_now(&mut read).unwrap().unwrap(), (11, 11));
    assert_eq!(by_now(&mut refused).unwrap().unwrap_err().code(), "ledger_closed");
    assert_eq!(by_now(&mut panicked).unwrap().unwrap_err().code(), "handler_panicked");
    assert!(by_now(&mut second).is_none());
    store.release();
    assert_eq!(by_now(&mut second).unwrap().unwrap(), 111);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repetition_with_a_key_waits_for_the_call_that_it_repeats() {
    let Bench { store, app, .. } = bench().await;
    let keyed = || app.objects.call(Ledger::at("a"), Add { by: 10 }).key("k").into_future();
    let (mut first, mut again) = (keyed(), keyed());
    let mut last = app.call(Ledger::at("a"), Add { by: 100 });
    assert!(by_now(&mut first).is_none() && by_now(&mut again).is_none());
    assert!(by_now(&mut last).is_none());
    store.came().await;
    store.came().await;
    assert!(by_now(&mut first).is_none() && by_now(&mut again).is_none());
    store.fail(outage());
    assert_eq!(by_now(&mut first).unwrap().unwrap_err().code(), "store_unavailable");
    assert_eq!(by_now(&mut again).unwrap().unwrap_err().code(), "store_unavailable");
    store.let_go();
    assert!(by_now(&mut last).unwrap().is_err());
    assert_eq!(keyed().await.unwrap(), 11);
    assert_eq!(keyed().await.unwrap(), 11);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_commit_fails_every_turn_that_saw_it_and_leaves_nothing() {
    let Bench { store, app, .. } = bench().await;
    let mut first = app.call(Ledger::at("a"), Add { by: 10 });
    let mut read = app.call(Ledger::at("a"), Read);
    let mut refused = app.call(Ledger::at("a"), Misbehave::RefuseForGood);
    let mut second = app.call(Ledger::at("a"), Add { by: 100 });
    assert!(by_now(&mut first).is_none() && by_now(&mut read).is_none());
    assert!(by_now(&mut refused).is_none() && by_now(&mut second).is_none());
    store.came().await;
    store.came().await;
    store.fail(outage());
    for error in [
        by_now(&mut first).unwrap().unwrap_err(),
        by_now(&mut read).unwrap().unwrap_err(),
        by_now(&mut refused).unwrap().unwrap_err(),
    ] {
        assert!(matches!(error, CallError::Store(StoreError::Unavailable { .. })), "{error}");
        assert!(error.is_retryable() && error.surely_unapplied());
    }
    // It waits for the remaining commits before it is loaded again.
    let mut third = app.call(Ledger::at("a"), Add { by: 1_000 });
    assert!(by_now(&mut third).is_none() && by_now(&mut second).is_none());
    store.let_go();
    let error = by_now(&mut second).unwrap().unwrap_err();
    assert!(error.is_retryable() && error.surely_unapplied(), "{error}");
    assert_eq!(third.await.unwrap(), 1_001);
    assert_eq!(app.call(Ledger::at("a"), Read).await.unwrap(), (1_001, 1_001));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_of_a_failed_commit_gets_no_reply_that_depends_on_it() {
    for refuse in [false, true] {
        let Bench { store, app, ledger } = bench().await;
        ledger.gate.close();
        let mut first = app.call(Ledger::at("a"), Add { by: 10 });
        assert!(by_now(&mut first).is_none());
        store.came().await;
        let mut reader = app.call(Ledger::at("a"), Wait { refuse });
        assert!(by_now(&mut reader).is_none());
        ledger.gate.reached().await;
        let mut waiting = app.call(Ledger::at("a"), Add { by: 100 });
        assert!(by_now(&mut waiting).is_none());
        store.fail(outage());
        assert!(by_now(&mut first).unwrap().is_err());
        store.let_go();
        ledger.gate.open();
        // Requests that had not run yet are served by the reloaded object.
        assert_eq!(waiting.await.unwrap(), 101);
        let heard = reader.await;
        let error = heard.expect_err("it saw 11, which never was durable");
        assert_eq!(error.code(), "store_unavailable", "it saw 11, which never was: {error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_with_an_unknown_outcome_is_resolved_by_the_next_call() {
    for applied in [false, true] {
        let Bench { store, app, .. } = bench().await;
        let mut first = app.call(Ledger::at("a"), Add { by: 10 });
        assert!(by_now(&mut first).is_none());
        store.came().await;
        if applied {
            store.lose();
        } else {
            store.fail(StoreError::Unknown { reason: "as the test wanted".into() });
        }
        let error = by_now(&mut first).unwrap().unwrap_err();
        assert!(!error.is_retryable() && !error.surely_unapplied());
        store.let_go();
        let wanted = if applied { 11 } else { 1 };
        assert_eq!(app.call(Ledger::at("a"), Read).await.unwrap(), (wanted, wanted));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_object_has_a_bounded_number_of_commits_on_their_way() {
    let Bench { store, app, .. } = bench().await;
    let mut calls: Vec<_> = (0..300).map(|_| app.call(Ledger::at("a"), Add { by: 1 })).collect();
    assert!(calls.iter_mut().all(|it| by_now(it).is_none()));
    // 256 turns, of which one is followed by the images of a checkpoint.
    for _ in 0..256 {
        store.came().await;
    }
    assert!(calls.iter_mut().all(|it| by_now(it).is_none()));
    store.let_go();
    let mut last = 1;
    for call in calls {
        last += 1;
        assert_eq!(call.await.unwrap(), last);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_object_with_commits_on_their_way_is_not_put_out_of_memory() {
    let clock = ManualClock::at(START);
    let store = GatedStore::new(MemoryStore::new(Arc::new(clock.clone())));
    let options = ObjectOptions { awake_max: 1, ..ObjectOptions::default() };
    let add = |it: ObjectsBuilder| it.class(Ledger::default()).options(options);
    let app = Program::of(store.clone(), &clock, add).await;
    assert_eq!(app.call(Ledger::at("a"), Add { by: 1 }).await.unwrap(), 1);
    store.hold();
    let mut first = app.call(Ledger::at("a"), Add { by: 10 });
    assert!(by_now(&mut first).is_none());
    store.came().await;
    for number in 0..20 {
        let name = Ledger::at(format!("other {number}"));
        assert_eq!(app.call(name, Read).await.unwrap(), (0, 0));
    }
    let mut read = app.call(Ledger::at("a"), Read);
    for number in 0..20 {
        assert!(by_now(&mut read).is_none(), "it saw a state that is no longer valid");
        let name = Ledger::at(format!("other {number}"));
        assert_eq!(app.call(name, Read).await.unwrap(), (0, 0));
    }
    store.let_go();
    assert_eq!((first.await.unwrap(), read.await.unwrap()), (11, (11, 11)));
}
