//! A store of any kind that ends at a commit, as if its process had ended there.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use steadfast_store::{
    Activity, Answer, Commit, CommitCallback, Health, Moment, Notices, Owner, Query, Setting,
    Store, StoreClock, StoreError,
};

pub(crate) struct Mortal {
    inner: Arc<dyn Store>,
    end: Mutex<End>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Never,
    At(usize, Moment),
    Over,
}

impl Mortal {
    pub(crate) fn new(inner: Arc<dyn Store>) -> Arc<Self> {
        Arc::new(Self { inner, end: Mutex::new(End::Never) })
    }

    /// Ends the process before or after its n-th commit from now (from 1).
    pub(crate) fn crash_at(&self, commit: usize, moment: Moment) {
        *self.end.lock().unwrap() = End::At(commit, moment);
    }

    /// Ends the process now. What is inside is closed, so that the next process may open it.
    pub(crate) async fn crash(&self) {
        *self.end.lock().unwrap() = End::Over;
        self.inner.close().await;
    }

    pub(crate) fn has_crashed(&self) -> bool {
        *self.end.lock().unwrap() == End::Over
    }

    fn check(&self) -> Result<(), StoreError> {
        if self.has_crashed() { Err(StoreError::Closed) } else { Ok(()) }
    }
}

/// Everything is done by the store inside, while the process lives.
#[async_trait]
impl Store for Mortal {
    fn submit(&self, commit: Commit, answer: CommitCallback) {
        let mut end = self.end.lock().unwrap();
        match *end {
            End::Never => self.inner.submit(commit, answer),
            End::Over => answer(Err(StoreError::Closed)),
            End::At(1, moment) => {
                *end = End::Over;
                let unheard: CommitCallback = Box::new(move |_| answer(Err(StoreError::Closed)));
                match moment {
                    Moment::Before => unheard(Err(StoreError::Closed)),
                    Moment::After => self.inner.submit(commit, unheard),
                }
            }
            End::At(later, moment) => {
                *end = End::At(later - 1, moment);
                self.inner.submit(commit, answer);
            }
        }
    }

    async fn read(&self, query: Query) -> Result<Answer, StoreError> {
        self.check()?;
        self.inner.read(query).await
    }

    async fn settings(&self) -> Result<Vec<Setting>, StoreError> {
        self.check()?;
        self.inner.settings().await
    }

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

    fn check_lease(&self) -> Result<(), StoreError> {
        self.inner.check_lease()
    }

    fn activity(&self) -> Activity {
        self.inner.activity()
    }

    async fn close(&self) {
        self.inner.close().await;
    }
}
