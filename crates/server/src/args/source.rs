//! The source of a verb: a server or a data folder.

use std::path::{Path, PathBuf};

use clap::{ArgMatches, parser::ValueSource};
use steadfast_store::Secret;

use super::SERVER;
use crate::access::admin;

/// The default data folder.
const DATA: &str = "./data";

/// The source of a verb.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// A server.
    Server {
        /// Its URL.
        url: String,
        /// File with certificates that are trusted besides those of the system.
        ca: Option<PathBuf>,
        /// The token.
        token: Option<Secret>,
    },
    /// A folder that no server has open.
    Folder(PathBuf),
}

impl Source {
    /// Chooses the source from the values and where they were set.
    ///
    /// A flag takes precedence over a variable, and the variable of verbs over the shared one. A
    /// shell that exports the folder of its server can therefore still ask that server.
    pub(crate) fn of(matches: &ArgMatches) -> Result<Self, String> {
        let matches = leaf(matches);
        let from = |id| matches.try_contains_id(id).ok().and_then(|_| matches.value_source(id));
        let server = matches.try_get_one::<String>("server").ok().flatten();
        let server = || Self::server(server.map_or(SERVER, String::as_str), matches);
        let folder = matches.try_get_one::<PathBuf>("data").ok().flatten();
        let folder = || Source::Folder(folder.cloned().unwrap_or_default());
        match (from("server"), from("data")) {
            (Some(ValueSource::CommandLine), Some(ValueSource::CommandLine)) => {
                Err("--server and --data exclude each other: ask a server, or open a folder".into())
            }
            (_, Some(ValueSource::CommandLine)) => Ok(folder()),
            (Some(ValueSource::DefaultValue), Some(_)) => Ok(folder()),
            (Some(_) | None, _) => server(),
        }
    }

    /// A server. The verb of an application may have no flags for certificates and tokens; the
    /// variables are for all verbs.
    pub(crate) fn server(url: &str, matches: &ArgMatches) -> Result<Self, String> {
        let flag = |id| matches.try_get_one::<PathBuf>(id).ok().flatten().cloned();
        let variable = |name| std::env::var_os(name).filter(|it| !it.is_empty());
        let file = |id, name| flag(id).or_else(|| variable(name).map(PathBuf::from));
        let token = matches.try_get_one::<Secret>("token").ok().flatten().cloned();
        let of_variable = || variable("STEADFAST_TOKEN")?.into_string().ok().map(Secret::from);
        let token = token.or_else(of_variable);
        let token = token_for(url, token, file("token_file", "STEADFAST_TOKEN_FILE"))?;
        Ok(Source::Server { url: url.into(), ca: file("ca", "STEADFAST_CA_FILE"), token })
    }
}

fn token_for(
    url: &str,
    token: Option<Secret>,
    file: Option<PathBuf>,
) -> Result<Option<Secret>, String> {
    match (token, file) {
        (Some(_), Some(_)) => {
            Err("a token and a file with a token are given: leave one of them out".into())
        }
        (Some(token), None) => Ok(Some(token)),
        (None, Some(file)) => {
            let text = std::fs::read_to_string(&file);
            let text = text.map_err(|it| format!("{} cannot be read: {it}", file.display()))?;
            Ok(Some(text.trim().into()))
        }
        (None, None) => Ok(admin::read_for(Path::new(DATA), url)),
    }
}

fn leaf(matches: &ArgMatches) -> &ArgMatches {
    matches.subcommand().map_or(matches, |(_, inner)| leaf(inner))
}
