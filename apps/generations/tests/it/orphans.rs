//! Blobs that nothing refers to are found and deleted, and others never.

use steadfast_core::{
    Object, Perform,
    bucket::{Attributes, PutOptions},
    test::TestApp,
};
use steadfast_generations::providers::ErrorKind;
use steadfast_generations::{
    ARTIFACTS, Create, DEFAULT_WORKSPACE, Delete, FindOrphans, GenerationManager, artifact_id,
    blob_key,
};

use crate::stage::{Fake, ID, advance, blobs, create, request, start_with_providers, webhook};

const OTHER: &str = "0190b0a0-0000-7000-8000-000000000002";
const DAY: u64 = 24 * 3_600;

laws!(
    blobs_that_nothing_refers_to_are_found_however_long_the_bucket_is_away,
    blobs_that_are_referred_to_are_never_taken,
);
laws!(also on postgres: blobs_that_are_referred_to_are_never_taken);

/// Puts a blob as a process leaves it that ends before it reports the blob.
async fn leave(app: &TestApp, generation: &str, index: u32, workspace: Option<&str>) -> String {
    let mut attributes = Attributes::of_type("image/png");
    attributes.metadata.insert("generation".into(), generation.into());
    attributes.metadata.extend(workspace.map(|it| ("workspace".into(), it.into())));
    let put = PutOptions { attributes, ..PutOptions::default() };
    let key = blob_key(DEFAULT_WORKSPACE, &artifact_id(generation, index));
    app.bucket(ARTIFACTS).put_with(&key, b"bytes", put).await.unwrap();
    key
}

async fn blobs_that_nothing_refers_to_are_found_however_long_the_bucket_is_away(
    app: &TestApp,
    fake: &Fake,
) {
    create(app, "now", 2).await;
    app.settle().await;
    let wanted = blobs(app).await;
    for index in 0..3 {
        leave(app, OTHER, index, Some(DEFAULT_WORKSPACE)).await;
    }
    fake.books().is_bucket_away = true;
    advance(app, 4 * DAY).await;
    assert_eq!(blobs(app).await.len(), 5);
    fake.books().is_bucket_away = false;
    advance(app, DAY).await;
    assert_eq!(blobs(app).await, wanted);
    // And again, as long as there are artifacts.
    leave(app, OTHER, 0, Some(DEFAULT_WORKSPACE)).await;
    advance(app, 2 * DAY).await;
    assert_eq!(blobs(app).await, wanted);
}

async fn blobs_that_are_referred_to_are_never_taken(app: &TestApp, fake: &Fake) {
    create(app, "now", 2).await;
    let other = Create { workspace: "team".into(), ..request("now", 2) };
    app.call(GenerationManager::at(OTHER), other).await.unwrap();
    app.settle().await;
    // No workspace refers to a blob without one.
    leave(app, "0190b0a0-0000-7000-8000-000000000003", 0, None).await;
    assert_eq!(blobs(app).await.len(), 5);
    advance(app, 5 * DAY).await;
    assert_eq!(blobs(app).await.len(), 5);
    assert_eq!(fake.books().submitted, 4);
}

/// Puts a blob with metadata that anybody may have written.
async fn forge(app: &TestApp, key: &str, generation: &str, workspace: &str) {
    let mut attributes = Attributes::of_type("image/png");
    attributes.metadata.insert("generation".into(), generation.into());
    attributes.metadata.insert("workspace".into(), workspace.into());
    let put = PutOptions { attributes, ..PutOptions::default() };
    app.bucket(ARTIFACTS).put_with(key, b"bytes", put).await.unwrap();
}

#[tokio::test]
async fn copies_and_forged_blobs_are_never_taken_and_do_not_stop_the_sweep() {
    let fake = Fake::new();
    let (app, providers) = start_with_providers(&fake).await;
    let (id, long) = (artifact_id(OTHER, 0), "x".repeat(600));
    let orphan = format!("acme/artifacts/{id}");
    forge(&app, &orphan, OTHER, "acme").await;
    let copies = [
        "acme/saved/boat.png".to_owned(),
        "backup/x.png".into(),
        "acme/artifacts/boat.png".into(),
        format!("acme/artifacts/{}", artifact_id(ID, 0)),
        format!("acme/artifacts/saved/{id}"),
        format!("backup/acme/artifacts/{id}"),
        format!("other/artifacts/{id}"),
        id.clone(),
    ];
    for key in &copies {
        forge(&app, key, OTHER, "acme").await;
    }
    let forged = [(OTHER, &*long), (&*long, "acme"), (OTHER, "a/b")];
    for (index, (generation, workspace)) in forged.into_iter().enumerate() {
        forge(&app, &format!("artifacts/{index}"), generation, workspace).await;
        let key = format!("a/b/artifacts/{}", artifact_id(generation, index as u32));
        forge(&app, &key, generation, workspace).await;
    }
    let mut left = blobs(&app).await;
    left.retain(|it| *it != orphan);
    let all = FindOrphans { after: None, until: i64::MAX };
    assert_eq!(providers.perform(all, "key").await.unwrap().deleted, [id]);
    assert_eq!(blobs(&app).await, left);
    assert_eq!(left.len(), copies.len() + 2 * forged.len());
}

#[tokio::test]
async fn a_workspace_whose_library_fails_does_not_stop_the_sweep() {
    let fake = Fake::new();
    fake.books().is_library_full = true;
    let (app, providers) = start_with_providers(&fake).await;
    let left = leave(&app, OTHER, 0, Some(DEFAULT_WORKSPACE)).await;
    let all = FindOrphans { after: None, until: i64::MAX };
    let found = providers.perform(all, "key").await.unwrap();
    assert_eq!((found.deleted, found.next), (Vec::new(), None));
    assert_eq!(blobs(&app).await, [left]);
}

#[tokio::test]
async fn a_blob_that_its_manager_fetches_is_referred_to() {
    let fake = Fake::new();
    let (app, providers) = start_with_providers(&fake).await;
    create(&app, "slow", 2).await;
    app.settle().await;
    fake.books().withheld = Some(ErrorKind::Unavailable);
    webhook(&app, 0).await.unwrap();
    app.settle().await;
    let fetched = leave(&app, ID, 0, Some(DEFAULT_WORKSPACE)).await;
    leave(&app, ID, 7, Some(DEFAULT_WORKSPACE)).await;
    let all = FindOrphans { after: None, until: i64::MAX };
    let found = providers.perform(all.clone(), "key").await.unwrap();
    assert_eq!(found.deleted, [artifact_id(ID, 7)], "there is no such place");
    assert_eq!(blobs(&app).await, [fetched]);
    app.call(GenerationManager::at(ID), Delete).await.unwrap();
    assert_eq!(providers.perform(all, "key").await.unwrap().deleted, [artifact_id(ID, 0)]);
}
