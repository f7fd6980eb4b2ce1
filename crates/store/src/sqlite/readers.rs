//! Connections that only read: of an open store, and of a store that nobody owns.

use std::{
    fmt::Write as _,
    fs::{File, TryLockError},
    io::{ErrorKind, Read},
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use rusqlite::{Connection, OpenFlags, config::DbConfig, params, params_from_iter};
use tokio::sync::Semaphore;

use super::{
    SqliteOptions,
    disk::SameFile,
    file::{BUSY_TIMEOUT, check_foreign, format_of, keep_plans, read_clock},
    row::{each_row, read_error},
};
use crate::{
    Answer, OpenError, Owner, Query, Setting, StoreError,
    sql::{self, Dialect, RowReader, Statement},
    store_clock::ClockRecord,
};

/// Maximum concurrent reads.
const READERS_MAX: usize = 4;

/// Maximum wait for reads in flight when the store is closed.
const READS_END: Duration = Duration::from_secs(5);

type OpenConnection = Arc<dyn Fn() -> Result<Connection, StoreError> + Send + Sync>;

/// A pool of reading connections, opened when they are needed.
pub(super) struct Readers {
    open: OpenConnection,
    permits: Arc<Semaphore>,
    idle: Arc<Mutex<Vec<Connection>>>,
}

impl Readers {
    /// Reads a database that this process owns.
    pub(super) fn new(database: PathBuf, file: SameFile) -> Self {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        Self::by(move || {
            let opened = open(|| Connection::open_with_flags(&database, flags))?;
            match file.look() {
                None => Ok(opened),
                Some(reason) => Err(StoreError::Unavailable { reason: reason.into() }),
            }
        })
    }

    /// Reads a database that no process owns, and changes no file.
    pub(super) fn unowned(database: PathBuf) -> Self {
        Self::by(move || open(|| connect(&database)))
    }

    fn by(open: impl Fn() -> Result<Connection, StoreError> + Send + Sync + 'static) -> Self {
        let permits = Arc::new(Semaphore::new(READERS_MAX));
        Self { open: Arc::new(open), permits, idle: Arc::default() }
    }

    pub(super) async fn run<T: Send + 'static>(
        &self,
        f: impl FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let permit = self.permits.clone().acquire_owned().await.map_err(|_| StoreError::Closed)?;
        let (connect, idle) = (self.open.clone(), self.idle.clone());
        let read: Box<dyn FnOnce() -> Result<T, StoreError> + Send> = Box::new(move || {
            let kept = idle.lock().pop();
            let connection = kept.map_or_else(|| connect(), Ok)?;
            let result = f(&connection);
            idle.lock().push(connection);
            drop(permit);
            result
        });
        let read = tokio::task::spawn_blocking(read).await;
        read.unwrap_or_else(|error| Err(StoreError::Unavailable { reason: error.to_string() }))
    }

    /// Closes all connections. The last connection that is closed folds the log, and only the
    /// writer can: reads in flight end first.
    pub(super) async fn close(&self) {
        let all = self.permits.acquire_many(READERS_MAX as u32);
        let _all = tokio::time::timeout(READS_END, all).await;
        self.permits.close();
        self.idle.lock().clear();
    }
}

fn open(connect: impl FnOnce() -> rusqlite::Result<Connection>) -> Result<Connection, StoreError> {
    let opened = connect().and_then(|connection| {
        connection.set_prepared_statement_cache_capacity(64);
        keep_plans(&connection)?;
        connection.pragma_update(None, "cache_size", -2_048)?;
        connection.busy_timeout(Duration::from_secs(5))?;
        Ok(connection)
    });
    opened.map_err(|error| read_error(&error))
}

/// Runs the statements of a query.
pub(super) fn answer(connection: &Connection, query: Query) -> Result<Answer, StoreError> {
    let mut answer = query.no_rows();
    let statements = query.statements(Dialect::Sqlite);
    // Several statements share a transaction, so that all rows are of one snapshot.
    let is_many = 1 < statements.len();
    let snapshot = is_many.then(|| connection.unchecked_transaction()).transpose();
    let _snapshot = snapshot.map_err(|error| read_error(&error))?;
    for Statement { sql, params, text } in &statements {
        each_row(connection, sql, params_from_iter(params), |row| answer.add(row, *text))?;
    }
    Ok(answer)
}

/// The mode of a file that is read without its log cannot be read.
pub(super) fn settings(
    connection: &Connection,
    read_only: bool,
) -> Result<Vec<Setting>, StoreError> {
    let read = |name: &str, expected: Option<&str>| {
        let sql = format!("SELECT CAST({name} AS TEXT) FROM pragma_{name}");
        let mut value = String::new();
        each_row(connection, &sql, (), |row| {
            value = RowReader::new(row).text()?;
            Ok(())
        })?;
        let concern = expected
            .filter(|it| *it != value)
            .map(|it| format!("should be {it}; this file was changed by another program"));
        Ok::<Setting, StoreError>(Setting { name: name.into(), value, concern })
    };
    let version =
        Setting { name: "sqlite version".into(), value: rusqlite::version().into(), concern: None };
    Ok(vec![
        version,
        read("journal_mode", (!read_only).then_some("wal"))?,
        read("page_size", Some("4096"))?,
        read("page_count", None)?,
        read("freelist_count", None)?,
    ])
}

/// The result of opening read-only.
pub(super) struct ReadOnlyFile {
    pub(super) database: PathBuf,
    /// The last owner; it does not change.
    pub(super) owner: Owner,
    pub(super) clock: ClockRecord,
    /// `None` in a copy without the file.
    pub(super) lock: Option<File>,
}

/// Opens a store read-only.
pub(super) fn open_read_only(options: &SqliteOptions) -> Result<ReadOnlyFile, OpenError> {
    let (folder, what) = (&options.folder, options.folder.display().to_string());
    let failed = |reason: String| OpenError::Failed { what: what.clone(), reason };
    let database = folder.join("steadfast.db");
    if !database.is_file() {
        return Err(failed("there is no steadfast.db in it".into()));
    }
    let lock = take_lock(folder)?;
    let connection = connect(&database).map_err(|error| failed(error.to_string()))?;
    if check_foreign(&connection, &database)? {
        return Err(failed("there is nothing in it".into()));
    }
    let known = sql::newest(options.migrations);
    let found = format_of(&connection).map_err(|error| failed(error.to_string()))?.unwrap_or(0);
    if found != known {
        return Err(OpenError::Format { what, found, known });
    }
    let read = || {
        let epoch = connection.query_row("SELECT epoch FROM node", (), |row| row.get(0))?;
        Ok((Owner { epoch, unclean_until: None }, read_clock(&connection)?))
    };
    let (owner, clock) = read().map_err(|error: rusqlite::Error| failed(error.to_string()))?;
    Ok(ReadOnlyFile { database, owner, clock, lock })
}

/// Reads one entry of a data folder, even if it has an owner and whatever its schema is. `None` if
/// there is none, or if it cannot be read.
pub fn peek_entry(folder: &Path, space: &str, key: &[u8]) -> Option<String> {
    let database = folder.join("steadfast.db");
    // An owner has a log, and shares its index.
    let connection = match beside(&database, "-wal").exists() {
        true => Connection::open_with_flags(&database, FLAGS),
        false => connect(&database),
    };
    let connection = connection.ok()?;
    connection.busy_timeout(BUSY_TIMEOUT).ok()?;
    let value = "SELECT value FROM entry WHERE space = ?1 AND key = ?2";
    connection.query_row(value, params![space, key], |row| row.get(0)).ok()
}

const FLAGS: OpenFlags = OpenFlags::SQLITE_OPEN_READ_ONLY.union(OpenFlags::SQLITE_OPEN_NO_MUTEX);

/// Opens a connection that changes no file and locks none: nobody writes. Without a log SQLite
/// needs no other file. With one, it keeps the index of the log in memory.
pub(super) fn connect(database: &Path) -> rusqlite::Result<Connection> {
    let has_log = beside(database, "-wal").exists();
    let how = if has_log { "mode=ro&vfs=unix-none" } else { "immutable=1" };
    let mut uri = String::from("file:");
    for byte in database.as_os_str().as_bytes() {
        // Writing to a string does not fail.
        let _ = match byte {
            b'/' | b'.' | b'-' | b'_' => write!(uri, "{}", char::from(*byte)),
            it if it.is_ascii_alphanumeric() => write!(uri, "{}", char::from(*it)),
            it => write!(uri, "%{it:02X}"),
        };
    }
    let flags = FLAGS | OpenFlags::SQLITE_OPEN_URI;
    let connection = Connection::open_with_flags(format!("{uri}?{how}"), flags)?;
    if has_log {
        connection.execute_batch("PRAGMA locking_mode = EXCLUSIVE")?;
        // A log without contents is not removed.
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    }
    Ok(connection)
}

fn beside(database: &Path, suffix: &str) -> PathBuf {
    let mut name = database.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Locks the folder and leaves the name of its last owner in the file.
fn take_lock(folder: &Path) -> Result<Option<File>, OpenError> {
    let what = folder.display().to_string();
    let failed =
        |error: std::io::Error| OpenError::Failed { what: what.clone(), reason: error.to_string() };
    let mut file = match File::open(folder.join("steadfast.lock")) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => {
            let mut owner = String::new();
            let _ = file.read_to_string(&mut owner);
            Err(OpenError::Taken { what, owner: owner.trim().to_owned() })
        }
        Err(TryLockError::Error(error)) => Err(failed(error)),
    }
}
