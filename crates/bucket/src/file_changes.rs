//! File changes in progress, and files that the sweep must recheck.

use std::{collections::HashMap, sync::Arc};

use parking_lot::{Mutex, MutexGuard};
use steadfast_store::{StoreError, Timestamp};

use crate::{BucketError, content::FileName};

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
        let mut inner = self.0.inner();
        inner.under_way -= 1;
        // A panic may have left files that nobody recorded.
        inner.is_incomplete |= std::thread::panicking();
    }
}

impl FileChanges {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock()
    }

    /// Begins a change that creates or removes files.
    pub(crate) fn begin(self: &Arc<Self>) -> Result<ChangeGuard, BucketError> {
        let mut inner = self.inner();
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
        self.inner().is_closed = true;
    }

    /// Refuses changes until the session has begun.
    pub(crate) fn wait_for_session(&self, waits: bool) {
        self.inner().waits_for_session = waits;
    }

    /// Refuses all changes: the buckets are read-only.
    pub(crate) fn refuse_all(&self) {
        self.inner().is_read_only = true;
    }

    /// Returns whether the session has not begun yet.
    pub(crate) fn has_no_session(&self) -> bool {
        self.inner().waits_for_session
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.inner().is_closed
    }

    /// Returns whether no change is in progress and no file needs a check.
    pub(crate) fn is_done(&self) -> bool {
        let inner = self.inner();
        let has_files = !inner.rechecks.is_empty() || inner.is_incomplete;
        inner.under_way == 0 && !has_files && inner.lost_parts_count == inner.lost_parts_swept
    }

    /// Files to check whose waiting time is over.
    pub(crate) fn rechecks(&self, is_due: impl Fn(Timestamp) -> bool) -> Vec<FileName> {
        let inner = self.inner();
        inner.rechecks.iter().filter(|it| is_due(*it.1)).map(|it| *it.0).collect()
    }

    /// Adds files that may be orphans.
    pub(crate) fn recheck(&self, files: &[FileName], now: Timestamp) {
        let mut inner = self.inner();
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
        let mut inner = self.inner();
        files.iter().for_each(|it| _ = inner.rechecks.remove(it));
    }

    /// Records that the rows of parts of a finished upload were not removed.
    pub(crate) fn note_lost_parts(&self) {
        self.inner().lost_parts_count += 1;
    }

    /// Number of such failures, if the sweep has not handled all of them.
    pub(crate) fn unswept_lost_parts(&self) -> Option<u64> {
        let inner = self.inner();
        (inner.lost_parts_swept < inner.lost_parts_count).then_some(inner.lost_parts_count)
    }

    /// Records that the sweep has handled this many failures.
    pub(crate) fn mark_lost_parts_swept(&self, left: u64) {
        self.inner().lost_parts_swept = left;
    }
}
