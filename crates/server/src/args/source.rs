//! The source of a verb: a server or a data folder.

use std::path::PathBuf;

use clap::{ArgMatches, parser::ValueSource};

use super::SERVER;

/// The source of a verb.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// A server.
    Server(String),
    /// A folder that no server has open.
    Folder(PathBuf),
}

impl Source {
    /// Chooses the source from the values and where they were set.
    ///
    /// A flag takes precedence over a variable, and the variable of verbs over the shared one. A
    /// shell that exports the folder of its server can therefore still ask that server.
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
