//! Errors of user code, and of a program that does not start.

use std::fmt;

use serde::{Deserialize, Serialize};
use steadfast_bucket::BucketError;
use steadfast_store::{OpenError, StoreError};

/// Why a program did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Its declaration has problems. Nothing was opened.
    #[error("the program cannot start:\n{}", problems.join("\n"))]
    Program {
        /// Every reason.
        problems: Vec<String>,
    },
    /// The folder or database cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The store belongs to another program. Nothing was written.
    #[error(
        "this store belongs to the program `{owner}`, not to `{program}`; give `{program}` a \
         folder or database of its own, take this one over with `--adopt`, or look at it with \
         `inspect`"
    )]
    Foreign {
        /// The program that the store belongs to.
        owner: String,
        /// The program that was to start.
        program: String,
    },
    /// The store could not be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A declared bucket could not be opened or created.
    #[error(transparent)]
    Bucket(#[from] BucketError),
}

/// The result of handlers, jobs and consumers.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of user code. Every `std::error::Error` converts with `?` and may be retried;
/// [`Error::terminal`] makes an error that is not retried.
///
/// Errors are recorded, so this holds text, not the original value.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Error {
    code: String,
    message: String,
    terminal: bool,
}

impl Error {
    /// An error that may be retried.
    pub fn retryable(message: impl fmt::Display) -> Self {
        Self { code: "failed".into(), message: message.to_string(), terminal: false }
    }

    /// An error that is not retried.
    pub fn terminal(message: impl fmt::Display) -> Self {
        Self { terminal: true, ..Self::retryable(message) }
    }

    /// Gives it a stable code for clients:
    /// `Error::terminal("no such room").with_code("room_not_found")`.
    pub fn with_code(mut self, code: &str) -> Self {
        self.code = code.into();
        self
    }

    /// The stable code; `failed` unless one was given.
    pub fn code(&self) -> &str {
        &self.code
    }

    /// Cuts the message to the maximum that is recorded.
    pub(crate) fn shortened(mut self) -> Self {
        const MAX: usize = 4_000;
        if let Some((end, _)) = self.message.char_indices().nth(MAX) {
            self.message.truncate(end);
            self.message.push('…');
        }
        self.code.truncate(self.code.floor_char_boundary(MAX));
        self
    }

    /// Whether a retry cannot succeed.
    pub fn is_terminal(&self) -> bool {
        self.terminal
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let terminal = if self.terminal { ", terminal" } else { "" };
        write!(f, "{} ({}{terminal})", self.message, self.code)
    }
}

/// Marks errors as terminal.
pub trait ResultExt<T> {
    /// Makes the error terminal, if there is one.
    fn terminal(self) -> Result<T>;
}

impl<T, E: Into<Error>> ResultExt<T> for std::result::Result<T, E> {
    fn terminal(self) -> Result<T> {
        self.map_err(|error| Error { terminal: true, ..error.into() })
    }
}
