//! An end of the process before and after every commit from upload to result.

use std::{ops::Range, time::Duration};

use steadfast::{
    Object,
    test::{App, assert_survives_crashes},
};
use steadfast_uploads::{GetUploads, OrganizationAgent, Status, UPLOADS};

use steadfast_world::World;

use crate::stage::{ACME, Fake, program, row, rows};

#[tokio::test]
async fn no_end_of_the_process_loses_doubles_or_confuses_an_image() {
    let fake = Fake::default();
    let survived = assert_survives_crashes(
        || program(&fake, true),
        async |app| {
            let uploads = app.bucket(UPLOADS);
            // Who was cut off does not know, looks, and does the rest.
            if uploads.head("acme/a.png").await?.is_none() {
                uploads.put("acme/a.png", "cat").await?;
            }
            if uploads.head("acme/b.png").await?.is_none_or(|it| it.sequence == 1) {
                uploads.put("acme/b.png", "cat").await?;
                uploads.put("acme/b.png", "dog").await?;
            }
            uploads.put("acme/c.png", "cat").await?;
            uploads.delete("acme/c.png").await?;
            app.settle().await;
            let all = GetUploads { limit: 9, ..GetUploads::default() };
            let mut shown = Vec::new();
            for upload in app.call(OrganizationAgent::at(ACME), all).await? {
                let blob = uploads.head(&format!("{ACME}/{}", upload.name)).await?;
                let blob = blob.expect("a row without an image");
                assert_eq!(blob.version(), upload.version, "{}", upload.name);
                assert_eq!(upload.status, Status::Classified);
                shown.push((upload.name, upload.classification_label));
            }
            shown.sort();
            Ok(shown)
        },
    );
    assert!(30 < survived.await);
}

/// The same on a database, with an end after any number of commits: of the changes, of their
/// deliveries and of their runs.
fn an_end_after_any_commit_changes_nothing(ends: Range<u64>, world: impl Fn(Fake) -> World) {
    for commits in ends {
        let mut world = world(Fake::default());
        world.end_during(commits, async |app| {
            change(app).await;
            app.settle().await;
        });
        world.on(async |app| {
            change(app).await;
            app.advance(Duration::from_mins(30)).await;
            let shown: Vec<_> = rows(app).await.into_iter().map(|it| it.name).collect();
            assert_eq!(sorted(shown), ["a.png", "b.png"], "{commits} commits");
            for (name, label) in [("a.png", "CAT"), ("b.png", "DOG")] {
                let shown = row(app, name).await.unwrap();
                let blob = app.bucket(UPLOADS).head(&format!("{ACME}/{name}")).await.unwrap();
                assert_eq!(shown.version, blob.unwrap().version(), "{commits} commits, {name}");
                let is = (shown.status, shown.classification_label.as_deref(), shown.retries);
                assert_eq!(is, (Status::Classified, Some(label), 0), "{commits} commits, {name}");
            }
        });
    }
}

fn sorted(mut names: Vec<String>) -> Vec<String> {
    names.sort();
    names
}

/// Does the rest of what an earlier process began.
async fn change(app: &App) {
    let uploads = app.bucket(UPLOADS);
    for (name, bytes) in [("a.png", "cat"), ("b.png", "cat"), ("b.png", "dog"), ("c.png", "cat")] {
        // A process that ended meanwhile answers with an error.
        let _ = uploads.put(&format!("{ACME}/{name}"), bytes).await;
    }
    let _ = uploads.delete(&format!("{ACME}/c.png")).await;
}

#[test]
fn an_end_after_any_commit_changes_nothing_on_sqlite() {
    an_end_after_any_commit_changes_nothing(0..30, |fake| {
        World::on_sqlite(move || program(&fake, true))
    });
}

#[test]
fn an_end_after_any_commit_changes_nothing_on_postgres() {
    an_end_after_any_commit_changes_nothing(0..30, |fake| {
        World::on_postgres(move || program(&fake, true))
    });
}
