//! Whom a verb asks: a server or a folder.

use std::path::PathBuf;

use clap::{ArgMatches, parser::ValueSource};

use super::SERVER;

/// Whom a verb asks.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// A server.
    Server(String),
    /// A folder that no server holds.
    Folder(PathBuf),
}

impl Source {
    /// Chooses from what was given, and from where it was given.
    ///
    /// A flag goes before a variable, and the variable that only verbs have before the shared one,
    /// so that a shell that exports the folder of its server can still ask that server.
    pub(crate) fn of(matches: &ArgMatches) -> Result<Self, &'static str> {
        let matches = leaf(matches);
        let from = |id| matches.try_contains_id(id).ok().and_then(|_| matches.value_source(id));
        let server = matches.try_get_one::<String>("server").ok().flatten();
        let server = || Source::Server(server.map_or(SERVER, String::as_str).into());
        let folder = matches.try_get_one::<PathBuf>("data").ok().flatten();
        let folder = || Source::Folder(folder.cloned().unwrap_or_default());
        match (from("server"), from("data")) {
            (Some(ValueSource::CommandLine), Some(ValueSource::CommandLine)) => {
                Err("--server and --data exclude each other: ask a server, or open a folder")
            }
            (_, Some(ValueSource::CommandLine)) => Ok(folder()),
            (Some(ValueSource::DefaultValue), Some(_)) => Ok(folder()),
            (Some(_) | None, _) => Ok(server()),
        }
    }
}

fn leaf(matches: &ArgMatches) -> &ArgMatches {
    matches.subcommand().map_or(matches, |(_, inner)| leaf(inner))
}
