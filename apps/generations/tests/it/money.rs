//! Cancelled and deleted tasks are not paid for, and all others are paid for once.

use steadfast_core::{Object, Perform, bucket::Quota, test::TestApp};
use steadfast_generations::providers::{ErrorKind, OutputKind};
use steadfast_generations::{
    Cancel, Create, DEFAULT_WORKSPACE, Delete, GenerationManager, GenerationStatus, GetState,
    Retry, RetryUnpaid, Submit, Taken, TaskState, artifact_id, task_id,
};

use crate::stage::{
    Fake, ID, State, advance, blobs, create, kept, live, request, start, start_with_providers,
    webhook, webhook_with,
};

/// Two pictures that could not be handed over yet: their jobs wait for the next attempt.
async fn waiting(fake: &Fake) -> TestApp {
    let app = start(fake).await;
    fake.books().is_down = true;
    create(&app, "now", 2).await;
    app.settle().await;
    assert_eq!(fake.books().submitted, 2);
    app
}

/// The provider is there again, for long enough that every job has its next attempt.
async fn back(app: &TestApp, fake: &Fake) {
    fake.books().is_down = false;
    advance(app, 3_600).await;
}

#[tokio::test]
async fn the_cost_of_an_output_counts_once_for_its_organization() {
    let fake = Fake::new();
    let app = start(&fake).await;
    let create = Create { workspace: "acme".into(), ..request("slow", 2) };
    app.call(GenerationManager::at(ID), create).await.unwrap();
    app.settle().await;
    for _ in 0..3 {
        webhook(&app, 0).await.unwrap();
        app.settle().await;
    }
    let buckets = app.buckets().unwrap();
    assert_eq!(buckets.spent("acme").await.unwrap(), 250_000);
    // The provider has made it although nobody wants it any more.
    app.call(GenerationManager::at(ID), Cancel).await.unwrap();
    webhook(&app, 1).await.unwrap();
    app.settle().await;
    assert_eq!(buckets.spent("acme").await.unwrap(), 500_000);
    // The default workspace is no organization.
    let other = "0190b0a0-0000-7000-8000-000000000002";
    app.call(GenerationManager::at(other), request("now", 1)).await.unwrap();
    app.settle().await;
    assert_eq!(buckets.spent(DEFAULT_WORKSPACE).await.unwrap(), 0);
}

#[tokio::test]
async fn an_artifact_that_no_quota_has_room_for_fails_at_once_and_can_be_fetched_later() {
    let fake = Fake::new();
    let app = start(&fake).await;
    let buckets = app.buckets().unwrap();
    let quota = Quota { bytes: Some(10), ..Quota::default() };
    buckets.set_quota("acme", quota).await.unwrap();
    let create = Create { workspace: "acme".into(), ..request("now", 1) };
    app.call(GenerationManager::at(ID), create).await.unwrap();
    app.settle().await;
    let failed = app.call(GenerationManager::at(ID), GetState).await.unwrap().unwrap();
    assert_eq!(failed.status, GenerationStatus::Failed);
    assert_eq!(failed.tasks[0].error.as_ref().unwrap().code, "quota_too_large");
    assert_eq!(fake.books().submitted, 1);
    assert_eq!(blobs(&app).await, Vec::<String>::new());
    // A retry fetches what was made and paid for.
    buckets.set_quota("acme", Quota::default()).await.unwrap();
    app.call(GenerationManager::at(ID), Retry).await.unwrap();
    app.settle().await;
    let key = format!("acme/artifacts/{}", artifact_id(ID, 0));
    assert_eq!(blobs(&app).await, [key]);
    assert_eq!(fake.books().submitted, 1);
    let quota = buckets.quota("acme").await.unwrap().unwrap();
    assert_eq!((quota.objects.used, quota.spend_micros.used), (1, 250_000));
    app.call(GenerationManager::at(ID), Delete).await.unwrap();
    app.settle().await;
    assert_eq!(buckets.quota("acme").await.unwrap().unwrap().bytes.used, 0);
}

#[tokio::test]
async fn a_retry_that_must_not_pay_is_refused_also_if_some_tasks_are_ready() {
    let fake = Fake::new();
    let app = start(&fake).await;
    create(&app, "slow", 2).await;
    app.settle().await;
    webhook(&app, 0).await.unwrap();
    webhook_with(&app, 1, 0, "no").await.unwrap();
    app.settle().await;
    let before = kept(&app).await.unwrap();
    assert_eq!((before.status, before.counts.failed), (GenerationStatus::Ready, 1));
    let refused = app.call(GenerationManager::at(ID), RetryUnpaid).await.unwrap_err();
    assert_eq!(refused.code(), "quota_spend");
    advance(&app, 60).await;
    assert_eq!(kept(&app).await.unwrap(), before);
    assert_eq!(fake.books().submitted, 2);
    app.call(GenerationManager::at(ID), Retry).await.unwrap();
    app.settle().await;
    assert_eq!(fake.books().submitted, 3);
}

#[tokio::test]
async fn a_retry_that_must_not_pay_fetches_what_is_paid_for_and_nothing_else() {
    let fake = Fake::new();
    let app = start(&fake).await;
    create(&app, "slow", 2).await;
    app.settle().await;
    fake.books().withheld = Some(ErrorKind::OutputTooLarge);
    webhook(&app, 0).await.unwrap();
    webhook_with(&app, 1, 0, "no").await.unwrap();
    app.settle().await;
    assert_eq!(kept(&app).await.unwrap().counts.failed, 2);
    fake.books().withheld = None;
    app.call(GenerationManager::at(ID), RetryUnpaid).await.unwrap();
    app.settle().await;
    let tasks = live(&app).await.unwrap().tasks;
    let states: Vec<_> = tasks.iter().map(|it| it.status).collect();
    assert_eq!(states, [TaskState::Ready, TaskState::Failed]);
    assert_eq!(fake.books().submitted, 2);
    let refused = app.call(GenerationManager::at(ID), RetryUnpaid).await.unwrap_err();
    assert_eq!(refused.code(), "quota_spend");
}

/// Three tasks of an organization at a provider that sends no webhooks.
async fn without_webhooks(fake: &Fake) -> TestApp {
    let app = start(fake).await;
    let create = Create { workspace: "acme".into(), webhooks: None, ..request("slow", 3) };
    app.call(GenerationManager::at(ID), create).await.unwrap();
    app.settle().await;
    app
}

/// One of the three fails and two are made, hours after nobody wants them any more.
async fn made_in_vain(app: &TestApp, fake: &Fake) {
    fake.books().known.insert(task_id(ID, 2, 0), State::Failed);
    advance(app, 3 * 3_600).await;
    let buckets = app.buckets().unwrap();
    assert_eq!(buckets.spent("acme").await.unwrap(), 0);
    fake.finish();
    advance(app, 2 * 3_600).await;
    assert_eq!(buckets.spent("acme").await.unwrap(), 500_000);
    let polled = fake.books().polled;
    advance(app, 25 * 3_600).await;
    assert_eq!(fake.books().polled, polled, "nobody asks for a cost that is known");
    assert_eq!(buckets.spent("acme").await.unwrap(), 500_000);
    assert_eq!(blobs(app).await, Vec::<String>::new());
    assert_eq!(live(app).await, None);
}

#[tokio::test]
async fn the_cost_of_cancelled_tasks_counts_without_webhooks() {
    let fake = Fake::new();
    let app = without_webhooks(&fake).await;
    let cancelled = app.call(GenerationManager::at(ID), Cancel).await.unwrap();
    assert_eq!(cancelled.status, GenerationStatus::Cancelled);
    made_in_vain(&app, &fake).await;
}

#[tokio::test]
async fn the_cost_of_deleted_tasks_counts_without_webhooks() {
    let fake = Fake::new();
    let app = without_webhooks(&fake).await;
    app.call(GenerationManager::at(ID), Delete).await.unwrap();
    made_in_vain(&app, &fake).await;
}

#[tokio::test]
async fn a_submission_that_waits_is_withdrawn_when_it_is_cancelled() {
    let fake = Fake::new();
    let app = waiting(&fake).await;
    app.call(GenerationManager::at(ID), Cancel).await.unwrap();
    back(&app, &fake).await;
    assert_eq!(fake.books().submitted, 2);
    assert_eq!(fake.books().paid.len(), 0);
    assert_eq!(kept(&app).await.unwrap().status, GenerationStatus::Cancelled);
}

#[tokio::test]
async fn a_submission_that_waits_is_withdrawn_when_it_is_deleted() {
    let fake = Fake::new();
    let app = waiting(&fake).await;
    app.call(GenerationManager::at(ID), Delete).await.unwrap();
    back(&app, &fake).await;
    assert_eq!(fake.books().submitted, 2);
    assert_eq!(fake.books().paid.len(), 0);
}

#[tokio::test]
async fn a_submission_that_waits_is_withdrawn_when_its_time_is_over() {
    let fake = Fake::new();
    let app = waiting(&fake).await;
    advance(&app, 301).await;
    assert_eq!(kept(&app).await.unwrap().status, GenerationStatus::Failed);
    back(&app, &fake).await;
    assert_eq!(fake.books().paid.len(), 0);
    assert_eq!(kept(&app).await.unwrap().status, GenerationStatus::Failed);
}

#[tokio::test]
async fn a_picture_that_is_retried_while_the_provider_is_down_is_paid_for_once() {
    let fake = Fake::new();
    let app = waiting(&fake).await;
    for _ in 0..2 {
        advance(&app, 301).await;
        app.call(GenerationManager::at(ID), Retry).await.unwrap();
    }
    back(&app, &fake).await;
    let paid: Vec<String> = fake.books().paid.keys().cloned().collect();
    let mut last = [task_id(ID, 0, 2), task_id(ID, 1, 2)];
    last.sort();
    assert_eq!(paid, last);
    fake.assert_fair();
    assert_eq!(kept(&app).await.unwrap().counts.ready, 2);
}

#[tokio::test]
async fn a_job_whose_outcome_was_lost_in_the_same_process_asks_before_it_submits_again() {
    let fake = Fake::new();
    let (app, providers) = start_with_providers(&fake).await;
    fake.books().is_down = true;
    create(&app, "now", 1).await;
    app.settle().await;
    fake.books().is_down = false;
    let asked = request("now", 1).request;
    let job = Submit {
        provider: asked.provider,
        model: asked.model,
        kind: OutputKind::Image,
        input: asked.input,
        generation: ID.into(),
        index: 0,
        task: task_id(ID, 0, 0),
        earlier: Vec::new(),
        webhook: None,
    };
    // The store does not take the outcome of the first one, so it is performed again.
    for _ in 0..3 {
        let taken = providers.perform(job.clone(), "key").await.unwrap();
        assert!(matches!(taken, Taken::Made(_)), "{taken:?}");
    }
    fake.assert_fair();
    back(&app, &fake).await;
    fake.assert_fair();
    assert_eq!(kept(&app).await.unwrap().counts.ready, 1);
}
