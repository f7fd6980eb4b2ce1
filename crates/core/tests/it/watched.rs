//! A store of any kind whose reads of runs are counted, and whose process crashes on request.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

use async_trait::async_trait;
use steadfast_core::store::{
    Answer, Commit, CommitCallback, EntityKind, Query, Store, StoreError, Write,
};

use crate::wrapper::{Hook, Wrapper};

pub(crate) type Watched = Wrapper<dyn Store, Watch>;

#[derive(Default)]
pub(crate) struct Watch {
    /// Messages of streams that were read.
    rows: AtomicUsize,
    /// Messages that were read one by one. The dispatcher does that as well, but not always.
    single: AtomicUsize,
    /// The process crashes before a run records the result of a step or a call.
    ends: AtomicBool,
    has_ended: AtomicBool,
}

impl Watched {
    pub(crate) fn new(inner: Arc<dyn Store>) -> Arc<Self> {
        Self::around(inner, Watch::default())
    }
}

impl Watch {
    /// The number of reads since the last call, of streams and one by one.
    pub(crate) fn rows(&self) -> (usize, usize) {
        (self.rows.swap(0, Ordering::SeqCst), self.single.swap(0, Ordering::SeqCst))
    }

    /// Crashes the process before a run records the next result.
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
impl Hook<dyn Store> for Watch {
    fn submit(&self, inner: &dyn Store, commit: Commit, answer: CommitCallback) {
        if self.ends.load(Ordering::SeqCst) && is_done(&commit) {
            self.has_ended.store(true, Ordering::SeqCst);
        }
        match self.has_ended() {
            true => answer(Err(StoreError::Closed)),
            false => inner.submit(commit, answer),
        }
    }

    async fn read(&self, inner: &dyn Store, query: Query) -> Result<Answer, StoreError> {
        if matches!(query, Query::Message { .. }) {
            self.single.fetch_add(1, Ordering::SeqCst);
        }
        let is_counted = matches!(query, Query::Stream { .. } | Query::Snapshot { .. });
        let found = inner.read(query).await?;
        if is_counted {
            self.rows.fetch_add(found.len(), Ordering::SeqCst);
        }
        Ok(found)
    }
}
