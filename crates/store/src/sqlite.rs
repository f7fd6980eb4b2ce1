//! The embedded store: one SQLite file, one writer thread, concurrent readers.

mod batch;
mod checkpoint;
mod disk;
mod file;
mod readers;
mod row;
mod writer;

use std::{path::PathBuf, sync::Arc, time::Duration};

use async_trait::async_trait;
use rusqlite::Connection;
use tokio::sync::Mutex;

use self::readers::Readers;
pub use self::readers::peek_entry;
use crate::{
    Activity, Answer, CLOCK_STEP_MAX, Clock, Commit, CommitCallback, Health, Notices, OpenError,
    Owner, Query, Setting, Store, StoreClock, StoreError,
    sql::{MIGRATIONS, Migration},
    writer::{self as shared, Queue, Status},
};

/// Location and limits of an embedded store.
#[derive(Clone, Debug)]
pub struct SqliteOptions {
    /// The data folder; it is created if necessary.
    pub folder: PathBuf,
    /// The clock of this machine.
    pub clock: Arc<dyn Clock>,
    /// Maximum size of the database file in bytes; beyond it a commit is refused as on a full disk.
    pub file_bytes_max: Option<u64>,
    /// Approximate maximum size of the log in bytes. The log restarts when all of it is in the
    /// file, which a long read prevents; beyond this size commits are refused until that read ends.
    pub log_bytes_max: u64,
    /// Disk space that is kept back for deletions on a full disk, at most a 16th of the disk. What
    /// is in the log fits in as well.
    pub reserve_bytes: u64,
    /// A larger step of the clock is reported, and suspends deletion by age.
    pub clock_step_max: Duration,
    /// Whether the store is opened read-only: it must exist, its owner does not change, and every
    /// commit is refused with `read_only`.
    pub read_only: bool,
    /// The migrations that follow the baseline. Tests of the mechanism give their own.
    #[doc(hidden)]
    pub migrations: &'static [Migration],
}

impl SqliteOptions {
    /// A store in this folder, without a size limit.
    pub fn new(folder: impl Into<PathBuf>, clock: Arc<dyn Clock>) -> Self {
        let (file_bytes_max, clock_step_max) = (None, CLOCK_STEP_MAX);
        Self {
            folder: folder.into(),
            clock,
            file_bytes_max,
            log_bytes_max: 1 << 30,
            reserve_bytes: 32 << 20,
            clock_step_max,
            read_only: false,
            migrations: MIGRATIONS,
        }
    }
}

/// A store in one SQLite file of a folder, with one owner.
pub struct SqliteStore {
    queue: Queue,
    readers: Readers,
    status: Arc<Status>,
    /// `None` if it is closed or read-only.
    writer: Mutex<Option<std::thread::JoinHandle<()>>>,
    /// The lock of a read-only store; else the writer has it.
    read_lock: parking_lot::Mutex<Option<std::fs::File>>,
    read_only: bool,
}

impl SqliteStore {
    /// Opens or creates the store. This process owns it until it is closed or the process ends.
    pub fn open(options: SqliteOptions) -> Result<Self, OpenError> {
        if options.read_only {
            return Self::open_read_only(options);
        }
        let opened = file::open(&options)?;
        let clock = StoreClock::new(options.clock, options.clock_step_max, opened.clock);
        let status = Arc::new(Status::new(opened.owner, Arc::new(clock)));
        let (database, log_bytes_max) = (&opened.database, options.log_bytes_max);
        let file = disk::SameFile::new(database.clone());
        let reserve = disk::Reserve::new(&options.folder, options.reserve_bytes);
        let kept = (file.clone(), reserve.bytes());
        let mut checkpointer = checkpoint::start(database, status.clone(), log_bytes_max, kept);
        if let Some(reason) = &opened.unwritten {
            status.set_health(Health::Degraded { reason: reason.to_string() });
            checkpointer.restart();
        }
        let (queue, requests) = shared::queue();
        let writer = writer::Writer {
            connection: opened.connection,
            requests,
            status: status.clone(),
            epoch: opened.owner.epoch,
            is_unwritten: opened.unwritten.is_some(),
            checkpointer,
            known: batch::WriterCache::default(),
            reserve,
            lock: opened.lock,
        };
        let thread = std::thread::Builder::new().name("store-writer".into());
        let handle = thread.spawn(move || writer.run()).map_err(|error| OpenError::Failed {
            what: options.folder.display().to_string(),
            reason: error.to_string(),
        })?;
        let readers = Readers::new(opened.database, file);
        let (writer, read_lock) = (Mutex::new(Some(handle)), parking_lot::Mutex::default());
        Ok(Self { queue, readers, status, writer, read_lock, read_only: false })
    }

    /// Opens a store read-only. The folder does not change.
    fn open_read_only(options: SqliteOptions) -> Result<Self, OpenError> {
        let file = readers::open_read_only(&options)?;
        let clock = StoreClock::new(options.clock, options.clock_step_max, file.clock);
        let status = Arc::new(Status::new(file.owner, Arc::new(clock)));
        let (queue, _) = shared::queue();
        let readers = Readers::unowned(file.database);
        let (writer, read_lock) = (Mutex::default(), parking_lot::Mutex::new(file.lock));
        Ok(Self { queue, readers, status, writer, read_lock, read_only: true })
    }

    /// Reads on one of the reading connections, on a blocking thread.
    async fn on_reader<T: Send + 'static>(
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
}

#[async_trait]
impl Store for SqliteStore {
    fn submit(&self, commit: Commit, answer: CommitCallback) {
        if self.read_only {
            return answer(Err(StoreError::ReadOnly));
        }
        self.queue.submit(commit, answer);
    }

    async fn read(&self, query: Query) -> Result<Answer, StoreError> {
        self.on_reader(|connection| readers::answer(connection, query)).await
    }

    async fn settings(&self) -> Result<Vec<Setting>, StoreError> {
        let read_only = self.read_only;
        self.on_reader(move |connection| readers::settings(connection, read_only)).await
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
        // First, so that no task commits that another one could not read.
        let queue = self.queue.close();
        // Before the writer ends: its connection must be the last one. No other can fold the log.
        self.readers.close().await;
        drop(queue);
        drop(self.read_lock.lock().take());
        if let Some(writer) = self.writer.lock().await.take() {
            // A writer that panicked has nothing left to finish.
            let _ = tokio::task::spawn_blocking(move || writer.join()).await;
        }
    }
}
