//! The reads of every store by name: each method runs one [`Query`].
//!
//! They are methods of `dyn Store`, not of the trait: a store only implements `read`.

use std::{collections::HashMap, ops::RangeInclusive};

use crate::{
    Address, AgeCursor, Attempt, DueCursor, Dump, EntityId, EntityKind, Entry, EntryKey,
    EntryRange, Head, ObjectSummary, OldTurn, PageImage, Position, Query, QueueDepth,
    QueuedMessage, Recorded, RecordedTurn, RunCursor, RunFilter, RunPage, RunStatus, RunSummary,
    Snapshot, Store, StoreError, StreamSummary, Timestamp, Totals, TurnSummary, Version, Work,
    query::Row,
};

/// Runs with a prefix of the id are found by id and sorted if they are fewer than this; otherwise
/// the list is read from the newest on and filtered.
const FEW_RUNS: usize = 1_000;

impl dyn Store + '_ {
    /// Runs a query and returns its rows.
    async fn rows<T: Row>(&self, query: Query) -> Result<Vec<T>, StoreError> {
        let kind = query.kind();
        T::rows(self.read(query).await?)
            .map_err(|_| StoreError::corrupt(format!("{kind:?} was answered with other rows")))
    }

    /// Runs a query that has at most one row.
    async fn row<T: Row>(&self, query: Query) -> Result<Option<T>, StoreError> {
        Ok(self.rows(query).await?.pop())
    }

    async fn count(&self, query: Query) -> Result<usize, StoreError> {
        let number: i64 = self.row(query).await?.unwrap_or_default();
        Ok(usize::try_from(number).unwrap_or_default())
    }

    /// Reads a stream upwards from `from`.
    #[crate::boxed]
    pub async fn read_stream(
        &self,
        stream: EntityId,
        from: Version,
        limit: usize,
    ) -> Result<Vec<Recorded>, StoreError> {
        self.rows(Query::Stream { stream, from, limit }).await
    }

    /// Reads the whole store upwards, after a position: commit order, never a gap that fills later.
    #[crate::boxed]
    pub async fn read_all(
        &self,
        after: Position,
        limit: usize,
    ) -> Result<Vec<Recorded>, StoreError> {
        self.rows(Query::All { after, limit }).await
    }

    /// Reads one message.
    #[crate::boxed]
    pub async fn message(&self, position: Position) -> Result<Option<Recorded>, StoreError> {
        self.row(Query::Message { position }).await
    }

    /// Reads pending messages, of one stream or of all, after a position.
    #[crate::boxed]
    pub async fn pending(
        &self,
        stream: Option<EntityId>,
        after: Position,
        limit: usize,
    ) -> Result<Vec<Recorded>, StoreError> {
        self.rows(Query::Pending { stream, after, limit }).await
    }

    /// Reads dead messages, after a position.
    #[crate::boxed]
    pub async fn dead(&self, after: Position, limit: usize) -> Result<Vec<Recorded>, StoreError> {
        self.rows(Query::Dead { queue: None, after, limit }).await
    }

    /// Reads the dead messages of a queue, after a position.
    #[crate::boxed]
    pub async fn dead_letters(
        &self,
        queue: EntityId,
        after: Position,
        limit: usize,
    ) -> Result<Vec<Recorded>, StoreError> {
        self.rows(Query::Dead { queue: Some(queue), after, limit }).await
    }

    /// Reads the failed attempts of a message, oldest first.
    #[crate::boxed]
    pub async fn attempts(&self, position: Position) -> Result<Vec<Attempt>, StoreError> {
        self.rows(Query::Attempts { position }).await
    }

    /// The last version of a stream; 0 if it is empty.
    #[crate::boxed]
    pub async fn version(&self, stream: EntityId) -> Result<Version, StoreError> {
        Ok(self.row(Query::Version { stream }).await?.unwrap_or_default())
    }

    /// Reads the streams, or those of one kind and class, in the order of their addresses as texts,
    /// after one of them.
    #[crate::boxed]
    pub async fn streams(
        &self,
        within: Option<(EntityKind, &str)>,
        after: Option<&Address>,
        limit: usize,
    ) -> Result<Vec<StreamSummary>, StoreError> {
        let within = within.map(|(kind, class)| (kind, class.to_owned()));
        self.rows(Query::Streams { within, after: after.cloned(), limit }).await
    }

    /// The addresses of entities, as far as they are known.
    #[crate::boxed]
    pub async fn addresses(
        &self,
        ids: &[EntityId],
    ) -> Result<HashMap<EntityId, Address>, StoreError> {
        let found: Vec<Address> = self.rows(Query::Addresses { ids: ids.to_vec() }).await?;
        Ok(found.into_iter().map(|address| (address.id(), address)).collect())
    }

    /// The last snapshot of a stream.
    #[crate::boxed]
    pub async fn snapshot(&self, stream: EntityId) -> Result<Option<Snapshot>, StoreError> {
        self.row(Query::Snapshot { stream }).await
    }

    /// Reads work in due order, after a cursor.
    #[crate::boxed]
    pub async fn due(&self, after: DueCursor, limit: usize) -> Result<Vec<Work>, StoreError> {
        self.rows(Query::Due { after, limit }).await
    }

    /// Reads the work of one target after a cursor: ordered work by position, other work by due
    /// time.
    #[crate::boxed]
    pub async fn backlog(
        &self,
        target: EntityId,
        ordered: bool,
        after: DueCursor,
        limit: usize,
    ) -> Result<Vec<Work>, StoreError> {
        self.rows(Query::Backlog { target, ordered, after, limit }).await
    }

    /// Reads the work that an owner before `epoch` has claimed and not settled: of queues, or of
    /// everything else.
    #[crate::boxed]
    pub async fn orphans(
        &self,
        epoch: i64,
        queued: bool,
        limit: usize,
    ) -> Result<Vec<Work>, StoreError> {
        self.rows(Query::Orphans { epoch, queued, limit }).await
    }

    /// Reads the messages of a queue that are due at a time, in due order after a cursor. A claimed
    /// message is due when its lease has expired.
    #[crate::boxed]
    pub async fn queue_messages(
        &self,
        queue: EntityId,
        after: DueCursor,
        until: Timestamp,
        limit: usize,
    ) -> Result<Vec<QueuedMessage>, StoreError> {
        self.rows(Query::QueueMessages { queue, after, until, limit }).await
    }

    /// Reads the messages of a queue that are claimed at a time.
    #[crate::boxed]
    pub async fn leased(
        &self,
        queue: EntityId,
        at: Timestamp,
        limit: usize,
    ) -> Result<Vec<QueuedMessage>, StoreError> {
        self.rows(Query::Leased { queue, at, limit }).await
    }

    /// The depth of a queue at a time. The cost does not grow with the queue: see [`QueueDepth`].
    #[crate::boxed]
    pub async fn queue_depth(
        &self,
        queue: EntityId,
        at: Timestamp,
    ) -> Result<QueueDepth, StoreError> {
        Ok(self.row(Query::QueueDepth { queue, at }).await?.unwrap_or_default())
    }

    /// The next due time in a queue after a time.
    #[crate::boxed]
    pub async fn next_due(
        &self,
        queue: EntityId,
        after: Timestamp,
    ) -> Result<Option<Timestamp>, StoreError> {
        self.row(Query::NextDue { queue, after }).await
    }

    /// The head of an object; `None` if it does not exist.
    #[crate::boxed]
    pub async fn head(&self, entity: EntityId) -> Result<Option<Head>, StoreError> {
        self.row(Query::Head { entity }).await
    }

    /// Reads the heads of objects with more history than this many bytes, after a number.
    #[crate::boxed]
    pub async fn heads(
        &self,
        history_over: i64,
        after: Position,
        limit: usize,
    ) -> Result<Vec<Head>, StoreError> {
        self.rows(Query::Heads { history_over, after, limit }).await
    }

    /// Reads the classes of entities of a kind, in the order of addresses, after one of them. A
    /// class may have no existing entity.
    #[crate::boxed]
    pub async fn classes(
        &self,
        kind: EntityKind,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<String>, StoreError> {
        self.rows(Query::Classes { kind, after: after.map(str::to_owned), limit }).await
    }

    /// Reads the existing objects of a class whose names begin with `prefix`, in byte order of
    /// their names, after a name.
    #[crate::boxed]
    pub async fn objects(
        &self,
        class: &str,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<ObjectSummary>, StoreError> {
        let (class, prefix) = (class.to_owned(), prefix.to_owned());
        self.rows(Query::Objects { class, prefix, after: after.map(str::to_owned), limit }).await
    }

    /// Counts the existing objects of a class, up to `max`.
    #[crate::boxed]
    pub async fn count_objects(&self, class: &str, max: usize) -> Result<usize, StoreError> {
        self.count(Query::CountObjects { class: class.to_owned(), max }).await
    }

    /// Reads the images of these pages of an object, in order, if they exist. The ranges ascend and
    /// do not overlap.
    #[crate::boxed]
    pub async fn images(
        &self,
        entity: EntityId,
        pages: &[RangeInclusive<u32>],
    ) -> Result<Vec<PageImage>, StoreError> {
        self.rows(Query::Images { entity, pages: pages.to_vec() }).await
    }

    /// Reads a turn and earlier ones of the same object, newest first, if retention has not deleted
    /// them.
    #[crate::boxed]
    pub async fn turns_back(
        &self,
        from: Position,
        limit: usize,
    ) -> Result<Vec<RecordedTurn>, StoreError> {
        self.rows(Query::TurnsBack { from, limit }).await
    }

    /// The same without the changed pages, which may be large.
    #[crate::boxed]
    pub async fn turn_summaries(
        &self,
        from: Position,
        limit: usize,
    ) -> Result<Vec<TurnSummary>, StoreError> {
        self.rows(Query::TurnSummaries { from, limit }).await
    }

    /// Reads the next turns after a position, of all objects.
    #[crate::boxed]
    pub async fn old_turns(
        &self,
        after: Position,
        limit: usize,
    ) -> Result<Vec<OldTurn>, StoreError> {
        self.rows(Query::OldTurns { after, limit }).await
    }

    /// The status of a run; `None` if it does not exist.
    #[crate::boxed]
    pub async fn run(&self, entity: EntityId) -> Result<Option<RunSummary>, StoreError> {
        self.row(Query::Run { entity }).await
    }

    /// Reads the runs of a workflow that pass a filter, newest first and those of one time by
    /// descending ids, after a cursor.
    #[crate::boxed]
    pub async fn runs<'a>(
        &'a self,
        filter: RunFilter<'a>,
        after: Option<RunCursor>,
        limit: usize,
    ) -> Result<Vec<RunSummary>, StoreError> {
        let RunFilter { status, since, until, .. } = filter;
        let (workflow, prefix) = (filter.workflow.to_owned(), filter.prefix.to_owned());
        let by_name = !prefix.is_empty() && {
            let (workflow, prefix) = (workflow.clone(), prefix.clone());
            let named = Query::CountRunNames { workflow, prefix, max: FEW_RUNS };
            self.count(named).await? < FEW_RUNS
        };
        let page = RunPage { workflow, status, prefix, since, until, after, by_name };
        self.rows(Query::Runs { page, limit }).await
    }

    /// Counts the runs of a workflow, or those with one status, up to `max`.
    #[crate::boxed]
    pub async fn count_runs(
        &self,
        workflow: &str,
        status: Option<RunStatus>,
        max: usize,
    ) -> Result<usize, StoreError> {
        self.count(Query::CountRuns { workflow: workflow.to_owned(), status, max }).await
    }

    /// Reads the runs that have expired at `at`, the first to expire first.
    #[crate::boxed]
    pub async fn expired_runs(
        &self,
        at: Timestamp,
        limit: usize,
    ) -> Result<Vec<Address>, StoreError> {
        let found: Vec<RunSummary> = self.rows(Query::ExpiredRuns { at, limit }).await?;
        Ok(found.into_iter().map(|it| it.run).collect())
    }

    /// The counters of the store. Every commit maintains them, so nothing is counted.
    #[crate::boxed]
    pub async fn totals(&self) -> Result<Totals, StoreError> {
        Ok(self.row(Query::Totals).await?.unwrap_or_default())
    }

    /// Reads one entry. A removed one is found until it has expired.
    #[crate::boxed]
    pub async fn entry(&self, entry: &EntryKey) -> Result<Option<Entry>, StoreError> {
        self.row(Query::Entry { entry: entry.clone() }).await
    }

    /// Reads a counter (see [`crate::Count`]); 0 if it does not exist.
    #[crate::boxed]
    pub async fn counter(&self, entry: &EntryKey) -> Result<i64, StoreError> {
        let found = self.entry(entry).await?;
        Ok(found.as_ref().map(Entry::parse::<i64>).transpose()?.flatten().unwrap_or(0))
    }

    /// Reads a list of entries in the order of keys, without those that were removed.
    #[crate::boxed]
    pub async fn entries(
        &self,
        space: &str,
        range: EntryRange,
        limit: usize,
    ) -> Result<Vec<Entry>, StoreError> {
        self.rows(Query::Entries { space: space.to_owned(), range, limit }).await
    }

    /// Reads entries of a list that last changed at `until` or before, the oldest change first and
    /// those of one time in the order of keys, after a cursor. Removed entries are left out.
    #[crate::boxed]
    pub async fn entries_by_age(
        &self,
        space: &str,
        after: &AgeCursor,
        until: Timestamp,
        limit: usize,
    ) -> Result<Vec<Entry>, StoreError> {
        let (space, after) = (space.to_owned(), after.clone());
        self.rows(Query::EntriesByAge { space, after, until, limit }).await
    }

    /// Reads entries that have expired at `at`, the first to expire first.
    #[crate::boxed]
    pub async fn expired_entries(
        &self,
        at: Timestamp,
        limit: usize,
    ) -> Result<Vec<EntryKey>, StoreError> {
        let found: Vec<Entry> = self.rows(Query::ExpiredEntries { at, limit }).await?;
        Ok(found.into_iter().map(|it| it.entry).collect())
    }

    /// Those of these resources that an entry refers to, with the first such entry.
    #[crate::boxed]
    pub async fn referenced(
        &self,
        ids: &[EntityId],
    ) -> Result<Vec<(EntityId, EntryKey)>, StoreError> {
        self.rows(Query::Referenced { ids: ids.to_vec() }).await
    }

    /// Every row of the store, for tests and small stores.
    #[crate::boxed]
    pub async fn dump(&self) -> Result<Dump, StoreError> {
        Ok(Dump { rows: self.rows(Query::Dump).await? })
    }

    /// Finds rows that break an invariant and describes them.
    #[crate::boxed]
    pub async fn violations(&self) -> Result<Vec<String>, StoreError> {
        self.rows(Query::Violations).await
    }
}
