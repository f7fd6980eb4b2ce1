//! What happens when nobody asks: an explanation that comes later, and a comparison that never
//! ends.

use std::{sync::atomic::Ordering, time::Duration};

use steadfast::{Object, Runtime};
use steadfast_drift::{EnvPair, Pairs, Status};

use crate::stage::{Environment, Moody, begin, create, ended, find, program};

#[tokio::test]
async fn hole_10_a_diff_without_explanation_is_complete_and_is_explained_later() {
    let (left, right) = (Environment::start("one"), Environment::start("two"));
    let moody = Moody::default();
    moody.is_down.store(true, Ordering::SeqCst);
    let app = program(&moody).test().await.unwrap();
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
    let result = find(&app, &pair, &id).await.unwrap().result.unwrap();
    assert!(result.explanation.is_some() && result.explanation_error.is_none());
}

#[tokio::test]
async fn hole_4_a_comparison_whose_run_never_comes_fails_after_five_minutes() {
    // Nobody in this program runs the workflow.
    let program = Runtime::builder().live_object(EnvPair::default()).object(Pairs);
    let app = program.test().await.unwrap();
    let (left, right) = ("http://127.0.0.1:1/", "http://127.0.0.1:2/");
    let id = begin(&app, left, right, 1..2).await.remove(0);
    let (pair, _) = create(left, right, 1);
    app.advance(Duration::from_secs(299)).await;
    assert_eq!(find(&app, &pair, &id).await.unwrap().status, Status::Running);
    app.advance(Duration::from_secs(1)).await;
    let shown = find(&app, &pair, &id).await.unwrap();
    assert_eq!((shown.status, shown.error.unwrap().code.as_str()), (Status::Failed, "timeout"));
}
