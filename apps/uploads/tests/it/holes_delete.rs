//! The holes of the second note, each closed by a test of its number.

use std::time::Duration;

use steadfast_core::{BlobAction, Object, object::SqlQuery};
use steadfast_uploads::{HideUpload, OrganizationAgent, Status, UPLOAD_EVENTS_DLQ};

use crate::stage::{ACME, Fake, delete, delete_event, deliver, put, put_event, row, rows, start};

#[tokio::test]
async fn hole_1_and_4_an_upload_event_behind_its_deletion_does_not_bring_the_row_back() {
    let app = start(&Fake::default(), false).await;
    let blob = put(&app, "cat.png", "cat").await;
    let gone = delete_event("cat.png", delete(&app, "cat.png").await);
    deliver(&app, &gone).await;
    app.settle().await;
    deliver(&app, &put_event(&blob)).await;
    app.settle().await;
    assert_eq!(row(&app, "cat.png").await, None);
}

#[tokio::test]
async fn hole_2_changes_of_one_millisecond_are_ordered_by_their_numbers() {
    let app = start(&Fake::default(), false).await;
    // The clock of the test does not advance: all of them have the same time.
    let first = put(&app, "cat.png", "cat").await;
    let gone = delete_event("cat.png", delete(&app, "cat.png").await);
    let second = put(&app, "cat.png", "dog").await;
    for event in [&put_event(&second), &gone, &put_event(&first)] {
        deliver(&app, event).await;
        app.settle().await;
    }
    assert_eq!(row(&app, "cat.png").await.unwrap().version, second.version());
}

#[tokio::test]
async fn hole_3_what_an_event_is_about_stands_in_the_event() {
    let app = start(&Fake::default(), false).await;
    let (old, new) = (put(&app, "pet.png", "cat").await, put(&app, "pet.png", "dog!").await);
    deliver(&app, &put_event(&old)).await;
    app.settle().await;
    let pet = row(&app, "pet.png").await.unwrap();
    assert_eq!((pet.version, pet.size, pet.sequence), (old.version(), 3, old.sequence));
    deliver(&app, &put_event(&new)).await;
    app.settle().await;
    assert_eq!(row(&app, "pet.png").await.unwrap().size, 4);
}

#[tokio::test]
async fn hole_5_what_somebody_deletes_is_gone_at_once_and_its_status_is_untouched() {
    let app = start(&Fake::default(), false).await;
    let blob = put(&app, "cat.png", "cat").await;
    deliver(&app, &put_event(&blob)).await;
    app.settle().await;
    let sequence = delete(&app, "cat.png").await;
    let hide = HideUpload { name: "cat.png".into(), sequence };
    app.call(OrganizationAgent::at(ACME), hide.clone()).await.unwrap();
    assert_eq!((row(&app, "cat.png").await, rows(&app).await), (None, vec![]));
    // Somebody uploads it again before the event of the deletion comes.
    let again = put(&app, "cat.png", "cat").await;
    deliver(&app, &put_event(&again)).await;
    deliver(&app, &delete_event("cat.png", sequence)).await;
    app.call(OrganizationAgent::at(ACME), hide).await.unwrap();
    app.settle().await;
    let back = row(&app, "cat.png").await.unwrap();
    assert_eq!((back.version, back.status), (again.version(), Status::Classified));
}

#[tokio::test]
async fn hole_6_deleting_ends_the_run_and_the_name_can_be_used_again() {
    let app = start(&Fake::default(), true).await;
    put(&app, "pet.png", "later").await;
    app.settle().await;
    let running = row(&app, "pet.png").await.unwrap();
    delete(&app, "pet.png").await;
    app.settle().await;
    let run = app.runs().status("image-classification", &running.workflow_id).await.unwrap();
    assert!(run.is_final(), "{run:?}");
    put(&app, "pet.png", "dog").await;
    app.settle().await;
    assert_eq!(row(&app, "pet.png").await.unwrap().status, Status::Classified);
}

#[tokio::test]
async fn hole_7_and_8_what_cannot_be_an_image_is_passed_over_and_nothing_is_poison() {
    let app = start(&Fake::default(), false).await;
    let blob = put(&app, "cat.png", "cat").await;
    for key in ["acme", "acme/", "acme/a/b", "acme/.hidden", "/x", "a b/c"] {
        let mut event = put_event(&blob);
        event.object.key = key.into();
        deliver(&app, &event).await;
    }
    let mut unknown = put_event(&blob);
    unknown.action = BlobAction::Unknown;
    deliver(&app, &unknown).await;
    app.advance(Duration::from_hours(1)).await;
    assert_eq!(rows(&app).await, []);
    let dead = app.queues().show(UPLOAD_EVENTS_DLQ.name()).await.unwrap();
    assert_eq!((dead.depth, dead.dead), (0, 0));
}

#[tokio::test]
async fn a_deletion_that_was_given_up_is_a_deletion_and_an_image_is_failed() {
    let app = start(&Fake::default(), false).await;
    let cat = put(&app, "cat.png", "cat").await;
    deliver(&app, &put_event(&cat)).await;
    app.settle().await;
    let gone = delete_event("cat.png", delete(&app, "cat.png").await);
    let dog = put_event(&put(&app, "dog.png", "dog").await);
    app.queues().send(UPLOAD_EVENTS_DLQ, &gone).await.unwrap();
    app.queues().send(UPLOAD_EVENTS_DLQ, &dog).await.unwrap();
    app.settle().await;
    assert_eq!(row(&app, "cat.png").await, None);
    let dog = row(&app, "dog.png").await.unwrap();
    assert_eq!(dog.status, Status::Failed);
    assert!(dog.error.unwrap().contains("could not be processed"));
}

#[tokio::test]
async fn a_tombstone_goes_when_its_time_is_over() {
    let app = start(&Fake::default(), true).await;
    put(&app, "cat.png", "cat").await;
    delete(&app, "cat.png").await;
    app.settle().await;
    let count = async || {
        let sql = "SELECT count(*) FROM Tombstone".into();
        let query = SqlQuery { sql, params: serde_json::Value::Null, turn: None };
        let found = app.objects().query(None, "organization", ACME, query).await.unwrap();
        found.rows[0][0].to_string()
    };
    assert_eq!(count().await, "1");
    app.advance(Duration::from_hours(24 * 31)).await;
    assert_eq!(count().await, "0");
}
