//! Checkpoints of the WAL: concurrent with the writer while it is small, by the writer itself when
//! it has grown, because a log that is always written to never restarts.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicI32, Ordering},
        mpsc::{RecvTimeoutError, SyncSender, sync_channel},
    },
    thread::JoinHandle,
    time::Duration,
};

use rusqlite::{Connection, OpenFlags, hooks::Wal};

use super::{
    disk::{LOOK_EVERY, SameFile},
    file::{self, BUSY_TIMEOUT, LONG_READ},
    row::WriteError,
};
use crate::{Health, writer::Status};

/// New pages in the WAL after which a concurrent checkpoint begins (16 MiB): pages that are written
/// repeatedly in the meantime are copied once.
const BESIDE_PAGES: i32 = 4_096;

/// Pages in the WAL at which the writer stops for a checkpoint (64 MiB).
const PAUSE_PAGES: i32 = 16_384;

/// Maximum wait of the writer for readers, when the WAL must restart.
const READERS_WAIT: Duration = Duration::from_secs(1);

/// A page in the WAL, with its header.
const FRAME_BYTES: u64 = 4_096 + 24;

/// Starts checkpoints at the right time.
pub(super) struct Checkpointer {
    /// The number of pages in the WAL after the last commit.
    wal_pages: Arc<AtomicI32>,
    /// The same when the last checkpoint was requested.
    asked_at: i32,
    /// New pages after which the next one is requested.
    beside_pages: i32,
    /// The maximum.
    pages_max: i32,
    /// The log restarts before the next commit.
    must_restart: bool,
    status: Arc<Status>,
    file: SameFile,
    wake: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// Starts the thread that does checkpoints and looks whether the file is still there. Its
/// connection is opened before: later, another file could have the name.
pub(super) fn start(
    database: &Path,
    status: Arc<Status>,
    bytes_max: u64,
    (file, reserve): (SameFile, u64),
) -> Checkpointer {
    let (wake, woken) = sync_channel::<()>(1);
    let of_thread = status.clone();
    let watched = file.clone();
    let connection = match connect(database) {
        Ok(connection) => Some(connection),
        Err(reason) => {
            tracing::error!(reason, "only the writer does checkpoints");
            None
        }
    };
    let run = move || {
        let mut before = None;
        loop {
            match woken.recv_timeout(LOOK_EVERY) {
                Ok(()) => _ = connection.as_ref().map(|it| checkpoint(it, &of_thread)),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            let concern = watched.look();
            if let Some(reason) = concern
                && concern != before
            {
                of_thread.set_health(Health::Degraded { reason: reason.into() });
            }
            before = concern;
        }
    };
    let thread = std::thread::Builder::new().name("store-checkpoint".into()).spawn(run).ok();
    // The log that is left when the disk is full fits into the space that is kept for deletions.
    let kept = i32::try_from(reserve / 2 / FRAME_BYTES).unwrap_or(i32::MAX);
    let beside_pages = if reserve == 0 { BESIDE_PAGES } else { BESIDE_PAGES.min(kept.max(16)) };
    Checkpointer {
        wal_pages: Arc::default(),
        asked_at: 0,
        beside_pages,
        pages_max: i32::try_from(bytes_max / FRAME_BYTES).unwrap_or(i32::MAX),
        must_restart: false,
        status,
        file,
        wake: Some(wake),
        thread,
    }
}

/// A second connection to the file, which must exist.
fn connect(database: &Path) -> Result<Connection, String> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let opened = Connection::open_with_flags(database, flags);
    let opened = opened.and_then(|it| file::flush_fully(&it).map(|()| it));
    let connection = opened.map_err(|error| error.to_string())?;
    file::check_flushes(&connection)?;
    Ok(connection)
}

impl Checkpointer {
    /// Tracks the size of the WAL.
    pub(super) fn watch(&self, connection: &mut Connection) -> rusqlite::Result<()> {
        let (wal_pages, status) = (self.wal_pages.clone(), self.status.clone());
        let mut before = 0;
        connection.wal_hook(Some(move |_: &mut Wal, pages| {
            wal_pages.store(pages, Ordering::Relaxed);
            // A log that has restarted has fewer.
            let new = if pages < before { pages } else { pages - before };
            before = pages;
            status.count_log(u64::try_from(new).unwrap_or(0) * FRAME_BYTES);
            Ok(())
        }))
    }

    /// Begins a checkpoint if the log has grown, and does one at once on a full disk.
    pub(super) fn after_batch(&mut self, connection: &Connection, is_full: bool) {
        let pages = self.wal_pages.load(Ordering::Relaxed);
        // The WAL has restarted.
        self.asked_at = self.asked_at.min(pages);
        self.must_restart |= self.pages_max <= pages;
        if PAUSE_PAGES <= pages || is_full {
            checkpoint(connection, &self.status);
            self.wal_pages.store(0, Ordering::Relaxed);
        } else if self.asked_at + self.beside_pages <= pages
            && let Some(wake) = &self.wake
        {
            self.asked_at = pages;
            // Full means that it is awake already.
            let _ = wake.try_send(());
        }
    }
}

impl Checkpointer {
    /// Why nothing may be written, as found by a look at the file now.
    pub(super) fn look(&self) -> Option<&SameFile> {
        self.file.look().map(|_| &self.file)
    }

    /// Restarts the WAL before the next commit.
    pub(super) fn restart(&mut self) {
        self.must_restart = true;
    }

    /// Restarts a WAL that is too long or may be damaged, or returns why it cannot, and why nothing
    /// can be written.
    pub(super) fn make_room(&mut self, connection: &Connection) -> Result<(), WriteError> {
        if let Some(reason) = self.file.concern() {
            return Err(WriteError::Later(reason.into()));
        }
        if !self.must_restart {
            return Ok(());
        }
        connection.busy_timeout(READERS_WAIT)?;
        let restart = "PRAGMA wal_checkpoint(RESTART)";
        let is_busy = connection.query_row(restart, (), |row| row.get::<_, bool>(0));
        connection.busy_timeout(BUSY_TIMEOUT)?;
        if is_busy? {
            return Err(WriteError::Later(LONG_READ.into()));
        }
        self.must_restart = false;
        Ok(())
    }
}

impl Drop for Checkpointer {
    fn drop(&mut self) {
        self.wake.take();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn checkpoint(connection: &Connection, status: &Status) {
    let passive = "PRAGMA wal_checkpoint(PASSIVE)";
    match connection.query_row(passive, (), |_| Ok(())).map_err(WriteError::from) {
        Ok(()) => {}
        // A flush may have failed.
        Err(WriteError::Fatal(reason)) => status.set_health(Health::Failed { reason }),
        // The log stays valid and grows; the next attempt may succeed.
        Err(error) => tracing::warn!(error = ?error, "checkpoint failed"),
    }
}
