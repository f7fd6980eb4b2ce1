//! Quotas: the usage of an organization is what its buckets hold, and no more than it may be.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use steadfast_bucket::{
    Attributes, BlobKey, BucketError, BucketName, Buckets, Condition, CopyOptions, ListOptions,
    PutOptions, PutRecord, Quota,
};
use steadfast_store::{
    Address, Answer, Commit, CommitCallback, EntityKind, Entropy, EntryKey, EntryRange, Put, Query,
    Remember, SeededEntropy, Store, StoreError, Write,
};

use crate::{
    setup::{self, Setup, bucket, key},
    wrapper::{Hook, Wrapper},
};

laws!(on sqlite, postgres:
    usage_is_what_the_buckets_hold,
    exactly_full_is_allowed_and_one_byte_more_is_not,
    concurrent_writers_do_not_pass_the_limit,
    blobs_from_before_the_quota_are_counted_while_others_write,
    parts_that_race_with_the_end_of_their_upload_do_not_stay_counted,
    a_damaged_counter_is_an_error_and_nothing_waits_for_it,
    a_removed_quota_counts_and_refuses_nothing,
    an_expense_counts_once_in_its_month,
    a_repeated_put_gets_its_first_answer_although_it_would_be_refused_now,
);

const MIB: usize = 1 << 20;

fn bytes(bytes: u64) -> Quota {
    Quota { bytes: Some(bytes), ..Quota::default() }
}

/// Bytes of an organization, and its blobs and uploads, read from all buckets.
async fn held(buckets: &Buckets, organization: &str) -> (u64, u64) {
    let (mut bytes, mut objects) = (0, 0);
    let prefix = format!("{organization}/");
    for bucket in buckets.buckets(None, 100).await.unwrap() {
        let list = ListOptions { prefix: prefix.clone(), ..ListOptions::default() };
        for blob in buckets.list(&bucket.name, &list).await.unwrap().blobs {
            (bytes, objects) = (bytes + blob.size, objects + 1);
        }
        for upload in buckets.uploads(&bucket.name, &prefix, None, 1_000).await.unwrap() {
            let parts = buckets.parts(&bucket.name, &upload, 0, 1_000).await.unwrap();
            bytes += parts.iter().map(|it| it.size).sum::<u64>();
            objects += 1;
        }
    }
    (bytes, objects)
}

async fn counted(buckets: &Buckets, organization: &str) -> (u64, u64) {
    let info = buckets.quota(organization).await.unwrap().unwrap();
    assert!(!info.is_counting);
    (info.bytes.used, info.objects.used)
}

async fn check(buckets: &Buckets, expected: (u64, u64)) {
    assert_eq!(held(buckets, "acme").await, expected);
    assert_eq!(counted(buckets, "acme").await, expected);
}

/// Sets a quota, and counts to the end.
async fn set(buckets: &Buckets, quota: Quota) {
    buckets.set_quota("acme", quota).await.unwrap();
    buckets.count_usage().await.unwrap();
}

async fn put(buckets: &Buckets, at: &str, len: usize) -> Result<(), BucketError> {
    let put = PutOptions::default();
    buckets.put(&bucket(), &key(at), &vec![1; len], put).await.map(drop)
}

fn code(result: Result<(), BucketError>) -> &'static str {
    result.map_err(|it| it.code()).unwrap_err()
}

async fn usage_is_what_the_buckets_hold(setup: Setup) {
    let buckets = &setup.buckets;
    let other = BucketName::new("backups").unwrap();
    buckets.create(&other).await.unwrap();
    set(buckets, bytes(u64::MAX)).await;
    check(buckets, (0, 0)).await;
    put(buckets, "acme/a", 100).await.unwrap();
    put(buckets, "acme/a", 30).await.unwrap();
    put(buckets, "other/a", 1_000).await.unwrap();
    put(buckets, "acme", 1_000).await.unwrap();
    check(buckets, (30, 1)).await;
    let (from, to): ((_, BlobKey), _) = ((bucket(), key("acme/a")), key("acme/b"));
    let copied = buckets.copy((&from.0, &from.1), (&other, &to), CopyOptions::default()).await;
    copied.unwrap();
    check(buckets, (60, 2)).await;
    let upload = setup.begin("acme/big").await;
    setup.part(&upload, 1, &vec![1; 5 * MIB]).await.unwrap();
    setup.part(&upload, 2, &[1; 40]).await.unwrap();
    setup.part(&upload, 2, &[1; 10]).await.unwrap();
    setup.part(&upload, 3, &[1; 77]).await.unwrap();
    check(buckets, (60 + 5 * MIB as u64 + 87, 3)).await;
    setup.complete(&upload, &[1, 2]).await.unwrap();
    check(buckets, (60 + 5 * MIB as u64 + 10, 3)).await;
    let upload = setup.begin("acme/never").await;
    setup.part(&upload, 1, &[1; 99]).await.unwrap();
    buckets.abort_upload(&bucket(), &upload.key, &upload.id).await.unwrap();
    setup.delete("acme/big").await;
    check(buckets, (60, 2)).await;
    // Uploads that nobody completes stop counting when the sweep aborts them.
    let upload = setup.begin("acme/left").await;
    setup.part(&upload, 1, &[1; 50]).await.unwrap();
    check(buckets, (110, 3)).await;
    setup.pass(Duration::from_hours(8 * 24));
    buckets.sweep().await.unwrap();
    check(buckets, (60, 2)).await;
    buckets.delete(&other, &to, Default::default()).await.unwrap();
    buckets.delete_bucket(&other).await.unwrap();
    check(buckets, (30, 1)).await;
}

async fn exactly_full_is_allowed_and_one_byte_more_is_not(setup: Setup) {
    let buckets = &setup.buckets;
    set(buckets, Quota { objects: Some(2), ..bytes(100) }).await;
    assert_eq!(code(put(buckets, "acme/a", 101).await), "quota_too_large");
    put(buckets, "acme/a", 60).await.unwrap();
    assert_eq!(code(put(buckets, "acme/b", 41).await), "quota_bytes");
    put(buckets, "acme/b", 40).await.unwrap();
    assert_eq!(code(put(buckets, "acme/c", 0).await), "quota_objects");
    check(buckets, (100, 2)).await;
    let begun = buckets.begin_upload(&bucket(), &key("acme/a"), Attributes::default()).await;
    assert_eq!(code(begun.map(drop)), "quota_objects");
    set(buckets, Quota { objects: Some(3), ..bytes(100) }).await;
    let upload = setup.begin("acme/a").await;
    let refused = setup.part(&upload, 1, &[1]).await.map(drop);
    assert_eq!(code(refused), "quota_bytes");
    buckets.abort_upload(&bucket(), &upload.key, &upload.id).await.unwrap();
    let (from, to) = (key("acme/a"), key("acme/b"));
    let copied = buckets.copy((&bucket(), &from), (&bucket(), &to), CopyOptions::default()).await;
    assert_eq!(code(copied.map(drop)), "quota_bytes");
    // No file of a refused write stays, and less is always allowed.
    let files = setup.all_files().len();
    assert_eq!(files, 2);
    put(buckets, "acme/a", 59).await.unwrap();
    put(buckets, "acme/b", 41).await.unwrap();
    set(buckets, Quota { objects: Some(0), ..bytes(10) }).await;
    put(buckets, "acme/a", 58).await.unwrap();
    assert_eq!(code(put(buckets, "acme/a", 59).await), "quota_too_large");
    setup.delete("acme/b").await;
    setup.delete("acme/a").await;
    check(buckets, (0, 0)).await;
    // A body is refused as soon as its size is known.
    let mut writer = buckets.writer(&bucket(), &key("other/a")).await.unwrap();
    writer.expect_size(11).await.unwrap();
    set(buckets, bytes(10)).await;
    let mut writer = buckets.writer(&bucket(), &key("acme/a")).await.unwrap();
    writer.expect_size(10).await.unwrap();
    assert_eq!(code(writer.expect_size(11).await), "quota_too_large");
}

async fn concurrent_writers_do_not_pass_the_limit(setup: Setup) {
    let buckets = &setup.buckets;
    set(buckets, bytes(100)).await;
    let put = |n: usize| {
        let buckets = buckets.clone();
        // Some write the same key.
        tokio::spawn(async move { put(&buckets, &format!("acme/{}", n % 24), 10).await })
    };
    let mut accepted = 0;
    for task in (0..32).map(put).collect::<Vec<_>>() {
        match task.await.unwrap() {
            Ok(()) => accepted += 1,
            Err(error) => assert_eq!(error.code(), "quota_bytes"),
        }
    }
    assert!(10 <= accepted, "{accepted} were accepted");
    check(buckets, (100, 10)).await;
}

async fn blobs_from_before_the_quota_are_counted_while_others_write(setup: Setup) {
    let buckets = &setup.buckets;
    for n in 0..20 {
        put(buckets, &format!("acme/{n:02}"), n).await.unwrap();
    }
    let upload = setup.begin("acme/upload").await;
    setup.part(&upload, 1, &[1; 7]).await.unwrap();
    let write = |task: u64| {
        let (buckets, chance) = (buckets.clone(), SeededEntropy::new(task));
        tokio::spawn(async move {
            for _ in 0..15 {
                let at = key(&format!("acme/{:02}", chance.next() % 20));
                match chance.next() % 3 {
                    0 => {
                        let gone = buckets.delete(&bucket(), &at, Default::default()).await;
                        gone.map(drop).unwrap();
                    }
                    _ => put(&buckets, at.as_str(), (chance.next() % 50) as usize).await.unwrap(),
                }
            }
        })
    };
    let writers: Vec<_> = (0..4).map(write).collect();
    for limit in [1_000_000, 2_000_000] {
        buckets.set_quota("acme", bytes(limit)).await.unwrap();
        setup.part(&upload, 2, &[1; 9]).await.unwrap();
        assert!(buckets.remove_quota("acme").await.unwrap());
    }
    buckets.set_quota("acme", bytes(1_000_000)).await.unwrap();
    for writer in writers {
        writer.await.unwrap();
    }
    buckets.count_usage().await.unwrap();
    let expected = held(buckets, "acme").await;
    check(buckets, expected).await;
}

async fn parts_that_race_with_the_end_of_their_upload_do_not_stay_counted(setup: Setup) {
    let setup = Arc::new(setup);
    let buckets = &setup.buckets;
    set(buckets, bytes(1_000_000)).await;
    for round in 0..12 {
        let upload = setup.begin("acme/a").await;
        if round % 2 == 0 {
            setup.part(&upload, 1, &[1; 10]).await.unwrap();
        }
        let part = |number: u32| {
            let (setup, upload) = (setup.clone(), upload.clone());
            tokio::spawn(async move { setup.part(&upload, number, &[2; 20]).await.map(drop) })
        };
        let parts: Vec<_> = (1..4).map(part).collect();
        if round % 4 == 0 {
            // It fails if its part is being replaced.
            _ = setup.complete(&upload, &[1]).await;
        }
        match buckets.abort_upload(&bucket(), &upload.key, &upload.id).await {
            Ok(()) | Err(BucketError::UnknownUpload { .. }) => {}
            Err(error) => panic!("{error}"),
        }
        for part in parts {
            match part.await.unwrap() {
                Ok(()) | Err(BucketError::UnknownUpload { .. }) => {}
                Err(error) => panic!("{error}"),
            }
        }
        let expected = held(buckets, "acme").await;
        check(buckets, expected).await;
    }
    let counters = setup.store.entries("upload-bytes", EntryRange::prefix(b""), 10).await.unwrap();
    assert_eq!(counters, [], "uploads that ended have no counters");
    buckets.delete(&bucket(), &key("acme/a"), Condition::default()).await.unwrap();
    assert_eq!(setup.all_files().len(), 0, "parts of uploads that ended have no files");
}

async fn a_damaged_counter_is_an_error_and_nothing_waits_for_it(setup: Setup) {
    let buckets = &setup.buckets;
    set(buckets, bytes(1_000_000)).await;
    let upload = setup.begin("acme/a").await;
    for name in ["acme/objects", "acme/bytes"] {
        let damaged = Put::of(EntryKey::new("usage", name.as_bytes()).unwrap(), &"x").unwrap();
        setup.store.commit(Commit::of(Write::Put(damaged))).await.unwrap();
    }
    let begun = buckets.begin_upload(&bucket(), &key("acme/b"), Attributes::default()).await;
    assert_eq!(code(begun.map(drop)), "corrupt");
    assert_eq!(code(setup.part(&upload, 1, &[1; 10]).await.map(drop)), "corrupt");
    let aborted = buckets.abort_upload(&bucket(), &upload.key, &upload.id).await;
    assert_eq!(code(aborted), "corrupt");
    assert_eq!(code(put(buckets, "acme/c", 1).await), "corrupt");
    put(buckets, "other/c", 1).await.unwrap();
    setup.pass(Duration::from_hours(24 * 30));
    _ = buckets.sweep().await;
}

async fn a_removed_quota_counts_and_refuses_nothing(setup: Setup) {
    let buckets = &setup.buckets;
    assert!(!buckets.remove_quota("acme").await.unwrap());
    set(buckets, bytes(5)).await;
    assert_eq!(code(put(buckets, "acme/a", 6).await), "quota_too_large");
    assert!(buckets.remove_quota("acme").await.unwrap());
    put(buckets, "acme/a", 6).await.unwrap();
    assert_eq!(buckets.quota("acme").await.unwrap(), None);
    setup.pass(Duration::from_hours(1));
    buckets.sweep().await.unwrap();
    // The row begins again, at another revision.
    set(buckets, bytes(6)).await;
    check(buckets, (6, 1)).await;
    assert_eq!(code(put(buckets, "acme/b", 1).await), "quota_bytes");
    let names = buckets.quotas(None, 10).await.unwrap();
    assert_eq!(names.iter().map(|it| it.organization.as_str()).collect::<Vec<_>>(), ["acme"]);
    for bad in ["", "a/b", &"x".repeat(101)] {
        let refused = buckets.set_quota(bad, Quota::default()).await;
        assert_eq!(code(refused), "invalid_input");
    }
}

async fn an_expense_counts_once_in_its_month(setup: Setup) {
    let buckets = &setup.buckets;
    set(buckets, Quota { spend: Some(3_000_000), ..Quota::default() }).await;
    let spend = |n: u64| {
        let buckets = buckets.clone();
        // Every expense comes twice.
        tokio::spawn(async move {
            buckets.spend("acme", &format!("task-{}", n / 2), 500_000).await.unwrap()
        })
    };
    let mut counted = 0;
    for task in (0..10).map(spend).collect::<Vec<_>>() {
        counted += usize::from(task.await.unwrap());
    }
    assert_eq!((counted, buckets.spent("acme").await.unwrap()), (5, 2_500_000));
    buckets.check_spend("acme").await.unwrap();
    assert!(buckets.spend("acme", "task-9", 500_000).await.unwrap());
    let refused = buckets.check_spend("acme").await.unwrap_err();
    assert_eq!(refused.code(), "quota_spend");
    assert!(refused.to_string().contains("has spent 3 of 3 US dollars"), "{refused}");
    buckets.check_spend("other").await.unwrap();
    assert_eq!(buckets.quota("acme").await.unwrap().unwrap().spend_micros.used, 3_000_000);
    setup.pass(Duration::from_hours(31 * 24));
    buckets.check_spend("acme").await.unwrap();
    assert!(!buckets.spend("acme", "task-9", 500_000).await.unwrap(), "it was counted");
    assert_eq!(buckets.spent("acme").await.unwrap(), 0);
}

/// Counts reads and commits.
#[derive(Default)]
struct Calls {
    reads: AtomicUsize,
    commits: AtomicUsize,
}

#[async_trait]
impl Hook<dyn Store> for Calls {
    fn submit(&self, inner: &dyn Store, commit: Commit, answer: CommitCallback) {
        self.commits.fetch_add(1, Ordering::Relaxed);
        inner.submit(commit, answer);
    }

    async fn read(&self, inner: &dyn Store, query: Query) -> Result<Answer, StoreError> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        inner.read(query).await
    }
}

#[tokio::test]
async fn a_quota_costs_two_reads_and_no_commit() {
    let Setup { store, blobs, .. } = Setup::memory().await;
    let calls: Arc<Wrapper<dyn Store, Calls>> = Wrapper::around(store, Calls::default());
    let store: Arc<dyn Store> = calls.clone();
    let buckets = setup::open(&store, blobs, 9).await;
    buckets.set_quota("acme", bytes(1_000)).await.unwrap();
    buckets.count_usage().await.unwrap();
    let mut costs = Vec::new();
    for at in ["plain", "other/a", "acme/a"] {
        // The first fills the caches.
        put(&buckets, at, 1).await.unwrap();
        let before = (calls.reads.load(Ordering::Relaxed), calls.commits.load(Ordering::Relaxed));
        put(&buckets, at, 2).await.unwrap();
        let after = (calls.reads.load(Ordering::Relaxed), calls.commits.load(Ordering::Relaxed));
        costs.push((after.0 - before.0, after.1 - before.1));
    }
    // The blob; with a quota once more, and the usage, to refuse a body before it is read.
    assert_eq!(costs, [(1, 1), (1, 1), (3, 1)]);
}

async fn a_repeated_put_gets_its_first_answer_although_it_would_be_refused_now(setup: Setup) {
    let buckets = &setup.buckets;
    let keyed = async |request: &[u8]| {
        let scope = Address::new(EntityKind::System, "test", "uploads").unwrap();
        let once = Some(Remember::new(scope.id(), "upload-1", request).unwrap());
        let put = PutOptions { once, condition: Condition::absent(), ..PutOptions::default() };
        buckets.put(&bucket(), &key("acme/a"), &[1; 60], put).await
    };
    set(buckets, Quota { objects: Some(1), ..bytes(100) }).await;
    let first = keyed(b"a").await.unwrap();
    let record = PutRecord { sequence: first.sequence, version: first.version(), size: 60 };
    let again = async |when: &str| match keyed(b"a").await {
        Err(BucketError::Repeated { answer }) => {
            assert_eq!(serde_json::from_str::<PutRecord>(&answer).unwrap(), record, "{when}");
        }
        other => panic!("{when}: {other:?}"),
    };
    setup.delete("acme/a").await;
    put(buckets, "acme/b", 50).await.unwrap();
    again("there is no space for another object").await;
    set(buckets, bytes(100)).await;
    again("there is no space for its bytes").await;
    set(buckets, bytes(59)).await;
    again("it is larger than the quota").await;
    assert_eq!(code(keyed(b"b").await.map(drop)), "key_reused");
    put(buckets, "acme/a", 9).await.unwrap();
    again("the blob exists, so the condition does not hold").await;
    check(buckets, (59, 2)).await;
    assert_eq!(setup.all_files().len(), 2);
}
