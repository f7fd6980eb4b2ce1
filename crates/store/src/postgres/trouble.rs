//! What an error of PostgreSQL means to a batch.

use std::error::Error as _;

use tokio_postgres::{Error, error::SqlState};

use crate::{CommitsLost, StoreError};

/// Why a batch did not go through.
#[derive(Debug)]
pub(super) enum Trouble {
    /// The connection is gone or the server goes away. If COMMIT was sent, nobody knows yet.
    Lost(String),
    /// The disk of the server is full; the transaction is rolled back.
    Full,
    /// The server said no and rolled back; another time it may say yes.
    Later(String),
    /// The server said no and always will: a bug in a commit.
    Bug(String),
    /// Our epoch is over.
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
            // A server that shuts down may do so after the commit.
            "08" | "57" => Trouble::Lost(reason),
            // It was the primary: the new one is found by connecting again.
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

/// Why the writer cannot go on.
pub(super) enum Stop {
    /// Somebody else owns the store.
    Fenced,
    /// Acknowledged commits are missing.
    Behind(CommitsLost),
    /// The store was closed while its database was away.
    Closed,
}

/// The whole story of an error in one line: the driver hides what the server said in the source.
pub(super) fn text(error: &Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}
