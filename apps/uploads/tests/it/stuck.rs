//! Rows whose run was terminated or lost.

use std::{sync::atomic::Ordering, time::Duration};

use steadfast_core::{Object, test::TestApp};
use steadfast_uploads::{OrganizationAgent, RetryUpload, Status, Upload, workflow_id};
use steadfast_world::World;

use crate::stage::{ACME, Fake, program, put, row, runs};

async fn terminate(app: &TestApp, row: &Upload) {
    app.runs().terminate("image-classification", &row.workflow_id).await.unwrap();
    app.settle().await;
}

fn a_row_whose_run_was_terminated_is_found_and_retried(
    images: usize,
    world: impl Fn(Fake) -> World,
) {
    let fake = Fake::default();
    let world = world(fake.clone());
    world.on(async |app| {
        for number in 0..images {
            put(app, &format!("{number}.png"), "later").await;
        }
        app.settle().await;
        let (one, other) = (row(app, "0.png").await.unwrap(), row(app, "9.png").await.unwrap());
        terminate(app, &one).await;
        terminate(app, &other).await;
        assert_eq!(row(app, "0.png").await.unwrap().status, Status::Running, "it is stuck");
        app.advance(Duration::from_mins(25)).await;
        assert_eq!(runs(app).await, images + 2, "only these two have another run");
        fake.is_ready.store(true, Ordering::SeqCst);
        app.advance(Duration::from_mins(20)).await;
        for name in ["0.png", "9.png", "5.png"] {
            let shown = row(app, name).await.unwrap();
            assert_eq!(shown.status, Status::Classified, "{name}");
            assert_eq!(shown.workflow_id.ends_with("-r1"), name != "5.png", "{name}");
            assert_eq!(shown.retries, 0, "nobody asked for it");
        }
    });
}

#[test]
fn a_row_whose_run_was_terminated_is_found_and_retried_on_sqlite() {
    a_row_whose_run_was_terminated_is_found_and_retried(10, |fake| {
        World::on_sqlite(move || program(&fake, true))
    });
}

#[test]
fn a_row_whose_run_was_terminated_is_found_and_retried_on_postgres() {
    a_row_whose_run_was_terminated_is_found_and_retried(10, |fake| {
        World::on_postgres(move || program(&fake, true))
    });
}

#[test]
fn a_row_whose_run_was_terminated_is_found_among_more_than_a_page_of_others() {
    a_row_whose_run_was_terminated_is_found_and_retried(250, |fake| {
        World::in_memory(move || program(&fake, true))
    });
}

#[test]
fn a_row_whose_run_is_lost_with_its_record_is_found_and_retried() {
    let fake = Fake::default();
    let classifier = fake.clone();
    let world = World::in_memory(move || program(&classifier, true));
    world.on(async |app| {
        put(app, "cat.png", "later").await;
        app.settle().await;
        let stuck = row(app, "cat.png").await.unwrap();
        terminate(app, &stuck).await;
        app.runs().delete("image-classification", &stuck.workflow_id).await.unwrap();
        fake.is_ready.store(true, Ordering::SeqCst);
        app.advance(Duration::from_mins(25)).await;
        assert_eq!(row(app, "cat.png").await.unwrap().status, Status::Classified);
    });
}

#[test]
fn a_row_that_loses_every_run_fails_at_last_and_the_sweep_ends() {
    let world = World::in_memory(|| program(&Fake::default(), true));
    world.on(async |app| {
        put(app, "cat.png", "later").await;
        for _ in 0..40 {
            app.advance(Duration::from_mins(10)).await;
            let shown = row(app, "cat.png").await.unwrap();
            if shown.status == Status::Failed {
                let error = shown.error.unwrap();
                assert!(error.contains("6 runs ended without a result"), "{error}");
                let before = app.store().activity().commits;
                app.advance(Duration::from_hours(24)).await;
                let after = app.store().activity().commits;
                assert!(after - before < 10, "nothing is left to sweep: {}", after - before);
                return;
            }
            terminate(app, &shown).await;
        }
        panic!("it never failed");
    });
}

/// Ends the runs of an image until it fails, and says how many there were.
async fn lose_all_runs(app: &TestApp, name: &str) -> usize {
    for lost in 0..40 {
        let shown = row(app, name).await.unwrap();
        if shown.status == Status::Failed {
            return lost;
        }
        terminate(app, &shown).await;
        app.advance(Duration::from_mins(25)).await;
    }
    panic!("it never failed");
}

#[test]
fn retries_of_a_user_and_lost_runs_are_counted_apart() {
    let fake = Fake::default();
    let classifier = fake.clone();
    let world = World::in_memory(move || program(&classifier, true));
    world.on(async |app| {
        put(app, "cat.png", "later").await;
        app.settle().await;
        let retry = async || {
            let retry = RetryUpload { name: "cat.png".into() };
            app.call(OrganizationAgent::at(ACME), retry).await.unwrap()
        };
        for retries in 1..=7 {
            assert_eq!(retry().await.retries, retries);
            app.settle().await;
        }
        // However often its user retried it, a lost run is retried as often as any other.
        assert_eq!(lose_all_runs(app, "cat.png").await, 6);
        assert_eq!(row(app, "cat.png").await.unwrap().retries, 7, "nobody asked for more");
        let again = retry().await;
        assert_eq!((again.status, again.retries), (Status::Queued, 8));
        app.settle().await;
        assert_eq!(lose_all_runs(app, "cat.png").await, 6, "and after a retry again");
        fake.is_ready.store(true, Ordering::SeqCst);
        assert_eq!(retry().await.retries, 9);
        app.settle().await;
        assert_eq!(row(app, "cat.png").await.unwrap().status, Status::Classified);
        // Another image of this name starts without retries.
        put(app, "cat.png", "dog").await;
        app.settle().await;
        let dog = row(app, "cat.png").await.unwrap();
        assert_eq!((dog.retries, dog.workflow_id), (0, workflow_id(&dog.event_id, 0)));
    });
}
