//! Sessions: orphans are searched after an unclean end, and files that a newer store may need are
//! kept.

use std::{io, sync::Arc, time::Duration};

use steadfast_bucket::{
    BucketError, Buckets, ContentId, FileName, LifecycleRule, PutOptions, SweepCounts,
};
use steadfast_store::{Clock, Commit, Entry, EntryKey, Put, Write};

use crate::{
    faulty_blobs::{At, FaultyBlobs},
    setup::{Setup, bucket, key, open_sqlite},
};

laws!(
    an_older_store_beside_newer_files_deletes_nothing_for_a_week,
    files_of_an_ended_process_are_kept_for_a_week,
    repeated_crashes_do_not_keep_files_for_ever,
    after_clean_ends_no_folder_is_listed_and_the_cost_of_a_sweep_is_constant,
    orphans_of_a_living_process_are_removed_without_a_walk,
    an_end_with_a_change_in_progress_is_not_clean,
    an_end_after_a_panic_during_a_put_is_not_clean,
    a_crash_between_the_two_writes_of_an_id_is_recovered,
    buckets_opened_on_a_full_disk_are_readable_and_recover_with_space,
    a_rule_revisits_rewritten_blobs_and_all_blobs_after_a_new_prefix,
);
laws!(also on postgres: a_crash_between_the_two_writes_of_an_id_is_recovered);

const HOUR: Duration = Duration::from_hours(1);
const DAY: Duration = Duration::from_hours(24);

impl Setup {
    /// Opens the buckets again with the usual options, as the next process does.
    async fn next_session(&mut self) -> FaultyBlobs {
        let faulty_blobs = FaultyBlobs::new(self.blobs.clone());
        self.buckets = self.try_open(&faulty_blobs).await.unwrap();
        faulty_blobs
    }

    async fn try_open(&self, faulty_blobs: &FaultyBlobs) -> Result<Buckets, BucketError> {
        Buckets::builder(self.store.clone()).open(Arc::new(faulty_blobs.clone())).await
    }

    /// A file of a process that ended before its commit.
    fn lose_a_file(&self, number: u8) -> FileName {
        let mut id = [number; 16];
        id[..6].copy_from_slice(&self.clock.now().0.to_be_bytes()[2..]);
        let name = FileName { content: ContentId(id), part: None };
        let mut draft = self.blobs.create(name).unwrap();
        draft.write(b"lost").unwrap();
        draft.seal().unwrap();
        name
    }

    fn has(&self, name: FileName) -> bool {
        self.blobs.open(name).is_ok()
    }

    async fn entry(&self, space: &str, key: &[u8]) -> Entry {
        let entry = EntryKey::new(space, key).unwrap();
        self.store.entry(&entry).await.unwrap().unwrap()
    }

    async fn session(&self) -> Entry {
        self.entry("system", b"blob-session").await
    }

    /// Restores an entry.
    async fn put_back(&self, before: &Entry) {
        let Entry { entry, value, reference, .. } = before.clone();
        let put = Put { entry, value, reference, expires: None };
        self.store.commit(Commit::of(Write::Put(put))).await.unwrap();
    }

    async fn delete_after_a_day(&self, id: &str, prefix: &str) {
        self.delete_after_days(id, prefix, 1).await;
    }

    async fn delete_after_days(&self, id: &str, prefix: &str, days: u64) {
        let (id, prefix) = (id.into(), prefix.into());
        let delete_after_ms = Some(days * DAY.as_millis() as u64);
        let rule = LifecycleRule { id, prefix, delete_after_ms, ..LifecycleRule::default() };
        self.buckets.put_lifecycle(&bucket(), rule).await.unwrap();
    }
}

async fn swept(setup: &Setup) -> SweepCounts {
    setup.buckets.sweep().await.unwrap()
}

async fn an_older_store_beside_newer_files_deletes_nothing_for_a_week(mut setup: Setup) {
    setup.delete_after_a_day("old", "old/").await;
    setup.put("kept", b"kept").await;
    setup.put("old/a", b"old").await;
    setup.buckets.close().await;
    let copy = setup.session().await;
    setup.next_session().await;
    setup.pass(HOUR);
    setup.put("new", b"newer").await;
    setup.pass(HOUR);
    setup.buckets.close().await;
    // As if an older copy was restored, which lacks the new blob.
    let newer = setup.entry("blob/photos", b"new").await;
    setup.put_back(&copy).await;
    setup.put_back(&Entry { value: None, reference: None, ..newer.clone() }).await;
    setup.next_session().await;
    for _ in 0..7 {
        assert_eq!(swept(&setup).await, SweepCounts::default());
        // A session in between does not end the retention.
        setup.buckets.close().await;
        setup.next_session().await;
        setup.pass(DAY - Duration::from_millis(1));
    }
    assert_eq!(swept(&setup).await, SweepCounts::default());
    assert_eq!(setup.all_files().len(), 3);
    // The newer copy is back, and lacks nothing.
    setup.put_back(&newer).await;
    assert_eq!(setup.get("new").await, b"newer");
    setup.put_back(&Entry { value: None, reference: None, ..newer }).await;
    setup.pass(HOUR);
    let done = swept(&setup).await;
    assert_eq!((done.blobs, done.files), (1, 1), "the old blob, and the file without a row");
    assert_eq!(setup.get("kept").await, b"kept");
    assert_eq!(setup.all_files().len(), 1);
}

async fn files_of_an_ended_process_are_kept_for_a_week(mut setup: Setup) {
    setup.put("kept", b"kept").await;
    setup.next_session().await;
    let lost = setup.lose_a_file(1);
    setup.next_session().await;
    // A clean end does not shorten the time, and the walk stays due.
    setup.pass(3 * DAY);
    setup.buckets.close().await;
    setup.next_session().await;
    setup.pass(4 * DAY - Duration::from_millis(1));
    assert_eq!((swept(&setup).await.files, setup.has(lost)), (0, true));
    setup.pass(Duration::from_millis(1));
    assert_eq!((swept(&setup).await.files, setup.has(lost)), (1, false));
    assert_eq!(setup.get("kept").await, b"kept");
}

async fn repeated_crashes_do_not_keep_files_for_ever(mut setup: Setup) {
    let mut lost = Vec::new();
    for day in 0..12 {
        setup.next_session().await;
        lost.push(setup.lose_a_file(day));
        setup.pass(DAY);
        swept(&setup).await;
    }
    let left: Vec<bool> = lost.iter().map(|it| setup.has(*it)).collect();
    // The gap of a day is noticed at the next opening, a day later.
    assert_eq!(left, [vec![false; 5], vec![true; 7]].concat());
}

async fn after_clean_ends_no_folder_is_listed_and_the_cost_of_a_sweep_is_constant(
    mut setup: Setup,
) {
    setup.delete_after_a_day("logs", "logs/").await;
    setup.delete_after_a_day("tmp", "tmp/").await;
    setup.delete_after_days("year", "", 365).await;
    for number in 0..5 {
        setup.put(&format!("kept/{number}"), b"kept").await;
    }
    let upload = setup.begin("open").await;
    setup.part(&upload, 1, b"part").await.unwrap();
    setup.buckets.close().await;
    let faulty_blobs = setup.next_session().await;
    let cost = async |files| {
        setup.pass(DAY);
        // Each rule passes new blobs.
        assert_eq!(swept(&setup).await, SweepCounts::default());
        assert_eq!(setup.all_files().len(), files);
        let before = setup.store.activity();
        setup.pass(HOUR);
        assert_eq!(swept(&setup).await, SweepCounts::default());
        let after = setup.store.activity();
        assert_eq!(after.commits, before.commits, "nothing is written when nothing is done");
        after.reads - before.reads
    };
    let few = cost(6).await;
    // Rows of 2,000 more blobs, with the content of the first.
    let row = setup.entry("blob/photos", b"kept/0").await;
    for page in 0..4 {
        let mut commit = Commit::default();
        for number in 0..500 {
            let key = format!("kept/{page}/{number}");
            let entry = EntryKey::new("blob/photos", key.as_bytes()).unwrap();
            let (value, reference) = (row.value.clone(), row.reference);
            let put = Put { entry, value, reference, expires: None };
            commit = commit.write(Write::Put(put));
        }
        setup.store.commit(commit).await.unwrap();
    }
    for number in 5..15 {
        setup.put(&format!("kept/{number}"), b"kept").await;
    }
    assert_eq!(cost(16).await, few);
    assert_eq!(faulty_blobs.lists(), 0);
}

async fn orphans_of_a_living_process_are_removed_without_a_walk(mut setup: Setup) {
    setup.buckets.close().await;
    let faulty_blobs = setup.next_session().await;
    setup.put("k", b"first").await;
    faulty_blobs.on(|at, _| match at == At::Remove {
        true => Err(io::ErrorKind::PermissionDenied.into()),
        false => Ok(()),
    });
    setup.put("k", b"second").await;
    setup.delete("k").await;
    faulty_blobs.off();
    let mut writer = setup.buckets.writer(&bucket(), &key("given up")).await.unwrap();
    writer.write(&vec![1; 3 << 20]).await.unwrap();
    drop(writer);
    assert_eq!(setup.all_files().len(), 2, "of what was given up nothing is left");
    setup.pass(HOUR - Duration::from_millis(1));
    assert_eq!(swept(&setup).await.files, 0);
    setup.pass(Duration::from_millis(1));
    assert_eq!(swept(&setup).await.files, 2);
    assert_eq!(setup.all_files(), []);
    setup.buckets.close().await;
    let last = setup.next_session().await;
    setup.pass(8 * DAY);
    assert_eq!(swept(&setup).await.files, 0);
    assert_eq!((faulty_blobs.lists(), last.lists()), (0, 0));
}

async fn an_end_with_a_change_in_progress_is_not_clean(mut setup: Setup) {
    setup.buckets.close().await;
    setup.next_session().await;
    setup.put("k", b"kept").await;
    let mut writer = setup.buckets.writer(&bucket(), &key("slow")).await.unwrap();
    writer.write(b"slow").await.unwrap();
    setup.buckets.close().await;
    let late = setup.buckets.put(&bucket(), &key("late"), b"late", PutOptions::default()).await;
    assert_eq!(
        late.unwrap_err().code(),
        BucketError::from(steadfast_store::StoreError::Closed).code()
    );
    assert_eq!(setup.get("k").await, b"kept", "reads continue");
    drop(writer);
    let lost = setup.lose_a_file(1);
    setup.next_session().await;
    setup.pass(7 * DAY);
    assert_eq!((swept(&setup).await.files, setup.has(lost)), (1, false));
}

async fn an_end_after_a_panic_during_a_put_is_not_clean(mut setup: Setup) {
    setup.buckets.close().await;
    let faulty_blobs = setup.next_session().await;
    faulty_blobs.on(|at, _| {
        assert!(at != At::Sealed, "as the test wants it");
        Ok(())
    });
    let put = setup.buckets.put(&bucket(), &key("k"), b"bytes", PutOptions::default()).await;
    assert_eq!((put.unwrap_err().code(), setup.all_files().len()), ("storage_failed", 1));
    faulty_blobs.off();
    setup.buckets.close().await;
    setup.next_session().await;
    setup.pass(7 * DAY);
    assert_eq!((swept(&setup).await.files, setup.all_files().len()), (1, 0));
}

async fn a_crash_between_the_two_writes_of_an_id_is_recovered(mut setup: Setup) {
    setup.delete_after_a_day("old", "old/").await;
    setup.put("old/a", b"old").await;
    setup.buckets.close().await;
    let faulty_blobs = FaultyBlobs::new(setup.blobs.clone());
    faulty_blobs.on(|at, _| match at == At::Session {
        true => Err(io::ErrorKind::PermissionDenied.into()),
        false => Ok(()),
    });
    assert!(setup.try_open(&faulty_blobs).await.is_err());
    setup.next_session().await;
    let lost = setup.lose_a_file(1);
    setup.pass(DAY);
    assert_eq!(swept(&setup).await.blobs, 1, "nobody takes it for an older store");
    setup.next_session().await;
    setup.pass(7 * DAY);
    assert_eq!((swept(&setup).await.files, setup.has(lost)), (1, false));
}

async fn buckets_opened_on_a_full_disk_are_readable_and_recover_with_space(mut setup: Setup) {
    setup.put("k", b"bytes").await;
    let faulty_blobs = FaultyBlobs::new(setup.blobs.clone());
    faulty_blobs.on(|at, _| match at == At::Session {
        true => Err(io::ErrorKind::StorageFull.into()),
        false => Ok(()),
    });
    setup.buckets = setup.try_open(&faulty_blobs).await.unwrap();
    assert_eq!(setup.get("k").await, b"bytes");
    let put = async |setup: &Setup| {
        let put = setup.buckets.put(&bucket(), &key("new"), b"new", PutOptions::default()).await;
        put.map(|it| it.size).map_err(|it| it.code().to_owned())
    };
    assert_eq!(put(&setup).await, Err("disk_full".into()));
    setup.pass(HOUR);
    assert_eq!(put(&setup).await, Err("disk_full".into()));
    faulty_blobs.off();
    let mut pause = tokio::time::interval(Duration::from_millis(1));
    while put(&setup).await != Ok(3) {
        setup.pass(Duration::from_secs(1));
        pause.tick().await;
    }
    // The session is an ordinary one: orphans are removed, and blobs stay.
    let lost = setup.lose_a_file(1);
    setup.next_session().await;
    setup.pass(8 * DAY);
    assert_eq!((swept(&setup).await.files, setup.has(lost)), (1, false));
    assert_eq!(
        (setup.get("k").await, setup.get("new").await),
        (b"bytes".to_vec(), b"new".to_vec())
    );
}

async fn a_rule_revisits_rewritten_blobs_and_all_blobs_after_a_new_prefix(setup: Setup) {
    setup.delete_after_a_day("one", "a/").await;
    for at in ["a/1", "b/1", "b/2"] {
        setup.put(at, b"1").await;
    }
    setup.pass(DAY);
    assert_eq!(swept(&setup).await.blobs, 1);
    setup.put("a/1", b"2").await;
    setup.put("b/2", b"2").await;
    setup.delete_after_a_day("one", "b/").await;
    assert_eq!(swept(&setup).await.blobs, 1, "the rule has another prefix and restarts");
    setup.delete_after_a_day("one", "").await;
    setup.pass(DAY - Duration::from_millis(1));
    assert_eq!(swept(&setup).await.blobs, 0);
    setup.pass(Duration::from_millis(1));
    assert_eq!(swept(&setup).await.blobs, 2);
    assert_eq!(setup.all_files(), []);
    setup.buckets.delete_bucket(&bucket()).await.unwrap();
    let all = steadfast_store::EntryRange::prefix(b"");
    let left = setup.store.entries("lifecycle/photos", all, 9).await.unwrap();
    assert_eq!(left, []);
}

/// If a process ends in the middle of a walk, the next one continues it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_walk_continues_where_the_last_process_ended() {
    let mut setup = Setup::sqlite().await;
    setup.next_session().await;
    // Each in its own folder.
    for _ in 0..520 {
        setup.pass(Duration::from_secs(66));
        setup.lose_a_file(1);
    }
    setup.pass(HOUR);
    let faulty_blobs = setup.next_session().await;
    setup.pass(8 * DAY);
    let (end, ended) = tokio::sync::oneshot::channel();
    let (release, dropped) = std::sync::mpsc::channel::<()>();
    let (mut end, mut lists) = (Some(end), 0);
    faulty_blobs.on(move |at, _| {
        lists += usize::from(at == At::List);
        if lists == 510 {
            end.take().map(|it| it.send(()));
            // Returns when the caller is dropped.
            let _ = dropped.recv();
            return Err(io::ErrorKind::Interrupted.into());
        }
        Ok(())
    });
    tokio::select! {
        biased;
        _ = ended => {}
        _ = setup.buckets.sweep() => panic!("it was stopped"),
    }
    drop(release);
    faulty_blobs.off();
    let left = setup.all_files().len();
    assert!((1..=20).contains(&left), "{left}");
    let faulty_blobs = setup.next_session().await;
    assert_eq!(swept(&setup).await.files, left);
    // The names of folders, and the remaining folders; the process may have ended after an empty
    // folder, or before it saved the last one.
    assert!(faulty_blobs.lists() <= left + 20, "it began anew: {} lists", faulty_blobs.lists());
}

/// The real case: a copy of the database file, beside newer files.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restored_database_deletes_no_newer_file_and_the_newer_one_stays_complete() {
    let mut setup = Setup::sqlite().await;
    let place = setup.folder.path().to_owned();
    let (current, older) = (place.join("store"), place.join("older"));
    setup.put("a", b"first").await;
    let reopen = async |setup: &mut Setup, is_clean: bool, from: Option<&std::path::Path>| {
        if is_clean {
            setup.buckets.close().await;
        }
        setup.store.close().await;
        if let Some(from) = from {
            let aside = place.join("aside");
            std::fs::rename(&current, &aside).unwrap();
            copy(from, &current);
            std::fs::rename(&aside, place.join("newer")).unwrap();
        }
        setup.store = open_sqlite(&place, &setup.clock);
        setup.next_session().await;
    };
    reopen(&mut setup, true, None).await;
    setup.store.close().await;
    copy(&place.join("store"), &older);
    setup.store = open_sqlite(&place, &setup.clock);
    setup.next_session().await;
    setup.pass(HOUR);
    setup.put("b", b"newer").await;
    setup.pass(HOUR);
    reopen(&mut setup, true, Some(&older)).await;
    for _ in 0..6 {
        setup.pass(DAY);
        assert_eq!(swept(&setup).await.files, 0);
    }
    assert_eq!(
        setup.buckets.head(&bucket(), &key("b")).await.unwrap_err().code(),
        "blob_not_found"
    );
    assert_eq!(setup.get("a").await, b"first");
    setup.buckets.close().await;
    setup.store.close().await;
    std::fs::remove_dir_all(place.join("store")).unwrap();
    std::fs::rename(place.join("newer"), place.join("store")).unwrap();
    setup.store = open_sqlite(&place, &setup.clock);
    setup.next_session().await;
    assert_eq!(
        (setup.get("a").await, setup.get("b").await),
        (b"first".to_vec(), b"newer".to_vec())
    );
}

fn copy(from: &std::path::Path, to: &std::path::Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        std::fs::copy(&path, to.join(path.file_name().unwrap())).unwrap();
    }
}
