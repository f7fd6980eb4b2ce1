//! The embedded store: one SQLite file, one writer thread, readers beside it.

mod apply;
mod checkpoint;
mod entries;
mod facts;
mod file;
mod readers;
mod row;
mod runs;
mod writer;

use std::{collections::HashMap, ops::RangeInclusive, path::PathBuf, sync::Arc, time::Duration};

use async_trait::async_trait;
use rusqlite::{Connection, Params};
use tokio::sync::Mutex;

pub use self::file::peek_entry;
use self::{readers::Readers, row::rows};
use crate::{
    Activity, Address, Answer, Attempt, CLOCK_STEP_MAX, Clock, Commit, DEPTH_SEEN_MAX, DueCursor,
    Dump, EntityId, EntityKind, Expiring, ExpiryList, Head, Health, KeyName, Letter, Notices,
    ObjectSummary, OldTurn, OpenError, Owner, PageImage, Position, QueueDepth, Recorded,
    RecordedTurn, RunCursor, RunFilter, RunStatus, RunSummary, Setting, Snapshot, Store,
    StoreClock, StoreError, StreamSummary, Timestamp, Totals, TurnSummary, Version, Work,
    sql::{self, Fields, count, expiry, queries, queues},
    writer::{self as shared, Queue, Status},
};

/// Where an embedded store is and what it may take.
#[derive(Clone, Debug)]
pub struct SqliteOptions {
    /// The data folder; it is made if it is not there.
    pub folder: PathBuf,
    /// What time it is.
    pub clock: Arc<dyn Clock>,
    /// The largest size of the database file in bytes; beyond it a commit is refused as on a full
    /// disk.
    pub file_bytes_max: Option<u64>,
    /// The largest size of the log in bytes, about. It starts over when all of it is in the file,
    /// which somebody who reads for long keeps from happening; beyond this size commits are refused
    /// until that reader is done.
    pub log_bytes_max: u64,
    /// A step of the clock beyond this is reported, and deletion by age waits.
    pub clock_step_max: Duration,
    /// Whether the store is only looked at: it must be there, nobody becomes its owner, and every
    /// commit is refused with `read_only`.
    pub read_only: bool,
}

impl SqliteOptions {
    /// A store in this folder, as large as the disk.
    pub fn new(folder: impl Into<PathBuf>, clock: Arc<dyn Clock>) -> Self {
        let (file_bytes_max, clock_step_max) = (None, CLOCK_STEP_MAX);
        Self {
            folder: folder.into(),
            clock,
            file_bytes_max,
            log_bytes_max: 1 << 30,
            clock_step_max,
            read_only: false,
        }
    }
}

/// Keeps everything in one SQLite file of a folder that it holds alone.
pub struct SqliteStore {
    queue: Queue,
    readers: Readers,
    status: Arc<Status>,
    /// `None` if it is closed, or only looked at.
    writer: Mutex<Option<std::thread::JoinHandle<()>>>,
    /// The lock of a store that is only looked at; else the writer has it.
    looking: parking_lot::Mutex<Option<std::fs::File>>,
    read_only: bool,
}

impl SqliteStore {
    /// Opens or makes the store; it is ours until it is closed or this process ends.
    pub fn open(options: SqliteOptions) -> Result<Self, OpenError> {
        if options.read_only {
            return Self::look(options);
        }
        let opened = file::open(&options)?;
        let clock = StoreClock::new(options.clock, options.clock_step_max, opened.clock);
        let status = Arc::new(Status::new(opened.owner, Arc::new(clock)));
        if opened.is_unwritten {
            status.set_health(Health::Degraded { reason: StoreError::DiskFull.to_string() });
        }
        let (queue, requests) = shared::queue();
        let log_bytes_max = options.log_bytes_max;
        let writer = writer::Writer {
            connection: opened.connection,
            requests,
            status: status.clone(),
            epoch: opened.owner.epoch,
            is_unwritten: opened.is_unwritten,
            checkpointer: checkpoint::start(opened.database.clone(), status.clone(), log_bytes_max),
            known: facts::Known::default(),
            lock: opened.lock,
        };
        let thread = std::thread::Builder::new().name("store-writer".into());
        let handle = thread.spawn(move || writer.run()).map_err(|error| OpenError::Failed {
            what: options.folder.display().to_string(),
            reason: error.to_string(),
        })?;
        let readers = Readers::new(opened.database);
        let (writer, looking) = (Mutex::new(Some(handle)), parking_lot::Mutex::default());
        Ok(Self { queue, readers, status, writer, looking, read_only: false })
    }

    /// Opens a store to look at it. Nothing that is kept in the folder changes.
    fn look(options: SqliteOptions) -> Result<Self, OpenError> {
        let looked = file::look(&options)?;
        let clock = StoreClock::new(options.clock, options.clock_step_max, looked.clock);
        let status = Arc::new(Status::new(looked.owner, Arc::new(clock)));
        let (queue, _) = shared::queue();
        let readers = Readers::new(looked.database);
        let looking = parking_lot::Mutex::new(Some(looked.lock));
        Ok(Self { queue, readers, status, writer: Mutex::default(), looking, read_only: true })
    }

    /// Reads on one of the reading connections, away from the async threads.
    async fn read<T: Send + 'static>(
        &self,
        f: impl FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let status = self.status.clone();
        status.count_read();
        let counted = move |connection: &Connection| {
            let read = f(connection);
            status.count_steps(row::take_steps());
            read
        };
        self.readers.run(counted).await
    }

    async fn list<T: Send + 'static>(
        &self,
        statement: &'static str,
        params: impl Params + Send + 'static,
        decode: fn(&dyn Fields) -> Result<T, StoreError>,
    ) -> Result<Vec<T>, StoreError> {
        self.read(move |connection| rows(connection, statement, params, decode)).await
    }
}

#[async_trait]
impl Store for SqliteStore {
    fn submit(&self, commit: Commit, answer: Answer) {
        if self.read_only {
            return answer(Err(StoreError::ReadOnly));
        }
        self.queue.submit(commit, answer);
    }

    async fn read_stream(
        &self,
        stream: EntityId,
        from: Version,
        limit: usize,
    ) -> Result<Vec<Recorded>, StoreError> {
        self.list(queries::READ_STREAM, (stream.0, from, count(limit)), sql::recorded).await
    }

    async fn read_all(&self, after: Position, limit: usize) -> Result<Vec<Recorded>, StoreError> {
        self.list(queries::READ_ALL, (after, count(limit)), sql::recorded).await
    }

    async fn message(&self, position: Position) -> Result<Option<Recorded>, StoreError> {
        Ok(self.list(queries::MESSAGE, (position,), sql::recorded).await?.pop())
    }

    async fn pending(
        &self,
        stream: Option<EntityId>,
        after: Position,
        limit: usize,
    ) -> Result<Vec<Recorded>, StoreError> {
        match stream {
            None => self.list(queries::PENDING, (after, count(limit)), sql::recorded).await,
            Some(stream) => {
                let params = (stream.0, after, count(limit));
                self.list(queries::PENDING_OF_STREAM, params, sql::recorded).await
            }
        }
    }

    async fn dead(&self, after: Position, limit: usize) -> Result<Vec<Recorded>, StoreError> {
        self.list(queries::DEAD, (after, count(limit)), sql::recorded).await
    }

    async fn attempts(&self, position: Position) -> Result<Vec<Attempt>, StoreError> {
        self.list(queries::ATTEMPTS, (position,), sql::attempt).await
    }

    async fn version(&self, stream: EntityId) -> Result<Version, StoreError> {
        self.read(move |connection| facts::version(connection, stream)).await
    }

    async fn snapshot(&self, stream: EntityId) -> Result<Option<Snapshot>, StoreError> {
        Ok(self.list(queries::SNAPSHOT, (stream.0,), sql::snapshot).await?.pop())
    }

    async fn streams(
        &self,
        within: Option<(EntityKind, &str)>,
        after: Option<&Address>,
        limit: usize,
    ) -> Result<Vec<StreamSummary>, StoreError> {
        let [(after, end), runs] = queries::bounds(within, after);
        let params = (after, end, count(limit), runs.0, runs.1);
        self.list(queries::STREAMS, params, sql::stream_summary).await
    }

    async fn addresses(&self, ids: &[EntityId]) -> Result<HashMap<EntityId, Address>, StoreError> {
        let ids = ids.to_vec();
        self.read(move |connection| readers::addresses(connection, &ids)).await
    }

    async fn settings(&self) -> Result<Vec<Setting>, StoreError> {
        self.read(readers::settings).await
    }

    async fn due(&self, after: DueCursor, limit: usize) -> Result<Vec<Work>, StoreError> {
        self.list(queries::DUE, (after.due_at.0, after.position, count(limit)), sql::work).await
    }

    async fn backlog(
        &self,
        target: EntityId,
        ordered: bool,
        limit: usize,
    ) -> Result<Vec<Work>, StoreError> {
        let statement = if ordered { queries::BACKLOG_ORDERED } else { queries::BACKLOG };
        self.list(statement, (target.0, count(limit)), sql::work).await
    }

    async fn orphans(
        &self,
        epoch: i64,
        queued: bool,
        limit: usize,
    ) -> Result<Vec<Work>, StoreError> {
        let statement = if queued { queries::QUEUE_ORPHANS } else { queries::ORPHANS };
        self.list(statement, (epoch, count(limit)), sql::work).await
    }

    async fn letters(
        &self,
        queue: EntityId,
        after: DueCursor,
        until: Timestamp,
        limit: usize,
    ) -> Result<Vec<Letter>, StoreError> {
        let params = (queue.0, after.due_at.0, after.position, until.0, count(limit));
        self.list(queues::LETTERS, params, queues::letter).await
    }

    async fn leased(
        &self,
        queue: EntityId,
        at: Timestamp,
        limit: usize,
    ) -> Result<Vec<Letter>, StoreError> {
        self.list(queues::LEASED, (queue.0, at.0, count(limit)), queues::letter).await
    }

    async fn dead_letters(
        &self,
        queue: EntityId,
        after: Position,
        limit: usize,
    ) -> Result<Vec<Recorded>, StoreError> {
        self.list(queries::DEAD_LETTERS, (queue.0, after, count(limit)), sql::recorded).await
    }

    async fn queue_depth(&self, queue: EntityId, at: Timestamp) -> Result<QueueDepth, StoreError> {
        let params = (queue.0, at.0, count(DEPTH_SEEN_MAX));
        let depth = self.list(queues::DEPTH, params, queues::depth).await?;
        Ok(depth.into_iter().next().unwrap_or_default())
    }

    async fn next_due(
        &self,
        queue: EntityId,
        after: Timestamp,
    ) -> Result<Option<Timestamp>, StoreError> {
        Ok(self.list(queues::NEXT_DUE, (queue.0, after.0), |row| row.time(0)).await?.pop())
    }

    async fn unswept(&self, limit: usize) -> Result<Vec<(Position, Timestamp)>, StoreError> {
        self.list(queries::SWEEP, (count(limit),), sql::sweep_row).await
    }

    async fn expiring(
        &self,
        list: ExpiryList,
        until: Timestamp,
        limit: usize,
    ) -> Result<Vec<Expiring>, StoreError> {
        let params = (list.tag(), until.0, count(limit));
        self.list(expiry::EXPIRING, params, expiry::expiring).await
    }

    async fn expired_keys(&self, at: Timestamp, limit: usize) -> Result<Vec<KeyName>, StoreError> {
        self.list(expiry::EXPIRED_KEYS, (at.0, count(limit)), expiry::key_name).await
    }

    async fn head(&self, entity: EntityId) -> Result<Option<Head>, StoreError> {
        Ok(self.list(queries::HEAD, (entity.0,), sql::head).await?.pop())
    }

    async fn heads(
        &self,
        history_over: i64,
        after: Position,
        limit: usize,
    ) -> Result<Vec<Head>, StoreError> {
        let statement = queries::heads(history_over);
        self.list(statement, (history_over, after, count(limit)), sql::head).await
    }

    async fn classes(
        &self,
        kind: EntityKind,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<String>, StoreError> {
        let from = queries::behind_class(kind, after);
        self.list(queries::CLASSES, (kind.tag(), from, count(limit)), |row| row.text(0)).await
    }

    async fn objects(
        &self,
        class: &str,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<ObjectSummary>, StoreError> {
        let names = queries::names(prefix, after);
        let (from, until) = queries::addresses(EntityKind::Object, class, &names);
        self.list(queries::OBJECTS, (from, until, count(limit)), sql::object_summary).await
    }

    async fn count_objects(&self, class: &str, max: usize) -> Result<usize, StoreError> {
        let names = queries::names("", None);
        let (from, until) = queries::addresses(EntityKind::Object, class, &names);
        let params = (from, until, count(max));
        let found = self.list(queries::COUNT_OBJECTS, params, |row| row.count(0)).await?;
        Ok(found.first().map_or(0, |it| *it as usize))
    }

    async fn images(
        &self,
        entity: EntityId,
        pages: &[RangeInclusive<u32>],
    ) -> Result<Vec<PageImage>, StoreError> {
        let pages = pages.to_vec();
        self.read(move |connection| readers::images(connection, entity, &pages)).await
    }

    async fn turns_back(
        &self,
        from: Position,
        limit: usize,
    ) -> Result<Vec<RecordedTurn>, StoreError> {
        self.list(queries::TURNS_BACK, (from, count(limit)), sql::turn).await
    }

    async fn turn_summaries(
        &self,
        from: Position,
        limit: usize,
    ) -> Result<Vec<TurnSummary>, StoreError> {
        self.list(queries::TURN_SUMMARIES, (from, count(limit)), sql::turn_summary).await
    }

    async fn old_turns(&self, after: Position, limit: usize) -> Result<Vec<OldTurn>, StoreError> {
        self.list(queries::OLD_TURNS, (after, count(limit)), sql::old_turn).await
    }

    async fn run(&self, entity: EntityId) -> Result<Option<RunSummary>, StoreError> {
        Ok(self.list(sql::runs::RUN, (entity.0,), sql::run_summary).await?.pop())
    }

    async fn runs(
        &self,
        filter: RunFilter<'_>,
        after: Option<RunCursor>,
        limit: usize,
    ) -> Result<Vec<RunSummary>, StoreError> {
        let page = sql::runs::Page::new(filter, after);
        self.read(move |connection| runs::list(connection, &page, count(limit))).await
    }

    async fn count_runs(
        &self,
        workflow: &str,
        status: Option<RunStatus>,
        max: usize,
    ) -> Result<usize, StoreError> {
        let workflow = workflow.to_owned();
        self.read(move |connection| runs::count(connection, &workflow, status, count(max))).await
    }

    async fn expired_runs(&self, at: Timestamp, limit: usize) -> Result<Vec<Address>, StoreError> {
        let found = self.list(sql::runs::EXPIRED, (at.0, count(limit)), sql::run_summary).await?;
        Ok(found.into_iter().map(|it| it.run).collect())
    }

    async fn totals(&self) -> Result<Totals, StoreError> {
        let totals = self.list(queries::TOTALS, (), sql::totals).await?;
        Ok(totals.into_iter().next().unwrap_or_default())
    }

    async fn dump(&self) -> Result<Dump, StoreError> {
        self.read(readers::dump).await
    }

    async fn violations(&self) -> Result<Vec<String>, StoreError> {
        self.read(readers::violations).await
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

    async fn close(&self) {
        self.queue.close();
        self.readers.close();
        drop(self.looking.lock().take());
        if let Some(writer) = self.writer.lock().await.take() {
            // A writer that panicked has nothing left to finish.
            let _ = tokio::task::spawn_blocking(move || writer.join()).await;
        }
    }
}
