//! The boundary: everything above knows a store only through this trait.

use std::{collections::HashMap, ops::RangeInclusive, sync::Arc};

use async_trait::async_trait;
use tokio::sync::oneshot;

use crate::{
    Address, Attempt, Commit, EntityId, EntityKind, Entries, Expiring, ExpiryList, Head, KeyName,
    Letter, Notices, ObjectSummary, OldTurn, Outcome, PageImage, Position, QueueDepth, Recorded,
    RecordedTurn, RunCursor, RunFilter, RunStatus, RunSummary, Snapshot, StoreClock, StoreError,
    Timestamp, TurnSummary, Version, Work,
};

/// What is called with how a commit ended.
pub type Answer = Box<dyn FnOnce(Result<Outcome, StoreError>) + Send + Sync>;

/// Keeps streams of messages and what is still to be done with them.
#[async_trait]
pub trait Store: Entries + Send + Sync + 'static {
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
        // That nobody waits any more is no matter.
        self.submit(commit, Box::new(|result| _ = answer.send(result)));
        answered.await.unwrap_or(Err(StoreError::Closed))
    }

    /// Commits without waiting: commits of one caller are decided in the order in which they were
    /// submitted. The answer is called once, on a thread of the store's or, if the commit cannot
    /// even wait, at once on this one; it must not block.
    fn submit(&self, commit: Commit, answer: Answer);

    /// Reads a stream upwards from `from`.
    async fn read_stream(
        &self,
        stream: EntityId,
        from: Version,
        limit: usize,
    ) -> Result<Vec<Recorded>, StoreError>;

    /// Reads the whole store upwards, behind a position: commit order, never a gap that fills
    /// later.
    async fn read_all(&self, after: Position, limit: usize) -> Result<Vec<Recorded>, StoreError>;

    /// Reads one message.
    async fn message(&self, position: Position) -> Result<Option<Recorded>, StoreError>;

    /// Reads what is to be delivered, of one stream or of all, behind a position.
    async fn pending(
        &self,
        stream: Option<EntityId>,
        after: Position,
        limit: usize,
    ) -> Result<Vec<Recorded>, StoreError>;

    /// Reads what was given up, behind a position.
    async fn dead(&self, after: Position, limit: usize) -> Result<Vec<Recorded>, StoreError>;

    /// Reads the failed attempts of a message, oldest first.
    async fn attempts(&self, position: Position) -> Result<Vec<Attempt>, StoreError>;

    /// The last version of a stream; 0 if it is empty.
    async fn version(&self, stream: EntityId) -> Result<Version, StoreError>;

    /// Reads the streams, or those of one kind and class, in the order of their addresses as texts,
    /// behind one of them.
    async fn streams(
        &self,
        within: Option<(EntityKind, &str)>,
        after: Option<&Address>,
        limit: usize,
    ) -> Result<Vec<StreamSummary>, StoreError>;

    /// The addresses of entities, as far as they are known.
    async fn addresses(&self, ids: &[EntityId]) -> Result<HashMap<EntityId, Address>, StoreError>;

    /// The settings that durability depends on, and what is wrong with them.
    async fn settings(&self) -> Result<Vec<Setting>, StoreError>;

    /// What a stream has come to, as last kept.
    async fn snapshot(&self, stream: EntityId) -> Result<Option<Snapshot>, StoreError>;

    /// Reads work in the order in which it becomes due, behind a cursor.
    async fn due(&self, after: DueCursor, limit: usize) -> Result<Vec<Work>, StoreError>;

    /// Reads the work of one target: the ordered by position, the others by due time.
    async fn backlog(
        &self,
        target: EntityId,
        ordered: bool,
        limit: usize,
    ) -> Result<Vec<Work>, StoreError>;

    /// Reads the work that an owner before `epoch` had claimed and never settled: what waits in
    /// queues, or the rest.
    async fn orphans(
        &self,
        epoch: i64,
        queued: bool,
        limit: usize,
    ) -> Result<Vec<Work>, StoreError>;

    /// Reads what is due in a queue at a time, in due order behind a cursor; what a consumer holds
    /// is due when its lease has ended.
    async fn letters(
        &self,
        queue: EntityId,
        after: DueCursor,
        until: Timestamp,
        limit: usize,
    ) -> Result<Vec<Letter>, StoreError>;

    /// Reads what consumers of a queue hold at a time.
    async fn leased(
        &self,
        queue: EntityId,
        at: Timestamp,
        limit: usize,
    ) -> Result<Vec<Letter>, StoreError>;

    /// Reads what was given up in a queue, behind a position.
    async fn dead_letters(
        &self,
        queue: EntityId,
        after: Position,
        limit: usize,
    ) -> Result<Vec<Recorded>, StoreError>;

    /// How full a queue is at a time. Nothing is counted through: see [`QueueDepth`].
    async fn queue_depth(&self, queue: EntityId, at: Timestamp) -> Result<QueueDepth, StoreError>;

    /// When something is due in a queue after a time.
    async fn next_due(
        &self,
        queue: EntityId,
        after: Timestamp,
    ) -> Result<Option<Timestamp>, StoreError>;

    /// Looks at the next messages that the sweep has not passed (see [`crate::Write::Swept`]), and
    /// when each was written.
    async fn unswept(&self, limit: usize) -> Result<Vec<(Position, Timestamp)>, StoreError>;

    /// Reads what the sweep is to look at again, since a time or longer, the oldest first.
    async fn expiring(
        &self,
        list: ExpiryList,
        until: Timestamp,
        limit: usize,
    ) -> Result<Vec<Expiring>, StoreError>;

    /// Reads the keys whose time is over at `at`, those first that should have gone first.
    async fn expired_keys(&self, at: Timestamp, limit: usize) -> Result<Vec<KeyName>, StoreError>;

    /// Where an object stands; `None` if it does not exist.
    async fn head(&self, entity: EntityId) -> Result<Option<Head>, StoreError>;

    /// Reads the heads of objects, or of those with more history than so many bytes, behind a
    /// number.
    async fn heads(
        &self,
        history_over: i64,
        after: Position,
        limit: usize,
    ) -> Result<Vec<Head>, StoreError>;

    /// Reads the classes that entities of a kind have been addressed by, in the order of
    /// addresses, behind one of them. A class may have no entity that exists.
    async fn classes(
        &self,
        kind: EntityKind,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<String>, StoreError>;

    /// Reads the objects of a class that exist and whose names begin with `prefix`, in the order of
    /// the bytes of their names, behind a name.
    async fn objects(
        &self,
        class: &str,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<ObjectSummary>, StoreError>;

    /// Counts the objects of a class that exist, up to `max`.
    async fn count_objects(&self, class: &str, max: usize) -> Result<usize, StoreError>;

    /// Reads the images of these pages of an object, in order, as far as there are any. The ranges
    /// ascend and do not overlap.
    async fn images(
        &self,
        entity: EntityId,
        pages: &[RangeInclusive<u32>],
    ) -> Result<Vec<PageImage>, StoreError>;

    /// Reads a turn and those of the same object before it, newest first, as far as they are kept.
    async fn turns_back(
        &self,
        from: Position,
        limit: usize,
    ) -> Result<Vec<RecordedTurn>, StoreError>;

    /// The same without what they changed, which may be much.
    async fn turn_summaries(
        &self,
        from: Position,
        limit: usize,
    ) -> Result<Vec<TurnSummary>, StoreError>;

    /// Looks at the next turns behind a position, of all objects.
    async fn old_turns(&self, after: Position, limit: usize) -> Result<Vec<OldTurn>, StoreError>;

    /// How far a run is; `None` if it does not exist.
    async fn run(&self, entity: EntityId) -> Result<Option<RunSummary>, StoreError>;

    /// Reads the runs of a workflow that pass a filter, newest first and those of one time by
    /// descending ids, behind a cursor.
    async fn runs(
        &self,
        filter: RunFilter<'_>,
        after: Option<RunCursor>,
        limit: usize,
    ) -> Result<Vec<RunSummary>, StoreError>;

    /// Counts the runs of a workflow, or those with one status, up to `max`.
    async fn count_runs(
        &self,
        workflow: &str,
        status: Option<RunStatus>,
        max: usize,
    ) -> Result<usize, StoreError>;

    /// Reads the runs whose time is over at `at`, those first that should have gone first.
    async fn expired_runs(&self, at: Timestamp, limit: usize) -> Result<Vec<Address>, StoreError>;

    /// How much is there. Nothing is counted: the store keeps these numbers with every commit.
    async fn totals(&self) -> Result<Totals, StoreError>;

    /// Every row there is, for tests and small stores.
    async fn dump(&self) -> Result<Dump, StoreError>;

    /// Looks for rows that break an invariant and says which.
    async fn violations(&self) -> Result<Vec<String>, StoreError>;

    /// Tells who asks for them about new work.
    fn notices(&self) -> &Notices;

    /// The one clock of the store: see [`StoreClock`].
    fn clock(&self) -> &Arc<StoreClock>;

    /// Who we are to the store.
    fn owner(&self) -> Owner;

    /// Whether the store can write.
    fn health(&self) -> Health;

    /// Whether this process may answer from memory: `Ok` as long as nobody else can have taken the
    /// store over. Look before the answer leaves and after what it says was read; what the store
    /// itself returns was checked.
    fn check_lease(&self) -> Result<(), StoreError> {
        Ok(())
    }

    /// What the store has done since it was opened.
    fn activity(&self) -> Activity;

    /// Finishes what waits, says goodbye and gives the store free for the next owner.
    async fn close(&self);
}

/// Where a scan in due order stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DueCursor {
    /// The due time reached.
    pub due_at: Timestamp,
    /// The position reached within it.
    pub position: Position,
}

impl DueCursor {
    /// Before all work.
    pub const START: DueCursor = DueCursor { due_at: Timestamp::MIN, position: 0 };
    /// Behind all work.
    pub const END: DueCursor = DueCursor { due_at: Timestamp::MAX, position: Position::MAX };
}

/// One stream in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamSummary {
    /// Its address.
    pub address: Address,
    /// Its last version.
    pub version: Version,
    /// When it began.
    pub created_at: Timestamp,
    /// When its last message was committed.
    pub updated_at: Timestamp,
    /// When it ended, if it has.
    pub closed_at: Option<Timestamp>,
}

/// The process that owns the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    /// Counts the owners. Each one has its own.
    pub epoch: i64,
    /// The last position of an owner that did not say goodbye: what it was delivering may have
    /// ended it.
    pub unclean_until: Option<Position>,
}

/// Whether a store can write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Health {
    /// It can.
    Ready,
    /// Not now; it goes on by itself when the cause is gone.
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
    /// Its name there.
    pub name: String,
    /// Its value.
    pub value: String,
    /// What is wrong with it, and what to do.
    pub concern: Option<String>,
}

/// Counts of what a store holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// The last position.
    pub position: Position,
    /// Messages to be delivered.
    pub pending: i64,
    /// Messages given up.
    pub dead: i64,
}

/// Counts of what a store did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Activity {
    /// Commits answered.
    pub commits: u64,
    /// Transactions they took.
    pub batches: u64,
    /// Reads answered.
    pub reads: u64,
    /// Steps of SQLite's machine that reads took, those of commits included: they grow with the
    /// rows that are looked at.
    pub steps: u64,
    /// Signs of life of an idle owner.
    pub heartbeats: u64,
    /// Bytes written to the log of the database, as far as we write it ourselves.
    pub log_bytes: u64,
}

/// Every row of a store, as text, sorted by key: equal stores have equal dumps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dump {
    /// Table by table, a line a row.
    pub rows: Vec<String>,
}
