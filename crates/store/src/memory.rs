//! A store in memory, for tests and simulation. It forgets everything when it is dropped.

mod entries;
mod objects;
mod queues;
mod runs;
mod tables;

use std::{collections::HashMap, ops::RangeInclusive, sync::Arc};

use async_trait::async_trait;
use parking_lot::{Mutex, MutexGuard};

use self::tables::Tables;
use crate::{
    Activity, Address, Answer, Attempt, CLOCK_STEP_MAX, Clock, Commit, DueCursor, Dump, EntityId,
    EntityKind, Expiring, ExpiryList, Head, Health, KeyName, Lease, Letter, Notices, ObjectSummary,
    OldTurn, Outcome, Owner, PageImage, Position, QueueDepth, Recorded, RecordedTurn, RunCursor,
    RunFilter, RunStatus, RunSummary, Setting, SettledAs, Snapshot, Store, StoreClock, StoreError,
    StreamSummary, Timestamp, Totals, TurnSummary, Version, Work,
    plan::{self, Needs},
    writer::Status,
};

/// Keeps everything in memory.
#[derive(Debug)]
pub struct MemoryStore {
    tables: Arc<Mutex<Tables>>,
    status: Status,
    wall: Arc<dyn Clock>,
    crash: Mutex<Crash>,
}

/// When a store in memory is to end, as if its process had.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Crash {
    /// Not.
    #[default]
    Never,
    /// At the n-th commit from now.
    At(usize, Moment),
    /// It has.
    Over,
}

/// Around which side of a commit a process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// The commit never happens.
    Before,
    /// The commit happens, and nobody hears of it.
    After,
}

impl MemoryStore {
    /// An empty store.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        let owner = Owner { epoch: 1, unclean_until: None };
        Self::owned(owner, clock, Arc::default())
    }

    /// Ends the store at its n-th commit from now (from 1), as if its process had ended there: from
    /// then on it answers nothing any more. What was committed is found by
    /// [`MemoryStore::restart`].
    pub fn crash_at(&self, commit: usize, moment: Moment) {
        *self.crash.lock() = Crash::At(commit, moment);
    }

    /// The same data under its next owner, who finds that the last one did not say goodbye.
    pub fn restart(&self) -> Self {
        let unclean_until = Some(self.tables().totals().position);
        let owner = Owner { epoch: self.owner().epoch + 1, unclean_until };
        Self::owned(owner, self.wall.clone(), self.tables.clone())
    }

    fn owned(owner: Owner, wall: Arc<dyn Clock>, tables: Arc<Mutex<Tables>>) -> Self {
        let recorded = tables.lock().clock();
        let clock = StoreClock::new(wall.clone(), CLOCK_STEP_MAX, recorded);
        let status = Status::new(owner, Arc::new(clock));
        Self { tables, status, wall, crash: Mutex::default() }
    }

    /// Whether the next commit happens, and whether it is answered.
    fn next_commit(&self) -> (bool, bool) {
        let mut crash = self.crash.lock();
        match *crash {
            Crash::Never => (true, true),
            Crash::Over => (false, false),
            Crash::At(1, moment) => {
                *crash = Crash::Over;
                (moment == Moment::After, false)
            }
            Crash::At(left, moment) => {
                *crash = Crash::At(left - 1, moment);
                (true, true)
            }
        }
    }

    /// Whether the process has ended.
    pub fn has_crashed(&self) -> bool {
        *self.crash.lock() == Crash::Over
    }

    fn decide(&self, commit: &Commit) -> Result<Outcome, StoreError> {
        commit.check()?;
        // Locked before it is decided whether it happens: nothing may be written behind the end of
        // the process, when the next owner has looked already.
        let mut tables = self.tables();
        let (happens, is_answered) = self.next_commit();
        if !happens {
            return Err(StoreError::Closed);
        }
        let facts = tables.facts(&Needs::of([commit]));
        let mut plan = plan::plan(facts, self.status.clock.record(), [commit]);
        let answer = plan.answers.pop().expect("one commit has one answer");
        tables.apply(&plan);
        if is_answered {
            // Before a read can find the rows: a message that was read and delivered must not be
            // announced afterwards. The count comes after the notices.
            self.status.notices.publish(&plan);
        }
        drop(tables);
        self.status.count_batch(1);
        if is_answered { Ok(answer) } else { Err(StoreError::Closed) }
    }

    fn tables(&self) -> MutexGuard<'_, Tables> {
        self.tables.lock()
    }

    fn read<T>(&self, f: impl FnOnce(&Tables) -> T) -> Result<T, StoreError> {
        if self.has_crashed() {
            return Err(StoreError::Closed);
        }
        self.status.count_read();
        Ok(f(&self.tables()))
    }
}

#[async_trait]
impl Store for MemoryStore {
    fn submit(&self, commit: Commit, answer: Answer) {
        answer(self.decide(&commit));
    }

    async fn read_stream(
        &self,
        stream: EntityId,
        from: Version,
        limit: usize,
    ) -> Result<Vec<Recorded>, StoreError> {
        self.read(|it| it.of_stream(stream, from).take(limit).collect())
    }

    async fn read_all(&self, after: Position, limit: usize) -> Result<Vec<Recorded>, StoreError> {
        self.read(|it| it.behind(after).take(limit).collect())
    }

    async fn message(&self, position: Position) -> Result<Option<Recorded>, StoreError> {
        self.read(|it| it.recorded(position))
    }

    async fn pending(
        &self,
        stream: Option<EntityId>,
        after: Position,
        limit: usize,
    ) -> Result<Vec<Recorded>, StoreError> {
        self.read(|it| {
            let pending = it.works.keys().filter(|position| after < **position);
            let recorded = pending.filter_map(|position| it.recorded(*position));
            recorded.filter(|it| stream.is_none_or(|id| id == it.stream)).take(limit).collect()
        })
    }

    async fn dead(&self, after: Position, limit: usize) -> Result<Vec<Recorded>, StoreError> {
        self.read(|it| {
            let dead = it.outcomes.iter().filter(|(_, row)| row.as_ == SettledAs::Dead);
            let behind = dead.filter(|(position, _)| after < **position);
            behind.filter_map(|(position, _)| it.recorded(*position)).take(limit).collect()
        })
    }

    async fn attempts(&self, position: Position) -> Result<Vec<Attempt>, StoreError> {
        self.read(|it| it.attempts_of(position).cloned().collect())
    }

    async fn version(&self, stream: EntityId) -> Result<Version, StoreError> {
        self.read(|it| it.version(stream))
    }

    async fn streams(
        &self,
        within: Option<(EntityKind, &str)>,
        after: Option<&Address>,
        limit: usize,
    ) -> Result<Vec<StreamSummary>, StoreError> {
        self.read(|it| it.summaries(within, after, limit))
    }

    async fn snapshot(&self, stream: EntityId) -> Result<Option<Snapshot>, StoreError> {
        self.read(|it| it.snapshots.get(&stream).cloned())
    }

    async fn addresses(&self, ids: &[EntityId]) -> Result<HashMap<EntityId, Address>, StoreError> {
        self.read(|it| {
            let known = ids.iter().filter_map(|id| Some((*id, it.entities.get(id)?)));
            known.map(|(id, row)| (id, row.address.clone())).collect()
        })
    }

    async fn settings(&self) -> Result<Vec<Setting>, StoreError> {
        let concern = Some("everything is forgotten when the process ends".into());
        Ok(vec![Setting { name: "durability".into(), value: "none".into(), concern }])
    }

    async fn due(&self, after: DueCursor, limit: usize) -> Result<Vec<Work>, StoreError> {
        self.read(|it| it.due(after, limit))
    }

    async fn backlog(
        &self,
        target: EntityId,
        ordered: bool,
        limit: usize,
    ) -> Result<Vec<Work>, StoreError> {
        self.read(|it| {
            let of = |work: &&Work| work.target == target && work.ordered == ordered;
            let mut works: Vec<Work> = it.works.values().filter(of).copied().collect();
            if !ordered {
                works.sort_by_key(|work| (work.due_at, work.position));
            }
            works.truncate(limit);
            works
        })
    }

    async fn orphans(
        &self,
        epoch: i64,
        queued: bool,
        limit: usize,
    ) -> Result<Vec<Work>, StoreError> {
        self.read(|it| {
            let is_over = |it: (Lease, Timestamp)| 0 < it.0.holder && it.0.holder < epoch;
            let orphaned = |it: &&Work| it.queued == queued && it.claim.is_some_and(is_over);
            it.works.values().filter(orphaned).take(limit).copied().collect()
        })
    }

    async fn letters(
        &self,
        queue: EntityId,
        after: DueCursor,
        until: Timestamp,
        limit: usize,
    ) -> Result<Vec<Letter>, StoreError> {
        self.read(|it| it.letters(queue, after, until, limit))
    }

    async fn leased(
        &self,
        queue: EntityId,
        at: Timestamp,
        limit: usize,
    ) -> Result<Vec<Letter>, StoreError> {
        self.read(|it| it.leased(queue, at, limit))
    }

    async fn dead_letters(
        &self,
        queue: EntityId,
        after: Position,
        limit: usize,
    ) -> Result<Vec<Recorded>, StoreError> {
        self.read(|it| it.dead_letters(queue, after, limit))
    }

    async fn queue_depth(&self, queue: EntityId, at: Timestamp) -> Result<QueueDepth, StoreError> {
        self.read(|it| it.queue_depth(queue, at))
    }

    async fn next_due(
        &self,
        queue: EntityId,
        after: Timestamp,
    ) -> Result<Option<Timestamp>, StoreError> {
        self.read(|it| it.next_due(queue, after))
    }

    async fn unswept(&self, limit: usize) -> Result<Vec<(Position, Timestamp)>, StoreError> {
        self.read(|it| it.unswept(limit))
    }

    async fn expiring(
        &self,
        list: ExpiryList,
        until: Timestamp,
        limit: usize,
    ) -> Result<Vec<Expiring>, StoreError> {
        self.read(|it| it.expiring(list, until, limit))
    }

    async fn expired_keys(&self, at: Timestamp, limit: usize) -> Result<Vec<KeyName>, StoreError> {
        self.read(|it| it.expired_keys(at, limit))
    }

    async fn head(&self, entity: EntityId) -> Result<Option<Head>, StoreError> {
        self.read(|it| it.objects.head(entity))
    }

    async fn heads(
        &self,
        history_over: i64,
        after: Position,
        limit: usize,
    ) -> Result<Vec<Head>, StoreError> {
        self.read(|it| it.objects.heads(history_over, after, limit))
    }

    async fn classes(
        &self,
        kind: EntityKind,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<String>, StoreError> {
        self.read(|it| it.classes(kind, after, limit))
    }

    async fn objects(
        &self,
        class: &str,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<ObjectSummary>, StoreError> {
        self.read(|it| it.object_summaries(class, prefix, after, limit))
    }

    async fn count_objects(&self, class: &str, max: usize) -> Result<usize, StoreError> {
        self.read(|it| it.object_summaries(class, "", None, max).len())
    }

    async fn images(
        &self,
        entity: EntityId,
        pages: &[RangeInclusive<u32>],
    ) -> Result<Vec<PageImage>, StoreError> {
        self.read(|it| it.objects.images(entity, pages))
    }

    async fn turns_back(
        &self,
        from: Position,
        limit: usize,
    ) -> Result<Vec<RecordedTurn>, StoreError> {
        self.read(|it| it.objects.turns_back(from, limit))
    }

    async fn turn_summaries(
        &self,
        from: Position,
        limit: usize,
    ) -> Result<Vec<TurnSummary>, StoreError> {
        self.read(|it| it.objects.turn_summaries(from, limit))
    }

    async fn old_turns(&self, after: Position, limit: usize) -> Result<Vec<OldTurn>, StoreError> {
        self.read(|it| it.objects.old_turns(after, limit))
    }

    async fn run(&self, entity: EntityId) -> Result<Option<RunSummary>, StoreError> {
        self.read(|it| it.runs.get(entity))
    }

    async fn runs(
        &self,
        filter: RunFilter<'_>,
        after: Option<RunCursor>,
        limit: usize,
    ) -> Result<Vec<RunSummary>, StoreError> {
        self.read(|it| it.runs.list(filter, after, limit))
    }

    async fn count_runs(
        &self,
        workflow: &str,
        status: Option<RunStatus>,
        max: usize,
    ) -> Result<usize, StoreError> {
        self.read(|it| it.runs.count(workflow, status, max))
    }

    async fn expired_runs(&self, at: Timestamp, limit: usize) -> Result<Vec<Address>, StoreError> {
        self.read(|it| it.runs.expired(at, limit))
    }

    async fn totals(&self) -> Result<Totals, StoreError> {
        self.read(Tables::totals)
    }

    async fn dump(&self) -> Result<Dump, StoreError> {
        self.read(Tables::dump)
    }

    async fn violations(&self) -> Result<Vec<String>, StoreError> {
        self.read(Tables::violations)
    }

    fn notices(&self) -> &Notices {
        &self.status.notices
    }

    fn clock(&self) -> &Arc<StoreClock> {
        &self.status.clock
    }

    fn owner(&self) -> Owner {
        self.status.owner()
    }

    fn health(&self) -> Health {
        self.status.health()
    }

    fn activity(&self) -> Activity {
        self.status.activity()
    }

    async fn close(&self) {}
}
