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
    Told(String),
    /// An exit code without a text.
    Exit(ExitCode),
}

impl Failure {
    /// A failure with this text.
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Failure::Told(text.into())
    }
}

macro_rules! told {
    ($($error:ty),*) => {
        $(impl From<$error> for Failure {
            fn from(error: $error) -> Self {
                Failure::Told(error.to_string())
            }
        })*
    };
}

told!(Error, OpenError, StoreError, StartError, std::io::Error);
