//! The command line as a client: over HTTP, or in process on a folder that no server has open. The
//! verbs of nouns are in [`crate::nouns`].

pub(crate) mod client;
pub(crate) mod noun;
pub(crate) mod output;

use steadfast_core::Error;

pub(crate) use self::{client::Client, noun::Noun};
use crate::failure::Failure;

/// Converts a failure to an error.
pub(crate) fn to_error(failure: Failure) -> Error {
    match failure {
        Failure::Message(text) => Error::terminal(text),
        Failure::Quiet | Failure::Exit(_) => Error::terminal("the command failed"),
    }
}
