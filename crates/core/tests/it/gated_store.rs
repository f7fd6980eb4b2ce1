//! A store in memory that holds commits back until the test releases them.

use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
};

use async_trait::async_trait;
use steadfast_core::store::{
    Answer, Commit, CommitCallback, MemoryStore, Query, Store, StoreError,
};
use tokio::sync::{RwLock, Semaphore};

use crate::wrapper::{Hook, Wrapper};

pub(crate) type GatedStore = Wrapper<MemoryStore, Hold>;

pub(crate) struct Hold {
    holds: AtomicBool,
    waiting: Mutex<VecDeque<(Commit, CommitCallback)>>,
    /// The position in the random sequence of failures; 0 for none.
    trouble: AtomicU64,
    arrived: Semaphore,
    /// Reads of images take a read lock; a test with the write lock blocks them.
    pub(crate) images: RwLock<()>,
    pub(crate) images_asked: Semaphore,
    /// The number of images read.
    pub(crate) images_read: AtomicUsize,
    /// Images cannot be read.
    pub(crate) images_away: AtomicBool,
    /// The number of reads of images that still succeed.
    pub(crate) images_left: AtomicUsize,
    /// The number of commits that still find space on the disk; all if it is the largest number.
    pub(crate) room_left: AtomicUsize,
    /// The number of commits of a finished step that find the store busy.
    pub(crate) busy_when_done: AtomicUsize,
    /// Reads of expired runs take a read lock, as with images.
    pub(crate) expired: RwLock<()>,
    pub(crate) expired_asked: Semaphore,
}

impl GatedStore {
    pub(crate) fn new(inner: MemoryStore) -> Arc<Self> {
        let hold = Hold {
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
        };
        Self::around(Arc::new(inner), hold)
    }

    /// Releases everything, now and from now on.
    pub(crate) fn let_go(&self) {
        loop {
            let mut waiting = self.waiting.lock().unwrap();
            let Some((commit, answer)) = waiting.pop_front() else {
                // Under the lock, so that no commit overtakes a waiting one.
                self.holds.store(false, Ordering::SeqCst);
                return;
            };
            drop(waiting);
            self.inner.submit(commit, answer);
        }
    }

    /// Commits the first waiting one, and answers.
    pub(crate) fn release(&self) {
        let (commit, answer) = self.next();
        self.inner.submit(commit, answer);
    }

    /// Commits the last waiting one, before the others, and answers.
    pub(crate) fn release_last(&self) {
        let last = self.waiting.lock().unwrap().pop_back();
        let (commit, answer) = last.expect("a commit waits");
        self.inner.submit(commit, answer);
    }

    /// Commits the first waiting one, and answers that the outcome is unknown.
    pub(crate) fn lose(&self) {
        let (commit, answer) = self.next();
        let lost = |_| answer(Err(StoreError::Unknown { reason: "as the test wanted".into() }));
        self.inner.submit(commit, Box::new(lost));
    }
}

impl Hold {
    /// Holds all commits from now on.
    pub(crate) fn hold(&self) {
        self.holds.store(true, Ordering::SeqCst);
    }

    /// Returns when one more commit has arrived.
    pub(crate) async fn came(&self) {
        self.arrived.acquire().await.unwrap().forget();
    }

    /// Answers the first waiting one with an error, and does not commit it.
    pub(crate) fn fail(&self, error: StoreError) {
        self.next().1(Err(error));
    }

    fn next(&self) -> (Commit, CommitCallback) {
        self.waiting.lock().unwrap().pop_front().expect("a commit waits")
    }

    /// Fails some commits from now on, and loses the answers of others; 0 ends that.
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

    /// The error with which the test refuses this commit.
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

    async fn read_images(&self, inner: &MemoryStore, query: Query) -> Result<Answer, StoreError> {
        self.images_asked.add_permits(1);
        let _pass = self.images.read().await;
        let less = |left: usize| Some(left.saturating_sub(1));
        let left = self.images_left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less);
        if self.images_away.load(Ordering::SeqCst) || left == Ok(0) {
            return Err(StoreError::Unavailable { reason: "as the test wanted".into() });
        }
        let images = inner.read(query).await?;
        self.images_read.fetch_add(images.len(), Ordering::SeqCst);
        Ok(images)
    }
}

#[async_trait]
impl Hook<MemoryStore> for Hold {
    fn submit(&self, inner: &MemoryStore, commit: Commit, answer: CommitCallback) {
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
                return inner.submit(commit, Box::new(move |_| answer(Err(unknown()))));
            }
            _ => {}
        }
        let mut waiting = self.waiting.lock().unwrap();
        if self.holds.load(Ordering::SeqCst) {
            waiting.push_back((commit, answer));
            self.arrived.add_permits(1);
        } else {
            drop(waiting);
            inner.submit(commit, answer);
        }
    }

    async fn read(&self, inner: &MemoryStore, query: Query) -> Result<Answer, StoreError> {
        if matches!(query, Query::Images { .. }) {
            return self.read_images(inner, query).await;
        }
        let is_expired = matches!(query, Query::ExpiredRuns { .. });
        let found = inner.read(query).await;
        if is_expired {
            self.expired_asked.add_permits(1);
            let _pass = self.expired.read().await;
        }
        found
    }
}
