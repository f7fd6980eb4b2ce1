//! Bytes that cannot be had, and bytes that are here already.

use steadfast_core::{Job, Object, Perform};
use steadfast_generations::providers::{ErrorKind, FetchOptions};
use steadfast_generations::{
    ARTIFACTS, Cancel, DEFAULT_WORKSPACE, Delete, Fetch, GenerationManager, Retry, TaskState,
    artifact_id, blob_key, task_id,
};

use crate::stage::{
    Fake, ID, advance, blobs, create, kept, live, start, start_with_providers, webhook,
};

/// Where the bytes of an artifact are.
fn key(index: u32) -> String {
    blob_key(DEFAULT_WORKSPACE, &artifact_id(ID, index))
}

#[tokio::test]
async fn a_retry_fetches_what_is_made_and_paid_for_and_pays_nothing() {
    let fake = Fake::new();
    let app = start(&fake).await;
    fake.books().withheld = Some(ErrorKind::Unavailable);
    create(&app, "now", 1).await;
    for kind in [ErrorKind::Unavailable, ErrorKind::OutputAddress, ErrorKind::OutputTooLarge] {
        if fake.books().withheld.replace(kind) != Some(kind) {
            app.call(GenerationManager::at(ID), Retry).await.unwrap();
        }
        advance(&app, 4 * 3_600).await;
        let failed = kept(&app).await.unwrap();
        assert_eq!(failed.tasks[0].error.as_ref().unwrap().code, kind.code());
    }
    fake.books().withheld = None;
    app.call(GenerationManager::at(ID), Retry).await.unwrap();
    app.settle().await;
    assert_eq!(kept(&app).await.unwrap().counts.ready, 1);
    assert_eq!(fake.books().submitted, 1);
}

#[tokio::test]
async fn a_retry_makes_again_what_is_lost() {
    let fake = Fake::new();
    let app = start(&fake).await;
    fake.books().withheld = Some(ErrorKind::OutputGone);
    create(&app, "now", 1).await;
    app.settle().await;
    let failed = kept(&app).await.unwrap();
    assert_eq!(failed.tasks[0].error.as_ref().unwrap().code, "output_gone");
    fake.books().withheld = None;
    app.call(GenerationManager::at(ID), Retry).await.unwrap();
    app.settle().await;
    let whole = kept(&app).await.unwrap();
    assert_eq!(whole.artifacts[0].response["taskUUID"], task_id(ID, 0, 1));
    assert_eq!(fake.books().submitted, 2);
    fake.assert_fair();
}

#[tokio::test]
async fn a_blob_that_was_put_before_the_outcome_was_lost_is_found_when_its_address_is_gone() {
    let fake = Fake::new();
    let (app, providers) = start_with_providers(&fake).await;
    let task = task_id(ID, 0, 0);
    let job = Fetch {
        provider: "fake".into(),
        index: 0,
        artifact: artifact_id(ID, 0),
        made: fake.made(&task),
        task,
        generation: ID.into(),
        workspace: DEFAULT_WORKSPACE.into(),
    };
    let first = providers.perform(job.clone(), "key").await.unwrap();
    fake.books().withheld = Some(ErrorKind::OutputGone);
    let again = providers.perform(job.clone(), "key").await.unwrap();
    assert_eq!(
        (again.size, again.content_type, again.extension),
        (first.size, first.content_type, first.extension)
    );
    // That of another round is another one.
    let other = Fetch { task: task_id(ID, 0, 1), ..job };
    assert_eq!(providers.perform(other, "other").await.unwrap_err().code(), "output_gone");
    assert_eq!(blobs(&app).await.len(), 1);
}

#[tokio::test]
async fn a_blob_of_what_was_cancelled_is_removed_also_when_its_fetch_fails() {
    let fake = Fake::new();
    let app = start(&fake).await;
    fake.books().withheld = Some(ErrorKind::Unavailable);
    create(&app, "now", 1).await;
    app.settle().await;
    assert_eq!(live(&app).await.unwrap().tasks[0].status, TaskState::Streaming);
    // The state that an attempt leaves which ended without reporting.
    app.bucket(ARTIFACTS).put(&key(0), b"bytes").await.unwrap();
    app.call(GenerationManager::at(ID), Cancel).await.unwrap();
    fake.books().withheld = Some(ErrorKind::OutputGone);
    advance(&app, 3_600).await;
    assert_eq!(blobs(&app).await, Vec::<String>::new());
    assert_eq!(kept(&app).await.unwrap().counts.cancelled, 1);
}

#[tokio::test]
async fn a_blob_whose_fetch_failed_for_good_goes_with_its_manager() {
    let fake = Fake::new();
    let app = start(&fake).await;
    create(&app, "slow", 2).await;
    app.settle().await;
    webhook(&app, 1).await.unwrap();
    app.settle().await;
    fake.books().withheld = Some(ErrorKind::Unavailable);
    webhook(&app, 0).await.unwrap();
    app.settle().await;
    // The state that an attempt leaves which ended without reporting.
    app.bucket(ARTIFACTS).put(&key(0), b"bytes").await.unwrap();
    fake.books().withheld = Some(ErrorKind::OutputGone);
    advance(&app, 3_600).await;
    assert_eq!(kept(&app).await.unwrap().counts.failed, 1);
    advance(&app, 25 * 3_600).await;
    assert_eq!(live(&app).await, None);
    assert_eq!(blobs(&app).await, [key(1)]);
}

#[tokio::test]
async fn a_blob_that_comes_after_a_hard_delete_goes_with_its_manager() {
    let fake = Fake::new();
    let app = start(&fake).await;
    create(&app, "now", 1).await;
    app.settle().await;
    app.call(GenerationManager::at(ID), Delete).await.unwrap();
    app.settle().await;
    assert_eq!(blobs(&app).await, Vec::<String>::new());
    app.bucket(ARTIFACTS).put(&key(0), b"bytes").await.unwrap();
    advance(&app, 25 * 3_600).await;
    assert_eq!(blobs(&app).await, Vec::<String>::new());
}

#[test]
fn a_fetch_may_take_longer_than_its_download() {
    assert!(FetchOptions::default().timeout * 2 <= <Fetch as Job>::TIMEOUT);
}
