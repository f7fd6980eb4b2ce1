//! Failures of a verb, with the text that the user reads.

use std::process::ExitCode;

use steadfast_core::{Error, StartError};
use steadfast_store::{OpenError, StoreError};

/// A failure, which ends the process with an exit code.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Everything was printed already.
    Quiet,
    /// The error and the next step.
    Message(String),
    /// An exit code without a text.
    Exit(ExitCode),
}

impl Failure {
    /// A failure with this text.
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Failure::Message(text.into())
    }
}

macro_rules! from_error {
    ($($error:ty),*) => {
        $(impl From<$error> for Failure {
            fn from(error: $error) -> Self {
                Failure::Message(error.to_string())
            }
        })*
    };
}

from_error!(Error, OpenError, StoreError, StartError, std::io::Error, axum::http::Error);
