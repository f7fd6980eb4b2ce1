//! The shared store: a PostgreSQL database, one writer task with batched arrays, readers in a pool.

mod apply;
mod connect;
mod entries;
mod facts;
mod link;
mod loss;
mod migrate;
mod owner;
mod read;
mod recover;
mod row;
mod runs;
mod settings;
mod tls;
mod trouble;
mod writer;

use std::{collections::HashMap, ops::RangeInclusive, sync::Arc};

use async_trait::async_trait;
use deadpool_postgres::Pool;
use tokio::{sync::Mutex, task::JoinHandle};

pub use self::connect::PostgresOptions;
use self::{link::Link, loss::Lineages, read::Params};
use crate::{
    Activity, Address, Answer, Attempt, Commit, DEPTH_SEEN_MAX, DueCursor, Dump, EntityId,
    EntityKind, Expiring, ExpiryList, Head, Health, KeyName, Letter, Notices, ObjectSummary,
    OldTurn, OpenError, Owner, PageImage, Position, QueueDepth, Recorded, RecordedTurn, RunCursor,
    RunFilter, RunStatus, RunSummary, Setting, Snapshot, Store, StoreClock, StoreError,
    StreamSummary, Timestamp, Totals, TurnSummary, Version, Work,
    sql::{self, Fields, count, expiry, queries, queues},
    writer::{self as shared, Queue, Status},
};

/// Keeps everything in a PostgreSQL database that it owns alone.
pub struct PostgresStore {
    queue: Queue,
    pool: Pool,
    status: Arc<Status>,
    link: Arc<Link>,
    lineages: Lineages,
    writer: Mutex<Option<JoinHandle<()>>>,
}

/// All ranges in one round trip.
const IMAGES: &str = "SELECT i.page, i.seq, i.crc, i.data \
     FROM unnest(?2::BIGINT[], ?3::BIGINT[]) AS part (first, last) \
     JOIN image i ON i.entity = ?1 AND i.page BETWEEN part.first AND part.last ORDER BY i.page";

impl PostgresStore {
    /// Reads one entry of a database without becoming its owner: the owner goes on, and no schema
    /// is brought up to date. `None` if there is no such entry, or no store yet.
    pub async fn peek_entry(
        url: &str,
        space: &str,
        key: &[u8],
    ) -> Result<Option<String>, OpenError> {
        let target = connect::Target::parse(url)?;
        let failed = |error| target.failed(&error);
        let session = target.connect().await.map_err(failed)?;
        if !owner::exists(&session.client, "entry").await.map_err(failed)? {
            return Ok(None);
        }
        let value = "SELECT value FROM entry WHERE space = $1 AND key = $2";
        let row = session.client.query_opt(value, &[&space, &key]).await.map_err(failed)?;
        Ok(row.and_then(|row| row.get(0)))
    }

    /// Opens or makes the store; it is ours until it is closed, or until our lease ends without a
    /// sign of life.
    pub async fn open(options: PostgresOptions) -> Result<Self, OpenError> {
        let target = connect::Target::parse(&options.url)?;
        let mut session = target.connect().await.map_err(|error| target.failed(&error))?;
        let held = owner::take(&mut session, &target, options.accept_loss).await?;
        let clock = owner::clock(&session.client).await.map_err(|error| target.failed(&error))?;
        let clock = StoreClock::new(options.clock, options.clock_step_max, clock);
        let status = Arc::new(Status::new(held.owner, Arc::new(clock)));
        status.set_lease(held.asked_at + owner::ANSWERS);
        let link = Arc::new(Link::new(&held));
        let (queue, requests) = shared::queue();
        let pool = target.pool(link.clone())?;
        let lineages = held.lineages.clone();
        let shared = (status.clone(), link.clone());
        let writer = writer::Writer::new(target, session, requests, shared, held).await?;
        let writer = Mutex::new(Some(tokio::spawn(writer.run())));
        Ok(Self { queue, pool, status, link, lineages, writer })
    }
}

#[async_trait]
impl Store for PostgresStore {
    fn submit(&self, commit: Commit, answer: Answer) {
        self.queue.submit(commit, answer);
    }

    async fn read_stream(
        &self,
        stream: EntityId,
        from: Version,
        limit: usize,
    ) -> Result<Vec<Recorded>, StoreError> {
        let (stream, limit) = (stream.0.as_slice(), count(limit));
        self.messages(queries::READ_STREAM, &[&stream, &from, &limit]).await
    }

    async fn read_all(&self, after: Position, limit: usize) -> Result<Vec<Recorded>, StoreError> {
        self.messages(queries::READ_ALL, &[&after, &count(limit)]).await
    }

    async fn message(&self, position: Position) -> Result<Option<Recorded>, StoreError> {
        Ok(self.messages(queries::MESSAGE, &[&position]).await?.pop())
    }

    async fn pending(
        &self,
        stream: Option<EntityId>,
        after: Position,
        limit: usize,
    ) -> Result<Vec<Recorded>, StoreError> {
        let limit = count(limit);
        match stream {
            None => self.messages(queries::PENDING, &[&after, &limit]).await,
            Some(stream) => {
                let stream = stream.0.as_slice();
                let params: Params<'_> = &[&stream, &after, &limit];
                self.messages(queries::PENDING_OF_STREAM, params).await
            }
        }
    }

    async fn dead(&self, after: Position, limit: usize) -> Result<Vec<Recorded>, StoreError> {
        self.messages(queries::DEAD, &[&after, &count(limit)]).await
    }

    async fn attempts(&self, position: Position) -> Result<Vec<Attempt>, StoreError> {
        self.list(queries::ATTEMPTS, &[&position], sql::attempt).await
    }

    async fn version(&self, stream: EntityId) -> Result<Version, StoreError> {
        let stream = stream.0.as_slice();
        let version = self.list(queries::STREAM, &[&stream], |row| row.maybe_int(2)).await?.pop();
        Ok(version.flatten().unwrap_or(0))
    }

    async fn snapshot(&self, stream: EntityId) -> Result<Option<Snapshot>, StoreError> {
        let stream = stream.0.as_slice();
        Ok(self.list(queries::SNAPSHOT, &[&stream], sql::snapshot).await?.pop())
    }

    async fn streams(
        &self,
        within: Option<(EntityKind, &str)>,
        after: Option<&Address>,
        limit: usize,
    ) -> Result<Vec<StreamSummary>, StoreError> {
        let [(after, end), runs] = queries::bounds(within, after);
        let params: Params<'_> = &[&after, &end, &count(limit), &runs.0, &runs.1];
        self.list(queries::STREAMS, params, sql::stream_summary).await
    }

    async fn addresses(&self, ids: &[EntityId]) -> Result<HashMap<EntityId, Address>, StoreError> {
        let ids: Vec<&[u8]> = ids.iter().map(|id| id.0.as_slice()).collect();
        let sql = "SELECT kind, class, name FROM entity WHERE id = ANY (?1::bytea[])";
        let found = self.list(sql, &[&ids], sql::address).await?;
        Ok(found.into_iter().map(|address| (address.id(), address)).collect())
    }

    async fn settings(&self) -> Result<Vec<Setting>, StoreError> {
        let mut found = self.list(settings::SETTINGS, &[], settings::setting).await?;
        found.extend(self.list(settings::OLDEST, &[], settings::oldest).await?);
        Ok(found)
    }

    async fn due(&self, after: DueCursor, limit: usize) -> Result<Vec<Work>, StoreError> {
        let params: Params<'_> = &[&after.due_at.0, &after.position, &count(limit)];
        self.list(queries::DUE, params, sql::work).await
    }

    async fn backlog(
        &self,
        target: EntityId,
        ordered: bool,
        limit: usize,
    ) -> Result<Vec<Work>, StoreError> {
        let statement = if ordered { queries::BACKLOG_ORDERED } else { queries::BACKLOG };
        self.list(statement, &[&target.0.as_slice(), &count(limit)], sql::work).await
    }

    async fn orphans(
        &self,
        epoch: i64,
        queued: bool,
        limit: usize,
    ) -> Result<Vec<Work>, StoreError> {
        let statement = if queued { queries::QUEUE_ORPHANS } else { queries::ORPHANS };
        self.list(statement, &[&epoch, &count(limit)], sql::work).await
    }

    async fn letters(
        &self,
        queue: EntityId,
        after: DueCursor,
        until: Timestamp,
        limit: usize,
    ) -> Result<Vec<Letter>, StoreError> {
        let (queue, limit) = (queue.0.as_slice(), count(limit));
        let params: Params<'_> = &[&queue, &after.due_at.0, &after.position, &until.0, &limit];
        self.letters_of(queues::LETTERS, params).await
    }

    async fn leased(
        &self,
        queue: EntityId,
        at: Timestamp,
        limit: usize,
    ) -> Result<Vec<Letter>, StoreError> {
        let params: Params<'_> = &[&queue.0.as_slice(), &at.0, &count(limit)];
        self.letters_of(queues::LEASED, params).await
    }

    async fn dead_letters(
        &self,
        queue: EntityId,
        after: Position,
        limit: usize,
    ) -> Result<Vec<Recorded>, StoreError> {
        let params: Params<'_> = &[&queue.0.as_slice(), &after, &count(limit)];
        self.messages(queries::DEAD_LETTERS, params).await
    }

    async fn queue_depth(&self, queue: EntityId, at: Timestamp) -> Result<QueueDepth, StoreError> {
        let params: Params<'_> = &[&queue.0.as_slice(), &at.0, &count(DEPTH_SEEN_MAX)];
        let depth = self.list(queues::DEPTH, params, queues::depth).await?;
        Ok(depth.into_iter().next().unwrap_or_default())
    }

    async fn next_due(
        &self,
        queue: EntityId,
        after: Timestamp,
    ) -> Result<Option<Timestamp>, StoreError> {
        let params: Params<'_> = &[&queue.0.as_slice(), &after.0];
        Ok(self.list(queues::NEXT_DUE, params, |row| row.time(0)).await?.pop())
    }

    async fn unswept(&self, limit: usize) -> Result<Vec<(Position, Timestamp)>, StoreError> {
        self.list(queries::SWEEP, &[&count(limit)], sql::sweep_row).await
    }

    async fn expiring(
        &self,
        list: ExpiryList,
        until: Timestamp,
        limit: usize,
    ) -> Result<Vec<Expiring>, StoreError> {
        let params: Params<'_> = &[&list.tag(), &until.0, &count(limit)];
        self.list(expiry::EXPIRING, params, expiry::expiring).await
    }

    async fn expired_keys(&self, at: Timestamp, limit: usize) -> Result<Vec<KeyName>, StoreError> {
        self.list(expiry::EXPIRED_KEYS, &[&at.0, &count(limit)], expiry::key_name).await
    }

    async fn head(&self, entity: EntityId) -> Result<Option<Head>, StoreError> {
        Ok(self.list(queries::HEAD, &[&entity.0.as_slice()], sql::head).await?.pop())
    }

    async fn heads(
        &self,
        history_over: i64,
        after: Position,
        limit: usize,
    ) -> Result<Vec<Head>, StoreError> {
        let params: Params<'_> = &[&history_over, &after, &count(limit)];
        self.list(queries::heads(history_over), params, sql::head).await
    }

    async fn classes(
        &self,
        kind: EntityKind,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<String>, StoreError> {
        let from = queries::behind_class(kind, after);
        let params: Params<'_> = &[&kind.tag(), &from, &count(limit)];
        self.list(queries::CLASSES, params, |row| row.text(0)).await
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
        let params: Params<'_> = &[&from, &until, &count(limit)];
        self.list(queries::OBJECTS, params, sql::object_summary).await
    }

    async fn count_objects(&self, class: &str, max: usize) -> Result<usize, StoreError> {
        let names = queries::names("", None);
        let (from, until) = queries::addresses(EntityKind::Object, class, &names);
        let params: Params<'_> = &[&from, &until, &count(max)];
        let found = self.list(queries::COUNT_OBJECTS, params, |row| row.count(0)).await?;
        Ok(found.first().map_or(0, |it| *it as usize))
    }

    async fn images(
        &self,
        entity: EntityId,
        pages: &[RangeInclusive<u32>],
    ) -> Result<Vec<PageImage>, StoreError> {
        let first: Vec<i64> = pages.iter().map(|it| i64::from(*it.start())).collect();
        let last: Vec<i64> = pages.iter().map(|it| i64::from(*it.end())).collect();
        self.list(IMAGES, &[&entity.0.as_slice(), &first, &last], sql::image).await
    }

    async fn turns_back(
        &self,
        from: Position,
        limit: usize,
    ) -> Result<Vec<RecordedTurn>, StoreError> {
        self.list(queries::TURNS_BACK, &[&from, &count(limit)], sql::turn).await
    }

    async fn turn_summaries(
        &self,
        from: Position,
        limit: usize,
    ) -> Result<Vec<TurnSummary>, StoreError> {
        self.list(queries::TURN_SUMMARIES, &[&from, &count(limit)], sql::turn_summary).await
    }

    async fn old_turns(&self, after: Position, limit: usize) -> Result<Vec<OldTurn>, StoreError> {
        self.list(queries::OLD_TURNS, &[&after, &count(limit)], sql::old_turn).await
    }

    async fn run(&self, entity: EntityId) -> Result<Option<RunSummary>, StoreError> {
        let entity = entity.0.as_slice();
        Ok(self.list(sql::runs::RUN, &[&entity], sql::run_summary).await?.pop())
    }

    async fn runs(
        &self,
        filter: RunFilter<'_>,
        after: Option<RunCursor>,
        limit: usize,
    ) -> Result<Vec<RunSummary>, StoreError> {
        self.list_runs(&sql::runs::Page::new(filter, after), count(limit)).await
    }

    async fn count_runs(
        &self,
        workflow: &str,
        status: Option<RunStatus>,
        max: usize,
    ) -> Result<usize, StoreError> {
        self.number_of_runs(workflow, status, count(max)).await
    }

    async fn expired_runs(&self, at: Timestamp, limit: usize) -> Result<Vec<Address>, StoreError> {
        let params: Params<'_> = &[&at.0, &count(limit)];
        let found = self.list(sql::runs::EXPIRED, params, sql::run_summary).await?;
        Ok(found.into_iter().map(|it| it.run).collect())
    }

    async fn totals(&self) -> Result<Totals, StoreError> {
        let totals = self.list(queries::TOTALS, &[], sql::totals).await?;
        Ok(totals.into_iter().next().unwrap_or_default())
    }

    async fn dump(&self) -> Result<Dump, StoreError> {
        let counter = |row: &dyn Fields| {
            let [position, at] = [row.int(0)?, row.int(1)?];
            Ok(format!("counter {position} {at} {} {}", row.int(2)?, row.int(3)?))
        };
        let mut rows = self.list(queries::COUNTER, &[], counter).await?;
        rows.extend(self.lines(queries::ALL_ENTITIES, sql::entity_row).await?);
        rows.extend(self.lines(queries::ALL_MESSAGES, sql::message_row).await?);
        rows.extend(self.lines(queries::ALL_WORKS, sql::work).await?);
        rows.extend(self.lines(queries::ALL_OUTCOMES, sql::settled_row).await?);
        rows.extend(self.lines(queries::ALL_ATTEMPTS, sql::attempt).await?);
        rows.extend(self.lines(queries::ALL_SNAPSHOTS, sql::snapshot).await?);
        rows.extend(self.lines(queries::ALL_KEYS, sql::key_row).await?);
        rows.extend(self.lines(queries::ALL_HEADS, sql::head).await?);
        rows.extend(self.lines(queries::ALL_TURNS, sql::turn).await?);
        rows.extend(self.lines(queries::ALL_IMAGES, sql::owned_image).await?);
        rows.extend(self.lines(sql::runs::ALL_RUNS, sql::run_summary).await?);
        rows.extend(self.lines(sql::entries::ALL_ENTRIES, sql::entries::entry).await?);
        rows.extend(self.lines(expiry::ALL_EXPIRING, expiry::expiring).await?);
        rows.extend(self.lines(expiry::ALL_DEPTHS, expiry::depth_row).await?);
        Ok(Dump { rows })
    }

    async fn violations(&self) -> Result<Vec<String>, StoreError> {
        let mut found = Vec::new();
        for (what, statement) in queries::VIOLATIONS {
            for count in self.list(statement, &[], |row| row.int(0)).await? {
                if 0 < count {
                    found.push(format!("{count} {what}"));
                }
            }
        }
        Ok(found)
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

    fn check_lease(&self) -> Result<(), StoreError> {
        self.status.check_lease()
    }

    fn activity(&self) -> Activity {
        self.status.activity()
    }

    async fn close(&self) {
        self.queue.close();
        self.pool.close();
        if let Some(writer) = self.writer.lock().await.take() {
            // A writer that panicked has nothing left to finish.
            let _ = writer.await;
        }
    }
}
