//! The acceptance criteria and validation lists of both notes, by their names.

use std::sync::atomic::Ordering;

use steadfast_core::Object;
use steadfast_uploads::{OrganizationAgent, RetryUpload, Status, event_id, workflow_id};

use steadfast_world::World;

use crate::stage::{
    ACME, Fake, delete, delete_event, deliver, program, put, put_event, row, rows, runs, start,
};

#[tokio::test]
async fn an_image_in_the_bucket_gets_a_label_and_its_top_five() {
    let fake = Fake::default();
    let app = start(&fake, true).await;
    let blob = put(&app, "cat.png", "cat").await;
    app.settle().await;
    let cat = row(&app, "cat.png").await.unwrap();
    let id = event_id("acme/cat.png", &blob.version());
    assert_eq!((cat.status, cat.event_id.as_str()), (Status::Classified, id.as_str()));
    assert_eq!(cat.workflow_id, workflow_id(&id, 0));
    assert_eq!((cat.classification_label.as_deref(), cat.top_five.len()), (Some("CAT"), 5));
    assert_eq!((cat.size, cat.sequence), (3, 1));
    assert!(cat.completed_at.is_some());
}

/// Acceptance 1, validation 1.
#[tokio::test]
async fn the_same_queue_message_delivered_twice_is_a_single_effective_workflow() {
    let fake = Fake::default();
    let app = start(&fake, false).await;
    let event = put_event(&put(&app, "cat.png", "cat").await);
    deliver(&app, &event).await;
    deliver(&app, &event).await;
    app.settle().await;
    let before = row(&app, "cat.png").await;
    deliver(&app, &event).await;
    app.settle().await;
    assert_eq!(row(&app, "cat.png").await, before);
    assert_eq!((runs(&app).await, fake.calls.load(Ordering::SeqCst)), (1, 1));
}

/// Acceptance 2, validation 2.
#[tokio::test]
async fn two_uploads_of_one_name_end_as_the_newest() {
    let app = start(&Fake::default(), true).await;
    put(&app, "pet.png", "cat").await;
    let second = put(&app, "pet.png", "dog").await;
    app.settle().await;
    let pet = row(&app, "pet.png").await.unwrap();
    assert_eq!((pet.version, pet.classification_label.as_deref()), (second.version(), Some("DOG")));
    assert_eq!(rows(&app).await.len(), 1);
}

/// The ingest upsert of the first note does not set `createdAt` of a row that is there.
#[tokio::test]
async fn a_replacement_keeps_when_its_image_was_created_and_nothing_else() {
    let app = start(&Fake::default(), true).await;
    put(&app, "pet.png", "cat").await;
    app.settle().await;
    let cat = row(&app, "pet.png").await.unwrap();
    app.advance(std::time::Duration::from_hours(1)).await;
    put(&app, "pet.png", "later").await;
    app.settle().await;
    let later = row(&app, "pet.png").await.unwrap();
    assert_eq!((later.created_at, later.status), (cat.created_at, Status::Running));
    assert!(cat.updated_at < later.updated_at);
    assert_eq!((later.classification_label, later.classification_score), (None, None));
    assert_eq!((later.top_five, later.error, later.completed_at), (vec![], None, None));
    delete(&app, "pet.png").await;
    put(&app, "pet.png", "cat").await;
    app.settle().await;
    assert!(cat.created_at < row(&app, "pet.png").await.unwrap().created_at, "another image");
}

/// Acceptance 3, validation 3.
#[tokio::test]
async fn an_old_workflow_completion_cannot_overwrite_a_newer_row() {
    let fake = Fake::default();
    let app = start(&fake, false).await;
    let old = put(&app, "pet.png", "later").await;
    deliver(&app, &put_event(&old)).await;
    app.settle().await;
    assert_eq!(row(&app, "pet.png").await.unwrap().status, Status::Running);
    let new = put(&app, "pet.png", "dog").await;
    deliver(&app, &put_event(&new)).await;
    fake.is_ready.store(true, Ordering::SeqCst);
    app.advance(std::time::Duration::from_secs(60)).await;
    let pet = row(&app, "pet.png").await.unwrap();
    assert_eq!((pet.version, pet.classification_label.as_deref()), (new.version(), Some("DOG")));
}

/// Acceptance 5.
#[tokio::test]
async fn a_row_goes_from_queued_to_running_to_its_end_and_never_back() {
    let fake = Fake::default();
    let app = start(&fake, false).await;
    let event = put_event(&put(&app, "pet.png", "later").await);
    deliver(&app, &event).await;
    app.settle().await;
    let running = row(&app, "pet.png").await.unwrap();
    assert_eq!(running.status, Status::Running);
    deliver(&app, &event).await;
    app.settle().await;
    assert_eq!(row(&app, "pet.png").await, Some(running));
    fake.is_ready.store(true, Ordering::SeqCst);
    app.advance(std::time::Duration::from_secs(10)).await;
    let done = row(&app, "pet.png").await.unwrap();
    assert_eq!(done.status, Status::Classified);
    deliver(&app, &event).await;
    app.settle().await;
    assert_eq!(row(&app, "pet.png").await, Some(done));
}

/// Acceptance 4, validation 4: the delivery ends in the commit of the row and the start of its run,
/// so an end of the process before that leaves the message in the queue.
#[test]
fn an_end_before_the_row_is_durable_is_a_delivery_again() {
    for commits in 0..8 {
        let mut world = World::in_memory(|| program(&Fake::default(), false));
        let event = world.on(async |app| put_event(&put(app, "cat.png", "cat").await));
        world.end_during(commits, async |app| {
            deliver(app, &event).await;
            app.settle().await;
        });
        world.on(async |app| {
            // Whether it was sent before the end is not known: the sender sends it again.
            deliver(app, &event).await;
            app.advance(std::time::Duration::from_mins(30)).await;
            assert_eq!(row(app, "cat.png").await.unwrap().status, Status::Classified);
            assert_eq!(runs(app).await, 1);
        });
    }
}

/// Validation 5 of the first note.
#[tokio::test]
async fn a_failure_of_the_classifier_marks_the_row_failed_with_its_error() {
    for bytes in ["down", "nonsense"] {
        let fake = Fake::default();
        fake.is_ready.store(true, Ordering::SeqCst);
        let app = start(&fake, true).await;
        put(&app, "pet.png", bytes).await;
        app.advance(std::time::Duration::from_hours(1)).await;
        let pet = row(&app, "pet.png").await.unwrap();
        assert_eq!(pet.status, Status::Failed);
        assert!(pet.error.unwrap().contains(bytes));
    }
}

#[tokio::test]
async fn every_retry_is_a_run_of_its_own_and_a_label_is_final() {
    let app = start(&Fake::default(), true).await;
    put(&app, "pet.png", "later").await;
    put(&app, "cat.png", "cat").await;
    let agent = || OrganizationAgent::at(ACME);
    let retry = |name: &str| RetryUpload { name: name.into() };
    app.settle().await;
    let running = row(&app, "pet.png").await.unwrap();
    assert_eq!(running.status, Status::Running);
    let queued = app.call(agent(), retry("pet.png")).await.unwrap();
    assert_eq!((queued.status, queued.retries), (Status::Queued, 1));
    assert!(queued.workflow_id.ends_with("-r1"), "{}", queued.workflow_id);
    app.settle().await;
    let old = app.runs().status("image-classification", &running.workflow_id).await.unwrap();
    assert!(old.is_final(), "the run before is ended: {old:?}");
    assert_eq!(row(&app, "pet.png").await.unwrap().status, Status::Running);

    put(&app, "pet.png", "nonsense").await;
    app.advance(std::time::Duration::from_hours(1)).await;
    assert_eq!(row(&app, "pet.png").await.unwrap().status, Status::Failed);
    let queued = app.call(agent(), retry("pet.png")).await.unwrap();
    assert_eq!((queued.status, queued.retries, queued.error), (Status::Queued, 1, None));
    let refused = app.call(agent(), retry("cat.png")).await.unwrap_err();
    assert_eq!(refused.code(), "wrong_status", "{refused}");
    let unknown = app.call(agent(), retry("dog.png")).await.unwrap_err();
    assert_eq!(unknown.code(), "image_not_found", "{unknown}");
}

/// Second note, 1 and 2.
#[tokio::test]
async fn deleting_removes_the_row_and_deleting_twice_is_nothing_more() {
    let app = start(&Fake::default(), true).await;
    put(&app, "cat.png", "cat").await;
    app.settle().await;
    let sequence = delete(&app, "cat.png").await;
    app.settle().await;
    assert_eq!(row(&app, "cat.png").await, None);
    deliver(&app, &delete_event("cat.png", sequence)).await;
    app.settle().await;
    assert_eq!(rows(&app).await, []);
}

/// Second note, 3.
#[tokio::test]
async fn an_old_delete_that_comes_after_a_new_upload_leaves_the_upload() {
    let app = start(&Fake::default(), false).await;
    let first = put(&app, "cat.png", "cat").await;
    deliver(&app, &put_event(&first)).await;
    let old = delete_event("cat.png", delete(&app, "cat.png").await);
    let second = put(&app, "cat.png", "cat").await;
    deliver(&app, &put_event(&second)).await;
    app.settle().await;
    deliver(&app, &old).await;
    app.settle().await;
    assert_eq!(row(&app, "cat.png").await.unwrap().version, second.version());
}

/// Second note, 4 and 5.
#[tokio::test]
async fn duplicate_deletes_have_no_duplicate_effects_and_a_retry_converges() {
    let app = start(&Fake::default(), false).await;
    let blob = put(&app, "cat.png", "cat").await;
    let gone = delete_event("cat.png", delete(&app, "cat.png").await);
    for event in [&gone, &gone, &put_event(&blob), &gone] {
        deliver(&app, event).await;
        app.settle().await;
        assert_eq!(row(&app, "cat.png").await, None);
    }
}
