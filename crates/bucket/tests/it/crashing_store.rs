//! A store that fails at a commit, as if its process had crashed there.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use steadfast_store::{Answer, Commit, CommitCallback, Moment, Query, Store, StoreError};

use crate::wrapper::{Hook, Wrapper};

pub(crate) type CrashingStore = Wrapper<dyn Store, Mutex<End>>;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Never,
    At(usize, Moment),
    Over,
}

impl CrashingStore {
    pub(crate) fn new(inner: Arc<dyn Store>) -> Arc<Self> {
        Self::around(inner, Mutex::new(End::Never))
    }

    /// Crashes before or after the n-th commit from now (from 1).
    pub(crate) fn crash_at(&self, commit: usize, moment: Moment) {
        *self.lock().unwrap() = End::At(commit, moment);
    }

    /// Crashes now. The inner store is closed, so that the next process may open it.
    pub(crate) async fn crash(&self) {
        *self.lock().unwrap() = End::Over;
        self.inner.close().await;
    }

    pub(crate) fn has_crashed(&self) -> bool {
        *self.lock().unwrap() == End::Over
    }
}

#[async_trait]
impl Hook<dyn Store> for Mutex<End> {
    fn submit(&self, inner: &dyn Store, commit: Commit, answer: CommitCallback) {
        let mut end = self.lock().unwrap();
        match *end {
            End::Never => inner.submit(commit, answer),
            End::Over => answer(Err(StoreError::Closed)),
            End::At(1, moment) => {
                *end = End::Over;
                let unheard: CommitCallback = Box::new(move |_| answer(Err(StoreError::Closed)));
                match moment {
                    Moment::Before => unheard(Err(StoreError::Closed)),
                    Moment::After => inner.submit(commit, unheard),
                }
            }
            End::At(later, moment) => {
                *end = End::At(later - 1, moment);
                inner.submit(commit, answer);
            }
        }
    }

    async fn read(&self, inner: &dyn Store, query: Query) -> Result<Answer, StoreError> {
        if *self.lock().unwrap() == End::Over {
            return Err(StoreError::Closed);
        }
        inner.read(query).await
    }
}
