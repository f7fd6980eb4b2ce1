//! Rows of SQLite, and classification of its errors.

use std::cell::Cell;

use rusqlite::{
    Connection, ErrorCode, Params, StatementStatus, ToSql, ffi,
    types::{Null, ToSqlOutput},
};

use crate::{
    StoreError,
    sql::{Fields, Param, Value},
};

/// A row while it is being read.
pub(super) struct Row<'a, 'stmt>(&'a rusqlite::Row<'stmt>);

impl Fields for Row<'_, '_> {
    fn maybe_int(&self, index: usize) -> Result<Option<i64>, StoreError> {
        self.0.get(index).map_err(|error| read_error(&error))
    }

    fn maybe_text(&self, index: usize) -> Result<Option<String>, StoreError> {
        self.0.get(index).map_err(|error| read_error(&error))
    }

    fn maybe_bytes(&self, index: usize) -> Result<Option<Vec<u8>>, StoreError> {
        self.0.get(index).map_err(|error| read_error(&error))
    }
}

thread_local! {
    /// Steps that statements took on this thread since they were last asked for.
    static STEPS: Cell<u64> = const { Cell::new(0) };
}

/// The steps that statements took on this thread since the last call.
pub(super) fn take_steps() -> u64 {
    STEPS.take()
}

/// Runs a statement and passes each row to `take`.
pub(super) fn each_row(
    connection: &Connection,
    statement: &str,
    params: impl Params,
    mut take: impl FnMut(&dyn Fields) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let mut statement = connection.prepare_cached(statement).map_err(|it| read_error(&it))?;
    let mut rows = statement.query(params).map_err(|it| read_error(&it))?;
    while let Some(row) = rows.next().map_err(|it| read_error(&it))? {
        take(&Row(row))?;
    }
    drop(rows);
    let steps = statement.reset_status(StatementStatus::VmStep);
    STEPS.set(STEPS.get() + u64::try_from(steps).unwrap_or(0));
    Ok(())
}

impl ToSql for Value<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        match self {
            Value::Null => Null.to_sql(),
            Value::Int(it) => it.to_sql(),
            Value::Text(it) => it.to_sql(),
            Value::Bytes(it) => it.to_sql(),
            Value::Id(it) => it.0.to_sql(),
        }
    }
}

impl ToSql for Param {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        match self {
            Param::One(it) => it.to_sql(),
            Param::Text(it) => it.to_sql(),
            Param::Bytes(it) => it.to_sql(),
            Param::Many(_) => {
                Err(rusqlite::Error::ToSqlConversionFailure("SQLite takes no lists".into()))
            }
        }
    }
}

/// Converts an error of a read.
pub(super) fn read_error(error: &rusqlite::Error) -> StoreError {
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) | None => {
            StoreError::corrupt(error.to_string())
        }
        Some(_) => StoreError::Unavailable { reason: error.to_string() },
    }
}

/// The class of an error of a transaction.
#[derive(Debug)]
pub(super) enum WriteError {
    /// The disk is full: this batch is rolled back, the store continues.
    Full,
    /// Another process holds the file for the moment.
    Later(String),
    /// The disk or the file is not reliable any more: the store stops.
    Fatal(String),
    /// A statement violated a constraint that the planner should have checked: a bug in one commit;
    /// the others are not affected.
    Bug(String),
}

impl From<rusqlite::Error> for WriteError {
    fn from(error: rusqlite::Error) -> Self {
        let text = error.to_string();
        let extended = error.sqlite_error().map(|it| it.extended_code);
        match error.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => WriteError::Full,
            // The index of the WAL could not grow.
            _ if extended == Some(ffi::SQLITE_IOERR_SHMSIZE) => WriteError::Full,
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => WriteError::Later(text),
            Some(
                ErrorCode::SystemIoFailure
                | ErrorCode::DatabaseCorrupt
                | ErrorCode::NotADatabase
                | ErrorCode::CannotOpen
                | ErrorCode::ReadOnly
                | ErrorCode::PermissionDenied,
            ) => WriteError::Fatal(match extended {
                Some(ffi::SQLITE_IOERR_FSYNC) => format!("flush to disk failed ({text})"),
                _ => text,
            }),
            _ => WriteError::Bug(text),
        }
    }
}

impl From<StoreError> for WriteError {
    fn from(error: StoreError) -> Self {
        WriteError::Fatal(error.to_string())
    }
}

impl WriteError {
    pub(super) fn into_store_error(self) -> StoreError {
        match self {
            WriteError::Full => StoreError::DiskFull,
            WriteError::Later(reason) => StoreError::Unavailable { reason },
            WriteError::Fatal(reason) => StoreError::Failed { reason },
            WriteError::Bug(reason) => StoreError::Corrupt { reason },
        }
    }
}
