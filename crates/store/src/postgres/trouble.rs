//! Classifies errors of PostgreSQL.

use std::error::Error as _;

use tokio_postgres::{Error, error::SqlState};

use crate::{CommitsLost, StoreError};

/// Why a batch failed.
#[derive(Debug)]
pub(super) enum Trouble {
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

impl From<Error> for Trouble {
    fn from(error: Error) -> Self {
        let reason = text(&error);
        let Some(code) = error.code() else { return Trouble::Lost(reason) };
        let class = &code.code()[..2];
        match class {
            _ if *code == SqlState::DISK_FULL => Trouble::Full,
            _ if *code == SqlState::QUERY_CANCELED => Trouble::Later(reason),
            // A server may shut down after the commit.
            "08" | "57" => Trouble::Lost(reason),
            // It is a former primary: reconnecting finds the new one.
            _ if *code == SqlState::READ_ONLY_SQL_TRANSACTION => Trouble::Lost(reason),
            "25" | "40" | "53" | "55" | "58" => Trouble::Later(reason),
            _ => Trouble::Bug(reason),
        }
    }
}

impl Trouble {
    pub(super) fn into_store_error(self, epoch: i64) -> StoreError {
        match self {
            Trouble::Lost(reason) | Trouble::Later(reason) => StoreError::Unavailable { reason },
            Trouble::Full => StoreError::DiskFull,
            Trouble::Bug(reason) => StoreError::Corrupt { reason },
            Trouble::Fenced => StoreError::Fenced { epoch },
            Trouble::Behind(lost) => StoreError::CommitsLost { lost },
        }
    }
}

/// Why the writer stops.
pub(super) enum Stop {
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
