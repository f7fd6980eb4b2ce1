//! Reads a folder that no process serves. No file in it changes, so it may be a backup or on a
//! read-only file system.

use std::{
    fmt::Write as _,
    fs::{File, TryLockError},
    io::{ErrorKind, Read},
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use rusqlite::{Connection, OpenFlags, config::DbConfig, params};

use super::{
    SqliteOptions,
    file::{BUSY_TIMEOUT, check_foreign, format_of, read_clock},
};
use crate::{OpenError, Owner, sql, store_clock::ClockRecord};

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
pub(super) fn open(options: &SqliteOptions) -> Result<ReadOnlyFile, OpenError> {
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
