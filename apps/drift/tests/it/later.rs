//! Events without a request: an explanation that comes later, and a comparison that never ends.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use steadfast_core::{
    App, Ctx, Object, Result, Workflow,
    store::{ManualClock, MemoryStore, RunStatus, Timestamp},
    test::TestApp,
};
use steadfast_drift::{
    CompareEnvironments, CompareInput, CompareResult, EnvPair, FailComparison, ListPairs, Pairs,
    Status,
};

use tokio::sync::Notify;

use crate::stage::{Environment, Moody, all, begin, create, ended, failed, find, program};

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
    let program = App::new("test").object(EnvPair::default()).object(Pairs).workflow(Silent);
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

/// Stands in for the workflow, and never says anything.
struct Silent;

impl Workflow for Silent {
    const NAME: &'static str = CompareEnvironments::NAME;
    type Input = CompareInput;
    type Output = ();

    async fn run(&self, ctx: &Ctx, _: CompareInput) -> Result<()> {
        ctx.event("never").await
    }
}

/// Compares two environments, and says what it came to.
async fn compared(app: &TestApp, left: &Environment, right: &Environment) -> CompareResult {
    let (pair, create) = create(&left.url, &right.url, 1);
    let id = create.comparison_id.clone();
    app.call(EnvPair::at(&pair), create).await.unwrap();
    let shown = ended(app, &pair, &id).await;
    assert_eq!(shown.status, Status::Completed);
    shown.result.unwrap()
}

#[tokio::test]
async fn hole_10_an_explainer_that_takes_too_long_does_not_fail_a_diff() {
    let (left, right) = (Environment::start("one"), Environment::start("two"));
    let app = program(&Moody::default()).test().await.unwrap();
    let _ = app.script::<CompareEnvironments>("explain").times_out().times_out().times_out();
    let result = compared(&app, &left, &right).await;
    assert!(result.diff.is_some() && result.explanation.is_none());
    let error = result.explanation_error.unwrap().message;
    assert!(error.ends_with("it is tried again within an hour"), "{error}");
}

#[tokio::test]
async fn an_explainer_that_fails_twice_is_asked_a_third_time_before_the_result() {
    let (left, right) = (Environment::start("one"), Environment::start("two"));
    let moody = Moody::default();
    moody.fails.store(2, Ordering::SeqCst);
    let app = program(&moody).test().await.unwrap();
    let result = compared(&app, &left, &right).await;
    assert!(result.explanation.is_some() && result.explanation_error.is_none());
    assert_eq!(moody.told.lock().unwrap().len(), 3);
}

#[tokio::test]
async fn an_explanation_has_a_minute_of_its_own() {
    let (left, right) = (Environment::start("one"), Environment::start("two"));
    let release = Arc::new(Notify::new());
    let moody = Moody { slow: Some(release.clone()), ..Moody::default() };
    let clock = ManualClock::at(Timestamp(1_700_000_000_000));
    let store = Arc::new(MemoryStore::new(Arc::new(clock.clone())));
    let app = program(&moody).test_on(store, clock.clone()).await.unwrap();
    let (pair, create) = create(&left.url, &right.url, 1);
    let id = create.comparison_id.clone();
    app.call(EnvPair::at(&pair), create).await.unwrap();
    let mut pause = tokio::time::interval(Duration::from_millis(1));
    while moody.told.lock().unwrap().is_empty() {
        pause.tick().await;
    }
    clock.advance(Duration::from_secs(50));
    release.notify_one();
    let result = ended(&app, &pair, &id).await.result.unwrap();
    assert!(result.explanation.is_some(), "{:?}", result.explanation_error);
    assert_eq!(moody.told.lock().unwrap().len(), 1, "asked once");
}

#[tokio::test]
async fn an_explainer_that_refuses_is_not_asked_again_and_the_result_says_so() {
    let (left, right) = (Environment::start("one"), Environment::start("two"));
    let moody = Moody::default();
    moody.refuses.store(true, Ordering::SeqCst);
    let app = program(&moody).test().await.unwrap();
    let result = compared(&app, &left, &right).await;
    let error = result.explanation_error.unwrap().message;
    assert!(error.ends_with("it is not tried again"), "{error}");
    app.settle().await;
    let waiting = app.store().count_runs("compare-environments", Some(RunStatus::Waiting), 9);
    assert_eq!(waiting.await.unwrap(), 0);
}

#[tokio::test]
async fn an_explainer_that_stays_down_is_given_up_and_the_result_says_so() {
    let (left, right) = (Environment::start("one"), Environment::start("two"));
    let moody = Moody::default();
    moody.is_down.store(true, Ordering::SeqCst);
    let app = program(&moody).test().await.unwrap();
    let result = compared(&app, &left, &right).await;
    app.advance(Duration::from_hours(2)).await;
    let (pair, create) = create(&left.url, &right.url, 1);
    let later = find(&app, &pair, &create.comparison_id).await.unwrap().result.unwrap();
    let told = |it: CompareResult| it.explanation_error.unwrap().message;
    assert!(told(result).ends_with("it is tried again within an hour"));
    assert!(told(later).ends_with("it is not tried again"));
}

#[tokio::test]
async fn a_secret_in_a_url_is_for_the_one_who_is_asked() {
    let (left_side, right_side) = (Environment::start("one"), Environment::start("two"));
    let (left, right) = (&left_side, &right_side);
    let moody = Moody::default();
    let app = program(&moody).test().await.unwrap();
    let secret = "SuperSecret123";
    let (left, right) =
        (format!("{}?token={secret}", left.url), format!("{}?token={secret}", right.url));
    let (pair, mut create) = create(&left, &right, 1);
    create.comparison.left_label = None;
    let heads = [left_side.clone(), right_side.clone()];
    (create.comparison, create.sealed) = moody.vault.seal(&create.comparison).unwrap();
    let id = create.comparison_id.clone();
    app.call(EnvPair::at(&pair), create).await.unwrap();
    let shown = ended(&app, &pair, &id).await;
    app.settle().await;
    let pairs = app.call(Pairs::at(Pairs::ALL), ListPairs { limit: 9, after: None }).await.unwrap();
    let told = moody.told.lock().unwrap().clone();
    let all = format!("{shown:?} {pairs:?} {:?} {told:?}", all(&app, &pair).await);
    assert!(told.len() == 1 && all.contains("[redacted]"), "{all}");
    assert!(!all.contains(secret), "{all}");
    // The environments get the secret; nothing that an operator can see contains it.
    for side in heads {
        let heads = side.heads.lock().unwrap().concat();
        assert!(heads.contains(&format!("?token={secret} ")), "{heads}");
    }
    let run = format!("{id}-{}", shown.sequence);
    let run = app.runs().look("compare-environments", &run).await.unwrap();
    assert!(!format!("{run:?}").contains(secret), "{run:?}");
}

#[tokio::test]
async fn the_oldest_end_is_forgotten_first_and_a_forgotten_id_can_come_again() {
    let (left, right) = (Environment::silent(), Environment::start("two"));
    let one = EnvPair { keep: 1, ..EnvPair::default() };
    let app = App::new("test").object(one).object(Pairs).workflow(Silent);
    let app = app.test().await.unwrap();
    let ids = begin(&app, &left.url, &right.url, 1..3).await;
    let (pair, first) = create(&left.url, &right.url, 1);
    let end = async |id: &str| {
        let failed: FailComparison = failed(id, "test");
        assert!(app.call(EnvPair::at(&pair), failed).await.unwrap());
    };
    // The one that began first ends last.
    end(&ids[1]).await;
    end(&ids[0]).await;
    assert!(find(&app, &pair, &ids[0]).await.is_some());
    assert_eq!(find(&app, &pair, &ids[1]).await, None);
    begin(&app, &left.url, &right.url, 2..3).await;
    end(&ids[1]).await;
    assert_eq!(find(&app, &pair, &ids[0]).await, None);
    let again = app.call(EnvPair::at(&pair), first).await.unwrap();
    assert_eq!((again.status, again.sequence), (Status::Running, 4));
}
