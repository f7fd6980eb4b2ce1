//! A store in memory that holds commits back until the test lets them through.

use std::{
    collections::{HashMap, VecDeque},
    ops::RangeInclusive,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
};

use async_trait::async_trait;
use steadfast_core::store::{
    Activity, Address, AgeCursor, Answer, Attempt, Commit, DueCursor, Dump, EntityId, EntityKind,
    Entries, Entry, EntryKey, EntryRange, Expiring, ExpiryList, Head, Health, KeyName, Letter,
    MemoryStore, Notices, ObjectSummary, OldTurn, Owner, PageImage, Position, QueueDepth, Recorded,
    RecordedTurn, RunCursor, RunFilter, RunStatus, RunSummary, Setting, Snapshot, Store,
    StoreClock, StoreError, StreamSummary, Timestamp, Totals, TurnSummary, Version, Work,
};
use tokio::sync::{RwLock, Semaphore};

pub(crate) struct Held {
    pub(crate) inner: MemoryStore,
    holds: AtomicBool,
    waiting: Mutex<VecDeque<(Commit, Answer)>>,
    /// Where a store that fails by chance is in its sequence; 0 for one that does not.
    trouble: AtomicU64,
    arrived: Semaphore,
    /// Who reads images passes here; a test that holds it for writing stops them.
    pub(crate) images: RwLock<()>,
    pub(crate) images_asked: Semaphore,
    /// How many images were read.
    pub(crate) images_read: AtomicUsize,
    /// Images cannot be read.
    pub(crate) images_away: AtomicBool,
    /// So many more reads of images go well.
    pub(crate) images_left: AtomicUsize,
    /// So many more commits find room on the disk; all if it is the largest number.
    pub(crate) room_left: AtomicUsize,
    /// So many more commits of a step that is done find the store busy.
    pub(crate) busy_when_done: AtomicUsize,
    /// Who has read which runs are expired passes here, as with images.
    pub(crate) expired: RwLock<()>,
    pub(crate) expired_asked: Semaphore,
}

impl Held {
    pub(crate) fn new(inner: MemoryStore) -> Arc<Self> {
        Arc::new(Self {
            inner,
            holds: AtomicBool::new(false),
            waiting: Mutex::default(),
            trouble: AtomicU64::new(0),
            arrived: Semaphore::new(0),
            images: RwLock::new(()),
            images_asked: Semaphore::new(0),
            images_read: AtomicUsize::new(0),
            images_away: AtomicBool::new(false),
            images_left: AtomicUsize::new(usize::MAX),
            room_left: AtomicUsize::new(usize::MAX),
            busy_when_done: AtomicUsize::new(0),
            expired: RwLock::new(()),
            expired_asked: Semaphore::new(0),
        })
    }

    /// Holds all commits from now on.
    pub(crate) fn hold(&self) {
        self.holds.store(true, Ordering::SeqCst);
    }

    /// Lets everything through, now and from now on.
    pub(crate) fn let_go(&self) {
        loop {
            let mut waiting = self.waiting.lock().unwrap();
            let Some((commit, answer)) = waiting.pop_front() else {
                // Under the lock, so that nothing overtakes what waited.
                self.holds.store(false, Ordering::SeqCst);
                return;
            };
            drop(waiting);
            self.inner.submit(commit, answer);
        }
    }

    /// Returns when one more commit has come.
    pub(crate) async fn came(&self) {
        self.arrived.acquire().await.unwrap().forget();
    }

    /// Commits the first that waits, and answers.
    pub(crate) fn release(&self) {
        let (commit, answer) = self.next();
        self.inner.submit(commit, answer);
    }

    /// Commits the last that waits, before the others, and answers.
    pub(crate) fn release_last(&self) {
        let last = self.waiting.lock().unwrap().pop_back();
        let (commit, answer) = last.expect("a commit waits");
        self.inner.submit(commit, answer);
    }

    /// Answers the first that waits with an error, and does not commit it.
    pub(crate) fn fail(&self, error: StoreError) {
        self.next().1(Err(error));
    }

    /// Commits the first that waits, and answers that nobody knows.
    pub(crate) fn lose(&self) {
        let (commit, answer) = self.next();
        let lost = |_| answer(Err(StoreError::Unknown { reason: "as the test wanted".into() }));
        self.inner.submit(commit, Box::new(lost));
    }

    fn next(&self) -> (Commit, Answer) {
        self.waiting.lock().unwrap().pop_front().expect("a commit waits")
    }

    /// Fails some commits from now on, and does not tell how others ended; 0 ends that.
    pub(crate) fn make_trouble(&self, seed: u64) {
        self.trouble.store(seed, Ordering::SeqCst);
    }

    fn chance(&self) -> u64 {
        let next = |it: u64| {
            (it != 0).then(|| {
                it.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407)
                    | 1
            })
        };
        let before = self.trouble.fetch_update(Ordering::SeqCst, Ordering::SeqCst, next);
        before.map_or(u64::MAX, |it| it >> 33) % 20
    }

    /// Why the test wants this commit refused.
    fn refusal(&self, commit: &Commit) -> Option<StoreError> {
        let less = |left: &AtomicUsize| {
            let less = |it: usize| if it == usize::MAX { Some(it) } else { it.checked_sub(1) };
            left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less).is_ok()
        };
        let is_done = || format!("{commit:?}").contains("\"done\"");
        if 0 < self.busy_when_done.load(Ordering::SeqCst) && is_done() && less(&self.busy_when_done)
        {
            return Some(StoreError::Busy { waiting: 1 });
        }
        (!less(&self.room_left)).then_some(StoreError::DiskFull)
    }

    fn take(&self, commit: Commit, answer: Answer) {
        if let Some(error) = self.refusal(&commit) {
            return answer(Err(error));
        }
        let unknown = || StoreError::Unknown { reason: "as the test wanted".into() };
        let troubled = self.trouble.load(Ordering::SeqCst) != 0;
        match self.chance() {
            0 if troubled => {
                answer(Err(StoreError::Unavailable { reason: "as the test wanted".into() }));
                return;
            }
            1 if troubled => return answer(Err(unknown())),
            2 if troubled => {
                return self.inner.submit(commit, Box::new(move |_| answer(Err(unknown()))));
            }
            _ => {}
        }
        let mut waiting = self.waiting.lock().unwrap();
        if self.holds.load(Ordering::SeqCst) {
            waiting.push_back((commit, answer));
            self.arrived.add_permits(1);
        } else {
            drop(waiting);
            self.inner.submit(commit, answer);
        }
    }
}

/// Everything else is done by the store inside.
macro_rules! delegate {
    ($($name:ident($($arg:ident: $type:ty),*) -> $returns:ty;)*) => {
        #[async_trait]
        impl Store for Held {
            fn submit(&self, commit: Commit, answer: Answer) {
                self.take(commit, answer);
            }

            async fn expired_runs(
                &self,
                at: Timestamp,
                limit: usize,
            ) -> Result<Vec<Address>, StoreError> {
                let found = self.inner.expired_runs(at, limit).await;
                self.expired_asked.add_permits(1);
                let _pass = self.expired.read().await;
                found
            }

            async fn images(
                &self,
                entity: EntityId,
                pages: &[RangeInclusive<u32>],
            ) -> Result<Vec<PageImage>, StoreError> {
                self.images_asked.add_permits(1);
                let _pass = self.images.read().await;
                let less = |left: usize| Some(left.saturating_sub(1));
                let left = self.images_left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less);
                if self.images_away.load(Ordering::SeqCst) || left == Ok(0) {
                    return Err(StoreError::Unavailable { reason: "as the test wanted".into() });
                }
                let images = self.inner.images(entity, pages).await?;
                self.images_read.fetch_add(images.len(), Ordering::SeqCst);
                Ok(images)
            }

            $(
                async fn $name(&self, $($arg: $type),*) -> Result<$returns, StoreError> {
                    self.inner.$name($($arg),*).await
                }
            )*

            fn notices(&self) -> &Notices {
                self.inner.notices()
            }

            fn clock(&self) -> &Arc<StoreClock> {
                self.inner.clock()
            }

            fn owner(&self) -> Owner {
                self.inner.owner()
            }

            fn health(&self) -> Health {
                self.inner.health()
            }

            fn activity(&self) -> Activity {
                self.inner.activity()
            }

            async fn close(&self) {
                self.inner.close().await;
            }
        }
    };
}

#[async_trait]
impl Entries for Held {
    async fn entry(&self, entry: &EntryKey) -> Result<Option<Entry>, StoreError> {
        self.inner.entry(entry).await
    }

    async fn entries(
        &self,
        space: &str,
        range: EntryRange,
        limit: usize,
    ) -> Result<Vec<Entry>, StoreError> {
        self.inner.entries(space, range, limit).await
    }

    async fn entries_by_age(
        &self,
        space: &str,
        after: &AgeCursor,
        until: Timestamp,
        limit: usize,
    ) -> Result<Vec<Entry>, StoreError> {
        self.inner.entries_by_age(space, after, until, limit).await
    }

    async fn expired_entries(
        &self,
        at: Timestamp,
        limit: usize,
    ) -> Result<Vec<EntryKey>, StoreError> {
        self.inner.expired_entries(at, limit).await
    }

    async fn referenced(&self, ids: &[EntityId]) -> Result<Vec<(EntityId, EntryKey)>, StoreError> {
        self.inner.referenced(ids).await
    }
}

delegate! {
    read_stream(stream: EntityId, from: Version, limit: usize) -> Vec<Recorded>;
    read_all(after: Position, limit: usize) -> Vec<Recorded>;
    message(position: Position) -> Option<Recorded>;
    pending(stream: Option<EntityId>, after: Position, limit: usize) -> Vec<Recorded>;
    dead(after: Position, limit: usize) -> Vec<Recorded>;
    attempts(position: Position) -> Vec<Attempt>;
    version(stream: EntityId) -> Version;
    streams(
        within: Option<(EntityKind, &str)>, after: Option<&Address>, limit: usize
    ) -> Vec<StreamSummary>;
    addresses(ids: &[EntityId]) -> HashMap<EntityId, Address>;
    settings() -> Vec<Setting>;
    snapshot(stream: EntityId) -> Option<Snapshot>;
    due(after: DueCursor, limit: usize) -> Vec<Work>;
    backlog(target: EntityId, ordered: bool, limit: usize) -> Vec<Work>;
    orphans(epoch: i64, queued: bool, limit: usize) -> Vec<Work>;
    letters(queue: EntityId, after: DueCursor, until: Timestamp, limit: usize) -> Vec<Letter>;
    leased(queue: EntityId, at: Timestamp, limit: usize) -> Vec<Letter>;
    dead_letters(queue: EntityId, after: Position, limit: usize) -> Vec<Recorded>;
    queue_depth(queue: EntityId, at: Timestamp) -> QueueDepth;
    next_due(queue: EntityId, after: Timestamp) -> Option<Timestamp>;
    unswept(limit: usize) -> Vec<(Position, Timestamp)>;
    expiring(list: ExpiryList, until: Timestamp, limit: usize) -> Vec<Expiring>;
    expired_keys(at: Timestamp, limit: usize) -> Vec<KeyName>;
    head(entity: EntityId) -> Option<Head>;
    heads(history_over: i64, after: Position, limit: usize) -> Vec<Head>;
    turns_back(from: Position, limit: usize) -> Vec<RecordedTurn>;
    turn_summaries(from: Position, limit: usize) -> Vec<TurnSummary>;
    classes(kind: EntityKind, after: Option<&str>, limit: usize) -> Vec<String>;
    objects(
        class: &str, prefix: &str, after: Option<&str>, limit: usize
    ) -> Vec<ObjectSummary>;
    count_objects(class: &str, max: usize) -> usize;
    old_turns(after: Position, limit: usize) -> Vec<OldTurn>;
    run(entity: EntityId) -> Option<RunSummary>;
    runs(filter: RunFilter<'_>, after: Option<RunCursor>, limit: usize) -> Vec<RunSummary>;
    count_runs(workflow: &str, status: Option<RunStatus>, max: usize) -> usize;
    totals() -> Totals;
    dump() -> Dump;
    violations() -> Vec<String>;
}
