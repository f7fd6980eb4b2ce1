//! Messages of the queue that are no events of the bucket, and events that were given up.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use serde_json::{Value, json};
use steadfast_core::{
    App, BlobAction, Consumer, Delivery, Error, Object, Queue, Result, Settled, test::TestApp,
};
use steadfast_uploads::{
    GaveUp, HideUpload, INCOMING_DLQ, IngestUploadEvent, Ingestion, OrganizationAgent, RetryUpload,
    Status, UPLOAD_EVENTS, UPLOAD_EVENTS_DLQ, UploadEvent,
};

use steadfast_world::World;

use crate::stage::{
    ACME, Fake, delete, delete_event, deliver, program_of, program_with, put, put_event, row, rows,
    start,
};

async fn is_empty(app: &TestApp) -> bool {
    for queue in [UPLOAD_EVENTS, UPLOAD_EVENTS_DLQ] {
        let view = app.queues().show(queue.name()).await.unwrap();
        if 0 < view.depth + view.dead {
            return false;
        }
    }
    true
}

#[tokio::test]
async fn malformed_events_are_acknowledged_and_counted_in_both_queues() {
    let ingestion = Ingestion::default();
    let malformed = ingestion.malformed.clone();
    let app = program_with(&Fake::default(), false, ingestion).test().await.unwrap();
    let blob = put(&app, "cat.png", "cat").await;
    let good = serde_json::to_value(put_event(&blob)).unwrap();
    let with = |field: &str, value: Value| {
        let mut event = good.clone();
        event[field] = value;
        event
    };
    let messages = [
        json!("hello"),
        json!({}),
        json!({ "action": "PutObject" }),
        with("sequence", json!(0)),
        with("sequence", json!("one")),
        with("version", json!("")),
        with("bucket", json!("another")),
        with("action", json!("SomethingNew")),
        with("object", json!({ "key": 7 })),
    ];
    let queue = Queue::<Value>::named(UPLOAD_EVENTS.name());
    let dead = Queue::<Value>::named(INCOMING_DLQ.name());
    for message in &messages {
        app.queues().send(queue, message).await.unwrap();
        app.queues().send(dead, message).await.unwrap();
    }
    app.settle().await;
    assert!(is_empty(&app).await);
    assert_eq!(malformed.load(Ordering::Relaxed), messages.len() as u64);
    assert_eq!(rows(&app).await, []);
    app.queues().send(queue, &good).await.unwrap();
    app.settle().await;
    assert_eq!(row(&app, "cat.png").await.unwrap().status, Status::Classified);
}

/// Fails `fails` times, then ingests.
struct Troubled {
    ingestion: Ingestion,
    fails: u32,
}

impl Consumer for Troubled {
    type Message = UploadEvent;

    async fn deliver(&self, delivery: Delivery<UploadEvent>) -> Result<Settled> {
        if delivery.attempt() <= self.fails {
            return Err(Error::retryable("the moon is in the way"));
        }
        self.ingestion.deliver(delivery).await
    }
}

async fn troubled(fails: u32) -> TestApp {
    let consumer = Troubled { ingestion: Ingestion::default(), fails };
    program_with(&Fake::default(), true, consumer).test().await.unwrap()
}

/// Validation 5 of the second note.
#[tokio::test]
async fn a_consumer_that_throws_once_is_retried_and_converges() {
    let app = troubled(1).await;
    put(&app, "cat.png", "cat").await;
    put(&app, "dog.png", "dog").await;
    delete(&app, "dog.png").await;
    app.settle().await;
    assert_eq!(rows(&app).await, [], "the first attempts have failed");
    app.advance(Duration::from_mins(1)).await;
    let names: Vec<_> = rows(&app).await.into_iter().map(|it| (it.name, it.status)).collect();
    assert_eq!(names, [("cat.png".to_owned(), Status::Classified)]);
    assert!(is_empty(&app).await);
}

/// Hole 7 of the second note: three retries in seconds do not outlive an outage.
#[tokio::test]
async fn hole_7_an_outage_of_half_an_hour_costs_no_event() {
    let app = troubled(14).await;
    put(&app, "cat.png", "cat").await;
    app.advance(Duration::from_hours(2)).await;
    let cat = row(&app, "cat.png").await.unwrap();
    assert_eq!((cat.status, cat.error), (Status::Classified, None));
}

#[tokio::test]
async fn an_event_that_was_given_up_leaves_its_real_error_in_the_row() {
    let app = troubled(u32::MAX).await;
    put(&app, "cat.png", "cat").await;
    app.advance(Duration::from_hours(12)).await;
    let cat = row(&app, "cat.png").await.unwrap();
    assert_eq!(cat.status, Status::Failed);
    let error = cat.error.unwrap();
    assert!(error.contains("the moon is in the way"), "{error}");
    let retry = RetryUpload { name: "cat.png".into() };
    app.call(OrganizationAgent::at(ACME), retry).await.unwrap();
    app.settle().await;
    assert_eq!(row(&app, "cat.png").await.unwrap().status, Status::Classified);
}

/// Takes in events that were given up, unless it is away.
struct AwayGaveUp {
    gave_up: GaveUp,
    is_away: Arc<AtomicBool>,
}

impl Consumer for AwayGaveUp {
    type Message = UploadEvent;

    async fn deliver(&self, delivery: Delivery<UploadEvent>) -> Result<Settled> {
        match self.is_away.load(Ordering::SeqCst) {
            true => Err(Error::retryable("nobody is at home")),
            false => self.gave_up.deliver(delivery).await,
        }
    }
}

/// An outage of a day: of the consumer of events first, which gives them up, and then of the one of
/// those that were given up.
fn an_event_that_was_given_up_outlives_an_outage_of_a_day(
    world: impl Fn(Box<dyn Fn() -> App>) -> World,
) {
    let is_away = Arc::new(AtomicBool::new(true));
    let away = is_away.clone();
    let world = world(Box::new(move || {
        let troubled = Troubled { ingestion: Ingestion::default(), fails: u32::MAX };
        let gave_up = AwayGaveUp { gave_up: GaveUp::default(), is_away: away.clone() };
        program_of(&Fake::default(), true, troubled, gave_up)
    }));
    world.on(async |app| {
        put(app, "cat.png", "cat").await;
        put(app, "dog.png", "dog").await;
        delete(app, "dog.png").await;
        app.advance(Duration::from_hours(24)).await;
        assert_eq!(rows(app).await, []);
        is_away.store(false, Ordering::SeqCst);
        app.advance(Duration::from_mins(10)).await;
        let shown: Vec<_> = rows(app).await.into_iter().map(|it| (it.name, it.status)).collect();
        assert_eq!(shown, [("cat.png".to_owned(), Status::Failed)]);
        assert!(is_empty(app).await, "none is dead");
    });
}

#[test]
fn an_event_that_was_given_up_outlives_an_outage_of_a_day_on_sqlite() {
    an_event_that_was_given_up_outlives_an_outage_of_a_day(World::on_sqlite);
}

#[test]
fn an_event_that_was_given_up_outlives_an_outage_of_a_day_on_postgres() {
    an_event_that_was_given_up_outlives_an_outage_of_a_day(World::on_postgres);
}

/// Hole 5 of the second note: what somebody deletes is gone, whatever becomes of its event.
#[tokio::test]
async fn hole_5_a_deletion_whose_event_never_arrives_leaves_no_ghost() {
    let app = troubled(u32::MAX).await;
    let blob = put(&app, "cat.png", "cat").await;
    // The route that takes an image tells the agent itself.
    let ingest = IngestUploadEvent {
        name: "cat.png".into(),
        sequence: blob.sequence,
        version: blob.version(),
        size: blob.size,
        content_type: None,
        failed: None,
    };
    app.call(OrganizationAgent::at(ACME), ingest).await.unwrap();
    app.settle().await;
    assert_eq!(row(&app, "cat.png").await.unwrap().status, Status::Classified);
    let sequence = delete(&app, "cat.png").await;
    let hide = HideUpload { name: "cat.png".into(), sequence };
    app.call(OrganizationAgent::at(ACME), hide).await.unwrap();
    assert_eq!(rows(&app).await, [], "before its event");
    app.advance(Duration::from_hours(12)).await;
    assert_eq!(rows(&app).await, [], "after both events were given up");
    assert!(is_empty(&app).await);
}

/// Hole 8 of the second note: an event whose time is nonsense is as good as any other.
#[tokio::test]
async fn hole_8_an_invalid_time_is_no_poison() {
    let app = start(&Fake::default(), false).await;
    let mut event = put_event(&put(&app, "cat.png", "cat").await);
    event.event_time = "yesterday".into();
    deliver(&app, &event).await;
    app.settle().await;
    assert_eq!(row(&app, "cat.png").await.unwrap().status, Status::Classified);
    let mut gone = delete_event("cat.png", delete(&app, "cat.png").await);
    gone.event_time = String::new();
    deliver(&app, &gone).await;
    app.settle().await;
    assert_eq!(row(&app, "cat.png").await, None);
    assert!(is_empty(&app).await);
}

/// Hole 9 of the second note: a key names one organization and one image, or nothing.
#[tokio::test]
async fn hole_9_a_key_with_another_slash_is_no_image_of_anybody() {
    let app = start(&Fake::default(), false).await;
    let mut event = put_event(&put(&app, "cat.png", "cat").await);
    for key in ["acme/a/cat.png", "acme//cat.png", "/acme/cat.png", "acme/cat.png/"] {
        event.object.key = key.into();
        for action in [BlobAction::PutObject, BlobAction::LifecycleDeletion] {
            event.action = action;
            deliver(&app, &event).await;
        }
    }
    app.settle().await;
    assert_eq!(rows(&app).await, []);
    assert!(is_empty(&app).await);
}
