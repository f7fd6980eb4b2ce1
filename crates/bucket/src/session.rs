//! Sessions: detect whether the store knows everything that happened to the files. File changes in
//! progress, and files that the sweep must recheck, are known while a session is open.
//!
//! Opening the buckets begins a session. Its id is written to the store and beside the files. A
//! clean end writes another id. If the ids differ, another copy of the store used the files last.
//! If a session is still open, the process was not closed. In both cases the store may lack rows: a
//! gap.

use std::{collections::HashMap, sync::Arc};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use steadfast_store::{Entropy, Outcome, Record, Records, Store, StoreError, Timestamp};

use crate::{
    BucketError,
    content::{Blobs, FileName, run_blocking},
};

/// Maximum number of gaps. Beyond it, the last gap grows.
const GAPS_MAX: usize = 64;

/// The store's record of the use of its files.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Session {
    id: String,
    /// The id beside the files when this was committed, in case the process ends between the two
    /// writes.
    previous: Option<String>,
    began_at: i64,
    /// A session that is open at the start did not end cleanly.
    is_open: bool,
    /// Gaps in order of time. Each requires a walk through all files.
    gaps: Vec<Gap>,
    /// The walk in progress.
    walk: Option<Walk>,
    /// Rows of parts of finished uploads may remain.
    pub(crate) lost_parts: bool,
    /// Time at which the store was found to be another copy than the one that used the files.
    pub(crate) restored_at: Option<i64>,
    /// Time at which the folder of the files was found to be new, although the store was not.
    #[serde(default)]
    pub(crate) emptied_at: Option<i64>,
}

impl State {
    /// The findings at the beginning of the session.
    pub(crate) fn found(&self) -> Found {
        let Session { emptied_at, restored_at, .. } = self.session;
        Found { emptied_at, restored_at }
    }
}

/// Findings at the beginning of a session, for those who must not wait for a sweep.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    pub(crate) emptied_at: Option<i64>,
    pub(crate) restored_at: Option<i64>,
}

/// A period for which the store may lack rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Gap {
    from: i64,
    until: i64,
}

/// A walk through all files.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Walk {
    /// The walk covers the gaps that ended at this time or before.
    pub(crate) until: i64,
    /// The last folder that was checked.
    #[serde(rename = "shelf")]
    pub(crate) subfolder: Option<String>,
    /// Some files could not be checked: the walk must be repeated.
    pub(crate) has_failed: bool,
}

/// The session of these buckets, as last committed.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) session: Session,
    revision: i64,
    /// Another process has opened the buckets of this store since.
    pub(crate) is_over: bool,
}

/// The session is one of them.
const SYSTEM: Records<Session> = Records::new("system");

const SESSION: &[u8] = b"blob-session";

/// Commits a session. Returns `false` if another session was committed.
async fn put(store: &dyn Store, session: &Session, revision: i64) -> Result<bool, BucketError> {
    let (entry, changed_at, value) = (SYSTEM.entry(SESSION)?, Timestamp::MIN, None);
    let before = Record { entry, revision, changed_at, value };
    Ok(matches!(store.commit(before.change(session)?).await?, Outcome::Committed(_)))
}

fn new_id(entropy: &dyn Entropy) -> String {
    format!("{:016x}{:016x}", entropy.next(), entropy.next())
}

impl Session {
    fn is_of(&self, note: Option<&str>) -> bool {
        note == Some(&self.id) || note == self.previous.as_deref()
    }

    fn add_gap(&mut self, from: i64, until: Timestamp) {
        self.lost_parts = true;
        let until = until.0;
        let is_full = GAPS_MAX <= self.gaps.len();
        match self.gaps.last_mut() {
            Some(last) if is_full => last.until = until,
            _ => self.gaps.push(Gap { from, until }),
        }
    }

    /// The session after this one.
    fn next(self, id: String, note: Option<String>, now: Timestamp, has_files: bool) -> Self {
        let mut next = self;
        // The default is a store without a session.
        let (is_first, is_same) = (next.id.is_empty(), next.is_of(note.as_deref()));
        if !is_first && note.is_none() && !has_files {
            next.emptied_at = Some(now.0);
        }
        if is_first && note.is_none() {
            if has_files {
                next.add_gap(i64::MIN, now);
            }
        } else if is_same {
            if next.is_open {
                next.add_gap(next.began_at, now);
            }
        } else if has_files {
            tracing::warn!(
                "another copy of this store used the blob files last: this one may be an older \
                 one that was restored. Nothing is deleted because of its age for a while, so \
                 that the newer one can still be put back"
            );
            let from = if is_first { i64::MIN } else { next.began_at };
            next.add_gap(from, now);
            next.restored_at = Some(now.0);
        }
        Self { id, previous: note, began_at: now.0, is_open: true, ..next }
    }

    /// Orphans created at this time or later are not covered by this walk.
    pub(crate) fn covered_until(&self, walk: &Walk) -> Timestamp {
        let later = self.gaps.iter().filter(|it| walk.until < it.until);
        Timestamp(later.map(|it| it.from).min().unwrap_or(i64::MAX))
    }

    pub(crate) fn is_open(&self) -> bool {
        self.is_open
    }

    /// The walk in progress, or one for the gaps that ended long enough ago.
    pub(crate) fn due_walk(&self, is_due: impl Fn(Timestamp) -> bool) -> Option<Walk> {
        if let Some(walk) = &self.walk {
            return Some(walk.clone());
        }
        let due = self.gaps.iter().take_while(|it| is_due(Timestamp(it.until)));
        due.last().map(|it| Walk { until: it.until, ..Walk::default() })
    }

    /// Removes the gaps that a walk covered.
    pub(crate) fn end_walk(&mut self, walk: &Walk) {
        if !walk.has_failed {
            self.gaps.retain(|it| walk.until < it.until);
        }
        self.walk = None;
    }

    pub(crate) fn continue_walk(&mut self, walk: Walk) {
        self.walk = Some(walk);
    }
}

/// Begins a session.
pub(crate) async fn begin(
    store: &dyn Store,
    blobs: &Arc<dyn Blobs>,
    entropy: &dyn Entropy,
) -> Result<State, BucketError> {
    loop {
        let Record { revision, value, .. } = SYSTEM.find(store, SESSION).await?;
        let before = value.unwrap_or_default();
        let note = run_blocking(blobs, |blobs| Ok(blobs.session()?)).await?;
        let is_known = note.is_some() && before.is_of(note.as_deref());
        let has_files = !is_known
            && run_blocking(blobs, |blobs| Ok(!blobs.subfolders_after(None, 1)?.is_empty()))
                .await?;
        let id = new_id(entropy);
        let session = before.next(id.clone(), note, store.clock().now(), has_files);
        // Store first: until the files have the same id, `previous` has theirs.
        if put(store, &session, revision).await? {
            run_blocking(blobs, move |blobs| Ok(blobs.set_session(&id)?)).await?;
            return Ok(State { session, revision: revision + 1, is_over: false });
        }
    }
}

/// Whether the disk was full.
pub(crate) fn is_disk_full(error: &BucketError) -> bool {
    matches!(error, BucketError::DiskFull | BucketError::Store(StoreError::DiskFull))
}

impl State {
    /// The session of read-only buckets.
    pub(crate) fn without_session() -> Self {
        Self { session: Session::default(), revision: 0, is_over: true }
    }

    /// Commits the session. Returns `false` if another process has begun one.
    pub(crate) async fn save(&mut self, store: &dyn Store) -> Result<bool, BucketError> {
        let is_saved = put(store, &self.session, self.revision).await?;
        if is_saved {
            self.revision += 1;
        } else {
            self.is_over = true;
        }
        Ok(is_saved)
    }

    /// Ends the session cleanly: the store knows everything that happened to the files.
    pub(crate) async fn end(
        &mut self,
        store: &dyn Store,
        blobs: &Arc<dyn Blobs>,
        entropy: &dyn Entropy,
    ) -> Result<(), BucketError> {
        let id = new_id(entropy);
        let previous = Some(std::mem::replace(&mut self.session.id, id.clone()));
        (self.session.previous, self.session.is_open) = (previous, false);
        if self.save(store).await? {
            run_blocking(blobs, move |blobs| Ok(blobs.set_session(&id)?)).await?;
        }
        Ok(())
    }
}

/// Maximum number of files to remember. Beyond it, the next session walks through all files.
const RECHECKS_MAX: usize = 100_000;

#[derive(Debug, Default)]
pub(crate) struct FileChanges(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    under_way: usize,
    is_closed: bool,
    /// The disk was full when the session should have begun.
    waits_for_session: bool,
    is_read_only: bool,
    /// Files that may be orphans, with the time when they were added.
    rechecks: HashMap<FileName, Timestamp>,
    /// Files may need a check that are not in the map: it was full, or a change panicked.
    is_incomplete: bool,
    /// Counts failures to remove the rows of parts of a finished upload, and how many of them the
    /// sweep has handled.
    lost_parts_count: u64,
    lost_parts_swept: u64,
}

/// A file change in progress. A session ends cleanly only without one.
#[derive(Debug)]
pub(crate) struct ChangeGuard(Arc<FileChanges>);

impl Drop for ChangeGuard {
    fn drop(&mut self) {
        let mut inner = self.0.0.lock();
        inner.under_way -= 1;
        // A panic may have left files that nobody recorded.
        inner.is_incomplete |= std::thread::panicking();
    }
}

impl FileChanges {
    /// Begins a change that creates or removes files.
    pub(crate) fn begin(self: &Arc<Self>) -> Result<ChangeGuard, BucketError> {
        let mut inner = self.0.lock();
        if inner.is_closed {
            return Err(StoreError::Closed.into());
        }
        if inner.is_read_only {
            return Err(StoreError::ReadOnly.into());
        }
        if inner.waits_for_session {
            return Err(BucketError::DiskFull);
        }
        inner.under_way += 1;
        Ok(ChangeGuard(self.clone()))
    }

    /// Refuses new changes, because the buckets close.
    pub(crate) fn close(&self) {
        self.0.lock().is_closed = true;
    }

    /// Refuses changes until the session has begun.
    pub(crate) fn wait_for_session(&self, waits: bool) {
        self.0.lock().waits_for_session = waits;
    }

    /// Refuses all changes: the buckets are read-only.
    pub(crate) fn refuse_all(&self) {
        self.0.lock().is_read_only = true;
    }

    /// Returns whether the session has not begun yet.
    pub(crate) fn has_no_session(&self) -> bool {
        self.0.lock().waits_for_session
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.0.lock().is_closed
    }

    /// Returns whether no change is in progress and no file needs a check.
    pub(crate) fn is_done(&self) -> bool {
        let inner = self.0.lock();
        let has_files = !inner.rechecks.is_empty() || inner.is_incomplete;
        inner.under_way == 0 && !has_files && inner.lost_parts_count == inner.lost_parts_swept
    }

    /// Files to check whose waiting time is over.
    pub(crate) fn rechecks(&self, is_due: impl Fn(Timestamp) -> bool) -> Vec<FileName> {
        let inner = self.0.lock();
        inner.rechecks.iter().filter(|it| is_due(*it.1)).map(|it| *it.0).collect()
    }

    /// Adds files that may be orphans.
    pub(crate) fn recheck(&self, files: &[FileName], now: Timestamp) {
        let mut inner = self.0.lock();
        for file in files {
            if RECHECKS_MAX <= inner.rechecks.len() && !inner.rechecks.contains_key(file) {
                inner.is_incomplete = true;
                continue;
            }
            inner.rechecks.insert(*file, now);
        }
    }

    /// Removes files that are deleted or referenced by a row.
    pub(crate) fn settle(&self, files: &[FileName]) {
        let mut inner = self.0.lock();
        files.iter().for_each(|it| _ = inner.rechecks.remove(it));
    }

    /// Records that the rows of parts of a finished upload were not removed.
    pub(crate) fn note_lost_parts(&self) {
        self.0.lock().lost_parts_count += 1;
    }

    /// Number of such failures, if the sweep has not handled all of them.
    pub(crate) fn unswept_lost_parts(&self) -> Option<u64> {
        let inner = self.0.lock();
        (inner.lost_parts_swept < inner.lost_parts_count).then_some(inner.lost_parts_count)
    }

    /// Records that the sweep has handled this many failures.
    pub(crate) fn mark_lost_parts_swept(&self, left: u64) {
        self.0.lock().lost_parts_swept = left;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn opened(before: Session, note: Option<&str>, at: i64) -> Session {
        before.next(format!("at {at}"), note.map(Into::into), Timestamp(at), true)
    }

    fn gaps(session: &Session) -> Vec<(i64, i64)> {
        session.gaps.iter().map(|it| (it.from, it.until)).collect()
    }

    #[test]
    fn a_session_that_ended_cleanly_leaves_no_gap_and_one_that_did_not_leaves_its_time() {
        let first = opened(
            Session { is_open: false, ..opened(Session::default(), None, 1) },
            Some("at 1"),
            2,
        );
        assert_eq!(gaps(&first), [(i64::MIN, 1)], "the files are older than the first session");
        let second = opened(first, Some("at 2"), 5);
        assert_eq!(gaps(&second), [(i64::MIN, 1), (2, 5)]);
        assert_eq!(second.restored_at, None);
        let third = opened(second, Some("at 2"), 6);
        assert_eq!(gaps(&third)[2..], [(5, 6)], "it ended before its id stood beside the files");
        assert_eq!(third.restored_at, None);
    }

    #[test]
    fn a_restored_store_is_distinguished_from_a_crashed_one() {
        let first = Session { is_open: false, ..opened(Session::default(), None, 1) };
        let copy = first.clone();
        let restored = opened(copy, Some("at 7"), 9);
        assert_eq!((gaps(&restored)[1], restored.restored_at), ((1, 9), Some(9)));
        let lost = opened(Session::default(), Some("at 7"), 9);
        assert_eq!((gaps(&lost), lost.restored_at), (vec![(i64::MIN, 9)], Some(9)));
        let new = Session::default().next("n".into(), None, Timestamp(3), false);
        assert_eq!((gaps(&new), new.lost_parts), (vec![], false));
    }

    #[test]
    fn a_folder_that_was_emptied_is_noticed() {
        let next = |before: Session, note: Option<&str>, has_files| {
            before.next("n".into(), note.map(Into::into), Timestamp(9), has_files).emptied_at
        };
        assert_eq!(next(Session::default(), None, false), None, "a new store");
        let used = || opened(Session::default(), None, 1);
        assert_eq!(next(used(), None, false), Some(9));
        assert_eq!(next(used(), None, true), None, "another folder with files");
        assert_eq!(next(used(), Some("at 1"), false), None, "it never had files");
    }

    #[test]
    fn gaps_are_bounded_and_a_walk_ends_the_gaps_it_covers() {
        let mut session = opened(Session::default(), None, 0);
        for at in 1..1_000 {
            let note = session.id.clone();
            session = opened(session, Some(&note), at);
        }
        assert_eq!(session.gaps.len(), GAPS_MAX);
        assert_eq!(gaps(&session)[GAPS_MAX - 1], (GAPS_MAX as i64 - 2, 999));
        let mut walk = Walk { until: 10, has_failed: true, ..Walk::default() };
        assert_eq!(session.covered_until(&walk), Timestamp(10));
        session.end_walk(&walk);
        assert_eq!(session.gaps.len(), GAPS_MAX, "it is to be repeated");
        walk.has_failed = false;
        session.end_walk(&walk);
        assert_eq!(gaps(&session)[0], (10, 11));
    }
}
