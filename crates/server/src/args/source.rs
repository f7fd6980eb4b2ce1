//! The source of a verb: a server or a data folder.

use std::{
    net::IpAddr,
    path::{Path, PathBuf},
};

use axum::http::Uri;
use clap::{ArgMatches, parser::ValueSource};

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
        token: Option<String>,
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
        let token = matches.try_get_one::<String>("token").ok().flatten().cloned();
        let token = token.or_else(|| variable("STEADFAST_TOKEN")?.into_string().ok());
        let token = token_for(url, token, file("token_file", "STEADFAST_TOKEN_FILE"))?;
        Ok(Source::Server { url: url.into(), ca: file("ca", "STEADFAST_CA_FILE"), token })
    }
}

fn token_for(
    url: &str,
    token: Option<String>,
    file: Option<PathBuf>,
) -> Result<Option<String>, String> {
    match (token, file) {
        (Some(_), Some(_)) => {
            Err("a token and a file with a token are given: leave one of them out".into())
        }
        (Some(token), None) => Ok(Some(token)),
        (None, Some(file)) => {
            let text = std::fs::read_to_string(&file);
            let text = text.map_err(|it| format!("{} cannot be read: {it}", file.display()))?;
            Ok(Some(text.trim().to_owned()))
        }
        // The token of this machine is for servers of this machine only.
        (None, None) if is_loopback(url) => Ok(admin::read(Path::new(DATA))),
        (None, None) => Ok(None),
    }
}

fn is_loopback(url: &str) -> bool {
    let uri: Option<Uri> = url.parse().ok();
    uri.as_ref().and_then(Uri::host).is_some_and(|host| {
        let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
        host.eq_ignore_ascii_case("localhost") || address.is_ok_and(|it| it.is_loopback())
    })
}

fn leaf(matches: &ArgMatches) -> &ArgMatches {
    matches.subcommand().map_or(matches, |(_, inner)| leaf(inner))
}
