//! A store of any kind that ends at a commit, as if its process had ended there.

use std::{
    collections::HashMap,
    ops::RangeInclusive,
    sync::{Arc, Mutex},
};

use async_trait::async_trait;
use steadfast_store::{
    Activity, Address, AgeCursor, Answer, Attempt, Commit, DueCursor, Dump, EntityId, EntityKind,
    Entries, Entry, EntryKey, EntryRange, Expiring, ExpiryList, Head, Health, KeyName, Letter,
    Moment, Notices, ObjectSummary, OldTurn, Owner, PageImage, Position, QueueDepth, Recorded,
    RecordedTurn, RunCursor, RunFilter, RunStatus, RunSummary, Setting, Snapshot, Store,
    StoreClock, StoreError, StreamSummary, Timestamp, Totals, TurnSummary, Version, Work,
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
macro_rules! delegate {
    ($($name:ident($($arg:ident: $type:ty),*) -> $returns:ty;)*) => {
        #[async_trait]
        impl Store for Mortal {
            fn submit(&self, commit: Commit, answer: Answer) {
                let mut end = self.end.lock().unwrap();
                match *end {
                    End::Never => self.inner.submit(commit, answer),
                    End::Over => answer(Err(StoreError::Closed)),
                    End::At(1, moment) => {
                        *end = End::Over;
                        let unheard: Answer = Box::new(move |_| answer(Err(StoreError::Closed)));
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

            $(
                async fn $name(&self, $($arg: $type),*) -> Result<$returns, StoreError> {
                    self.check()?;
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
impl Entries for Mortal {
    async fn entry(&self, entry: &EntryKey) -> Result<Option<Entry>, StoreError> {
        self.check()?;
        self.inner.entry(entry).await
    }

    async fn entries(
        &self,
        space: &str,
        range: EntryRange,
        limit: usize,
    ) -> Result<Vec<Entry>, StoreError> {
        self.check()?;
        self.inner.entries(space, range, limit).await
    }

    async fn entries_by_age(
        &self,
        space: &str,
        after: &AgeCursor,
        until: Timestamp,
        limit: usize,
    ) -> Result<Vec<Entry>, StoreError> {
        self.check()?;
        self.inner.entries_by_age(space, after, until, limit).await
    }

    async fn expired_entries(
        &self,
        at: Timestamp,
        limit: usize,
    ) -> Result<Vec<EntryKey>, StoreError> {
        self.check()?;
        self.inner.expired_entries(at, limit).await
    }

    async fn referenced(&self, ids: &[EntityId]) -> Result<Vec<(EntityId, EntryKey)>, StoreError> {
        self.check()?;
        self.inner.referenced(ids).await
    }
}

delegate! {
    read_stream(stream: EntityId, from: Version, limit: usize) -> Vec<Recorded>;
    message(position: Position) -> Option<Recorded>;
    snapshot(stream: EntityId) -> Option<Snapshot>;
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
