//! A store of any kind whose reads of runs are counted, and whose process ends when the test wants.

use std::{
    collections::HashMap,
    ops::RangeInclusive,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use async_trait::async_trait;
use steadfast_core::store::{
    Activity, Address, AgeCursor, Answer, Attempt, Commit, DueCursor, Dump, EntityId, EntityKind,
    Entries, Entry, EntryKey, EntryRange, Expiring, ExpiryList, Head, Health, KeyName, Letter,
    Notices, ObjectSummary, OldTurn, Owner, PageImage, Position, QueueDepth, Recorded,
    RecordedTurn, RunCursor, RunFilter, RunStatus, RunSummary, Setting, Snapshot, Store,
    StoreClock, StoreError, StreamSummary, Timestamp, Totals, TurnSummary, Version, Work, Write,
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

    fn count(&self, many: usize) {
        self.rows.fetch_add(many, Ordering::SeqCst);
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

/// Everything else is done by the store inside.
macro_rules! delegate {
    ($($name:ident($($arg:ident: $type:ty),*) -> $returns:ty;)*) => {
        #[async_trait]
        impl Store for Watched {
            fn submit(&self, commit: Commit, answer: Answer) {
                if self.ends.load(Ordering::SeqCst) && is_done(&commit) {
                    self.has_ended.store(true, Ordering::SeqCst);
                }
                match self.has_ended() {
                    true => answer(Err(StoreError::Closed)),
                    false => self.inner.submit(commit, answer),
                }
            }

            async fn read_stream(
                &self,
                stream: EntityId,
                from: Version,
                limit: usize,
            ) -> Result<Vec<Recorded>, StoreError> {
                let rows = self.inner.read_stream(stream, from, limit).await?;
                self.count(rows.len());
                Ok(rows)
            }

            async fn message(&self, position: Position) -> Result<Option<Recorded>, StoreError> {
                self.single.fetch_add(1, Ordering::SeqCst);
                self.inner.message(position).await
            }

            async fn snapshot(&self, stream: EntityId) -> Result<Option<Snapshot>, StoreError> {
                let row = self.inner.snapshot(stream).await?;
                self.count(row.iter().len());
                Ok(row)
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
    };
}

#[async_trait]
impl Entries for Watched {
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
    read_all(after: Position, limit: usize) -> Vec<Recorded>;
    pending(stream: Option<EntityId>, after: Position, limit: usize) -> Vec<Recorded>;
    dead(after: Position, limit: usize) -> Vec<Recorded>;
    attempts(position: Position) -> Vec<Attempt>;
    version(stream: EntityId) -> Version;
    streams(
        within: Option<(EntityKind, &str)>, after: Option<&Address>, limit: usize
    ) -> Vec<StreamSummary>;
    addresses(ids: &[EntityId]) -> HashMap<EntityId, Address>;
    settings() -> Vec<Setting>;
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
    images(entity: EntityId, pages: &[RangeInclusive<u32>]) -> Vec<PageImage>;
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
    expired_runs(at: Timestamp, limit: usize) -> Vec<Address>;
    totals() -> Totals;
    dump() -> Dump;
    violations() -> Vec<String>;
}
