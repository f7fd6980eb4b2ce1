//! The holes of the first note, each closed by a test of its number.

use std::{ops::Range, sync::atomic::Ordering, time::Duration};

use steadfast_core::{
    Object, Perform, Workflow,
    bucket::{Attributes, BlobKey, BucketName, Condition, ExpectedContent, PartTag},
    test::TestApp,
};
use steadfast_uploads::{
    Classification, FindLostRuns, GetUpload, MarkRunning, OrganizationAgent, OrganizationWorkflow,
    PersistClassificationFailure, PersistClassificationSuccess, RetryUpload, RunLookup, Status,
    UPLOAD_EVENTS_DLQ, UPLOADS, Upload, classifier::Label, event_id, workflow_id,
};
use steadfast_world::World;

use crate::stage::{
    ACME, Fake, delete, delete_event, deliver, program, put, put_event, row, runs, start,
};

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
    // The model is not there, so the run of the row itself does not interfere.
    let app = start(&Fake::default(), false).await;
    let agent = || OrganizationAgent::at(ACME);
    for (name, fails) in [("cat.png", false), ("dog.png", true)] {
        deliver(&app, &put_event(&put(&app, name, "later").await)).await;
        app.settle().await;
        let Upload { event_id, workflow_id, .. } = row(&app, name).await.unwrap();
        let mark = MarkRunning { event_id: event_id.clone(), workflow_id: workflow_id.clone() };
        let is_written = if fails {
            let error = "no".into();
            let failure = PersistClassificationFailure { event_id, workflow_id, error };
            app.call(agent(), failure).await.unwrap()
        } else {
            let top_five = vec![Label { label: "CAT".into(), score: 0.9 }];
            let content_type = None;
            let success =
                PersistClassificationSuccess { event_id, workflow_id, top_five, content_type };
            app.call(agent(), success).await.unwrap()
        };
        assert!(is_written);
        let done = row(&app, name).await.unwrap();
        // The mark arrives behind the result.
        assert!(!app.call(agent(), mark).await.unwrap());
        assert_eq!(row(&app, name).await, Some(done));
    }
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
async fn many_images_of_one_organization_do_not_delay_another() {
    let fake = Fake::default();
    let app = start(&fake, true).await;
    // More than there are permits of active runs.
    for number in 0..300 {
        put(&app, &format!("{number}.png"), "hangs").await;
    }
    let waits = async {
        while fake.calls.load(Ordering::SeqCst) < 16 {
            tokio::task::yield_now().await;
        }
        app.bucket(UPLOADS).put("other/cat.png", "cat").await.unwrap();
        let label = async || {
            let get = GetUpload { name: "cat.png".into() };
            let found = app.call(OrganizationAgent::at("other"), get).await.unwrap();
            found.and_then(|it| it.classification_label)
        };
        while label().await.is_none() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), waits).await.expect("it has its own places");
    assert_eq!(fake.calls.load(Ordering::SeqCst), 17, "half of the places, and one");
}

#[tokio::test]
async fn images_of_one_organization_take_turns() {
    let app = start(&Fake::default(), true).await;
    for number in 0..100 {
        put(&app, &format!("{number}.png"), "cat").await;
    }
    app.advance(Duration::from_secs(30)).await;
    for number in 0..100 {
        let shown = row(&app, &format!("{number}.png")).await.unwrap();
        assert_eq!(shown.status, Status::Classified, "{number}");
    }
}

#[tokio::test]
async fn hole_5_an_id_that_is_taken_by_an_ended_run_is_not_a_dead_end() {
    let app = start(&Fake::default(), false).await;
    let blob = put(&app, "cat.png", "cat").await;
    let event_id = event_id("acme/cat.png", &blob.version());
    let id = workflow_id(&event_id, 0);
    // Somebody has used the very id that the row will ask for, and has ended that run.
    let input = Classification {
        organization: "other".into(),
        name: "cat.png".into(),
        version: blob.version(),
        event_id,
        workflow_id: id.clone(),
    };
    app.start(OrganizationWorkflow::at(&id), input).await.unwrap();
    app.settle().await;
    deliver(&app, &put_event(&blob)).await;
    app.settle().await;
    assert_eq!(row(&app, "cat.png").await.unwrap().status, Status::Queued, "nobody works on it");
    app.advance(Duration::from_mins(25)).await;
    let cat = row(&app, "cat.png").await.unwrap();
    assert_eq!((cat.status, cat.workflow_id), (Status::Classified, format!("{id}-r1")));
}

#[tokio::test]
async fn hole_6_whether_a_run_was_there_is_an_answer_and_no_text_of_an_error() {
    let app = program(&Fake::default(), false).test().await.unwrap();
    let event = put_event(&put(&app, "cat.png", "later").await);
    // The run is asked for by each of them, and made once.
    for _ in 0..5 {
        deliver(&app, &event).await;
    }
    app.settle().await;
    let shown = row(&app, "cat.png").await.unwrap();
    assert_eq!((shown.status, runs(&app).await), (Status::Running, 1));
    let dead = app.queues().show(UPLOAD_EVENTS_DLQ.name()).await.unwrap();
    assert_eq!(dead.depth + dead.dead, 0, "nobody took it for a failure");
    // The sweep distinguishes a run that ended, one in progress and one that never was.
    deliver(&app, &put_event(&put(&app, "dog.png", "dog").await)).await;
    app.settle().await;
    let ended = row(&app, "dog.png").await.unwrap().workflow_id;
    let (unknown, going) = (workflow_id("nothing", 0), shown.workflow_id);
    let workflow_ids = vec![going, ended.clone(), unknown.clone()];
    let runs = app.runs().clone();
    let lookup = RunLookup::new(move || Some(runs.clone()));
    let lost = lookup.perform(FindLostRuns { workflow_ids: workflow_ids.clone() }, "key").await;
    assert_eq!(lost.unwrap(), [ended, unknown]);
    // One that cannot look says so, and takes no run for lost.
    let blind = RunLookup::new(|| None).perform(FindLostRuns { workflow_ids }, "key").await;
    assert!(!blind.unwrap_err().is_terminal());
}

/// An end of the process after any number of commits.
fn hole_7_row_and_run_are_one_commit(ends: Range<u64>, world: impl Fn(Fake) -> World) {
    for commits in ends {
        let mut world = world(Fake::default());
        world.on(async |app| _ = put(app, "cat.png", "cat").await);
        world.end_during(commits, async |app| app.settle().await);
        world.on(async |app| {
            let before = row(app, "cat.png").await.is_some();
            app.advance(Duration::from_mins(5)).await;
            let shown = row(app, "cat.png").await.expect("the event is delivered again");
            assert_eq!(shown.status, Status::Classified, "{commits} commits, a row: {before}");
            assert_eq!((runs(app).await, shown.retries), (1, 0), "nothing had to be repaired");
        });
    }
}

#[test]
fn hole_7_row_and_run_are_one_commit_in_memory() {
    hole_7_row_and_run_are_one_commit(0..20, |it| World::in_memory(move || program(&it, true)));
}

#[test]
fn hole_7_row_and_run_are_one_commit_on_sqlite() {
    hole_7_row_and_run_are_one_commit(0..12, |it| World::on_sqlite(move || program(&it, true)));
}

#[test]
fn hole_7_row_and_run_are_one_commit_on_postgres() {
    hole_7_row_and_run_are_one_commit(0..12, |it| World::on_postgres(move || program(&it, true)));
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

/// Uploads an image in parts.
async fn put_parts(app: &TestApp, name: &str, parts: &[&[u8]]) {
    let buckets = app.buckets().unwrap();
    let (uploads, key) = (BucketName::new(UPLOADS.name()), BlobKey::new(&format!("{ACME}/{name}")));
    let (uploads, key) = (uploads.unwrap(), key.unwrap());
    let begun = buckets.begin_upload(&uploads, &key, Attributes::default()).await.unwrap();
    let mut tags = Vec::new();
    for (number, bytes) in (1..).zip(parts) {
        let mut part = buckets.part_writer(&uploads, &key, &begun.id, number).await.unwrap();
        part.write(bytes).await.unwrap();
        let etag = Some(part.finish(ExpectedContent::default()).await.unwrap().etag);
        tags.push(PartTag { number, etag, ..PartTag::default() });
    }
    let done = buckets.complete_upload(&uploads, &key, &begun.id, &tags, Condition::default());
    done.await.unwrap();
}

#[tokio::test]
async fn hole_9_copies_and_uploads_in_parts_make_images_too() {
    let app = start(&Fake::default(), true).await;
    put(&app, "cat.png", "cat").await;
    app.bucket(UPLOADS).copy("acme/cat.png", "acme/copy.png").await.unwrap();
    put_parts(&app, "part.png", &[b"dog"]).await;
    let (first, last) = (vec![b'x'; 5 << 20], b"end");
    put_parts(&app, "parts.png", &[&first, last]).await;
    app.settle().await;
    for (name, label) in [("copy.png", "CAT"), ("part.png", "DOG")] {
        let shown = row(&app, name).await.unwrap();
        assert_eq!(shown.classification_label.as_deref(), Some(label), "{name}");
    }
    let parts = row(&app, "parts.png").await.unwrap();
    assert_eq!((parts.size, parts.status), ((5 << 20) + 3, Status::Failed), "it is too large");
    // The same bytes in one piece have another tag, and are another write of the image.
    let before = row(&app, "part.png").await.unwrap();
    put(&app, "part.png", "dog").await;
    app.settle().await;
    let after = row(&app, "part.png").await.unwrap();
    assert_eq!((after.status, before.sequence < after.sequence), (Status::Classified, true));
    assert_ne!(after.event_id, before.event_id);
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
    // A run that somebody ended says nothing; the sweep finds its row.
    fake.is_ready.store(false, Ordering::SeqCst);
    put(&app, "ended.png", "later").await;
    app.settle().await;
    let ended = row(&app, "ended.png").await.unwrap();
    app.runs().terminate("image-classification", &ended.workflow_id).await.unwrap();
    fake.is_ready.store(true, Ordering::SeqCst);
    app.advance(Duration::from_mins(25)).await;
    assert_eq!(row(&app, "ended.png").await.unwrap().status, Status::Classified);
    // An event that was given up says so in the row, and the row can be retried.
    let lost = put_event(&put(&app, "lost.png", "cat").await);
    let retry = RetryUpload { name: "lost.png".into() };
    app.settle().await;
    assert_eq!(row(&app, "lost.png").await.unwrap().status, Status::Classified);
    app.queues().send(UPLOAD_EVENTS_DLQ, &lost).await.unwrap();
    app.settle().await;
    assert_eq!(row(&app, "lost.png").await.unwrap().status, Status::Classified, "it is known");
    app.call(OrganizationAgent::at(ACME), retry).await.unwrap_err();
}

#[tokio::test]
async fn hole_11_the_sequence_decides_whatever_the_times_of_events_say() {
    let app = start(&Fake::default(), false).await;
    let blobs = [put(&app, "pet.png", "cat").await, put(&app, "pet.png", "dog").await];
    let mut events = blobs.each_ref().map(put_event);
    events[0].event_time = "2026-01-02T00:00:00.000Z".into();
    events[1].event_time = "2026-01-01T00:00:00.000Z".into();
    for event in [&events[1], &events[0]] {
        deliver(&app, event).await;
        app.settle().await;
    }
    let pet = row(&app, "pet.png").await.unwrap();
    assert_eq!((pet.sequence, pet.version), (blobs[1].sequence, blobs[1].version()));
    assert_eq!(pet.classification_label.as_deref(), Some("DOG"));
    let mut gone = delete_event("pet.png", delete(&app, "pet.png").await);
    gone.event_time = "1999-01-01T00:00:00.000Z".into();
    deliver(&app, &gone).await;
    app.settle().await;
    assert_eq!(row(&app, "pet.png").await, None);
}

#[tokio::test]
async fn a_model_that_is_not_there_yet_is_waited_for() {
    let fake = Fake::default();
    let app = start(&fake, true).await;
    put(&app, "pet.png", "later").await;
    app.advance(Duration::from_hours(5)).await;
    assert_eq!(row(&app, "pet.png").await.unwrap().status, Status::Running);
    fake.is_ready.store(true, Ordering::SeqCst);
    app.advance(Duration::from_mins(15)).await;
    assert_eq!(row(&app, "pet.png").await.unwrap().status, Status::Classified);
}
