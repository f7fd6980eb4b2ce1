//! A model or provider that is away, and images that are too large.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use steadfast_core::{
    bucket::GetOptions,
    store::{Address, EntityKind, ManualClock, MemoryStore, Timestamp, Version},
    test::TestApp,
    workflow::StepView,
};
use steadfast_uploads::{Status, UPLOADS, Upload};
use steadfast_world::World;

use crate::{
    counted::CountedBlobs,
    stage::{Fake, program, put, row, rows, start},
};

const IMAGES: usize = 4;

/// A program whose reads of blobs are counted.
async fn counted(fake: &Fake) -> (TestApp, CountedBlobs) {
    let clock = ManualClock::at(Timestamp(1_700_000_000_000));
    let store = Arc::new(MemoryStore::new(Arc::new(clock.clone())));
    let blobs = CountedBlobs::default();
    let program = program(fake, true).blobs(Arc::new(blobs.clone()));
    (program.test_on(store, clock).await.unwrap(), blobs)
}

/// How many entries the record of a run has.
async fn entries(app: &TestApp, row: &Upload) -> Version {
    let run = Address::new(EntityKind::Run, "image-classification", &row.workflow_id).unwrap();
    app.store().version(run.id()).await.unwrap()
}

/// Six hours without the classifier: nothing fails, nothing is asked or read again meanwhile.
fn images_outlive_an_outage_of_six_hours(world: impl Fn(Fake) -> World) {
    let fake = Fake::default();
    fake.is_down.store(true, Ordering::SeqCst);
    let world = world(fake.clone());
    world.on(async |app| {
        for number in 0..IMAGES {
            put(app, &format!("{number}.png"), "cat").await;
        }
        app.settle().await;
        let before = app.store().activity().commits;
        app.advance(Duration::from_hours(6)).await;
        let commits = app.store().activity().commits - before;
        assert!(rows(app).await.iter().all(|it| it.status == Status::Running));
        // Each image was read and shown to the classifier once.
        assert_eq!(fake.calls.load(Ordering::SeqCst), IMAGES);
        let one = row(app, "0.png").await.unwrap();
        let run = app.runs().look("image-classification", &one.workflow_id).await.unwrap();
        let is_recorded = |it: &&StepView| it.output.is_some() || it.kind == "sleep";
        let steps = run.steps.iter().filter(|it| it.branch.is_empty()).filter(is_recorded);
        assert!(steps.count() <= 4, "waiting is one step: {:?}", run.steps);
        // Six questions an hour, after seven in the first ten minutes, and the sweeps of the rows.
        let (entries, questions) = (entries(app, &one).await, 7 + 6 * 6);
        assert!(entries <= 20 + 2 * questions, "{entries} entries");
        assert!(commits <= 36 * 4 + IMAGES as u64 * 43, "{commits} commits");
        fake.is_ready.store(true, Ordering::SeqCst);
        fake.is_down.store(false, Ordering::SeqCst);
        app.advance(Duration::from_mins(15)).await;
        let rows = rows(app).await;
        assert_eq!(rows.len(), IMAGES);
        assert!(rows.iter().all(|it| it.status == Status::Classified), "{rows:?}");
        assert_eq!(fake.calls.load(Ordering::SeqCst), 2 * IMAGES);
    });
}

#[tokio::test]
async fn an_image_that_waits_for_the_classifier_is_not_read() {
    let fake = Fake::default();
    let (app, blobs) = counted(&fake).await;
    put(&app, "cat.png", "later").await;
    app.settle().await;
    assert_eq!(blobs.take(), (1, 5), "it was read once, before it was known");
    app.advance(Duration::from_hours(24)).await;
    assert_eq!(blobs.take(), (1, 5), "while it waits, only the check of all blobs reads it");
    app.advance(Duration::from_hours(24)).await;
    assert_eq!(blobs.take(), (0, 0));
    fake.is_ready.store(true, Ordering::SeqCst);
    app.advance(Duration::from_mins(15)).await;
    assert_eq!(row(&app, "cat.png").await.unwrap().status, Status::Classified);
    assert_eq!(blobs.take(), (1, 5));
}

#[tokio::test]
async fn many_runs_that_wait_ask_no_more_often_than_every_five_seconds() {
    let fake = Fake::default();
    let app = start(&fake, true).await;
    for number in 0..200 {
        put(&app, &format!("{number}.png"), "later").await;
    }
    app.settle().await;
    assert_eq!(fake.asked.load(Ordering::SeqCst), 1);
    app.advance(Duration::from_mins(20)).await;
    let asked = fake.asked.load(Ordering::SeqCst);
    assert!(asked <= 1 + 1_200 / 5, "{asked} questions of 200 runs in 20 minutes");
}

/// More outages than tries that an image has, each of them while it is looked at.
fn no_number_of_outages_fails_an_image(world: impl Fn(Fake) -> World) {
    let fake = Fake::default();
    fake.is_ready.store(true, Ordering::SeqCst);
    fake.outages.store(25, Ordering::SeqCst);
    let world = world(fake.clone());
    world.on(async |app| {
        put(app, "cat.png", "cat").await;
        for _ in 0..25 {
            app.advance(Duration::from_mins(2)).await;
            assert_eq!(row(app, "cat.png").await.unwrap().status, Status::Running);
            fake.is_down.store(false, Ordering::SeqCst);
            app.advance(Duration::from_mins(18)).await;
        }
        assert_eq!(fake.outages.load(Ordering::SeqCst), 0, "all of them have happened");
        fake.is_down.store(false, Ordering::SeqCst);
        app.advance(Duration::from_mins(20)).await;
        assert_eq!(row(app, "cat.png").await.unwrap().status, Status::Classified);
    });
}

#[test]
fn no_number_of_outages_fails_an_image_on_sqlite() {
    no_number_of_outages_fails_an_image(|fake| World::on_sqlite(move || program(&fake, true)));
}

#[test]
fn no_number_of_outages_fails_an_image_on_postgres() {
    no_number_of_outages_fails_an_image(|fake| World::on_postgres(move || program(&fake, true)));
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

/// Bytes that a reader of a blob gets before it knows how many there are.
const PIECE: u64 = 256 << 10;

#[tokio::test]
async fn an_image_that_is_too_large_is_failed_with_its_reason_and_not_read() {
    let fake = Fake::default();
    let (app, blobs) = counted(&fake).await;
    let large = "x".repeat(5_000_001);
    put(&app, "large.png", &large).await;
    app.settle().await;
    let shown = row(&app, "large.png").await.unwrap();
    assert_eq!(shown.status, Status::Failed);
    assert_eq!(shown.error.unwrap(), "image has 5000001 bytes, limit is 5000000");
    assert_eq!(fake.calls.load(Ordering::SeqCst), 0);
    assert_eq!(blobs.take(), (1, PIECE), "one look, however large it is");
    put(&app, "most.png", &large[1..]).await;
    app.settle().await;
    assert_eq!(row(&app, "most.png").await.unwrap().status, Status::Classified);
    assert_eq!(blobs.take().1, 5_000_000, "what is not too large is read once");
    let read = app.bucket(UPLOADS).read("acme/large.png", GetOptions::default()).await.unwrap();
    assert_eq!(read.blob.size, 5_000_001, "the blob itself is kept");
}
