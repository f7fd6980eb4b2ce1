//! Why a verb failed, in the words that the user reads.

use steadfast::StartError;
use steadfast_store::{OpenError, StoreError};

/// Ends the process with exit code 1.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Everything to say about it was printed already.
    Quiet,
    /// What happened and what to do next.
    Told(String),
}

impl Failure {
    /// A failure with this text.
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Failure::Told(text.into())
    }
}

impl From<OpenError> for Failure {
    fn from(error: OpenError) -> Self {
        Failure::Told(error.to_string())
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Failure::Told(error.to_string())
    }
}

impl From<StartError> for Failure {
    fn from(error: StartError) -> Self {
        Failure::Told(error.to_string())
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Failure::Told(error.to_string())
    }
}
