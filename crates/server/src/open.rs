//! Opens the store that the command line names.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use steadfast_store::{
    CLOCK_STEP_MAX, Clock, OpenError, PostgresOptions, PostgresStore, SqliteOptions, SqliteStore,
    Store, private,
};

use crate::location::Location;

/// Interval of attempts to open a store that another process owns.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// Options of opening a store.
#[derive(Clone)]
pub(crate) struct OpenOptions {
    /// Larger steps of the clock are reported.
    pub(crate) clock_step_max: Duration,
    /// Start although acknowledged commits are missing.
    pub(crate) accept_loss: bool,
    /// Open it read-only.
    pub(crate) read_only: bool,
    /// Where this machine notes what a database acknowledged last.
    pub(crate) memo: Option<PathBuf>,
}

impl OpenOptions {
    /// The default options.
    pub(crate) const DEFAULT: Self =
        Self { clock_step_max: CLOCK_STEP_MAX, accept_loss: false, read_only: false, memo: None };
}

/// Like [`open_store`], but waits while another process owns the store.
pub(crate) async fn wait_for_store(
    location: &Location,
    clock: Arc<dyn Clock>,
    options: OpenOptions,
) -> Result<Arc<dyn Store>, OpenError> {
    let mut waits_for = None;
    loop {
        match open_store(location, clock.clone(), options.clone()).await {
            Err(OpenError::Taken { owner, .. }) => {
                if waits_for.as_ref() != Some(&owner) {
                    tracing::info!(store = %location, owner, "another process owns it; waiting");
                    waits_for = Some(owner);
                }
                clock.sleep(POLL_INTERVAL).await;
            }
            // The store was reachable before: a database that fails over returns.
            Err(error @ OpenError::Failed { .. }) if waits_for.is_some() => {
                tracing::warn!(error = %error, "the store cannot be read; waiting");
                clock.sleep(POLL_INTERVAL).await;
            }
            opened => return opened,
        }
    }
}

/// Opens or creates the store at `location`.
pub(crate) async fn open_store(
    location: &Location,
    clock: Arc<dyn Clock>,
    OpenOptions { clock_step_max, accept_loss, read_only, memo }: OpenOptions,
) -> Result<Arc<dyn Store>, OpenError> {
    match location {
        Location::Folder(folder) => {
            let options = SqliteOptions::new(folder.clone(), clock);
            let options = SqliteOptions { clock_step_max, read_only, ..options };
            let opened = tokio::task::spawn_blocking(|| SqliteStore::open(options)).await;
            let store = opened.map_err(|error| failed(location, error.to_string()))??;
            Ok(Arc::new(store))
        }
        Location::Database(url) => {
            let options = PostgresOptions::new(url.clone(), clock);
            let options = PostgresOptions { clock_step_max, accept_loss, memo, ..options };
            Ok(Arc::new(PostgresStore::open(options).await?))
        }
        Location::Host => Err(failed(location, "it is already open".into())),
    }
}

/// Opens an existing store: a client verb must not create a folder. What cannot be written is only
/// read.
pub(crate) async fn open_existing_folder(
    folder: &Path,
    clock: Arc<dyn Clock>,
    read_only: bool,
) -> Result<Arc<dyn Store>, OpenError> {
    let location = Location::Folder(folder.to_owned());
    let missing = match (folder.is_dir(), folder.join("steadfast.db").is_file()) {
        (false, _) => Some("the folder does not exist"),
        (true, false) => Some("the folder has no steadfast.db"),
        (true, true) => None,
    };
    if let Some(missing) = missing {
        let reason = format!("{missing}; name the folder that `steadfast serve --data` was given");
        return Err(failed(&location, reason));
    }
    open_store(&location, clock, OpenOptions { read_only, ..OpenOptions::DEFAULT }).await
}

/// Removes the permissions of other users on the data folder. The SQLite store does this itself;
/// with PostgreSQL nothing else does.
pub(crate) async fn tighten(data: &Path) -> io::Result<()> {
    let data = data.to_owned();
    tokio::task::spawn_blocking(move || private::tighten(&data)).await??;
    Ok(())
}

fn failed(location: &Location, reason: String) -> OpenError {
    OpenError::Failed { what: location.to_string(), reason }
}
