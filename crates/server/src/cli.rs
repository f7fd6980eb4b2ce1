//! Client verbs: over HTTP, or in process on a folder that no server has open.

mod audit;
mod buckets;
mod client;
mod doctor;
mod keys;
mod login;
mod noun;
mod objects;
mod output;
mod processes;
mod queues;
mod quotas;
mod runs;
mod sessions;
mod streams;
pub(crate) mod table;
mod tokens;

use steadfast_core::Error;

pub(crate) use self::{
    client::Client,
    doctor::doctor,
    login::{login, whoami},
    noun::Noun,
};
use crate::failure::Failure;

/// The nouns, whose verbs are operations.
pub(crate) fn nouns() -> Vec<Noun> {
    vec![
        streams::noun(),
        processes::noun(),
        objects::noun(),
        runs::noun(),
        queues::noun(),
        buckets::noun(),
        keys::noun(),
        tokens::noun(),
        sessions::noun(),
        audit::noun(),
        quotas::noun(),
    ]
}

/// Converts a failure to an error.
pub(crate) fn to_error(failure: Failure) -> Error {
    match failure {
        Failure::Message(text) => Error::terminal(text),
        Failure::Quiet | Failure::Exit(_) => Error::terminal("the command failed"),
    }
}
