//! Every hole of the note, closed.

use std::{sync::atomic::Ordering, time::Duration};

use steadfast::Object;
use steadfast_drift::{
    CompareError, EnvPair, FailComparison, ListPairs, Overdue, Pairs, SaveProbe, Status,
    envelope::{Side, SignalEnvelope},
};

use crate::stage::{Environment, Moody, all, create, ended, find, program, start};

fn failed(id: &str, code: &str) -> FailComparison {
    let error = CompareError { code: code.into(), message: "as the test wants".into() };
    FailComparison { comparison_id: id.into(), error }
}

#[tokio::test]
async fn two_environments_are_compared_and_explained() {
    let (left, right) = (Environment::start("one"), Environment::start("two"));
    let app = start(&Moody::default()).await;
    let (pair, first) = create(&left.url, &right.url, 1);
    app.call(EnvPair::at(&pair), first.clone()).await.unwrap();
    let shown = ended(&app, &pair, &first.comparison_id).await;
    assert_eq!(shown.status, Status::Completed, "{shown:?}");
    let result = shown.result.unwrap();
    let diff = result.diff.unwrap();
    assert!(!diff.findings.is_empty());
    assert!(result.left.is_some() && result.right.is_some());
    assert!(!result.explanation.unwrap().summary.is_empty());
    let pairs = app.call(Pairs::at(Pairs::ALL), ListPairs { limit: 9 }).await.unwrap();
    assert_eq!((pairs.len(), &pairs[0].pair_key), (1, &pair));
    // The second time it is known.
    let (_, second) = create(&left.url, &right.url, 2);
    app.call(EnvPair::at(&pair), second.clone()).await.unwrap();
    let trend = ended(&app, &pair, &second.comparison_id).await.result.unwrap().trend.unwrap();
    assert_eq!((trend.compared_with, trend.new.len()), (1, 0));
    assert!(!trend.recurring.is_empty());
    // The other way round it has no history.
    let (same, back) = create(&right.url, &left.url, 3);
    assert_eq!(same, pair);
    app.call(EnvPair::at(&pair), back.clone()).await.unwrap();
    let trend = ended(&app, &pair, &back.comparison_id).await.result.unwrap().trend.unwrap();
    assert_eq!(trend.compared_with, 0, "history compares the same direction only");
}

#[tokio::test]
async fn hole_1_and_2_sixty_comparisons_in_one_millisecond_keep_fifty_and_none_that_runs() {
    let (left, right) = (Environment::start("one"), Environment::start("two"));
    let moody = Moody::default();
    let app = start(&moody).await;
    let (pair, _) = create(&left.url, &right.url, 0);
    let mut ids = Vec::new();
    for number in 1..=62 {
        let (_, create) = create(&left.url, &right.url, number);
        ids.push(create.comparison_id.clone());
        app.call(EnvPair::at(&pair), create).await.unwrap();
    }
    // Ended by hand, all at one time of the clock, but for two.
    for id in &ids[..60] {
        app.call(EnvPair::at(&pair), failed(id, "test")).await.unwrap();
    }
    let kept = all(&app, &pair).await;
    let ended = kept.iter().filter(|it| it.status != Status::Running).count();
    assert!(ended == 50 || ended == 52 && kept.len() == 52, "{ended} of {}", kept.len());
    assert!(ids[60..].iter().all(|id| kept.iter().any(|it| it.comparison_id == *id)));
    assert_eq!(find(&app, &pair, &ids[0]).await, None, "the oldest has gone");
}

#[tokio::test]
async fn hole_3_and_4_an_unknown_id_is_none_and_the_same_id_is_one_comparison() {
    let (left, right) = (Environment::start("one"), Environment::start("two"));
    let app = start(&Moody::default()).await;
    let (pair, create) = create(&left.url, &right.url, 1);
    assert_eq!(find(&app, &pair, &create.comparison_id).await, None);
    for _ in 0..3 {
        app.call(EnvPair::at(&pair), create.clone()).await.unwrap();
    }
    ended(&app, &pair, &create.comparison_id).await;
    assert_eq!(all(&app, &pair).await.len(), 1);
    assert_eq!(left.asked.load(Ordering::SeqCst), 1, "probed once");
}

#[tokio::test]
async fn hole_5_an_end_is_final() {
    let (left, right) = (Environment::start("one"), Environment::start("two"));
    let app = start(&Moody::default()).await;
    let (pair, create) = create(&left.url, &right.url, 1);
    let id = create.comparison_id.clone();
    app.call(EnvPair::at(&pair), create.clone()).await.unwrap();
    let shown = ended(&app, &pair, &id).await;
    assert!(!app.call(EnvPair::at(&pair), failed(&id, "late")).await.unwrap());
    app.call(EnvPair::at(&pair), create).await.unwrap();
    let envelope: SignalEnvelope = shown.result.clone().unwrap().left.unwrap();
    let late = SaveProbe { comparison_id: id.clone(), side: Side::Right, envelope };
    assert!(!app.call(EnvPair::at(&pair), late).await.unwrap());
    assert_eq!(find(&app, &pair, &id).await, Some(shown));
}

#[tokio::test]
async fn a_comparison_that_takes_too_long_fails_and_stays_failed_when_its_run_comes_to_an_end() {
    // An address that takes connections and never answers.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", silent.local_addr().unwrap());
    let other = Environment::start("two");
    let app = start(&Moody::default()).await;
    let (pair, create) = create(&url, &other.url, 1);
    app.call(EnvPair::at(&pair), create.clone()).await.unwrap();
    // What the alarm says; the run still waits for the silent side.
    let overdue = Overdue { comparison_id: create.comparison_id.clone() };
    app.call(EnvPair::at(&pair), overdue).await.unwrap();
    app.settle().await;
    let shown = find(&app, &pair, &create.comparison_id).await.unwrap();
    assert_eq!((shown.status, shown.error.unwrap().code.as_str()), (Status::Failed, "timeout"));
}

#[tokio::test]
async fn hole_10_a_diff_without_explanation_is_complete_and_is_explained_later() {
    let (left, right) = (Environment::start("one"), Environment::start("two"));
    let moody = Moody::default();
    moody.is_down.store(true, Ordering::SeqCst);
    let app = program(&moody, 50).test().await.unwrap();
    let (pair, create) = create(&left.url, &right.url, 1);
    let id = create.comparison_id.clone();
    app.call(EnvPair::at(&pair), create).await.unwrap();
    let shown = ended(&app, &pair, &id).await;
    assert_eq!(shown.status, Status::Completed);
    let result = shown.result.unwrap();
    assert!(result.diff.is_some() && result.explanation.is_none());
    assert_eq!(result.explanation_error.unwrap().code, "explainer_unavailable");
    moody.is_down.store(false, Ordering::SeqCst);
    app.advance(Duration::from_mins(1)).await;
    app.settle().await;
    let result = find(&app, &pair, &id).await.unwrap().result.unwrap();
    assert!(result.explanation.is_some() && result.explanation_error.is_none());
}
