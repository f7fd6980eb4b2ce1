//! Opening and closing the buckets of a store.

use std::{
    sync::{Arc, atomic::AtomicU64},
    time::Duration,
};

use steadfast_store::{Entropy, Records, RowCache, SeededEntropy, Store, Timestamp};

use crate::{
    BucketError, BucketOptions, Buckets,
    buckets::{NextAborts, Readers, Shared},
    content::Blobs,
    session::{self, FileChanges},
};

/// Pause between attempts to begin a session while the disk is full.
const SESSION_RETRY_PAUSE: Duration = Duration::from_secs(1);

/// Builds the buckets of a store.
pub struct BucketsBuilder {
    store: Arc<dyn Store>,
    entropy: Arc<dyn Entropy>,
    options: BucketOptions,
}

impl BucketsBuilder {
    /// Sets the source of randomness.
    pub fn entropy(mut self, entropy: Arc<dyn Entropy>) -> Self {
        self.entropy = entropy;
        self
    }

    /// Sets the retention periods.
    pub fn options(mut self, options: BucketOptions) -> Self {
        self.options = options;
        self
    }

    /// Opens the buckets whose contents are in `blobs`.
    #[steadfast_store::boxed]
    pub async fn open(self, blobs: Arc<dyn Blobs>) -> Result<Buckets, BucketError> {
        let account = account(&*self.store, &*self.entropy).await?;
        let begun = session::begin(&*self.store, &blobs, &*self.entropy).await;
        let is_full = begun.as_ref().is_err_and(session::is_disk_full);
        let session = if is_full { session::State::without_session() } else { begun? };
        let buckets = self.build(blobs, account, session);
        if is_full {
            buckets.begin_session_later();
        }
        Ok(buckets)
    }

    /// Opens the buckets read-only: nothing is written to the store or the files, and every change
    /// fails with [`StoreError::ReadOnly`](steadfast_store::StoreError::ReadOnly).
    #[steadfast_store::boxed]
    pub async fn open_read_only(self, blobs: Arc<dyn Blobs>) -> Result<Buckets, BucketError> {
        // A store without a name has no buckets.
        let account = SYSTEM.find(&*self.store, ACCOUNT).await?.value.unwrap_or_default();
        let buckets = self.build(blobs, account, session::State::without_session());
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
            cache: RowCache::default(),
            readers: Readers::default(),
            changes: Arc::new(FileChanges::default()),
            found: parking_lot::Mutex::new(session.found()),
            session: tokio::sync::Mutex::new(session),
            next_aborts: NextAborts::default(),
            quotas: RowCache::default(),
            counting: Arc::default(),
            checked: AtomicU64::new(0),
            unreadable: AtomicU64::new(0),
        };
        Buckets { shared: Arc::new(shared) }
    }
}

/// The name of a store is one of them.
const SYSTEM: Records<String> = Records::new("system");

const ACCOUNT: &[u8] = b"account";

/// The name of a store in its files and events: 32 hexadecimal digits. The first call creates it.
#[steadfast_store::boxed]
pub async fn account(store: &dyn Store, entropy: &dyn Entropy) -> Result<String, BucketError> {
    let new = || format!("{:016x}{:016x}", entropy.next(), entropy.next());
    SYSTEM.update(store, ACCOUNT, |known| Ok(known.unwrap_or_else(new))).await
}

impl Buckets {
    /// Starts with the store that holds the index.
    pub fn builder(store: Arc<dyn Store>) -> BucketsBuilder {
        BucketsBuilder {
            store,
            entropy: Arc::new(SeededEntropy::from_system()),
            options: BucketOptions::default(),
        }
    }

    /// Retries to begin the session until the disk has space. Changes are refused until then.
    pub(crate) fn begin_session_later(&self) {
        self.shared.changes.wait_for_session(true);
        let shared = Arc::downgrade(&self.shared);
        let clock = self.shared.clock.clone();
        tokio::spawn(async move {
            loop {
                clock.sleep(SESSION_RETRY_PAUSE).await;
                let Some(shared) = shared.upgrade() else { return };
                if shared.changes.is_closed() {
                    return;
                }
                match session::begin(&*shared.store, &shared.blobs, &*shared.entropy).await {
                    Ok(begun) => {
                        *shared.found.lock() = begun.found();
                        *shared.session.lock().await = begun;
                        shared.changes.wait_for_session(false);
                        return;
                    }
                    Err(error) if session::is_disk_full(&error) => {}
                    Err(error) => {
                        tracing::warn!(error = %error, "the blob session could not begin");
                    }
                }
            }
        });
    }

    /// Closes the buckets: later changes are refused. If all changes are complete, the next process
    /// need not look for orphaned files. Call it before closing the store.
    #[steadfast_store::boxed]
    pub async fn close(&self) {
        self.shared.changes.close();
        if let Err(error) = self.end_session().await {
            tracing::warn!(error = %error, "the blob session did not end cleanly");
        }
    }

    async fn end_session(&self) -> Result<(), BucketError> {
        let shared = &self.shared;
        let mut state = shared.session.lock().await;
        shared.recheck_abandoned_drafts().await?;
        let is_done = shared.changes.is_done() && !shared.readers.has_doomed();
        if !is_done || state.is_over || !state.session.is_open() {
            return Ok(());
        }
        let remove_empty_subfolders = |blobs: &dyn Blobs| {
            blobs.remove_empty_subfolders(Timestamp::MAX);
            Ok(())
        };
        shared.run_blocking(remove_empty_subfolders).await?;
        state.end(&*shared.store, &shared.blobs, &*shared.entropy).await
    }
}
