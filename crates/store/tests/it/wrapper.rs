//! A store around another one, whose commits and reads a test can intercept.

use std::{ops::Deref, sync::Arc};

use async_trait::async_trait;
use steadfast_store::{
    Activity, Answer, Commit, CommitCallback, Health, Notices, Owner, Query, Setting, Store,
    StoreClock, StoreError,
};

/// A wrapper between a program and its store. It derefs to its hook.
pub(crate) struct Wrapper<S: ?Sized, H> {
    pub(crate) inner: Arc<S>,
    hook: H,
}

impl<S: ?Sized, H> Wrapper<S, H> {
    pub(crate) fn around(inner: Arc<S>, hook: H) -> Arc<Self> {
        Arc::new(Self { inner, hook })
    }
}

impl<S: ?Sized, H> Deref for Wrapper<S, H> {
    type Target = H;

    fn deref(&self) -> &H {
        &self.hook
    }
}

/// Decides which calls reach the inner store.
#[async_trait]
pub(crate) trait Hook<S: Store + ?Sized>: Send + Sync + 'static {
    fn submit(&self, inner: &S, commit: Commit, answer: CommitCallback);

    async fn read(&self, inner: &S, query: Query) -> Result<Answer, StoreError>;
}

#[async_trait]
impl<S: Store + ?Sized, H: Hook<S>> Store for Wrapper<S, H> {
    fn submit(&self, commit: Commit, answer: CommitCallback) {
        self.hook.submit(&self.inner, commit, answer);
    }

    async fn read(&self, query: Query) -> Result<Answer, StoreError> {
        self.hook.read(&self.inner, query).await
    }

    async fn settings(&self) -> Result<Vec<Setting>, StoreError> {
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
