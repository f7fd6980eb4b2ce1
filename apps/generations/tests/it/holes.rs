//! Every hole of the note, closed.

use steadfast_core::Object;
use steadfast_generations::{
    Cancel, Delete, GenerationManager, GenerationStatus, GetState, Retry, TaskState, Webhook,
    artifact_id, task_id,
};

use crate::stage::{Fake, ID, State, advance, blobs, create, kept, live, start, token, webhook};

#[tokio::test]
async fn hole_01_a_poll_is_answered_while_tasks_are_under_way_and_no_change_is_lost() {
    let fake = Fake::new();
    let app = start(&fake).await;
    let created = create(&app, "slow", 4).await;
    assert_eq!((created.status, created.tasks.len()), (GenerationStatus::Active, 4));
    app.settle().await;
    let states: Vec<_> = live(&app).await.unwrap().tasks.iter().map(|it| it.status).collect();
    assert_eq!(states, [TaskState::Submitted; 4]);
    for index in [2, 0] {
        webhook(&app, index).await.unwrap();
    }
    app.settle().await;
    let now = live(&app).await.unwrap();
    assert_eq!((now.counts.ready, now.status), (2, GenerationStatus::Active));
    assert_eq!(kept(&app).await.unwrap().artifacts.len(), 2, "as they are made");
}

#[tokio::test]
async fn hole_02_a_webhook_that_comes_twice_counts_once_and_a_forged_one_never() {
    let fake = Fake::new();
    let app = start(&fake).await;
    create(&app, "slow", 2).await;
    app.settle().await;
    for _ in 0..3 {
        webhook(&app, 0).await.unwrap();
        app.settle().await;
    }
    assert_eq!(live(&app).await.unwrap().counts.ready, 1);
    let (task, body) = (task_id(ID, 1, 0), Fake::webhook(&task_id(ID, 1, 0)));
    // The token of another task, and none at all.
    let other = token(&task_id(ID, 0, 0));
    for token in [other, String::new()] {
        let told = Webhook { task: task.clone(), token, body: body.clone() };
        let error = app.call(GenerationManager::at(ID), told).await.unwrap_err();
        assert_eq!(error.code(), "unknown_generation");
    }
    assert_eq!(live(&app).await.unwrap().counts.ready, 1);
}

#[tokio::test]
async fn hole_04_what_a_webhook_said_is_durable_before_it_is_answered() {
    let fake = Fake::new();
    let app = start(&fake).await;
    create(&app, "slow", 1).await;
    app.settle().await;
    webhook(&app, 0).await.unwrap();
    assert_eq!(live(&app).await.unwrap().tasks[0].status, TaskState::Streaming);
    app.settle().await;
    assert_eq!(kept(&app).await.unwrap().status, GenerationStatus::Ready);
}

#[tokio::test]
async fn hole_05_a_task_whose_answer_was_lost_is_asked_for_and_not_paid_twice() {
    let fake = Fake::new();
    let app = start(&fake).await;
    create(&app, "lost", 2).await;
    advance(&app, 120).await;
    assert_eq!(kept(&app).await.unwrap().counts.ready, 2);
    fake.assert_fair();
}

#[tokio::test]
async fn hole_06_a_webhook_before_the_answer_to_the_submission_is_right() {
    let fake = Fake::new();
    let app = start(&fake).await;
    create(&app, "lost", 1).await;
    // The submission is still tried again when the webhook comes.
    webhook(&app, 0).await.unwrap();
    advance(&app, 120).await;
    let kept = kept(&app).await.unwrap();
    assert_eq!((kept.status, kept.artifacts.len()), (GenerationStatus::Ready, 1));
    fake.assert_fair();
    let unknown = Webhook { task: "t".into(), token: "00".into(), body: "{}".into() };
    let nowhere = GenerationManager::at("0190b0a0-0000-7000-8000-00000000000f");
    let error = app.call(nowhere.clone(), unknown).await.unwrap_err();
    assert_eq!(error.code(), "unknown_generation");
    assert_eq!(app.call(nowhere, GetState).await.unwrap(), None);
}

#[tokio::test]
async fn hole_07_a_success_after_the_time_is_over_is_accepted_and_the_counts_are_corrected() {
    let fake = Fake::new();
    let app = start(&fake).await;
    create(&app, "slow", 2).await;
    app.settle().await;
    fake.books().is_down = true;
    advance(&app, 301).await;
    let over = kept(&app).await.unwrap();
    assert_eq!((over.status, over.counts.failed), (GenerationStatus::Failed, 2));
    assert_eq!(over.tasks[0].error.as_ref().unwrap().code, "timeout");
    webhook(&app, 0).await.unwrap();
    app.settle().await;
    let late = kept(&app).await.unwrap();
    assert_eq!((late.status, late.counts.ready), (GenerationStatus::Ready, 1));
    assert_eq!((late.counts.failed, late.artifacts.len()), (1, 1));
}

#[tokio::test]
async fn hole_08_and_09_without_a_webhook_the_provider_is_asked_also_after_it_was_down_for_an_hour()
{
    let fake = Fake::new();
    let app = start(&fake).await;
    create(&app, "slow", 2).await;
    app.settle().await;
    fake.finish();
    fake.books().is_down = true;
    advance(&app, 3_600).await;
    assert!(1 < fake.books().polled, "it is asked, in vain");
    assert_eq!(kept(&app).await.unwrap().counts.failed, 2);
    fake.books().is_down = false;
    advance(&app, 3_600).await;
    let late = kept(&app).await.unwrap();
    assert_eq!((late.status, late.counts.ready), (GenerationStatus::Ready, 2));
    assert_eq!(fake.books().submitted, 2);
    fake.assert_fair();
}

#[tokio::test]
async fn hole_09_what_could_not_be_handed_over_for_an_hour_is_handed_over_once_when_it_is_retried()
{
    let fake = Fake::new();
    let app = start(&fake).await;
    fake.books().is_down = true;
    create(&app, "now", 2).await;
    advance(&app, 3_600).await;
    assert_eq!(kept(&app).await.unwrap().counts.failed, 2);
    fake.books().is_down = false;
    app.call(GenerationManager::at(ID), Retry).await.unwrap();
    advance(&app, 3_600).await;
    assert_eq!(kept(&app).await.unwrap().counts.ready, 2);
    assert_eq!(fake.books().paid.len(), 2);
    fake.assert_fair();
}

#[tokio::test]
async fn hole_10_and_11_an_answer_at_once_is_stored_under_the_id_of_its_place() {
    let fake = Fake::new();
    let app = start(&fake).await;
    create(&app, "now", 3).await;
    app.settle().await;
    let size = |it: &steadfast_generations::Artifact| (it.width, it.height);
    let sizes: Vec<_> = kept(&app).await.unwrap().artifacts.iter().map(size).collect();
    assert_eq!(sizes, [(Some(64), Some(64)); 3], "those of the file");
    let expected: Vec<String> = (0..3).map(|it| artifact_id(ID, it)).collect();
    let ids: Vec<_> = kept(&app).await.unwrap().artifacts.into_iter().map(|it| it.id).collect();
    assert_eq!(ids, expected);
    assert_eq!(blobs(&app).await.len(), 3);
    // The same request again is the same one.
    create(&app, "now", 3).await;
    app.settle().await;
    assert_eq!(fake.books().submitted, 3);
}

#[tokio::test]
async fn hole_12_the_generation_is_in_the_library_from_the_beginning() {
    let fake = Fake::new();
    let app = start(&fake).await;
    create(&app, "slow", 1).await;
    app.settle().await;
    let kept = kept(&app).await.unwrap();
    assert_eq!((kept.status, kept.request.tags), (GenerationStatus::Active, vec!["first".into()]));
}

#[tokio::test]
async fn hole_13_a_part_that_failed_is_told_with_its_error_and_can_be_retried() {
    let fake = Fake::new();
    let app = start(&fake).await;
    create(&app, "slow", 2).await;
    app.settle().await;
    fake.books().known.insert(task_id(ID, 1, 0), State::Failed);
    webhook(&app, 0).await.unwrap();
    advance(&app, 120).await;
    let part = kept(&app).await.unwrap();
    assert_eq!(
        (part.status, part.counts.ready, part.counts.failed),
        (GenerationStatus::Ready, 1, 1)
    );
    assert_eq!(part.tasks[1].error.as_ref().unwrap().code, "provider_refused");
    app.call(GenerationManager::at(ID), Retry).await.unwrap();
    app.settle().await;
    fake.finish();
    advance(&app, 120).await;
    let whole = kept(&app).await.unwrap();
    assert_eq!((whole.counts.ready, whole.counts.failed, whole.artifacts.len()), (2, 0, 2));
    let error = app.call(GenerationManager::at(ID), Retry).await.unwrap_err();
    assert_eq!(error.code(), "nothing_to_retry");
    fake.assert_fair();
}

#[tokio::test]
async fn hole_14_a_manager_goes_when_its_work_is_done_and_the_library_stays() {
    let fake = Fake::new();
    let app = start(&fake).await;
    create(&app, "now", 1).await;
    advance(&app, 25 * 3_600).await;
    assert_eq!(live(&app).await, None);
    assert_eq!(kept(&app).await.unwrap().artifacts.len(), 1);
}

#[tokio::test]
async fn hole_15_who_deletes_what_is_under_way_cancels_it_and_nothing_is_left() {
    let fake = Fake::new();
    let app = start(&fake).await;
    create(&app, "slow", 3).await;
    app.settle().await;
    webhook(&app, 0).await.unwrap();
    app.settle().await;
    assert_eq!(blobs(&app).await.len(), 1);
    webhook(&app, 1).await.unwrap();
    app.call(GenerationManager::at(ID), Delete).await.unwrap();
    app.settle().await;
    assert_eq!((live(&app).await, kept(&app).await), (None, None));
    let _ = webhook(&app, 2).await;
    app.settle().await;
    assert_eq!(blobs(&app).await, Vec::<String>::new());
    assert_eq!(kept(&app).await, None);
}

#[tokio::test]
async fn what_is_cancelled_stays_cancelled_and_what_is_ready_stays_ready() {
    let fake = Fake::new();
    let app = start(&fake).await;
    create(&app, "slow", 2).await;
    app.settle().await;
    webhook(&app, 0).await.unwrap();
    app.settle().await;
    let over = app.call(GenerationManager::at(ID), Cancel).await.unwrap();
    assert_eq!((over.status, over.counts.cancelled), (GenerationStatus::Ready, 1));
    webhook(&app, 1).await.unwrap();
    fake.finish();
    advance(&app, 400).await;
    let kept = kept(&app).await.unwrap();
    assert_eq!((kept.counts.ready, kept.counts.cancelled, kept.counts.failed), (1, 1, 0));
    assert_eq!(blobs(&app).await.len(), 1);
}

#[tokio::test]
async fn who_cancels_what_is_over_changes_nothing() {
    let fake = Fake::new();
    let app = start(&fake).await;
    create(&app, "now", 1).await;
    app.settle().await;
    let before = kept(&app).await.unwrap();
    assert!(before.completed_at.is_some());
    advance(&app, 600).await;
    let answer = app.call(GenerationManager::at(ID), Cancel).await.unwrap();
    app.settle().await;
    assert_eq!((answer.completed_at, kept(&app).await.unwrap()), (before.completed_at, before));
    // Nor does its manager stay longer.
    advance(&app, 24 * 3_600 - 300).await;
    assert_eq!(live(&app).await, None);
}

#[tokio::test]
async fn what_a_provider_refuses_is_not_tried_again() {
    let fake = Fake::new();
    let app = start(&fake).await;
    create(&app, "refused", 1).await;
    advance(&app, 120).await;
    let kept = kept(&app).await.unwrap();
    assert_eq!(kept.status, GenerationStatus::Failed);
    assert_eq!(kept.tasks[0].error.as_ref().unwrap().code, "content_rejected");
    assert_eq!(fake.books().submitted, 1);
}
