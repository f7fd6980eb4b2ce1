//! Connections that only read.

use std::{path::PathBuf, sync::Arc, time::Duration};

use parking_lot::Mutex;
use rusqlite::{Connection, OpenFlags, params_from_iter};
use tokio::sync::Semaphore;

use super::{
    file::keep_plans,
    read_only,
    row::{each_row, read_error},
    same_file::SameFile,
};
use crate::{
    Answer, Query, Setting, StoreError,
    sql::{Dialect, RowReader, Statement},
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
        Self::by(move || open(|| read_only::connect(&database)))
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
