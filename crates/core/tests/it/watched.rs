//! A store of any kind whose reads of runs are counted, and whose process ends when the test wants.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

use async_trait::async_trait;
use steadfast_core::store::{
    Activity, Answer, Commit, CommitCallback, EntityKind, Health, Notices, Owner, Query, Setting,
    Store, StoreClock, StoreError, Write,
};

pub(crate) struct Watched {
    inner: Arc<dyn Store>,
    /// Messages of streams that were read.
    rows: AtomicUsize,
    /// Messages that were read one by one. The dispatcher does that as well, but not always.
    single: AtomicUsize,
    /// The process ends before a run records what a step or a call came to.
    ends: AtomicBool,
    has_ended: AtomicBool,
}

impl Watched {
    pub(crate) fn new(inner: Arc<dyn Store>) -> Arc<Self> {
        let (ends, has_ended) = (AtomicBool::new(false), AtomicBool::new(false));
        Arc::new(Self {
            inner,
            rows: AtomicUsize::new(0),
            single: AtomicUsize::new(0),
            ends,
            has_ended,
        })
    }

    /// How many were read since this was last asked, of streams and one by one.
    pub(crate) fn rows(&self) -> (usize, usize) {
        (self.rows.swap(0, Ordering::SeqCst), self.single.swap(0, Ordering::SeqCst))
    }

    /// Has the process end before a run records what something came to.
    pub(crate) fn end_before_done(&self) {
        self.ends.store(true, Ordering::SeqCst);
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::SeqCst)
    }
}

fn is_done(commit: &Commit) -> bool {
    commit.writes.iter().any(|it| match it {
        Write::Append { stream, messages } => {
            stream.kind() == EntityKind::Run && format!("{messages:?}").contains("\"done\"")
        }
        _ => false,
    })
}

#[async_trait]
impl Store for Watched {
    fn submit(&self, commit: Commit, answer: CommitCallback) {
        if self.ends.load(Ordering::SeqCst) && is_done(&commit) {
            self.has_ended.store(true, Ordering::SeqCst);
        }
        match self.has_ended() {
            true => answer(Err(StoreError::Closed)),
            false => self.inner.submit(commit, answer),
        }
    }

    async fn read(&self, query: Query) -> Result<Answer, StoreError> {
        if matches!(query, Query::Message { .. }) {
            self.single.fetch_add(1, Ordering::SeqCst);
        }
        let is_counted = matches!(query, Query::Stream { .. } | Query::Snapshot { .. });
        let found = self.inner.read(query).await?;
        if is_counted {
            self.rows.fetch_add(found.len(), Ordering::SeqCst);
        }
        Ok(found)
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
