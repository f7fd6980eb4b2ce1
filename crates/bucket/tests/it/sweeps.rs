//! Sweeps: remove expired and orphaned data, and nothing else.

use std::{io, time::Duration};

use steadfast_bucket::{BlobAction, LifecycleRule, SweepCounts};

use crate::{
    faulty_blobs::{At, FaultyBlobs},
    setup::{Setup, bucket, key},
};

laws!(on sqlite, postgres:
    orphans_are_removed_after_an_hour,
    orphaned_parts_are_removed_and_parts_of_open_uploads_stay,
    expired_blobs_are_deleted_by_prefix_with_an_event,
    a_rule_that_is_removed_during_a_sweep_deletes_nothing_more,
    abandoned_uploads_are_aborted,
    rows_of_lost_parts_are_removed,
    damaged_rows_do_not_stop_the_sweep,
    the_numbers_of_a_key_never_restart,
    a_write_during_a_sweep_takes_a_number_above_the_swept_one,
);

const HOUR: Duration = Duration::from_hours(1);
const DAY: Duration = Duration::from_hours(24);

impl Setup {
    async fn delete_after(&self, id: &str, prefix: &str, days: u64) {
        let (id, prefix) = (id.into(), prefix.into());
        let delete_after_ms = Some(days * DAY.as_millis() as u64);
        let rule = LifecycleRule { id, prefix, delete_after_ms, ..LifecycleRule::default() };
        self.buckets.put_lifecycle(&bucket(), rule).await.unwrap();
    }

    async fn sweep(&self) -> SweepCounts {
        self.buckets.sweep().await.unwrap()
    }
}

/// Makes files fail after they got their names, and prevents their removal.
fn fail_when_sealed(faulty_blobs: &FaultyBlobs) {
    let is_meant = |at| matches!(at, At::Sealed | At::Remove);
    faulty_blobs.on(
        move |at, _| {
            if is_meant(at) { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
        },
    );
}

/// A file that got its name, whose put failed, and whose removal failed.
async fn orphan(setup: Setup) -> Setup {
    let (setup, faulty_blobs) = setup.with_faults().await;
    fail_when_sealed(&faulty_blobs);
    let put = setup.buckets.put(&bucket(), &key("k"), b"bytes", Default::default()).await;
    assert!(put.is_err());
    faulty_blobs.off();
    setup
}

async fn orphans_are_removed_after_an_hour(setup: Setup) {
    let setup = orphan(setup).await;
    setup.put("k", b"kept").await;
    setup.pass(HOUR - Duration::from_millis(1));
    assert_eq!(setup.sweep().await, SweepCounts::default());
    assert_eq!(setup.all_files().len(), 2);
    setup.pass(Duration::from_millis(1));
    assert_eq!(setup.sweep().await, SweepCounts { files: 1, ..SweepCounts::default() });
    assert_eq!(setup.get("k").await, b"kept");
    setup.delete("k").await;
    setup.pass(2 * HOUR);
    setup.sweep().await;
    if setup.is_on_disk() {
        let left = std::fs::read_dir(setup.folder.path().join("blobs")).unwrap();
        let mut left: Vec<_> = left.map(|it| it.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["lock", "session", "store"], "empty folders go");
    }
}

async fn orphaned_parts_are_removed_and_parts_of_open_uploads_stay(setup: Setup) {
    let (setup, faulty_blobs) = setup.with_faults().await;
    let lose_a_part = async |upload| {
        fail_when_sealed(&faulty_blobs);
        assert!(setup.part(upload, 1, b"lost").await.is_err());
        faulty_blobs.off();
    };
    let (open, done) = (setup.begin("open").await, setup.begin("done").await);
    setup.pass(2 * HOUR);
    for upload in [&open, &done] {
        setup.part(upload, 1, b"part").await.unwrap();
        lose_a_part(upload).await;
    }
    setup.complete(&done, &[1]).await.unwrap();
    assert_eq!(setup.all_files().len(), 4);
    setup.pass(HOUR / 2);
    assert_eq!(setup.sweep().await.files, 0, "they are not as old as their uploads");
    setup.pass(HOUR);
    assert_eq!(setup.sweep().await.files, 2);
    assert_eq!(setup.get("done").await, b"part");
    setup.complete(&open, &[1]).await.unwrap();
    assert_eq!(setup.get("open").await, b"part");
}

async fn expired_blobs_are_deleted_by_prefix_with_an_event(setup: Setup) {
    setup.listen().await;
    setup.delete_after("logs", "logs/", 7).await;
    setup.delete_after("all", "", 30).await;
    let old = setup.put("logs/old", b"1").await;
    setup.put("other", b"1").await;
    setup.pass(6 * DAY);
    setup.put("logs/new", b"1").await;
    assert_eq!(setup.sweep().await, SweepCounts::default());
    setup.pass(DAY);
    assert_eq!(setup.sweep().await, SweepCounts { blobs: 1, ..SweepCounts::default() });
    let events = setup.events().await;
    let last = events.last().unwrap();
    assert_eq!(last.action, BlobAction::LifecycleDeletion);
    assert_eq!((last.key(), last.sequence), ("logs/old", 2));
    assert_eq!(last.version, old.version());
    setup.pass(23 * DAY);
    assert_eq!(setup.sweep().await.blobs, 2);
    assert_eq!(setup.events().await.len(), 6);
    assert_eq!((setup.all_files(), setup.put("logs/old", b"").await.sequence), (vec![], 3));
}

async fn a_rule_that_is_removed_during_a_sweep_deletes_nothing_more(setup: Setup) {
    let (setup, faulty_blobs) = setup.with_faults().await;
    setup.delete_after("all", "", 1).await;
    for at in ["a", "b", "c"] {
        setup.put(at, b"1").await;
    }
    setup.pass(DAY);
    let (buckets, runtime) = (setup.buckets.clone(), tokio::runtime::Handle::current());
    let mut is_first = true;
    faulty_blobs.on(move |at, _| {
        if at == At::Remove && std::mem::take(&mut is_first) {
            runtime.block_on(buckets.delete_lifecycle(&bucket(), "all")).unwrap();
        }
        Ok(())
    });
    assert_eq!(setup.sweep().await.blobs, 1);
    faulty_blobs.off();
    assert_eq!(setup.get("c").await, b"1");
}

async fn abandoned_uploads_are_aborted(setup: Setup) {
    let rule = |id: &str, prefix: &str, days: u64| LifecycleRule {
        id: id.into(),
        prefix: prefix.into(),
        abort_uploads_after_ms: Some(days * DAY.as_millis() as u64),
        ..LifecycleRule::default()
    };
    for rule in [rule("tmp", "tmp/", 1), rule("later", "tmp/", 20), rule("long", "long/", 20)] {
        setup.buckets.put_lifecycle(&bucket(), rule).await.unwrap();
    }
    for at in ["tmp/a", "b", "long/c"] {
        let upload = setup.begin(at).await;
        setup.part(&upload, 1, at.as_bytes()).await.unwrap();
    }
    for (days, left) in [(1, 2), (6, 1), (12, 1), (1, 0)] {
        setup.pass(days * DAY);
        setup.sweep().await;
        let open = setup.buckets.uploads(&bucket(), "", None, 10).await.unwrap();
        assert_eq!((open.len(), setup.all_files().len()), (left, left), "after {days} more days");
    }
}

async fn rows_of_lost_parts_are_removed(setup: Setup) {
    let (one, two) = (setup.begin("k").await, setup.begin("k").await);
    for upload in [&one, &two] {
        setup.part(upload, 1, b"1").await.unwrap();
        setup.part(upload, 2, b"2").await.unwrap();
    }
    // As if the process had ended in the middle of an abort.
    let mut key = b"k\0".to_vec();
    key.extend(steadfast_bucket::ContentId::from_hex(&one.id).unwrap().0);
    let entry = steadfast_store::EntryKey::new("upload/photos", &key).unwrap();
    let (value, reference, expires) = (None, None, Some(Duration::ZERO));
    let put = steadfast_store::Put { entry, value, reference, expires };
    let commit = steadfast_store::Commit::of(steadfast_store::Write::Put(put));
    setup.store.commit(commit).await.unwrap();
    let (setup, _) = setup.with_faults().await;
    setup.pass(2 * HOUR);
    let swept = setup.sweep().await;
    assert_eq!((swept.files, swept.rows), (2, 1));
    assert_eq!(setup.buckets.parts(&bucket(), &one, 0, 10).await.unwrap(), []);
    assert_eq!(setup.buckets.parts(&bucket(), &two, 0, 10).await.unwrap().len(), 2);
}

async fn damaged_rows_do_not_stop_the_sweep(setup: Setup) {
    let setup = orphan(setup).await;
    setup.delete_after("all", "", 1).await;
    setup.put("z", b"old").await;
    let entry = steadfast_store::EntryKey::new("blob/photos", b"damaged").unwrap();
    let value = Some(steadfast_store::Json::parse("7").unwrap());
    let put = steadfast_store::Put { entry, value, reference: None, expires: None };
    let commit = steadfast_store::Commit::of(steadfast_store::Write::Put(put));
    setup.store.commit(commit).await.unwrap();
    setup.pass(DAY);
    let error = setup.buckets.sweep().await.unwrap_err();
    assert_eq!(error.code(), "corrupt");
    assert_eq!(setup.all_files(), [], "neither the old one behind it nor the orphan");
}

async fn the_numbers_of_a_key_never_restart(setup: Setup) {
    setup.listen().await;
    for _ in 0..3 {
        setup.put("k", b"1").await;
    }
    assert_eq!(setup.delete("k").await, Some(4));
    setup.put("other", b"1").await;
    let mut last = 4;
    for round in 0..3 {
        setup.pass(31 * DAY);
        assert_eq!(setup.sweep().await.rows, 1, "the tombstone goes in round {round}");
        let blob = setup.put("k", b"2").await;
        assert!(last < blob.sequence, "{last} was used before {}", blob.sequence);
        let found = setup.buckets.head(&bucket(), &key("k")).await.unwrap();
        assert_eq!(found.sequence, blob.sequence);
        let told = setup.events().await.last().unwrap().sequence;
        assert_eq!(told, blob.sequence, "the event has the number of the blob");
        last = setup.delete("k").await.unwrap();
        assert!(blob.sequence < last);
        assert_eq!(setup.events().await.last().unwrap().sequence, last);
    }
    // The numbers of a bucket that is deleted and created again continue too.
    let other = setup.delete("other").await.unwrap();
    setup.buckets.delete_bucket(&bucket()).await.unwrap();
    setup.pass(31 * DAY);
    assert_eq!(setup.sweep().await.rows, 3, "two keys and the bucket");
    setup.buckets.create(&bucket()).await.unwrap();
    assert!(last < setup.put("k", b"3").await.sequence);
    assert!(other < setup.put("other", b"3").await.sequence);
}

async fn a_write_during_a_sweep_takes_a_number_above_the_swept_one(setup: Setup) {
    let (setup, faulty_blobs) = setup.with_faults().await;
    setup.put("k", b"1").await;
    let last = setup.delete("k").await.unwrap();
    setup.put("other", b"1").await;
    setup.pass(31 * DAY);
    // The sweep runs when the bytes of the next write are on the disk, before its commit.
    let (buckets, runtime) = (setup.buckets.clone(), tokio::runtime::Handle::current());
    let mut is_first = true;
    faulty_blobs.on(move |at, _| {
        if at == At::Sealed && std::mem::take(&mut is_first) {
            assert_eq!(runtime.block_on(buckets.sweep()).unwrap().rows, 1);
        }
        Ok(())
    });
    let sequence = setup.put("k", b"2").await.sequence;
    faulty_blobs.off();
    assert!(last < sequence, "{last} was used before {sequence}");
}
