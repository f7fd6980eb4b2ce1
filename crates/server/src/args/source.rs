//! The source of a verb: a server or a data folder.

use std::path::PathBuf;

use clap::{ArgMatches, parser::ValueSource};

use super::SERVER;

/// The source of a verb.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// A server, and the file of the certificates that are trusted besides those of the system.
    Server {
        /// Its URL.
        url: String,
        /// The file.
        ca: Option<PathBuf>,
    },
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
        let server = || Self::server(server.map_or(SERVER, String::as_str), matches);
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

    /// A server. The verb of an application may have no flag for certificates; the variable is for
    /// all verbs.
    pub(crate) fn server(url: &str, matches: &ArgMatches) -> Self {
        let flag = matches.try_get_one::<PathBuf>("ca").ok().flatten().cloned();
        let variable = || std::env::var_os("STEADFAST_CA_FILE").filter(|it| !it.is_empty());
        let ca = flag.or_else(|| variable().map(PathBuf::from));
        Source::Server { url: url.into(), ca }
    }
}

fn leaf(matches: &ArgMatches) -> &ArgMatches {
    matches.subcommand().map_or(matches, |(_, inner)| leaf(inner))
}
