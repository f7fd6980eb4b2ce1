//! An end of the process before and after every commit from upload to result.

use std::{
    cell::Cell,
    collections::{BTreeMap, BTreeSet},
    ops::Range,
    time::Duration,
};

use steadfast_core::{
    BucketError, Object,
    test::{TestApp, assert_survives_crashes},
};
use steadfast_uploads::{GetUploads, OrganizationAgent, Status, UPLOADS};

use steadfast_world::World;

use crate::stage::{ACME, Fake, program, rows};

#[tokio::test]
async fn no_end_of_the_process_loses_doubles_or_confuses_an_image() {
    let fake = Fake::default();
    let survived = assert_survives_crashes(
        || program(&fake, true),
        async |app| {
            let uploads = app.bucket(UPLOADS);
            // A client that was cut off checks the outcome, and does the rest.
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

/// The changes of a client, one after the other: it puts an image, or deletes it.
const CHANGES: [Change; 8] = [
    ("a.png", Some("cat")),
    ("b.png", Some("cat")),
    ("b.png", Some("dog")),
    ("c.png", Some("cat")),
    ("c.png", None),
    ("d.png", Some("bird")),
    ("a.png", Some("dog")),
    ("d.png", None),
];

async fn make(app: &TestApp, (name, bytes): Change) -> Result<(), BucketError> {
    let (uploads, key) = (app.bucket(UPLOADS), format!("{ACME}/{name}"));
    match bytes {
        Some(bytes) => uploads.put(&key, bytes).await.map(drop),
        None => uploads.delete(&key).await.map(drop),
    }
}

type Change = (&'static str, Option<&'static str>);

/// The images and their labels after these changes.
fn after(mut images: BTreeMap<String, String>, changes: &[Change]) -> BTreeMap<String, String> {
    for (name, bytes) in changes {
        match bytes {
            Some(bytes) => _ = images.insert((*name).to_owned(), bytes.to_uppercase()),
            None => _ = images.remove(*name),
        }
    }
    images
}

/// The images and their labels that are shown. All are classified, without a retry, and are those
/// of the bucket.
async fn shown(app: &TestApp) -> BTreeMap<String, String> {
    let mut images = BTreeMap::new();
    for row in rows(app).await {
        let blob = app.bucket(UPLOADS).head(&format!("{ACME}/{}", row.name)).await.unwrap();
        assert_eq!(blob.map(|it| it.version()), Some(row.version), "{}", row.name);
        assert_eq!((row.status, row.retries), (Status::Classified, 0), "{}", row.name);
        images.insert(row.name, row.classification_label.unwrap());
    }
    images
}

/// An end after so many commits: of the changes, of their deliveries and of their runs. Nothing is
/// repeated: what was acknowledged is there, and beside it at most the change in progress.
fn an_end_loses_nothing_that_was_acknowledged(ends: Range<u64>, world: impl Fn(Fake) -> World) {
    let mut cuts = BTreeSet::new();
    for commits in ends {
        let mut world = world(Fake::default());
        let (begun, acknowledged) = (Cell::new(0), Cell::new(0));
        world.end_during(commits, async |app| {
            for change in CHANGES {
                begun.set(begun.get() + 1);
                if make(app, change).await.is_err() {
                    return;
                }
                acknowledged.set(begun.get());
            }
            app.settle().await;
        });
        world.on(async |app| {
            app.advance(Duration::from_mins(30)).await;
            let found = shown(app).await;
            let (heard, rest) = (&CHANGES[..acknowledged.get()], &CHANGES[begun.get()..]);
            let possible = [heard, &CHANGES[..begun.get()]].map(|it| after(BTreeMap::new(), it));
            assert!(possible.contains(&found), "{commits} commits: {found:?}, not {possible:?}");
            for change in rest {
                make(app, *change).await.unwrap();
            }
            app.advance(Duration::from_mins(30)).await;
            assert_eq!(shown(app).await, after(found, rest), "{commits} commits, and the rest");
        });
        cuts.insert(acknowledged.get());
    }
    assert!(5 < cuts.len(), "the ends fall between the changes: {cuts:?}");
}

#[test]
fn an_end_loses_nothing_that_was_acknowledged_in_memory() {
    an_end_loses_nothing_that_was_acknowledged(0..60, |fake| {
        World::in_memory(move || program(&fake, true))
    });
}

#[test]
fn an_end_loses_nothing_that_was_acknowledged_on_sqlite() {
    an_end_loses_nothing_that_was_acknowledged(0..30, |fake| {
        World::on_sqlite(move || program(&fake, true))
    });
}

#[test]
fn an_end_loses_nothing_that_was_acknowledged_on_postgres() {
    an_end_loses_nothing_that_was_acknowledged(0..30, |fake| {
        World::on_postgres(move || program(&fake, true))
    });
}
