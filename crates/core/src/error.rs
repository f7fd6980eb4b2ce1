//! What code of the user's throws.

use std::{any::Any, fmt};

use serde::{Deserialize, Serialize};
use steadfast_store::{self as store, OpenError, StoreError};

use crate::{BucketError, CallError, QueueError, RunError};

/// Why a program did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// It is declared so that it cannot start. Nothing was opened.
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
    /// The store gave no answer.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A bucket that the program declares cannot be had.
    #[error(transparent)]
    Bucket(#[from] BucketError),
}

/// What handlers, jobs and consumers return.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why something could not be done. Every `std::error::Error` converts with `?` and may be tried
/// again; [`Error::terminal`] says that trying again cannot help.
///
/// It is recorded, so it holds text, not the value that it was made from.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Error {
    code: String,
    message: String,
    terminal: bool,
}

impl Error {
    /// It may work another time.
    pub fn retryable(message: impl fmt::Display) -> Self {
        Self { code: "failed".into(), message: message.to_string(), terminal: false }
    }

    /// It never will.
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

    /// Not longer than is worth keeping.
    pub(crate) fn shortened(mut self) -> Self {
        const MAX: usize = 4_000;
        if let Some((end, _)) = self.message.char_indices().nth(MAX) {
            self.message.truncate(end);
            self.message.push('…');
        }
        self.code.truncate(self.code.floor_char_boundary(MAX));
        self
    }

    /// Whether trying again cannot help.
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

impl<E: std::error::Error + 'static> From<E> for Error {
    fn from(error: E) -> Self {
        let mut text = error.to_string();
        let mut cause = error.source();
        while let Some(error) = cause {
            text = format!("{text}: {error}");
            cause = error.source();
        }
        let made = match own_code(&error) {
            Some(code) => Self::retryable(text).with_code(code),
            None => Self::retryable(text),
        };
        Self { terminal: is_failed_run(&error) || is_parsing(&error), ..made }
    }
}

/// Whether it tells of a run that failed with an error that no repetition can cure.
fn is_failed_run(error: &dyn Any) -> bool {
    matches!(error.downcast_ref(), Some(RunError::Failed { error, .. }) if error.is_terminal())
}

/// Whether it tells of text that cannot be parsed: the same text fails again.
fn is_parsing(error: &dyn Any) -> bool {
    let json = error.downcast_ref::<serde_json::Error>();
    json.is_some_and(|it| !it.is_io())
        || error.is::<std::num::ParseIntError>()
        || error.is::<std::num::ParseFloatError>()
        || error.is::<std::str::ParseBoolError>()
        || error.is::<std::char::ParseCharError>()
        || error.is::<std::str::Utf8Error>()
        || error.is::<std::string::FromUtf8Error>()
        || error.is::<std::net::AddrParseError>()
        || error.is::<store::InvalidInput>()
        || error.is::<store::AddressError>()
}

/// The code of an error of ours.
fn own_code(error: &dyn Any) -> Option<&str> {
    let run = || error.downcast_ref::<RunError>().map(RunError::code);
    let queue = || error.downcast_ref::<QueueError>().map(QueueError::code);
    let call = || error.downcast_ref::<CallError>().map(CallError::code);
    let bucket = || error.downcast_ref::<BucketError>().map(BucketError::code);
    let store = || error.downcast_ref::<StoreError>().map(StoreError::code);
    run().or_else(queue).or_else(call).or_else(bucket).or_else(store)
}

/// Marks errors that no repetition can cure.
pub trait ResultExt<T> {
    /// Marks the error, if it is one.
    fn terminal(self) -> Result<T>;
}

impl<T, E: Into<Error>> ResultExt<T> for std::result::Result<T, E> {
    fn terminal(self) -> Result<T> {
        self.map_err(|error| Error { terminal: true, ..error.into() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from<T, E: std::error::Error + 'static>(result: std::result::Result<T, E>) -> Error {
        result.err().expect("it fails").into()
    }

    #[test]
    fn text_that_cannot_be_parsed_is_not_tried_again() {
        assert!(from(serde_json::from_str::<u32>("x")).is_terminal());
        assert!(from("x".parse::<u32>()).is_terminal());
        assert!(from("x".parse::<f32>()).is_terminal());
        assert!(from(String::from_utf8(vec![0xff])).is_terminal());
        assert!(from("x".parse::<std::net::IpAddr>()).is_terminal());
        assert!(!from(std::fs::read("/nowhere")).is_terminal());
        let away = Err::<(), _>(StoreError::Unavailable { reason: "away".into() });
        assert!(!from(away).is_terminal());
    }
}
