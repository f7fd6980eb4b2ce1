//! Opening the file: the lock, the settings, the schema, the epoch.

use std::{
    fs::{File, TryLockError},
    io::{ErrorKind, Read, Write},
    path::{Path, PathBuf},
    time::Duration,
};

use rusqlite::{Connection, ErrorCode, config::DbConfig, ffi, params, types::Value};

use super::SqliteOptions;
use crate::{
    OpenError, Owner, StoreError, Timestamp, private, process,
    sql::{self, Migration, queries},
    store_clock::ClockRecord,
};

/// "stdf", so that tools can identify the file.
const APPLICATION_ID: i32 = 0x7374_6466;

/// Why the log cannot restart.
pub(super) const LONG_READ: &str = "a long read keeps the log from restarting; end that program";

/// Maximum wait for another program that has the file.
pub(super) const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// The result of opening.
pub(super) struct OpenedFile {
    pub(super) connection: Connection,
    pub(super) database: PathBuf,
    pub(super) owner: Owner,
    /// Why the owner is not written yet, if it is not: the first commit restarts the log and writes
    /// it.
    pub(super) unwritten: Option<StoreError>,
    pub(super) clock: ClockRecord,
    pub(super) lock: File,
}

pub(super) fn open(options: &SqliteOptions) -> Result<OpenedFile, OpenError> {
    let folder = &options.folder;
    let failed = |reason: String| OpenError::Failed { what: folder.display().to_string(), reason };
    make_folder(folder).map_err(|error| failed(error.to_string()))?;
    let lock = take_lock(folder)?;
    let database = folder.join("steadfast.db");
    keep_private(folder, &database).map_err(|error| failed(error.to_string()))?;
    let mut connection = Connection::open(&database).map_err(|error| failed(error.to_string()))?;
    let is_new = check_foreign(&connection, &database)?;
    if is_new {
        settle_new(&connection).map_err(|error| failed(error.to_string()))?;
    }
    settle(&connection, options).map_err(|error| failed(error.to_string()))?;
    check_flushes(&connection).map_err(failed)?;
    let kept = fold_log(&connection).map_err(|error| failed(error.to_string()))?;
    migrate(&mut connection, folder, options.migrations)?;
    let owner = next_owner(&connection).map_err(|error| failed(error.to_string()))?;
    let unwritten = match kept {
        Some(reason) => Some(reason),
        None => match write_owner(&connection, owner.epoch) {
            Ok(true) => None,
            Ok(false) => return Err(failed("another process has become its owner".into())),
            // Everything can be read; that is better than no server at all.
            Err(error) if is_full(&error) => Some(StoreError::DiskFull),
            Err(error) => return Err(failed(error.to_string())),
        },
    };
    let clock = read_clock(&connection).map_err(|error| failed(error.to_string()))?;
    // The names of new files must survive a power failure as well.
    sync_folder(folder).map_err(|error| failed(error.to_string()))?;
    Ok(OpenedFile { connection, database, owner, unwritten, clock, lock })
}

fn make_folder(folder: &Path) -> std::io::Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    // Each new folder is a name in its parent, which must survive a power failure.
    let parent = folder.parent().filter(|it| !it.as_os_str().is_empty());
    parent.map_or(Ok(()), make_folder)?;
    private::make_folder(folder)?;
    sync_folder(parent.unwrap_or(Path::new(".")))
}

fn sync_folder(folder: &Path) -> std::io::Result<()> {
    File::open(folder)?.sync_all()
}

fn take_lock(folder: &Path) -> Result<File, OpenError> {
    let what = folder.display().to_string();
    let path = folder.join("steadfast.lock");
    let opened = private::open_file(&path);
    let failed = |error: std::io::Error| OpenError::Failed {
        what: what.clone(),
        reason: format!("lock file: {error}"),
    };
    let mut file = opened.map_err(failed)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let mut owner = String::new();
            let _ = file.read_to_string(&mut owner);
            return Err(OpenError::Taken { what, owner: owner.trim().to_owned() });
        }
        Err(TryLockError::Error(error)) => return Err(failed(error)),
    }
    // It overwrites the existing text, which takes no space.
    let owner = format!("{}\n", process::describe());
    let written = file.write_all(owner.as_bytes()).and_then(|()| file.set_len(owner.len() as u64));
    match written {
        Ok(()) => Ok(file),
        Err(error) if error.kind() == ErrorKind::StorageFull => Ok(file),
        Err(error) => Err(failed(error)),
    }
}

/// The database is private from the beginning; SQLite gives its log the same rights. Rights of
/// others that a user has granted are removed.
fn keep_private(folder: &Path, database: &Path) -> std::io::Result<()> {
    private::open_file(database)?;
    let tightened = private::tighten(folder).map_err(|error| {
        std::io::Error::other(format!("its permissions could not be restricted: {error}"))
    })?;
    for path in tightened {
        tracing::warn!(path = %path.display(), "removed the rights of others");
    }
    Ok(())
}

/// Durability depends on these settings, so they are read back.
pub(super) fn check_flushes(connection: &Connection) -> Result<(), String> {
    let read = |name: &str| {
        let value = connection.pragma_query_value(None, name, |row| row.get::<_, Value>(0));
        value.map_err(|error| format!("setting `{name}` could not be read: {error}"))
    };
    for (name, wanted) in [
        ("journal_mode", Value::Text("wal".into())),
        ("synchronous", Value::Integer(2)),
        ("fullfsync", Value::Integer(1)),
        ("checkpoint_fullfsync", Value::Integer(1)),
    ] {
        let found = read(name)?;
        if found != wanted {
            return Err(format!("setting `{name}` is {found:?} and not {wanted:?}"));
        }
    }
    Ok(())
}

/// Refuses the database of another program. `true` if there is nothing in it yet.
pub(super) fn check_foreign(connection: &Connection, database: &Path) -> Result<bool, OpenError> {
    let foreign =
        |reason: String| OpenError::Foreign { what: database.display().to_string(), reason };
    let read =
        |pragma: &str| connection.pragma_query_value(None, pragma, |row| row.get::<_, i32>(0));
    let pages = read("page_count").map_err(|error| foreign(error.to_string()))?;
    let id = read("application_id").map_err(|error| foreign(error.to_string()))?;
    if pages == 0 || id == APPLICATION_ID {
        return Ok(pages == 0);
    }
    // A crash during the first start may leave our file without its id.
    let tables = connection.query_row("SELECT count(*) FROM sqlite_schema", (), |row| row.get(0));
    match (id, tables.map_err(|error| foreign(error.to_string()))?) {
        (0, 0) => Ok(true),
        (id, tables) => Err(foreign(format!("application id {id}, {tables} tables and indexes"))),
    }
}

/// Without it SQLite compiles statements again for each new parameter, in search of a better plan.
pub(super) fn keep_plans(connection: &Connection) -> rusqlite::Result<()> {
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true).map(drop)
}

/// Where a plain fsync leaves data in the cache of the drive (macOS), request a full one.
pub(super) fn flush_fully(connection: &Connection) -> rusqlite::Result<()> {
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "fullfsync", true)?;
    connection.pragma_update(None, "checkpoint_fullfsync", true)
}

/// Writes the log of the last process into the file, and restarts the log. Its last flush may have
/// failed: then the log looks complete as long as the machine runs, and only this writes it again.
/// Returns why the log was kept, if it was: a commit behind it could be lost with it.
fn fold_log(connection: &Connection) -> rusqlite::Result<Option<StoreError>> {
    let fold = "PRAGMA wal_checkpoint(TRUNCATE)";
    let kept = match connection.query_row(fold, (), |row| row.get::<_, bool>(0)) {
        Ok(false) => return Ok(None),
        Ok(true) => StoreError::Unavailable { reason: LONG_READ.into() },
        Err(error) if is_full(&error) => StoreError::DiskFull,
        Err(error) => return Err(error),
    };
    tracing::warn!(reason = %kept, "the log of the last process was not written into the file");
    Ok(Some(kept))
}

fn is_full(error: &rusqlite::Error) -> bool {
    // There is no space for the index of the log.
    let no_index = error.sqlite_extended_error_code() == Some(ffi::SQLITE_IOERR_SHMSIZE);
    no_index || error.sqlite_error_code() == Some(ErrorCode::DiskFull)
}

/// Settings that are written to the file.
fn settle_new(connection: &Connection) -> rusqlite::Result<()> {
    connection.pragma_update(None, "page_size", 4096)?;
    connection.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
    connection.pragma_update(None, "application_id", APPLICATION_ID)
}

fn settle(connection: &Connection, options: &SqliteOptions) -> rusqlite::Result<()> {
    connection.set_prepared_statement_cache_capacity(64);
    keep_plans(connection)?;
    connection.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))?;
    flush_fully(connection)?;
    // Checkpoints run on another thread, see `checkpoint`.
    connection.pragma_update_and_check(None, "wal_autocheckpoint", 0, |_| Ok(()))?;
    connection.pragma_update_and_check(None, "journal_size_limit", 64 << 20, |_| Ok(()))?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.pragma_update(None, "cache_size", -12_288)?;
    connection.pragma_update(None, "trusted_schema", false)?;
    if let Some(bytes) = options.file_bytes_max {
        let pages = i64::try_from(bytes / 4096).unwrap_or(i64::MAX);
        connection.pragma_update_and_check(None, "max_page_count", pages, |_| Ok(()))?;
    }
    Ok(())
}

/// The number of the format; `None` if there are no tables yet.
pub(super) fn format_of(connection: &Connection) -> rusqlite::Result<Option<i64>> {
    if !connection.table_exists(None, "meta")? {
        return Ok(None);
    }
    connection.query_row(sql::FORMAT, (), |row| row.get(0))
}

/// Applies the missing migrations in one transaction.
fn migrate(
    connection: &mut Connection,
    folder: &Path,
    migrations: &'static [Migration],
) -> Result<(), OpenError> {
    let what = folder.display().to_string();
    let failed = |error: rusqlite::Error| OpenError::Failed {
        what: what.clone(),
        reason: format!("migration: {error}"),
    };
    let tx = connection
        .transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)
        .map_err(failed)?;
    let found = format_of(&tx).map_err(failed)?;
    for (number, migration) in sql::missing(&what, found, migrations)? {
        tx.execute_batch(migration.sqlite).map_err(failed)?;
        tx.execute(sql::SET_FORMAT, [number]).map_err(failed)?;
    }
    tx.commit().map_err(failed)
}

/// Records this process as the owner. `false` if another one was first.
pub(super) fn write_owner(connection: &Connection, epoch: i64) -> rusqlite::Result<bool> {
    let take = format!(
        "UPDATE node SET epoch = ?1, owner = ?2, clean = 0, suspect = {SUSPECT} \
         WHERE epoch = ?1 - 1"
    );
    Ok(connection.execute(&take, params![epoch, process::describe()])? == 1)
}

/// The position up to which messages are suspect, if the last owner had no clean shutdown.
const SUSPECT: &str = "CASE WHEN clean THEN suspect ELSE (SELECT position FROM counter) END";

/// This process as the next owner.
fn next_owner(connection: &Connection) -> rusqlite::Result<Owner> {
    let next = format!("SELECT epoch + 1, {SUSPECT} FROM node");
    let (epoch, suspect): (i64, i64) =
        connection.query_row(&next, (), |row| Ok((row.get(0)?, row.get(1)?)))?;
    let is_suspect: bool =
        connection.query_row(queries::IS_SUSPECT, [suspect], |row| row.get(0))?;
    Ok(Owner { epoch, unclean_until: is_suspect.then_some(suspect) })
}

pub(super) fn read_clock(connection: &Connection) -> rusqlite::Result<ClockRecord> {
    connection.query_row(queries::COUNTER, (), |row| {
        Ok(ClockRecord { at: Timestamp(row.get(1)?), delete_from: Timestamp(row.get(2)?) })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_that_does_not_flush_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let connection = Connection::open(folder.path().join("a.db")).unwrap();
        connection.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(())).unwrap();
        assert!(check_flushes(&connection).is_err());
        flush_fully(&connection).unwrap();
        assert_eq!(check_flushes(&connection), Ok(()));
        for (setting, off) in
            [("synchronous", "NORMAL"), ("fullfsync", "OFF"), ("checkpoint_fullfsync", "OFF")]
        {
            connection.pragma_update(None, setting, off).unwrap();
            let error = check_flushes(&connection).unwrap_err();
            assert!(error.contains(&format!("`{setting}`")), "{error}");
            flush_fully(&connection).unwrap();
        }
    }
}
