//! The holes of the first note, each closed by a test of its number.

use std::{sync::atomic::Ordering, time::Duration};

use steadfast::{BlobAction, Object};
use steadfast_uploads::{OrganizationAgent, RetryUpload, Status, UPLOADS};

use crate::stage::{ACME, Fake, deliver, put, put_event, row, rows, runs, start};

#[tokio::test]
async fn hole_1_a_duplicate_delivery_does_not_wipe_a_finished_result() {
    let app = start(&Fake::default(), false).await;
    let event = put_event(&put(&app, "cat.png", "cat").await);
    deliver(&app, &event).await;
    app.settle().await;
    let done = row(&app, "cat.png").await;
    for _ in 0..3 {
        deliver(&app, &event).await;
        app.advance(Duration::from_mins(10)).await;
    }
    assert_eq!(row(&app, "cat.png").await, done);
}

#[tokio::test]
async fn hole_2_a_fast_run_is_not_marked_running_after_its_end() {
    let app = start(&Fake::default(), true).await;
    for number in 0..20 {
        put(&app, &format!("{number}.png"), "cat").await;
    }
    app.settle().await;
    assert!(rows(&app).await.iter().all(|it| it.status == Status::Classified));
}

#[tokio::test]
async fn hole_3_the_bucket_says_what_is_newest_not_the_order_of_arrival() {
    let app = start(&Fake::default(), false).await;
    let (old, new) = (put(&app, "pet.png", "cat").await, put(&app, "pet.png", "dog").await);
    deliver(&app, &put_event(&new)).await;
    app.settle().await;
    deliver(&app, &put_event(&old)).await;
    app.settle().await;
    let pet = row(&app, "pet.png").await.unwrap();
    assert_eq!((pet.version, pet.classification_label.as_deref()), (new.version(), Some("DOG")));
}

#[tokio::test]
async fn hole_4_the_same_bytes_uploaded_again_are_classified_again() {
    let fake = Fake::default();
    let app = start(&fake, true).await;
    for bytes in ["cat", "cat", "dog", "cat"] {
        put(&app, "pet.png", bytes).await;
        app.settle().await;
        let pet = row(&app, "pet.png").await.unwrap();
        assert_eq!(pet.classification_label, Some(bytes.to_uppercase()));
    }
    assert_eq!((runs(&app).await, fake.calls.load(Ordering::SeqCst)), (4, 4));
}

#[tokio::test]
async fn hole_5_and_6_an_id_that_is_taken_by_a_failed_run_is_not_a_dead_end() {
    let fake = Fake::default();
    let app = start(&fake, true).await;
    put(&app, "pet.png", "nonsense").await;
    app.advance(Duration::from_hours(1)).await;
    assert_eq!(row(&app, "pet.png").await.unwrap().status, Status::Failed);
    app.call(OrganizationAgent::at(ACME), RetryUpload { name: "pet.png".into() }).await.unwrap();
    app.settle().await;
    assert_eq!(runs(&app).await, 2, "another attempt is another run");
}

#[tokio::test]
async fn hole_8_a_run_reads_its_own_version_or_ends_quietly() {
    let fake = Fake::default();
    let app = start(&fake, false).await;
    let old = put(&app, "pet.png", "cat").await;
    put(&app, "pet.png", "dog").await;
    deliver(&app, &put_event(&old)).await;
    app.settle().await;
    // The newer event has not come yet: the run of the older one must not label the newer image.
    let pet = row(&app, "pet.png").await.unwrap();
    assert_eq!((pet.classification_label, fake.calls.load(Ordering::SeqCst)), (None, 0));
}

#[tokio::test]
async fn hole_9_copies_and_uploads_in_parts_make_images_too() {
    let app = start(&Fake::default(), true).await;
    put(&app, "cat.png", "cat").await;
    app.bucket(UPLOADS).copy("acme/cat.png", "acme/copy.png").await.unwrap();
    app.settle().await;
    let copy = row(&app, "copy.png").await.unwrap();
    assert_eq!(copy.classification_label.as_deref(), Some("CAT"));
    let mut event = put_event(&put(&app, "parts.png", "dog").await);
    event.action = BlobAction::CompleteMultipartUpload;
    deliver(&app, &event).await;
    app.settle().await;
    assert_eq!(row(&app, "parts.png").await.unwrap().status, Status::Classified);
}

#[tokio::test]
async fn hole_10_no_failure_leaves_a_row_running() {
    let fake = Fake::default();
    fake.is_ready.store(true, Ordering::SeqCst);
    let app = start(&fake, true).await;
    put(&app, "down.png", "down").await;
    put(&app, "flaky.png", "flaky").await;
    app.advance(Duration::from_hours(2)).await;
    assert_eq!(row(&app, "down.png").await.unwrap().status, Status::Failed);
    assert_eq!(row(&app, "flaky.png").await.unwrap().status, Status::Classified);
}

#[tokio::test]
async fn a_model_that_is_not_there_yet_is_waited_for() {
    let fake = Fake::default();
    let app = start(&fake, true).await;
    put(&app, "pet.png", "later").await;
    app.advance(Duration::from_hours(5)).await;
    assert_eq!(row(&app, "pet.png").await.unwrap().status, Status::Running);
    fake.is_ready.store(true, Ordering::SeqCst);
    app.advance(Duration::from_mins(5)).await;
    assert_eq!(row(&app, "pet.png").await.unwrap().status, Status::Classified);
}
