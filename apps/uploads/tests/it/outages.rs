//! A model or provider that is away, and images that are too large.

use std::{sync::atomic::Ordering, time::Duration};

use steadfast::bucket::GetOptions;
use steadfast_uploads::{Status, UPLOADS};
use steadfast_world::World;

use crate::stage::{Fake, program, put, row, rows, start};

const IMAGES: usize = 4;

/// Six hours without the classifier: nothing fails, nothing is asked or read again meanwhile.
fn images_outlive_an_outage_of_six_hours(world: impl Fn(Fake) -> World) {
    let fake = Fake::default();
    fake.is_down.store(true, Ordering::SeqCst);
    let world = world(fake.clone());
    world.on(async |app| {
        for number in 0..IMAGES {
            put(app, &format!("{number}.png"), "cat").await;
        }
        app.advance(Duration::from_hours(6)).await;
        assert!(rows(app).await.iter().all(|it| it.status == Status::Running));
        // Each image was read and shown to the classifier once.
        assert_eq!(fake.calls.load(Ordering::SeqCst), IMAGES);
        let one = row(app, "0.png").await.unwrap();
        let run = app.runs().run("image-classification", &one.workflow_id).await.unwrap();
        assert!(run.steps.len() <= 4, "waiting is one step: {:?}", run.steps);
        fake.is_ready.store(true, Ordering::SeqCst);
        fake.is_down.store(false, Ordering::SeqCst);
        app.advance(Duration::from_mins(10)).await;
        let rows = rows(app).await;
        assert_eq!(rows.len(), IMAGES);
        assert!(rows.iter().all(|it| it.status == Status::Classified), "{rows:?}");
        assert_eq!(fake.calls.load(Ordering::SeqCst), 2 * IMAGES);
    });
}

#[test]
fn images_outlive_an_outage_of_six_hours_on_sqlite() {
    images_outlive_an_outage_of_six_hours(|fake| World::on_sqlite(move || program(&fake, true)));
}

#[test]
fn images_outlive_an_outage_of_six_hours_on_postgres() {
    images_outlive_an_outage_of_six_hours(|fake| World::on_postgres(move || program(&fake, true)));
}

#[test]
fn a_wait_for_the_classifier_outlives_any_number_of_ends_of_the_process() {
    let fake = Fake::default();
    fake.is_down.store(true, Ordering::SeqCst);
    let classifier = fake.clone();
    let mut world = World::in_memory(move || program(&classifier, true));
    world.on(async |app| {
        put(app, "cat.png", "cat").await;
        app.settle().await;
    });
    for _ in 0..20 {
        world.end_during(1, async |app| app.advance(Duration::from_mins(10)).await);
    }
    fake.is_ready.store(true, Ordering::SeqCst);
    fake.is_down.store(false, Ordering::SeqCst);
    world.on(async |app| {
        app.advance(Duration::from_mins(30)).await;
        assert_eq!(row(app, "cat.png").await.unwrap().status, Status::Classified);
    });
}

#[tokio::test]
async fn an_image_that_a_provider_never_takes_fails_and_holds_up_nobody() {
    let fake = Fake::default();
    fake.is_ready.store(true, Ordering::SeqCst);
    let app = start(&fake, true).await;
    for number in 0..40 {
        put(&app, &format!("bad-{number}.png"), "down").await;
    }
    put(&app, "cat.png", "cat").await;
    app.advance(Duration::from_mins(1)).await;
    assert_eq!(row(&app, "cat.png").await.unwrap().status, Status::Classified);
    app.advance(Duration::from_hours(1)).await;
    let bad = row(&app, "bad-0.png").await.unwrap();
    assert_eq!(bad.status, Status::Failed);
    assert!(bad.error.unwrap().contains("down"));
}

#[tokio::test]
async fn an_image_that_is_too_large_is_failed_with_its_reason_and_not_read() {
    let fake = Fake::default();
    let app = start(&fake, true).await;
    let large = "x".repeat(5_000_001);
    put(&app, "large.png", &large).await;
    put(&app, "most.png", &large[1..]).await;
    app.settle().await;
    let shown = row(&app, "large.png").await.unwrap();
    assert_eq!(shown.status, Status::Failed);
    assert_eq!(shown.error.unwrap(), "image has 5000001 bytes, limit is 5000000");
    assert_eq!(row(&app, "most.png").await.unwrap().status, Status::Classified);
    assert_eq!(fake.calls.load(Ordering::SeqCst), 1);
    let read = app.bucket(UPLOADS).read("acme/large.png", GetOptions::default()).await.unwrap();
    assert_eq!(read.blob.size, 5_000_001, "the blob itself is kept");
}
