//! All buckets of a store.

use std::{fmt, sync::Arc, time::Duration};

use steadfast_store::{Commit, Entropy, EntryRange, Outcome, Store, StoreClock, StoreError};

use crate::{
    BucketError,
    cache::{BucketCache, NextAborts},
    changes::Changes,
    content::{Blobs, ContentId, FileName, off},
    readers::Readers,
    session,
};

/// How long things are kept that nobody asked to keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BucketOptions {
    /// The number of a deleted key. While it is kept, the next write of the key takes the next
    /// number; later it takes one above all that deleted keys of the bucket had.
    pub keep_tombstones: Duration,
    /// An upload in parts that nobody completes, where no lifecycle rule says otherwise.
    pub keep_uploads: Duration,
    /// A file that no blob refers to: it may be about to.
    pub keep_orphans: Duration,
    /// A file that the store does not know, after it was opened without a clean end before it or
    /// beside files that another copy of it used last. So long a newer copy can be restored.
    pub keep_unknown_files: Duration,
}

impl Default for BucketOptions {
    fn default() -> Self {
        Self {
            keep_tombstones: Duration::from_hours(30 * 24),
            keep_uploads: Duration::from_hours(7 * 24),
            keep_orphans: Duration::from_hours(1),
            keep_unknown_files: Duration::from_hours(7 * 24),
        }
    }
}

/// All buckets of a store. Cheap to clone.
#[derive(Clone)]
pub struct Buckets {
    pub(crate) shared: Arc<Shared>,
}

pub(crate) struct Shared {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) blobs: Arc<dyn Blobs>,
    pub(crate) clock: Arc<StoreClock>,
    pub(crate) entropy: Arc<dyn Entropy>,
    pub(crate) options: BucketOptions,
    pub(crate) account: String,
    pub(crate) cache: BucketCache,
    pub(crate) readers: Readers,
    pub(crate) changes: Arc<Changes>,
    pub(crate) session: tokio::sync::Mutex<session::State>,
    pub(crate) next_aborts: NextAborts,
}

impl Buckets {
    /// The name of the store, as events carry it.
    pub fn account(&self) -> &str {
        &self.shared.account
    }
}

impl fmt::Debug for Buckets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buckets({:?})", self.shared.blobs)
    }
}

impl Shared {
    pub(crate) fn new_content(&self) -> ContentId {
        ContentId::new(self.clock.now(), self.store.owner().epoch, &*self.entropy)
    }

    /// See [`off`].
    pub(crate) async fn off<T: Send + 'static>(
        &self,
        work: impl FnOnce(&dyn Blobs) -> Result<T, BucketError> + Send + 'static,
    ) -> Result<T, BucketError> {
        off(&self.blobs, work).await
    }

    /// Does something to its end, also if nobody waits for it any more: a commit that is under way
    /// cannot be called back, and somebody must see to its files.
    pub(crate) async fn to_the_end<T: Send + 'static>(
        work: impl Future<Output = Result<T, BucketError>> + Send + 'static,
    ) -> Result<T, BucketError> {
        match tokio::spawn(work).await {
            Ok(done) => done,
            Err(error) => match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                Err(error) => Err(BucketError::Files { reason: error.to_string() }),
            },
        }
    }

    /// Has the sweep look at files that perhaps nothing refers to.
    pub(crate) fn doubt(&self, files: &[FileName]) {
        self.changes.doubt(files, self.clock.now());
    }

    /// The same for drafts that were given up and could not be removed.
    pub(crate) async fn take_left_over(&self) -> Result<(), BucketError> {
        let left = self.off(|blobs| Ok(blobs.left_over())).await?;
        self.doubt(&left);
        Ok(())
    }

    /// Removes files that nothing refers to any more. If that fails, the sweep does it.
    pub(crate) async fn discard(&self, files: Vec<FileName>) {
        let files: Vec<FileName> =
            files.into_iter().filter(|it| !self.readers.leave_to_last(*it)).collect();
        if files.is_empty() {
            return;
        }
        self.doubt(&files);
        let names = files.clone();
        match self.off(move |blobs| Ok(blobs.remove(&names)?)).await {
            Ok(()) => self.changes.settle(&files),
            Err(error) => {
                tracing::warn!(error = %error, "files of a blob that is gone were not removed");
            }
        }
    }

    /// All entries of a list, page by page.
    pub(crate) async fn page(
        &self,
        space: &str,
        prefix: &[u8],
        after: Option<&[u8]>,
    ) -> Result<Vec<steadfast_store::Entry>, StoreError> {
        let range = EntryRange::prefix(prefix);
        let range = match after {
            Some(after) => range.after(after),
            None => range,
        };
        self.store.entries(space, range, 1_000).await
    }

    /// Commits, and says which expectation did not hold.
    pub(crate) async fn commit(
        &self,
        commit: Commit,
    ) -> Result<Result<steadfast_store::Receipt, steadfast_store::Rejection>, BucketError> {
        match self.store.commit(commit).await? {
            Outcome::Committed(receipt) => Ok(Ok(receipt)),
            Outcome::Rejected(rejection) => Ok(Err(rejection)),
            Outcome::Duplicate(before) => Err(BucketError::repeated(&before)),
        }
    }
}

/// Keeps the files of a content from being removed.
pub(crate) struct Hold {
    shared: Arc<Shared>,
    pub(crate) content: ContentId,
}

impl Hold {
    pub(crate) fn new(shared: &Arc<Shared>, content: ContentId) -> Self {
        shared.readers.enter(content);
        Self { shared: shared.clone(), content }
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let doomed = self.shared.readers.leave(self.content);
        if doomed.is_empty() {
            return;
        }
        // At the very end there may be no runtime any more, or one that does not get to it.
        self.shared.doubt(&doomed);
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let shared = self.shared.clone();
            runtime.spawn(async move { shared.discard(doomed).await });
        }
    }
}
