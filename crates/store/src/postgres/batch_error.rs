//! Classifies errors of PostgreSQL.

use std::error::Error as _;

use tokio_postgres::{Error, error::SqlState};

use crate::{CommitsLost, StoreError};

/// Why a batch failed.
#[derive(Debug)]
pub(super) enum BatchError {
    /// The connection is lost or the server shuts down. If COMMIT was sent, the outcome is unknown.
    Lost(String),
    /// The disk of the server is full; the transaction is rolled back.
    Full,
    /// The server rejected it and rolled back; a retry may succeed.
    Later(String),
    /// The server rejected it, and a retry would fail: a bug in a commit.
    Bug(String),
    /// Another process has taken over the epoch.
    Fenced,
    /// Acknowledged commits are missing.
    Behind(CommitsLost),
}

impl From<Error> for BatchError {
    fn from(error: Error) -> Self {
        let reason = text(&error);
        let Some(code) = error.code() else { return BatchError::Lost(reason) };
        let class = &code.code()[..2];
        match class {
            _ if *code == SqlState::DISK_FULL => BatchError::Full,
            _ if *code == SqlState::QUERY_CANCELED => BatchError::Later(reason),
            // A server may shut down after the commit.
            "08" | "57" => BatchError::Lost(reason),
            // It is a former primary: reconnecting finds the new one.
            _ if *code == SqlState::READ_ONLY_SQL_TRANSACTION => BatchError::Lost(reason),
            "25" | "40" | "53" | "55" | "58" => BatchError::Later(reason),
            _ => BatchError::Bug(reason),
        }
    }
}

impl BatchError {
    pub(super) fn into_store_error(self, epoch: i64) -> StoreError {
        match self {
            BatchError::Lost(reason) | BatchError::Later(reason) => {
                StoreError::Unavailable { reason }
            }
            BatchError::Full => StoreError::DiskFull,
            BatchError::Bug(reason) => StoreError::Corrupt { reason },
            BatchError::Fenced => StoreError::Fenced { epoch },
            BatchError::Behind(lost) => StoreError::CommitsLost { lost },
        }
    }
}

/// Why the writer stops.
pub(super) enum StopReason {
    /// Another process owns the store.
    Fenced,
    /// Acknowledged commits are missing.
    Behind(CommitsLost),
    /// The store was closed while its database was not reachable.
    Closed,
}

/// The whole error chain in one line: the driver has the server's message in the source.
pub(super) fn text(error: &Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}
