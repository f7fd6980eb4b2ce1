//! The boundary: everything above uses a store only through this trait.

use std::sync::Arc;

use async_trait::async_trait;
use tokio::sync::oneshot;

use crate::{Answer, Commit, Notices, Outcome, Position, Query, StoreClock, StoreError};

/// Called with the outcome of a commit.
pub type CommitCallback = Box<dyn FnOnce(Result<Outcome, StoreError>) + Send + Sync>;

/// Stores streams of messages and pending work.
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// Commits one step of progress.
    ///
    /// # Durability
    ///
    /// `Committed` means that it survives a crash of this process and of its machine.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the commit may still happen.
    async fn commit(&self, commit: Commit) -> Result<Outcome, StoreError> {
        let (answer, answered) = oneshot::channel();
        // Ignore a caller that was dropped.
        self.submit(commit, Box::new(|result| _ = answer.send(result)));
        answered.await.unwrap_or(Err(StoreError::Closed))
    }

    /// Commits without waiting: commits of one caller are decided in the order in which they were
    /// submitted. The callback is called once, on a thread of the store or, if the commit is
    /// refused immediately, on this one; it must not block.
    fn submit(&self, commit: Commit, callback: CommitCallback);

    /// Answers a query from one snapshot: all rows are of the same state. `dyn Store` has a method
    /// for each query.
    async fn read(&self, query: Query) -> Result<Answer, StoreError>;

    /// The settings that durability depends on, and problems with them.
    async fn settings(&self) -> Result<Vec<Setting>, StoreError>;

    /// The notices of new work.
    fn notices(&self) -> &Notices;

    /// The one clock of the store: see [`StoreClock`].
    fn clock(&self) -> &Arc<StoreClock>;

    /// This process as an owner.
    fn owner(&self) -> Owner;

    /// Whether the store can write.
    fn health(&self) -> Health;

    /// Whether this process may answer from memory: `Ok` as long as no other process can have taken
    /// over the store. Check after the value was read and before the answer leaves; the store
    /// checks its own answers.
    fn check_lease(&self) -> Result<(), StoreError> {
        Ok(())
    }

    /// Counts of the store's work since it was opened.
    fn activity(&self) -> Activity;

    /// Commits everything that waits, records a clean shutdown and releases the store for the next
    /// owner.
    async fn close(&self);
}

/// The process that owns the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    /// Counts the owners. Each one has its own.
    pub epoch: i64,
    /// The last position of an owner that ended without a clean shutdown: a message that it was
    /// delivering may have crashed it.
    pub unclean_until: Option<Position>,
}

/// Whether a store can write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Health {
    /// It can.
    Ready,
    /// Not now; it recovers by itself when the cause is gone.
    Degraded {
        /// The cause.
        reason: String,
    },
    /// Never again in this process.
    Failed {
        /// The cause.
        reason: String,
    },
}

/// A setting of the database that durability or speed depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// Its name in the database.
    pub name: String,
    /// Its value.
    pub value: String,
    /// The problem with it, and the remedy.
    pub concern: Option<String>,
}

/// Counters of a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Activity {
    /// Commits answered.
    pub commits: u64,
    /// The transactions of these commits.
    pub batches: u64,
    /// Reads answered.
    pub reads: u64,
    /// Steps of SQLite's virtual machine in reads, including those of commits: they grow with the
    /// rows that are read.
    pub steps: u64,
    /// Heartbeats of an idle owner.
    pub heartbeats: u64,
    /// Bytes written to the log of the database, if this process writes it.
    pub log_bytes: u64,
}

/// Every row of a store, as text, sorted by key: equal stores have equal dumps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dump {
    /// Table by table, a line a row.
    pub rows: Vec<String>,
}
