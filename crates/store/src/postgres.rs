//! The shared store: a PostgreSQL database, one writer thread with batched arrays, readers in a
//! pool.

mod batch;
mod batch_error;
mod connect;
mod loss;
mod node;
mod owner;
mod read;
mod recover;
mod tls;
mod writer;
mod writer_thread;

use std::sync::Arc;

use async_trait::async_trait;
use deadpool_postgres::Pool;
use futures_util::FutureExt;
use tokio::sync::Mutex;
use tokio_postgres::{Client, Error};

pub use self::connect::PostgresOptions;
use self::{
    connect::Target,
    loss::{Lineages, Memo},
    node::WriterLink,
    writer::Writer,
    writer_thread::WriterThread,
};
use crate::{
    Activity, Answer, Commit, CommitCallback, Health, Notices, OpenError, Owner, Query, Setting,
    Store, StoreClock, StoreError,
    writer::{self as shared, Queue, Status},
};

/// A store in a PostgreSQL database, with one owner.
pub struct PostgresStore {
    queue: Queue,
    pool: Pool,
    status: Arc<Status>,
    link: Arc<WriterLink>,
    lineages: Lineages,
    /// `None` if it is closed.
    writer: Mutex<Option<WriterThread>>,
}

impl PostgresStore {
    /// Reads one entry of a database without becoming its owner and without a migration. `None` if
    /// there is no such entry, or no store yet.
    #[crate::boxed]
    pub async fn peek_entry(
        url: &str,
        space: &str,
        key: &[u8],
    ) -> Result<Option<String>, OpenError> {
        let target = Target::parse(url)?;
        let failed = |error| target.failed(&error);
        let session = target.connect().await.map_err(failed)?;
        if !node::exists(&session.client, "entry").await.map_err(failed)? {
            return Ok(None);
        }
        let value = "SELECT value FROM entry WHERE space = $1 AND key = $2";
        let row = session.client.query_opt(value, &[&space, &key]).await.map_err(failed)?;
        Ok(row.and_then(|row| row.get(0)))
    }

    /// Opens or creates the store. This process owns it until it is closed, or until its lease
    /// expires.
    #[crate::boxed]
    pub async fn open(options: PostgresOptions) -> Result<Self, OpenError> {
        let mut target = Target::parse(&options.url)?;
        target.lease = options.lease;
        let database = target.name.clone();
        let opened = WriterThread::start(database, Self::open_here(target, options).boxed()).await;
        let (mut store, writer) = opened?;
        store.writer = Mutex::new(Some(writer));
        Ok(store)
    }

    /// Gives the store a name, if it has none, so that the note of this machine is of this store.
    async fn name(client: &Client) -> Result<String, Error> {
        loop {
            if let Some(name) = loss::name_of(client).await? {
                return Ok(name);
            }
            let sql = "INSERT INTO entry (space, key, revision, value, changed_at) \
                 VALUES ($1, $2, 1, to_json(gen_random_uuid()::text)::text, 0) \
                 ON CONFLICT DO NOTHING";
            client.execute(sql, &[&loss::NAME.0, &loss::NAME.1]).await?;
        }
    }

    /// Opens the store and its writer. Its connections are driven by the runtime that runs this.
    async fn open_here(
        target: Target,
        options: PostgresOptions,
    ) -> Result<(Self, Writer), OpenError> {
        let mut session = target.connect().await.map_err(|error| target.failed(&error))?;
        let held = owner::take(&mut session, &target, &options).await?;
        let clock = owner::clock(&session.client).await.map_err(|error| target.failed(&error))?;
        let clock = StoreClock::new(options.clock, options.clock_step_max, clock);
        let status = Arc::new(Status::new(held.owner, Arc::new(clock)));
        status.set_lease(held.asked_at + node::answers(target.lease));
        let link = Arc::new(WriterLink::new(held.owner.epoch, held.position));
        let memo = match options.memo {
            Some(file) => {
                let name = Self::name(&session.client).await;
                let name = name.map_err(|error| target.failed(&error))?;
                let lineage = held.lineages.current();
                Some(Memo::new(file, name, held.process.clone(), lineage))
            }
            None => None,
        };
        let (queue, requests) = shared::queue();
        let pool = target.pool(link.clone())?;
        let lineages = held.lineages.clone();
        let shared = (status.clone(), link.clone(), memo);
        let writer = Writer::new(target, session, requests, shared, held).await?;
        Ok((Self { queue, pool, status, link, lineages, writer: Mutex::default() }, writer))
    }
}

#[async_trait]
impl Store for PostgresStore {
    fn submit(&self, commit: Commit, answer: CommitCallback) {
        self.queue.submit(commit, answer);
    }

    async fn read(&self, query: Query) -> Result<Answer, StoreError> {
        self.answer(query).await
    }

    async fn settings(&self) -> Result<Vec<Setting>, StoreError> {
        let mut found = self.list(read::SETTINGS, read::setting).await?;
        found.extend(self.list(read::OLDEST, read::oldest).await?);
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
        drop(self.queue.close());
        self.pool.close();
        if let Some(writer) = self.writer.lock().await.take() {
            writer.join().await;
        }
    }
}
