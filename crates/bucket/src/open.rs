//! Opening and closing the buckets of a store.

use std::{sync::Arc, time::Duration};

use steadfast_store::{
    Commit, Entropy, EntryKey, Expect, Json, Put, SeededEntropy, Store, StoreError, Timestamp,
    Write,
};

use crate::{
    BucketError, BucketOptions, Buckets,
    buckets::Shared,
    cache::{BucketCache, NextAborts},
    changes::Changes,
    content::Blobs,
    readers::Readers,
    session,
};

/// While the disk is full, the session is tried so often.
const BEGIN_AGAIN: Duration = Duration::from_secs(1);

/// Makes the buckets of a store.
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
            cache: BucketCache::default(),
            readers: Readers::default(),
            changes: Arc::new(Changes::default()),
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

    /// Tries to begin the session until there is space for it. Nothing may be changed before.
    pub(crate) fn begin_session_later(&self) {
        self.shared.changes.wait_for_session(true);
        let shared = Arc::downgrade(&self.shared);
        let clock = self.shared.clock.clone();
        tokio::spawn(async move {
            loop {
                clock.sleep(BEGIN_AGAIN).await;
                let Some(shared) = shared.upgrade() else { return };
                if shared.changes.is_closed() {
                    return;
                }
                match session::begin(&*shared.store, &shared.blobs, &*shared.entropy).await {
                    Ok(begun) => {
                        *shared.session.lock().await = begun;
                        shared.changes.wait_for_session(false);
                        return;
                    }
                    Err(error) if session::is_full(&error) => {}
                    Err(error) => {
                        tracing::warn!(error = %error, "the session of the blobs was not begun");
                    }
                }
            }
        });
    }

    /// Ends the use of the files: changes are refused from now on. If everything that was begun is
    /// done, the next one who opens these buckets need not look for files that nothing refers to.
    /// To be called before the store is closed.
    pub async fn close(&self) {
        self.shared.changes.close();
        if let Err(error) = self.end_session().await {
            tracing::warn!(error = %error, "the session of the blobs was not ended");
        }
    }

    async fn end_session(&self) -> Result<(), BucketError> {
        let shared = &self.shared;
        let mut state = shared.session.lock().await;
        shared.take_left_over().await?;
        let is_done = shared.changes.is_done() && !shared.readers.has_doomed();
        if !is_done || state.is_over || !state.session.is_open() {
            return Ok(());
        }
        let tidy = |blobs: &dyn Blobs| {
            blobs.tidy(Timestamp::MAX);
            Ok(())
        };
        shared.off(tidy).await?;
        state.end(&*shared.store, &shared.blobs, &*shared.entropy).await
    }
}
