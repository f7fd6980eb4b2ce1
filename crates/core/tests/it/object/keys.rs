//! Idempotency keys: one effect and one reply for each.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use steadfast_core::{CallError, Object, RequestKey, store::Clock};

use super::Program;
use crate::{
    lab::Lab,
    ledger::{Add, Cas, Ledger, Misbehave, Read, Wait},
    play::until,
};

laws!(
    fifty_duplicates_have_one_effect_and_get_the_same_reply,
    a_key_belongs_to_one_request,
    a_key_is_known_after_a_restart,
    a_key_is_kept_for_a_day,
    a_key_is_kept_after_a_moment_under_a_clock_that_was_ahead,
    a_call_that_failed_leaves_its_key_free,
    keys_of_objects_do_not_meet,
    a_key_must_have_1_to_255_bytes,
    the_key_of_a_request_holds_for_all_objects,
    a_request_that_was_refused_leaves_its_key_free,
    a_request_that_hangs_delays_no_request_with_another_key,
);
laws!(also on postgres:
    fifty_duplicates_have_one_effect_and_get_the_same_reply,
    a_key_is_known_after_a_restart,
    a_key_is_kept_for_a_day,
);

async fn start(lab: &Lab, ledger: &Ledger) -> Program {
    Program::with(lab, ledger.clone(), Default::default()).await
}

async fn add(app: &Program, name: &str, key: &str, by: i64) -> Result<i64, CallError> {
    app.objects.call(Ledger::at(name), Add { by }).key(key).await
}

async fn fifty_duplicates_have_one_effect_and_get_the_same_reply(lab: Lab) {
    let ledger = Ledger::default();
    let app = Arc::new(start(&lab, &ledger).await);
    assert_eq!(add(&app, "a", "before", 5).await.unwrap(), 5);
    let callers: Vec<_> = (0..50)
        .map(|_| {
            let app = app.clone();
            tokio::spawn(async move { add(&app, "a", "k", 7).await.unwrap() })
        })
        .collect();
    for caller in callers {
        assert_eq!(caller.await.unwrap(), 12);
    }
    assert_eq!(ledger.handled.load(Ordering::SeqCst), 2);
    assert_eq!(app.call(Ledger::at("a"), Read).await.unwrap(), (12, 12));
}

async fn a_key_belongs_to_one_request(lab: Lab) {
    let app = Program::on(&lab).await;
    assert_eq!(add(&app, "a", "k", 7).await.unwrap(), 7);
    let before = lab.store.dump().await.unwrap();
    let error = add(&app, "a", "k", 8).await.unwrap_err();
    assert!(matches!(&error, CallError::KeyReused { key } if key == "k"), "{error}");
    assert!(!error.is_retryable() && error.surely_unapplied());
    let other = Cas { expected: 7, new: 9 };
    let error = app.objects.call(Ledger::at("a"), other).key("k").await.unwrap_err();
    assert_eq!(error.code(), "key_reused");
    assert_eq!(add(&app, "a", "k", 7).await.unwrap(), 7);
    assert_eq!(lab.store.dump().await.unwrap(), before);
}

async fn a_key_is_known_after_a_restart(mut lab: Lab) {
    let app = Program::on(&lab).await;
    for by in 1..=20 {
        add(&app, "a", &format!("k{by}"), by).await.unwrap();
    }
    app.stop().await;
    lab.reopen().await;
    let app = Program::on(&lab).await;
    let mut sum = 0;
    for by in 1..=20 {
        sum += by;
        assert_eq!(add(&app, "a", &format!("k{by}"), by).await.unwrap(), sum);
    }
    assert_eq!(app.call(Ledger::at("a"), Read).await.unwrap(), (210, 210));
}

async fn a_key_is_kept_for_a_day(lab: Lab) {
    let app = Program::on(&lab).await;
    for number in 0..20 {
        add(&app, "a", &format!("k{number}"), 1).await.unwrap();
    }
    lab.clock.advance(Duration::from_hours(24) - Duration::from_millis(1));
    assert_eq!(add(&app, "a", "k15", 1).await.unwrap(), 16);
    lab.clock.advance(Duration::from_millis(1));
    // Also one that is not among the oldest, and with another request.
    assert_eq!(add(&app, "a", "k15", 2).await.unwrap(), 22);
    assert_eq!(add(&app, "a", "k0", 1).await.unwrap(), 23);
    assert_eq!(add(&app, "a", "k15", 2).await.unwrap(), 22);
}

async fn a_key_is_kept_after_a_moment_under_a_clock_that_was_ahead(mut lab: Lab) {
    let app = Program::on(&lab).await;
    assert_eq!(add(&app, "a", "k", 7).await.unwrap(), 7);
    let now = lab.clock.now();
    lab.clock.set(now.after(Duration::from_hours(25)));
    assert_eq!(add(&app, "a", "k", 7).await.unwrap(), 7);
    assert_eq!(add(&app, "a", "other", 1).await.unwrap(), 8);
    lab.clock.set(now.after(Duration::from_secs(2)));
    assert_eq!(add(&app, "a", "k", 7).await.unwrap(), 7, "two seconds have passed");
    app.stop().await;
    lab.reopen().await;
    let app = Program::on(&lab).await;
    assert_eq!(add(&app, "a", "k", 7).await.unwrap(), 7, "also in the next process");
    assert_eq!(app.call(Ledger::at("a"), Read).await.unwrap(), (8, 8));
}

async fn a_call_that_failed_leaves_its_key_free(lab: Lab) {
    let app = Program::on(&lab).await;
    let refused = |way| async {
        app.objects.call(Ledger::at("a"), way).key("k").await.unwrap_err().code().to_owned()
    };
    assert_eq!(refused(Misbehave::RefuseForGood).await, "ledger_closed");
    assert_eq!(refused(Misbehave::Panic).await, "handler_panicked");
    assert_eq!(add(&app, "a", "k", 7).await.unwrap(), 7);
    assert_eq!(refused(Misbehave::Refuse).await, "key_reused");
}

async fn keys_of_objects_do_not_meet(lab: Lab) {
    let app = Program::on(&lab).await;
    assert_eq!(add(&app, "a", "k", 7).await.unwrap(), 7);
    assert_eq!(add(&app, "b", "k", 8).await.unwrap(), 8);
    assert!(app.objects.delete("ledger", "a").await.unwrap());
    assert_eq!(add(&app, "a", "k", 9).await.unwrap(), 9);
}

async fn a_key_must_have_1_to_255_bytes(lab: Lab) {
    let app = Program::on(&lab).await;
    for len in [0, 256] {
        let error = add(&app, "a", &"k".repeat(len), 1).await.unwrap_err();
        assert!(matches!(error, CallError::Key { len: it } if it == len), "{error}");
        assert_eq!((error.code(), error.surely_unapplied()), ("invalid_key", true));
    }
    assert_eq!(add(&app, "a", &"ü".repeat(127), 1).await.unwrap(), 1);
    assert_eq!(add(&app, "a", &"k".repeat(255), 1).await.unwrap(), 2);
    assert_eq!(add(&app, "a", "a\0b", 1).await.unwrap(), 3);
    assert_eq!(add(&app, "a", "a\0c", 1).await.unwrap(), 4);
    assert_eq!(add(&app, "a", "a\0b", 1).await.unwrap(), 3);
}

async fn add_once(app: &Program, name: &str, by: i64) -> Result<i64, CallError> {
    let request = format!("{name} {by}");
    let key = RequestKey::new("add", None, "k", request.as_bytes()).unwrap();
    app.objects.call_once(Ledger::at(name), Add { by }, key).await
}

async fn the_key_of_a_request_holds_for_all_objects(lab: Lab) {
    let ledger = Ledger::default();
    let app = Arc::new(start(&lab, &ledger).await);
    let callers: Vec<_> = ["a", "b"]
        .into_iter()
        .map(|name| {
            let app = app.clone();
            tokio::spawn(async move { add_once(&app, name, 7).await })
        })
        .collect();
    let mut heard = Vec::new();
    for caller in callers {
        heard.push(caller.await.unwrap());
    }
    let first = if heard[0].is_ok() { "a" } else { "b" };
    let other = if first == "a" { "b" } else { "a" };
    let refused: Vec<_> = heard.iter().filter_map(|it| it.as_ref().err()).collect();
    assert!(matches!(refused[..], [CallError::KeyReused { .. }]), "{heard:?}");
    assert_eq!(add_once(&app, first, 7).await.unwrap(), 7, "a repetition gets the reply");
    assert_eq!(app.call(Ledger::at(first), Read).await.unwrap(), (7, 7));
    assert_eq!(app.call(Ledger::at(other), Read).await.unwrap(), (0, 0), "it is read again");
    // It is not a key of the object.
    assert_eq!(add(&app, first, "k", 1).await.unwrap(), 8);
    let app = Program::on(&lab).await;
    assert_eq!(add_once(&app, first, 7).await.unwrap(), 7, "the next process finds the key");
    assert_eq!(add_once(&app, other, 7).await.unwrap_err().code(), "key_reused");
    lab.clock.advance(Duration::from_hours(24));
    assert_eq!(add_once(&app, other, 7).await.unwrap(), 7, "a key lives for a day");
}

async fn a_request_that_was_refused_leaves_its_key_free(lab: Lab) {
    let app = Program::on(&lab).await;
    let key = |request: &str| RequestKey::new("add", None, "k", request.as_bytes()).unwrap();
    let refuse = Misbehave::RefuseForGood;
    let refused = app.objects.call_once(Ledger::at("a"), refuse, key("refuse")).await;
    assert_eq!(refused.unwrap_err().code(), "ledger_closed");
    assert_eq!(app.objects.call_once(Ledger::at("b"), Add { by: 2 }, key("b")).await.unwrap(), 2);
}

async fn a_request_that_hangs_delays_no_request_with_another_key(lab: Lab) {
    let ledger = Ledger::default();
    let app = Arc::new(start(&lab, &ledger).await);
    let key = |key: &str| RequestKey::new("add", None, key, b"request").unwrap();
    let closed = ledger.gate.close_for_now();
    let (slow, of_slow) = (app.clone(), key("hangs"));
    let hangs = async move {
        slow.objects.call_once(Ledger::at("slow"), Wait { refuse: false }, of_slow).await
    };
    let hangs = tokio::spawn(hangs);
    ledger.gate.reached().await;
    let others: Vec<_> = (0..640)
        .map(|number| {
            let (app, key) = (app.clone(), key(&number.to_string()));
            tokio::spawn(
                async move { app.objects.call_once(Ledger::at("a"), Add { by: 1 }, key).await },
            )
        })
        .collect();
    let answered = async || others.iter().all(|it| it.is_finished());
    until("the others are answered", answered).await;
    drop(closed);
    hangs.await.unwrap().unwrap();
    assert_eq!(app.call(Ledger::at("a"), Read).await.unwrap(), (640, 640));
}
