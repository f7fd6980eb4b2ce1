//! All buckets of a store, their cached rows, which only this process changes, and the contents in
//! use. Files stay until the last reader is done, or until the store has decided on the write.

use std::{
    collections::HashMap,
    fmt,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use steadfast_store::{
    Commit, Entropy, Entry, EntryKey, EntryRange, Outcome, Put, RowCache, Store, StoreClock,
    StoreError, Timestamp, Write,
};

use crate::{
    BucketError, BucketName, BucketSettings, LifecycleRule,
    content::{Blobs, ContentId, FileName, run_blocking},
    quota::KnownQuotas,
    session::{self, FileChanges},
};

/// Retention periods of tombstones, uploads and orphaned files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BucketOptions {
    /// Tombstones of deleted keys. While a tombstone exists, the next write of the key takes the
    /// next number. Later it takes a number above all numbers of deleted keys in the bucket.
    pub keep_tombstones: Duration,
    /// Multipart uploads that are not completed, unless a lifecycle rule sets another period.
    pub keep_uploads: Duration,
    /// Files without a row in the index: the commit that refers to them may still follow.
    pub keep_orphans: Duration,
    /// Files without a row, after an unclean shutdown or after another copy of the store used the
    /// files. During this period a newer copy of the store can be restored.
    pub keep_unknown_files: Duration,
    /// All blobs are read once in this time, to find those that are damaged or missing.
    pub check_every: Duration,
}

impl Default for BucketOptions {
    fn default() -> Self {
        Self {
            keep_tombstones: Duration::from_hours(30 * 24),
            keep_uploads: Duration::from_hours(7 * 24),
            keep_orphans: Duration::from_hours(1),
            keep_unknown_files: Duration::from_hours(7 * 24),
            check_every: Duration::from_hours(7 * 24),
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
    /// Settings and floors of buckets.
    pub(crate) cache: RowCache<BucketName, Arc<CachedBucket>>,
    pub(crate) readers: Readers,
    pub(crate) changes: Arc<FileChanges>,
    pub(crate) session: tokio::sync::Mutex<session::State>,
    pub(crate) found: parking_lot::Mutex<session::Found>,
    pub(crate) next_aborts: NextAborts,
    pub(crate) quotas: RowCache<(), Arc<KnownQuotas>>,
    /// Held by the count of what was stored before a quota, and by changes of its organization.
    pub(crate) counting: Arc<tokio::sync::RwLock<()>>,
    /// Blobs that were checked, and reads of damaged or missing ones, since the process started.
    pub(crate) checked: AtomicU64,
    pub(crate) unreadable: AtomicU64,
}

impl Buckets {
    /// The name of the store in events.
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

    /// Counts a read of a blob that is damaged or missing.
    pub(crate) fn count_unreadable(&self, error: &BucketError) {
        if matches!(error, BucketError::Damaged { .. } | BucketError::Missing { .. }) {
            self.unreadable.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// See [`run_blocking`].
    pub(crate) async fn run_blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&dyn Blobs) -> Result<T, BucketError> + Send + 'static,
    ) -> Result<T, BucketError> {
        run_blocking(&self.blobs, work).await
    }

    /// Runs work to completion, even if the caller is dropped: a commit in flight cannot be
    /// cancelled, and its files must be kept or removed.
    pub(crate) async fn run_to_completion<T: Send + 'static>(
        work: impl Future<Output = Result<T, BucketError>> + Send + 'static,
    ) -> Result<T, BucketError> {
        let work: Pin<Box<dyn Future<Output = Result<T, BucketError>> + Send>> = Box::pin(work);
        match tokio::spawn(work).await {
            Ok(done) => done,
            Err(error) => match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                Err(error) => Err(BucketError::Files { reason: error.to_string() }),
            },
        }
    }

    /// Makes the sweep check whether a row refers to these files.
    pub(crate) fn recheck(&self, files: &[FileName]) {
        self.changes.recheck(files, self.clock.now());
    }

    /// Makes the sweep check abandoned drafts that could not be removed.
    pub(crate) async fn recheck_abandoned_drafts(&self) -> Result<(), BucketError> {
        let left = self.run_blocking(|blobs| Ok(blobs.abandoned_drafts())).await?;
        self.recheck(&left);
        Ok(())
    }

    /// Removes files that no row refers to. If that fails, the sweep retries.
    pub(crate) async fn discard(&self, files: Vec<FileName>) {
        let files: Vec<FileName> =
            files.into_iter().filter(|it| !self.readers.leave_to_last(*it)).collect();
        if files.is_empty() {
            return;
        }
        self.recheck(&files);
        let names = files.clone();
        match self.run_blocking(move |blobs| Ok(blobs.remove(&names)?)).await {
            Ok(()) => self.changes.settle(&files),
            Err(error) => {
                tracing::warn!(error = %error, "files of a deleted blob remain; the sweep retries");
            }
        }
    }

    /// One page of the entries of a space with a prefix, after a key.
    pub(crate) async fn page(
        &self,
        space: &str,
        prefix: &[u8],
        after: &[u8],
    ) -> Result<Vec<Entry>, StoreError> {
        self.store.entries(space, EntryRange::prefix(prefix).after(after), PAGE).await
    }

    /// All pages of the entries of a space with a prefix.
    pub(crate) fn pages(&self, space: String, prefix: &[u8]) -> Pages<'_> {
        Pages::new(&*self.store, space, EntryRange::prefix(prefix))
    }

    /// Commits. Returns the rejection if an expectation does not hold.
    pub(crate) async fn commit(
        &self,
        commit: Commit,
    ) -> Result<Result<steadfast_store::Receipt, steadfast_store::Rejection>, BucketError> {
        match self.store.commit(commit).await? {
            Outcome::Committed(receipt) => Ok(Ok(receipt)),
            // A damaged counter stays one when the commit is decided again.
            Outcome::Rejected(it @ steadfast_store::Rejection::NotANumber { .. }) => {
                Err(StoreError::Corrupt { reason: it.to_string() }.into())
            }
            Outcome::Rejected(rejection) => Ok(Err(rejection)),
            Outcome::Duplicate(before) => Err(BucketError::repeated(&before)),
        }
    }
}

/// Entries per read.
pub(crate) const PAGE: usize = 1_000;

/// Reads the entries of a range, a page at a time.
pub(crate) struct Pages<'a> {
    store: &'a dyn Store,
    space: String,
    /// `None` at the end.
    rest: Option<EntryRange>,
}

impl<'a> Pages<'a> {
    pub(crate) fn new(store: &'a dyn Store, space: String, range: EntryRange) -> Self {
        Self { store, space, rest: Some(range) }
    }

    /// The next page, which is not empty; `None` at the end.
    pub(crate) async fn next(&mut self) -> Result<Option<Vec<Entry>>, StoreError> {
        let Some(range) = self.rest.take() else { return Ok(None) };
        let page = self.store.entries(&self.space, range.clone(), PAGE).await?;
        let last = page.last().filter(|_| page.len() == PAGE);
        self.rest = last.map(|it| range.after(it.entry.key()));
        Ok(Some(page).filter(|it| !it.is_empty()))
    }
}

/// Writes that remove entries immediately.
pub(crate) fn removal(entries: Vec<EntryKey>) -> Vec<Write> {
    let remove = |it: &EntryKey| Write::Put(Put::removal(it.clone(), Duration::ZERO));
    let mut writes: Vec<Write> = entries.iter().map(remove).collect();
    if !entries.is_empty() {
        writes.push(Write::ExpireEntries { entries });
    }
    writes
}

/// Prevents the removal of a content's files while it exists.
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
        // During shutdown there may be no runtime, or the task may not run: the sweep removes the
        // files then.
        self.shared.recheck(&doomed);
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let shared = self.shared.clone();
            runtime.spawn(async move { shared.discard(doomed).await });
        }
    }
}

/// A bucket as it was last read.
#[derive(Clone, Debug)]
pub(crate) struct CachedBucket {
    pub(crate) revision: i64,
    pub(crate) created_at: Timestamp,
    pub(crate) settings: BucketSettings,
    /// Every change of a key takes a number above this one.
    pub(crate) floor: i64,
}

/// The row of a bucket.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct BucketRow {
    pub(crate) created_at: i64,
    #[serde(flatten)]
    pub(crate) settings: BucketSettings,
}

/// The earliest time at which an upload of a bucket can expire, and the lifecycle rules it was
/// computed for. The sweep does not list uploads before that time.
#[derive(Debug, Default)]
pub(crate) struct NextAborts(Mutex<HashMap<BucketName, (Vec<LifecycleRule>, Timestamp)>>);

impl NextAborts {
    pub(crate) fn of(&self, bucket: &BucketName, rules: &[LifecycleRule]) -> Option<Timestamp> {
        let inner = self.0.lock();
        let (known, at) = inner.get(bucket)?;
        (known == rules).then_some(*at)
    }

    pub(crate) fn set(&self, bucket: &BucketName, rules: &[LifecycleRule], at: Timestamp) {
        self.0.lock().insert(bucket.clone(), (rules.to_vec(), at));
    }

    pub(crate) fn forget(&self, bucket: &BucketName) {
        self.0.lock().remove(bucket);
    }
}

#[derive(Debug, Default)]
pub(crate) struct Readers(Mutex<HashMap<ContentId, ContentUse>>);

#[derive(Debug, Default)]
struct ContentUse {
    count: usize,
    /// Files that the last reader removes.
    doomed: Vec<FileName>,
}

impl Readers {
    fn enter(&self, content: ContentId) {
        self.0.lock().entry(content).or_default().count += 1;
    }

    /// Returns the files to remove, if this was the last reader of the content.
    fn leave(&self, content: ContentId) -> Vec<FileName> {
        let mut in_use = self.0.lock();
        let Some(entry) = in_use.get_mut(&content) else { return Vec::new() };
        entry.count -= 1;
        if 0 < entry.count {
            return Vec::new();
        }
        in_use.remove(&content).unwrap_or_default().doomed
    }

    /// Lets the last reader remove a file. Returns `false` if the content is not in use.
    fn leave_to_last(&self, file: FileName) -> bool {
        let mut in_use = self.0.lock();
        let Some(entry) = in_use.get_mut(&file.content) else { return false };
        entry.doomed.push(file);
        true
    }

    pub(crate) fn is_in_use(&self, content: ContentId) -> bool {
        self.0.lock().contains_key(&content)
    }

    /// Returns whether a reader has files to remove at its end.
    pub(crate) fn has_doomed(&self) -> bool {
        self.0.lock().values().any(|it| !it.doomed.is_empty())
    }
}
