//! Turns of one object are sequential.

use std::{collections::BTreeSet, sync::Arc};

use steadfast_core::{Object, ObjectOptions};

use super::Program;
use crate::{
    lab::Lab,
    ledger::{Add, Cas, Ledger, Read},
};

laws!(on sqlite, postgres:
    concurrent_callers_lose_no_update_and_never_see_the_same_value,
    of_callers_that_compare_and_swap_exactly_one_wins_each_time,
    objects_used_in_any_order_are_right_although_few_fit_into_memory,
);

async fn concurrent_callers_lose_no_update_and_never_see_the_same_value(lab: Lab) {
    let app = Arc::new(Program::on(&lab).await);
    let callers: Vec<_> = (0..50)
        .map(|_| {
            let app = app.clone();
            tokio::spawn(async move {
                let mut seen = Vec::new();
                for _ in 0..20 {
                    seen.push(app.call(Ledger::at("a"), Add { by: 1 }).await.unwrap());
                }
                assert!(seen.is_sorted(), "{seen:?}");
                seen
            })
        })
        .collect();
    let mut all = BTreeSet::new();
    for caller in callers {
        all.extend(caller.await.unwrap());
    }
    assert_eq!(all, (1..=1_000).collect());
    assert_eq!(app.call(Ledger::at("a"), Read).await.unwrap(), (1_000, 1_000));
    lab.assert_sound().await;
}

async fn of_callers_that_compare_and_swap_exactly_one_wins_each_time(lab: Lab) {
    let app = Arc::new(Program::on(&lab).await);
    for expected in 0..10 {
        let callers: Vec<_> = (0..20)
            .map(|_| {
                let app = app.clone();
                let swap = Cas { expected, new: expected + 1 };
                tokio::spawn(async move { app.call(Ledger::at("a"), swap).await.unwrap() })
            })
            .collect();
        let mut winners = 0;
        for caller in callers {
            winners += i32::from(caller.await.unwrap());
        }
        assert_eq!(winners, 1);
    }
}

async fn objects_used_in_any_order_are_right_although_few_fit_into_memory(lab: Lab) {
    let options = ObjectOptions { awake_max: 10, ..ObjectOptions::default() };
    let app = Arc::new(Program::with(&lab, Ledger::default(), options).await);
    let (objects, rounds) = (100, 6);
    let callers: Vec<_> = (0..4)
        .map(|caller| {
            let app = app.clone();
            tokio::spawn(async move {
                for step in 0..objects * rounds / 4 {
                    // Each object is used equally often, neighbours far apart.
                    let number = (step * 4 + caller) * 37 % objects;
                    let name = Ledger::at(format!("object {number}"));
                    app.call(name, Add { by: number }).await.unwrap();
                }
            })
        })
        .collect();
    for caller in callers {
        caller.await.unwrap();
    }
    for number in 0..objects {
        let name = Ledger::at(format!("object {number}"));
        let wanted = number * rounds;
        assert_eq!(app.call(name, Read).await.unwrap(), (wanted, wanted));
    }
    assert!(app.objects.awake() <= 20, "{} are awake", app.objects.awake());
    lab.assert_sound().await;
}
