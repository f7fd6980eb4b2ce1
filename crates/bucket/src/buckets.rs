//! All buckets of a store.

use std::{fmt, sync::Arc, time::Duration};

use steadfast_store::{
    Commit, Entropy, EntryKey, EntryRange, Expect, Json, Outcome, Put, SeededEntropy, Store,
    StoreClock, StoreError, Write,
};

use crate::{
    BucketError,
    book::Book,
    changes::Changes,
    content::{Blobs, ContentId, FileName},
    readers::Readers,
    session,
    sweep::NextAborts,
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
    pub(crate) book: Book,
    pub(crate) readers: Readers,
    pub(crate) changes: Changes,
    pub(crate) session: tokio::sync::Mutex<session::State>,
    pub(crate) next_aborts: NextAborts,
}

/// Makes the buckets of a store.
pub struct BucketsBuilder {
    store: Arc<dyn Store>,
    entropy: Arc<dyn Entropy>,
    options: BucketOptions,
}

impl BucketsBuilder {
    /// Takes chance from here.
    pub fn entropy(mut self, entropy: Arc<dyn Entropy>) -> Self {
        self.entropy = entropy;
        self
    }

    /// Sets how long things are kept.
    pub fn options(mut self, options: BucketOptions) -> Self {
        self.options = options;
        self
    }

    /// The buckets whose contents are kept there.
    pub async fn open(self, blobs: Arc<dyn Blobs>) -> Result<Buckets, BucketError> {
        let account = account(&*self.store, &*self.entropy).await?;
        let begun = session::begin(&*self.store, &blobs, &*self.entropy).await;
        let is_full = begun.as_ref().is_err_and(session::is_full);
        let session = if is_full { session::State::not_begun() } else { begun? };
        let buckets = self.build(blobs, account, session);
        if is_full {
            buckets.begin_session_later();
        }
        Ok(buckets)
    }

    /// The same to read them only: nothing is written, neither to the store nor beside the files,
    /// and every change fails with [`StoreError::ReadOnly`].
    pub async fn open_read_only(self, blobs: Arc<dyn Blobs>) -> Result<Buckets, BucketError> {
        // A store without a name has no buckets yet.
        let account = known_account(&*self.store).await?.unwrap_or_default();
        let buckets = self.build(blobs, account, session::State::not_begun());
        buckets.shared.changes.refuse_all();
        Ok(buckets)
    }

    fn build(self, blobs: Arc<dyn Blobs>, account: String, session: session::State) -> Buckets {
        let Self { store, entropy, options } = self;
        let clock = store.clock().clone();
        let shared = Shared {
            store,
            blobs,
            clock,
            entropy,
            options,
            account,
            book: Book::default(),
            readers: Readers::default(),
            changes: Changes::default(),
            session: tokio::sync::Mutex::new(session),
            next_aborts: NextAborts::default(),
        };
        Buckets { shared: Arc::new(shared) }
    }
}

const ACCOUNT: &[u8] = b"account";

/// The name of a store, if it was made.
async fn known_account(store: &dyn Store) -> Result<Option<String>, BucketError> {
    let value = store.entry(&EntryKey::new("system", ACCOUNT)?).await?.and_then(|it| it.value);
    let name = value.map(|it| serde_json::from_str(it.as_str())).transpose();
    name.map_err(|error| StoreError::Corrupt { reason: format!("account: {error}") }.into())
}

/// The name of a store, which its files and events carry: 32 hexadecimal digits. It is made when it
/// is first asked for.
pub async fn account(store: &dyn Store, entropy: &dyn Entropy) -> Result<String, BucketError> {
    let entry = EntryKey::new("system", ACCOUNT)?;
    loop {
        if let Some(known) = known_account(store).await? {
            return Ok(known);
        }
        let name = format!("{:016x}{:016x}", entropy.next(), entropy.next());
        let (reference, expires) = (None, None);
        let put = Put { entry: entry.clone(), value: Some(Json::of(&name)?), reference, expires };
        let expect = Expect::Revision { entry: entry.clone(), revision: 0 };
        store.commit(Commit::of(Write::Put(put)).expect(expect)).await?;
    }
}

impl Buckets {
    /// Begins with the store that keeps the index.
    pub fn builder(store: Arc<dyn Store>) -> BucketsBuilder {
        BucketsBuilder {
            store,
            entropy: Arc::new(SeededEntropy::from_system()),
            options: BucketOptions::default(),
        }
    }

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

/// See [`Shared::off`].
pub(crate) async fn off<T: Send + 'static>(
    blobs: &Arc<dyn Blobs>,
    work: impl FnOnce(&dyn Blobs) -> Result<T, BucketError> + Send + 'static,
) -> Result<T, BucketError> {
    if blobs.is_quick() {
        return work(&**blobs);
    }
    let blobs = blobs.clone();
    let done = tokio::task::spawn_blocking(move || work(&*blobs)).await;
    done.unwrap_or_else(|error| Err(BucketError::Files { reason: error.to_string() }))
}

impl Shared {
    pub(crate) fn new_content(&self) -> ContentId {
        ContentId::new(self.clock.now(), self.store.owner().epoch, &*self.entropy)
    }

    /// Works with files, away from the async threads if it may take time. It comes to its end also
    /// if nobody waits for it any more.
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

    /// Removes files that nothing refers to any more. If that fails, the sweep does it.
    pub(crate) async fn discard(self: &Arc<Self>, files: Vec<FileName>) {
        let files: Vec<FileName> =
            files.into_iter().filter(|it| !self.readers.leave_to_last(self, *it)).collect();
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
