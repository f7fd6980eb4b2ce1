//! The server's data folder, for applications.

use std::path::{Path, PathBuf};

use clap::{ArgMatches, Args, Command, FromArgMatches};

/// The folder of the server's `--data`, for the settings of an application: `#[command(flatten)]
/// data: DataFolder`. It declares no flag, because the server has one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataFolder(PathBuf);

impl DataFolder {
    /// The path as given.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Default for DataFolder {
    fn default() -> Self {
        Self("./data".into())
    }
}

impl FromArgMatches for DataFolder {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        // Verbs without this flag serve nothing.
        let given = matches.try_get_one::<PathBuf>("data").ok().flatten();
        Ok(given.cloned().map_or_else(Self::default, Self))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for DataFolder {
    fn augment_args(command: Command) -> Command {
        command
    }

    fn augment_args_for_update(command: Command) -> Command {
        command
    }
}
