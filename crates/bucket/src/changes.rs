//! Changes of files under way in this process, and files that are to be looked at again.

use std::{collections::HashMap, sync::Arc};

use parking_lot::{Mutex, MutexGuard};
use steadfast_store::{StoreError, Timestamp};

use crate::{BucketError, content::FileName};

/// Files that are remembered; if there are more, the next session looks for them.
const DOUBTS_MAX: usize = 100_000;

#[derive(Debug, Default)]
pub(crate) struct Changes(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    under_way: usize,
    is_closed: bool,
    /// The session could not be begun, because the disk is full.
    waits_for_session: bool,
    is_read_only: bool,
    /// Files that perhaps nothing refers to, and since when.
    doubts: HashMap<FileName, Timestamp>,
    /// There are files to be looked at that are not among them: there were too many, or a change
    /// has panicked.
    is_incomplete: bool,
    /// How often rows of parts were left whose upload has ended, and up to which time the sweep has
    /// seen to it.
    parts_left: u64,
    parts_seen: u64,
}

/// A change of files that is under way. The session does not end cleanly before it is done.
#[derive(Debug)]
pub(crate) struct Changing(Arc<Changes>);

impl Drop for Changing {
    fn drop(&mut self) {
        let mut inner = self.0.inner();
        inner.under_way -= 1;
        // Whatever it has left, nobody has noted it.
        inner.is_incomplete |= std::thread::panicking();
    }
}

impl Changes {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock()
    }

    /// Begins something that makes or removes files.
    pub(crate) fn begin(self: &Arc<Self>) -> Result<Changing, BucketError> {
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
        Ok(Changing(self.clone()))
    }

    /// Lets nobody begin any more.
    pub(crate) fn close(&self) {
        self.inner().is_closed = true;
    }

    /// Lets somebody begin only when the session has begun.
    pub(crate) fn wait_for_session(&self, waits: bool) {
        self.inner().waits_for_session = waits;
    }

    /// Refuses all changes, for ever.
    pub(crate) fn refuse_all(&self) {
        self.inner().is_read_only = true;
    }

    /// Whether the session has not begun.
    pub(crate) fn has_no_session(&self) -> bool {
        self.inner().waits_for_session
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.inner().is_closed
    }

    /// Whether nothing is under way and nothing is left to be looked at.
    pub(crate) fn is_done(&self) -> bool {
        let inner = self.inner();
        let has_files = !inner.doubts.is_empty() || inner.is_incomplete;
        inner.under_way == 0 && !has_files && inner.parts_left == inner.parts_seen
    }

    /// Files that are to be looked at, if they have been for long enough.
    pub(crate) fn doubts(&self, is_due: impl Fn(Timestamp) -> bool) -> Vec<FileName> {
        let inner = self.inner();
        inner.doubts.iter().filter(|it| is_due(*it.1)).map(|it| *it.0).collect()
    }

    /// Has the sweep look at files that perhaps nothing refers to.
    pub(crate) fn doubt(&self, files: &[FileName], now: Timestamp) {
        let mut inner = self.inner();
        for file in files {
            if DOUBTS_MAX <= inner.doubts.len() && !inner.doubts.contains_key(file) {
                inner.is_incomplete = true;
                continue;
            }
            inner.doubts.insert(*file, now);
        }
    }

    /// These are gone, or something refers to them.
    pub(crate) fn settle(&self, files: &[FileName]) {
        let mut inner = self.inner();
        files.iter().for_each(|it| _ = inner.doubts.remove(it));
    }

    /// Rows of parts were left whose upload has ended.
    pub(crate) fn leave_parts(&self) {
        self.inner().parts_left += 1;
    }

    /// How often, if the sweep is to see to it.
    pub(crate) fn left_parts(&self) -> Option<u64> {
        let inner = self.inner();
        (inner.parts_seen < inner.parts_left).then_some(inner.parts_left)
    }

    /// The sweep has seen to those.
    pub(crate) fn forgot_parts(&self, left: u64) {
        self.inner().parts_seen = left;
    }
}
