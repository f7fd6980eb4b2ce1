//! A success that comes late for a task that was retried meanwhile.

use steadfast_core::{Object, test::TestApp};
use steadfast_generations::{
    GenerationManager, GenerationStatus, Retry, TaskState, artifact_id, task_id,
};

use crate::stage::{
    Fake, GONE, ID, State, advance, blobs, create, kept, live, start, webhook_of, webhook_with,
};

/// One task that timed out and is retried: the second round is in progress.
async fn retried(fake: &Fake) -> TestApp {
    let app = start(fake).await;
    create(&app, "slow", 1).await;
    app.settle().await;
    fake.books().is_down = true;
    advance(&app, 301).await;
    assert_eq!(kept(&app).await.unwrap().status, GenerationStatus::Failed);
    fake.books().is_down = false;
    app.call(GenerationManager::at(ID), Retry).await.unwrap();
    app.settle().await;
    assert_eq!(live(&app).await.unwrap().tasks[0].status, TaskState::Submitted);
    app
}

#[tokio::test]
async fn it_fills_the_place_and_the_round_that_it_overtakes_leaves_nothing() {
    let fake = Fake::new();
    let app = retried(&fake).await;
    webhook_of(&app, 0, 0).await.unwrap();
    app.settle().await;
    let first = kept(&app).await.unwrap();
    assert_eq!((first.status, first.counts.ready), (GenerationStatus::Ready, 1));
    assert_eq!(first.artifacts[0].response["taskUUID"], task_id(ID, 0, 0));
    // The other round is done as well, and fails as well: both come too late.
    webhook_of(&app, 0, 1).await.unwrap();
    fake.finish();
    advance(&app, 600).await;
    assert_eq!(kept(&app).await.unwrap(), first);
    assert_eq!(blobs(&app).await, [format!("artifacts/{}", artifact_id(ID, 0))]);
    fake.assert_fair();
}

#[tokio::test]
async fn it_comes_too_late_when_the_second_round_was_done_before() {
    let fake = Fake::new();
    let app = retried(&fake).await;
    webhook_of(&app, 0, 1).await.unwrap();
    app.settle().await;
    let first = kept(&app).await.unwrap();
    assert_eq!(first.artifacts[0].response["taskUUID"], task_id(ID, 0, 1));
    webhook_of(&app, 0, 0).await.unwrap();
    app.settle().await;
    assert_eq!(kept(&app).await.unwrap(), first);
}

#[tokio::test]
async fn if_it_cannot_be_had_the_second_round_is_waited_for() {
    let fake = Fake::new();
    let app = retried(&fake).await;
    webhook_with(&app, 0, 0, GONE).await.unwrap();
    // The second round is done while the first one is fetched in vain.
    webhook_of(&app, 0, 1).await.unwrap();
    fake.finish();
    advance(&app, 60).await;
    let kept = kept(&app).await.unwrap();
    assert_eq!((kept.status, kept.counts.ready), (GenerationStatus::Ready, 1));
    assert_eq!(kept.artifacts[0].response["taskUUID"], task_id(ID, 0, 1));
}

#[tokio::test]
async fn it_counts_also_when_the_second_round_has_failed() {
    let fake = Fake::new();
    let app = retried(&fake).await;
    fake.books().known.insert(task_id(ID, 0, 1), State::Failed);
    advance(&app, 120).await;
    assert_eq!(kept(&app).await.unwrap().status, GenerationStatus::Failed);
    webhook_with(&app, 0, 0, GONE).await.unwrap();
    app.settle().await;
    let gone = kept(&app).await.unwrap();
    assert_eq!((gone.status, gone.counts.failed), (GenerationStatus::Failed, 1));
    webhook_of(&app, 0, 0).await.unwrap();
    app.settle().await;
    let kept = kept(&app).await.unwrap();
    assert_eq!(
        (kept.status, kept.counts.ready, kept.counts.failed),
        (GenerationStatus::Ready, 1, 0)
    );
}

#[tokio::test]
async fn what_else_is_said_of_the_first_round_changes_nothing() {
    let fake = Fake::new();
    let app = retried(&fake).await;
    let before = live(&app).await.unwrap();
    webhook_with(&app, 0, 0, "error").await.unwrap();
    app.settle().await;
    assert_eq!(live(&app).await.unwrap(), before);
    // A round that there never was is nobody's.
    webhook_of(&app, 0, 2).await.unwrap();
    webhook_of(&app, 1, 0).await.unwrap();
    app.settle().await;
    assert_eq!(live(&app).await.unwrap(), before);
}
