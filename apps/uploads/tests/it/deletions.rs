//! Deletions: at once, for good, told once, and never in the way of a later upload.

use std::{sync::atomic::Ordering, time::Duration};

use steadfast_core::{ConnectParams, LiveSocket, Object, object::SqlQuery, test::TestApp};
use steadfast_uploads::{HideUpload, OrganizationAgent, Status};
use steadfast_world::World;

use crate::stage::{
    ACME, Fake, delete, delete_event, deliver, program, put, put_event, row, rows, start,
};

const DAY: Duration = Duration::from_hours(24);

async fn hide(app: &TestApp, name: &str, sequence: i64) {
    let hide = HideUpload { name: name.into(), sequence };
    app.call(OrganizationAgent::at(ACME), hide).await.unwrap();
}

async fn tombstones(app: &TestApp) -> i64 {
    let sql = "SELECT count(*) FROM Tombstone".into();
    let query = SqlQuery { sql, params: serde_json::Value::Null, turn: None };
    let found = app.objects().query(None, "organization", ACME, query).await.unwrap();
    found.rows[0][0].to_string().parse().unwrap()
}

/// One deletion on each of so many days.
async fn delete_daily(app: &TestApp, days: usize) {
    for day in 0..days {
        let name = format!("{day}.png");
        put(app, &name, "cat").await;
        delete(app, &name).await;
        app.advance(DAY).await;
    }
}

#[tokio::test]
async fn tombstones_are_swept_although_something_is_deleted_every_day() {
    let app = start(&Fake::default(), true).await;
    delete_daily(&app, 40).await;
    let left = tombstones(&app).await;
    assert!((29..=31).contains(&left), "{left} tombstones are left of 40");
}

/// Deletes a key that had many changes, deletes others for two months, and uploads the key again.
fn an_upload_long_after_a_deletion_is_classified(world: &World) {
    world.on(async |app| {
        for _ in 0..9 {
            put(app, "cat.png", "cat").await;
        }
        delete(app, "cat.png").await;
        delete_daily(app, 60).await;
        app.sweep().await;
        put(app, "cat.png", "dog").await;
        app.settle().await;
        let cat = row(app, "cat.png").await.expect("the upload was swallowed");
        assert_eq!(cat.classification_label.as_deref(), Some("DOG"));
    });
}

#[test]
fn an_upload_long_after_a_deletion_is_classified_on_sqlite() {
    let world = World::on_sqlite(|| program(&Fake::default(), true));
    an_upload_long_after_a_deletion_is_classified(&world);
}

#[test]
fn an_upload_long_after_a_deletion_is_classified_on_postgres() {
    let world = World::on_postgres(|| program(&Fake::default(), true));
    an_upload_long_after_a_deletion_is_classified(&world);
}

#[tokio::test]
async fn a_deleted_image_does_not_come_back_when_an_older_event_arrives() {
    let app = start(&Fake::default(), false).await;
    let first = put(&app, "cat.png", "cat").await;
    deliver(&app, &put_event(&first)).await;
    app.settle().await;
    let second = put(&app, "cat.png", "dog").await;
    let sequence = delete(&app, "cat.png").await;
    hide(&app, "cat.png", sequence).await;
    deliver(&app, &put_event(&second)).await;
    app.settle().await;
    assert_eq!(rows(&app).await, []);
}

#[tokio::test]
async fn a_deletion_before_the_row_exists_is_remembered() {
    let app = start(&Fake::default(), false).await;
    let blob = put(&app, "cat.png", "cat").await;
    let sequence = delete(&app, "cat.png").await;
    hide(&app, "cat.png", sequence).await;
    deliver(&app, &put_event(&blob)).await;
    app.settle().await;
    assert_eq!(row(&app, "cat.png").await, None);
}

/// The types of all events that a connection has heard.
pub(crate) async fn heard(socket: &LiveSocket) -> Vec<String> {
    // The answer to the ping comes after all earlier events.
    socket.send("ping").await.unwrap();
    let mut types = Vec::new();
    loop {
        let event: serde_json::Value =
            serde_json::from_str(&socket.next().await.unwrap().text).unwrap();
        match event["type"].as_str().unwrap() {
            "pong" => return types,
            kind => types.push(kind.to_owned()),
        }
    }
}

#[tokio::test]
async fn deleting_ends_the_run_is_told_once_and_nothing_is_told_afterwards() {
    let fake = Fake::default();
    let app = start(&fake, false).await;
    let blob = put(&app, "pet.png", "later").await;
    deliver(&app, &put_event(&blob)).await;
    app.settle().await;
    let running = row(&app, "pet.png").await.unwrap();
    assert_eq!(running.status, Status::Running);
    let socket = app.objects().connect("organization", ACME, ConnectParams::new()).await.unwrap();
    let sequence = delete(&app, "pet.png").await;
    hide(&app, "pet.png", sequence).await;
    app.settle().await;
    let run = app.runs().status("image-classification", &running.workflow_id).await.unwrap();
    assert!(run.is_final(), "{run:?}");
    fake.is_ready.store(true, Ordering::SeqCst);
    app.advance(Duration::from_hours(1)).await;
    deliver(&app, &delete_event("pet.png", sequence)).await;
    deliver(&app, &put_event(&blob)).await;
    app.advance(Duration::from_hours(1)).await;
    assert_eq!(heard(&socket).await, ["upload_deleted"]);
}
