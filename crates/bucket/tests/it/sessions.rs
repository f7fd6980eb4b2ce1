//! Sessions: orphans are searched after an unclean end, and files that a newer store may need are
//! kept.

use std::{io, sync::Arc, time::Duration};

use steadfast_bucket::{
    BucketError, Buckets, ContentId, FileName, LifecycleRule, PutOptions, SweepCounts,
};
use steadfast_store::{Clock, Commit, Entry, EntryKey, Put, Write};

use crate::{
    lab::{Lab, bucket, key, open_sqlite},
    trouble::{At, Trouble},
};

crate::lab::laws!(
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

const HOUR: Duration = Duration::from_hours(1);
const DAY: Duration = Duration::from_hours(24);

impl Lab {
    /// Opens the buckets again with the usual options, as the next process does.
    async fn next_session(&mut self) -> Trouble {
        let trouble = Trouble::new(self.blobs.clone());
        self.buckets = self.try_open(&trouble).await.unwrap();
        trouble
    }

    async fn try_open(&self, trouble: &Trouble) -> Result<Buckets, BucketError> {
        Buckets::builder(self.store.clone()).open(Arc::new(trouble.clone())).await
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
        let abort_uploads_after_ms = None;
        let rule = LifecycleRule { id, prefix, delete_after_ms, abort_uploads_after_ms };
        self.buckets.put_lifecycle(&bucket(), rule).await.unwrap();
    }
}

async fn swept(lab: &Lab) -> SweepCounts {
    lab.buckets.sweep().await.unwrap()
}

async fn an_older_store_beside_newer_files_deletes_nothing_for_a_week(mut lab: Lab) {
    lab.delete_after_a_day("old", "old/").await;
    lab.put("kept", b"kept").await;
    lab.put("old/a", b"old").await;
    lab.buckets.close().await;
    let copy = lab.session().await;
    lab.next_session().await;
    lab.pass(HOUR);
    lab.put("new", b"newer").await;
    lab.pass(HOUR);
    lab.buckets.close().await;
    // As if an older copy was restored, which lacks the new blob.
    let newer = lab.entry("blob/photos", b"new").await;
    lab.put_back(&copy).await;
    lab.put_back(&Entry { value: None, reference: None, ..newer.clone() }).await;
    lab.next_session().await;
    for _ in 0..7 {
        assert_eq!(swept(&lab).await, SweepCounts::default());
        // A session in between does not end the retention.
        lab.buckets.close().await;
        lab.next_session().await;
        lab.pass(DAY - Duration::from_millis(1));
    }
    assert_eq!(swept(&lab).await, SweepCounts::default());
    assert_eq!(lab.all_files().len(), 3);
    // The newer copy is back, and lacks nothing.
    lab.put_back(&newer).await;
    assert_eq!(lab.get("new").await, b"newer");
    lab.put_back(&Entry { value: None, reference: None, ..newer }).await;
    lab.pass(HOUR);
    let done = swept(&lab).await;
    assert_eq!((done.blobs, done.files), (1, 1), "the old blob, and the file without a row");
    assert_eq!(lab.get("kept").await, b"kept");
    assert_eq!(lab.all_files().len(), 1);
}

async fn files_of_an_ended_process_are_kept_for_a_week(mut lab: Lab) {
    lab.put("kept", b"kept").await;
    lab.next_session().await;
    let lost = lab.lose_a_file(1);
    lab.next_session().await;
    // A clean end does not shorten the time, and the walk stays due.
    lab.pass(3 * DAY);
    lab.buckets.close().await;
    lab.next_session().await;
    lab.pass(4 * DAY - Duration::from_millis(1));
    assert_eq!((swept(&lab).await.files, lab.has(lost)), (0, true));
    lab.pass(Duration::from_millis(1));
    assert_eq!((swept(&lab).await.files, lab.has(lost)), (1, false));
    assert_eq!(lab.get("kept").await, b"kept");
}

async fn repeated_crashes_do_not_keep_files_for_ever(mut lab: Lab) {
    let mut lost = Vec::new();
    for day in 0..12 {
        lab.next_session().await;
        lost.push(lab.lose_a_file(day));
        lab.pass(DAY);
        swept(&lab).await;
    }
    let left: Vec<bool> = lost.iter().map(|it| lab.has(*it)).collect();
    // The gap of a day is noticed at the next opening, a day later.
    assert_eq!(left, [vec![false; 5], vec![true; 7]].concat());
}

async fn after_clean_ends_no_folder_is_listed_and_the_cost_of_a_sweep_is_constant(mut lab: Lab) {
    lab.delete_after_a_day("logs", "logs/").await;
    lab.delete_after_a_day("tmp", "tmp/").await;
    lab.delete_after_days("year", "", 365).await;
    for number in 0..5 {
        lab.put(&format!("kept/{number}"), b"kept").await;
    }
    let upload = lab.begin("open").await;
    lab.part(&upload, 1, b"part").await.unwrap();
    lab.buckets.close().await;
    let trouble = lab.next_session().await;
    let cost = async |files| {
        lab.pass(DAY);
        // Each rule passes new blobs.
        assert_eq!(swept(&lab).await, SweepCounts::default());
        assert_eq!(lab.all_files().len(), files);
        let before = lab.store.activity();
        lab.pass(HOUR);
        assert_eq!(swept(&lab).await, SweepCounts::default());
        let after = lab.store.activity();
        assert_eq!(after.commits, before.commits, "nothing is written when nothing is done");
        after.reads - before.reads
    };
    let few = cost(6).await;
    // Rows of 2,000 more blobs, with the content of the first.
    let row = lab.entry("blob/photos", b"kept/0").await;
    for page in 0..4 {
        let mut commit = Commit::default();
        for number in 0..500 {
            let key = format!("kept/{page}/{number}");
            let entry = EntryKey::new("blob/photos", key.as_bytes()).unwrap();
            let (value, reference) = (row.value.clone(), row.reference);
            let put = Put { entry, value, reference, expires: None };
            commit = commit.write(Write::Put(put));
        }
        lab.store.commit(commit).await.unwrap();
    }
    for number in 5..15 {
        lab.put(&format!("kept/{number}"), b"kept").await;
    }
    assert_eq!(cost(16).await, few);
    assert_eq!(trouble.lists(), 0);
}

async fn orphans_of_a_living_process_are_removed_without_a_walk(mut lab: Lab) {
    lab.buckets.close().await;
    let trouble = lab.next_session().await;
    lab.put("k", b"first").await;
    trouble.on(|at, _| match at == At::Remove {
        true => Err(io::ErrorKind::PermissionDenied.into()),
        false => Ok(()),
    });
    lab.put("k", b"second").await;
    lab.delete("k").await;
    trouble.off();
    let mut writer = lab.buckets.writer(&bucket(), &key("given up")).await.unwrap();
    writer.write(&vec![1; 3 << 20]).await.unwrap();
    drop(writer);
    assert_eq!(lab.all_files().len(), 2, "of what was given up nothing is left");
    lab.pass(HOUR - Duration::from_millis(1));
    assert_eq!(swept(&lab).await.files, 0);
    lab.pass(Duration::from_millis(1));
    assert_eq!(swept(&lab).await.files, 2);
    assert_eq!(lab.all_files(), []);
    lab.buckets.close().await;
    let last = lab.next_session().await;
    lab.pass(8 * DAY);
    assert_eq!(swept(&lab).await.files, 0);
    assert_eq!((trouble.lists(), last.lists()), (0, 0));
}

async fn an_end_with_a_change_in_progress_is_not_clean(mut lab: Lab) {
    lab.buckets.close().await;
    lab.next_session().await;
    lab.put("k", b"kept").await;
    let mut writer = lab.buckets.writer(&bucket(), &key("slow")).await.unwrap();
    writer.write(b"slow").await.unwrap();
    lab.buckets.close().await;
    let late = lab.buckets.put(&bucket(), &key("late"), b"late", PutOptions::default()).await;
    assert_eq!(
        late.unwrap_err().code(),
        BucketError::from(steadfast_store::StoreError::Closed).code()
    );
    assert_eq!(lab.get("k").await, b"kept", "reading goes on");
    drop(writer);
    let lost = lab.lose_a_file(1);
    lab.next_session().await;
    lab.pass(7 * DAY);
    assert_eq!((swept(&lab).await.files, lab.has(lost)), (1, false));
}

async fn an_end_after_a_panic_during_a_put_is_not_clean(mut lab: Lab) {
    lab.buckets.close().await;
    let trouble = lab.next_session().await;
    trouble.on(|at, _| {
        assert!(at != At::Sealed, "as the test wants it");
        Ok(())
    });
    let put = lab.buckets.put(&bucket(), &key("k"), b"bytes", PutOptions::default()).await;
    assert_eq!((put.unwrap_err().code(), lab.all_files().len()), ("storage_failed", 1));
    trouble.off();
    lab.buckets.close().await;
    lab.next_session().await;
    lab.pass(7 * DAY);
    assert_eq!((swept(&lab).await.files, lab.all_files().len()), (1, 0));
}

async fn a_crash_between_the_two_writes_of_an_id_is_recovered(mut lab: Lab) {
    lab.delete_after_a_day("old", "old/").await;
    lab.put("old/a", b"old").await;
    lab.buckets.close().await;
    let trouble = Trouble::new(lab.blobs.clone());
    trouble.on(|at, _| match at == At::Session {
        true => Err(io::ErrorKind::PermissionDenied.into()),
        false => Ok(()),
    });
    assert!(lab.try_open(&trouble).await.is_err());
    lab.next_session().await;
    let lost = lab.lose_a_file(1);
    lab.pass(DAY);
    assert_eq!(swept(&lab).await.blobs, 1, "nobody takes it for an older store");
    lab.next_session().await;
    lab.pass(7 * DAY);
    assert_eq!((swept(&lab).await.files, lab.has(lost)), (1, false));
}

async fn buckets_opened_on_a_full_disk_are_readable_and_recover_with_space(mut lab: Lab) {
    lab.put("k", b"bytes").await;
    let trouble = Trouble::new(lab.blobs.clone());
    trouble.on(|at, _| match at == At::Session {
        true => Err(io::ErrorKind::StorageFull.into()),
        false => Ok(()),
    });
    lab.buckets = lab.try_open(&trouble).await.unwrap();
    assert_eq!(lab.get("k").await, b"bytes");
    let put = async |lab: &Lab| {
        let put = lab.buckets.put(&bucket(), &key("new"), b"new", PutOptions::default()).await;
        put.map(|it| it.size).map_err(|it| it.code().to_owned())
    };
    assert_eq!(put(&lab).await, Err("disk_full".into()));
    lab.pass(HOUR);
    assert_eq!(put(&lab).await, Err("disk_full".into()));
    trouble.off();
    while put(&lab).await != Ok(3) {
        lab.pass(Duration::from_secs(1));
        tokio::task::yield_now().await;
    }
    // The session is an ordinary one: orphans are removed, and blobs stay.
    let lost = lab.lose_a_file(1);
    lab.next_session().await;
    lab.pass(8 * DAY);
    assert_eq!((swept(&lab).await.files, lab.has(lost)), (1, false));
    assert_eq!((lab.get("k").await, lab.get("new").await), (b"bytes".to_vec(), b"new".to_vec()));
}

async fn a_rule_revisits_rewritten_blobs_and_all_blobs_after_a_new_prefix(lab: Lab) {
    lab.delete_after_a_day("one", "a/").await;
    for at in ["a/1", "b/1", "b/2"] {
        lab.put(at, b"1").await;
    }
    lab.pass(DAY);
    assert_eq!(swept(&lab).await.blobs, 1);
    lab.put("a/1", b"2").await;
    lab.put("b/2", b"2").await;
    lab.delete_after_a_day("one", "b/").await;
    assert_eq!(swept(&lab).await.blobs, 1, "the rule has another prefix and begins anew");
    lab.delete_after_a_day("one", "").await;
    lab.pass(DAY - Duration::from_millis(1));
    assert_eq!(swept(&lab).await.blobs, 0);
    lab.pass(Duration::from_millis(1));
    assert_eq!(swept(&lab).await.blobs, 2);
    assert_eq!(lab.all_files(), []);
    lab.buckets.delete_bucket(&bucket()).await.unwrap();
    let all = steadfast_store::EntryRange::prefix(b"");
    let left = lab.store.entries("lifecycle/photos", all, 9).await.unwrap();
    assert_eq!(left, []);
}

/// If a process ends in the middle of a walk, the next one continues it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_walk_continues_where_the_last_process_ended() {
    let mut lab = Lab::sqlite().await;
    lab.next_session().await;
    // Each in its own folder.
    for _ in 0..520 {
        lab.pass(Duration::from_secs(66));
        lab.lose_a_file(1);
    }
    lab.pass(HOUR);
    let trouble = lab.next_session().await;
    lab.pass(8 * DAY);
    let (end, ended) = tokio::sync::oneshot::channel();
    let (mut end, mut lists) = (Some(end), 0);
    trouble.on(move |at, _| {
        lists += usize::from(at == At::List);
        if lists == 510 {
            end.take().map(|it| it.send(()));
            // Until the caller is dropped.
            return Err(io::ErrorKind::Interrupted.into());
        }
        Ok(())
    });
    tokio::select! {
        biased;
        _ = ended => {}
        _ = lab.buckets.sweep() => panic!("it was stopped"),
    }
    trouble.off();
    let left = lab.all_files().len();
    assert!((1..=20).contains(&left), "{left}");
    let trouble = lab.next_session().await;
    assert_eq!(swept(&lab).await.files, left);
    // The names of folders, and the remaining folders; the process may have ended after an empty
    // folder, or before it saved the last one.
    assert!(trouble.lists() <= left + 20, "it began anew: {} lists", trouble.lists());
}

/// The real case: a copy of the database file, beside newer files.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restored_database_deletes_no_newer_file_and_the_newer_one_stays_complete() {
    let mut lab = Lab::sqlite().await;
    let place = lab.folder.path().to_owned();
    let (current, older) = (place.join("store"), place.join("older"));
    lab.put("a", b"first").await;
    let reopen = async |lab: &mut Lab, is_clean: bool, from: Option<&std::path::Path>| {
        if is_clean {
            lab.buckets.close().await;
        }
        lab.store.close().await;
        if let Some(from) = from {
            let aside = place.join("aside");
            std::fs::rename(&current, &aside).unwrap();
            copy(from, &current);
            std::fs::rename(&aside, place.join("newer")).unwrap();
        }
        lab.store = open_sqlite(&place, &lab.clock);
        lab.next_session().await;
    };
    reopen(&mut lab, true, None).await;
    lab.store.close().await;
    copy(&place.join("store"), &older);
    lab.store = open_sqlite(&place, &lab.clock);
    lab.next_session().await;
    lab.pass(HOUR);
    lab.put("b", b"newer").await;
    lab.pass(HOUR);
    reopen(&mut lab, true, Some(&older)).await;
    for _ in 0..6 {
        lab.pass(DAY);
        assert_eq!(swept(&lab).await.files, 0);
    }
    assert_eq!(lab.buckets.head(&bucket(), &key("b")).await.unwrap_err().code(), "blob_not_found");
    assert_eq!(lab.get("a").await, b"first");
    lab.buckets.close().await;
    lab.store.close().await;
    std::fs::remove_dir_all(place.join("store")).unwrap();
    std::fs::rename(place.join("newer"), place.join("store")).unwrap();
    lab.store = open_sqlite(&place, &lab.clock);
    lab.next_session().await;
    assert_eq!((lab.get("a").await, lab.get("b").await), (b"first".to_vec(), b"newer".to_vec()));
}

fn copy(from: &std::path::Path, to: &std::path::Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        std::fs::copy(&path, to.join(path.file_name().unwrap())).unwrap();
    }
}
