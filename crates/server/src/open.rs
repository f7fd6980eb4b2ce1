//! Opens the store that the command line names.

use std::{io, path::Path, sync::Arc, time::Duration};

use steadfast_store::{
    CLOCK_STEP_MAX, Clock, OpenError, PostgresOptions, PostgresStore, SqliteOptions, SqliteStore,
    Store, private,
};

use crate::place::Place;

/// How often a store that another process serves is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// How a store is opened.
#[derive(Clone, Copy)]
pub(crate) struct Opening {
    /// A step of the clock beyond this is reported.
    pub(crate) clock_step_max: Duration,
    /// Go on although acknowledged commits are missing.
    pub(crate) accept_loss: bool,
    /// Only look at it.
    pub(crate) read_only: bool,
}

impl Opening {
    /// As usual.
    pub(crate) const DEFAULT: Self =
        Self { clock_step_max: CLOCK_STEP_MAX, accept_loss: false, read_only: false };
}

/// The same as [`open_store`], but while another process serves the store it waits.
pub(crate) async fn wait_for_store(
    place: &Place,
    clock: Arc<dyn Clock>,
    opening: Opening,
) -> Result<Arc<dyn Store>, OpenError> {
    let mut waits_for = None;
    loop {
        match open_store(place, clock.clone(), opening).await {
            Err(OpenError::Taken { owner, .. }) => {
                if waits_for.as_ref() != Some(&owner) {
                    tracing::info!(store = %place, owner, "another process owns it; waiting");
                    waits_for = Some(owner);
                }
                clock.sleep(LOOK_EVERY).await;
            }
            // It was reachable before: a database that fails over comes back.
            Err(error @ OpenError::Failed { .. }) if waits_for.is_some() => {
                tracing::warn!(error = %error, "the store cannot be read; waiting");
                clock.sleep(LOOK_EVERY).await;
            }
            opened => return opened,
        }
    }
}

/// Opens or makes the store at `place`.
pub(crate) async fn open_store(
    place: &Place,
    clock: Arc<dyn Clock>,
    Opening { clock_step_max, accept_loss, read_only }: Opening,
) -> Result<Arc<dyn Store>, OpenError> {
    match place {
        Place::Folder(folder) => {
            let options = SqliteOptions::new(folder.clone(), clock);
            let options = SqliteOptions { clock_step_max, read_only, ..options };
            let opened = tokio::task::spawn_blocking(|| SqliteStore::open(options)).await;
            let store = opened.map_err(|error| failed(place, error.to_string()))??;
            Ok(Arc::new(store))
        }
        Place::Database(url) => {
            let options = PostgresOptions::new(url.clone(), clock);
            let options = PostgresOptions { clock_step_max, accept_loss, ..options };
            Ok(Arc::new(PostgresStore::open(options).await?))
        }
        Place::Host => Err(failed(place, "it is already open".into())),
    }
}

/// Opens a store that must be there: a question must not make a folder.
pub(crate) async fn open_existing_folder(
    folder: &Path,
    clock: Arc<dyn Clock>,
) -> Result<Arc<dyn Store>, OpenError> {
    let place = Place::Folder(folder.to_owned());
    let missing = match (folder.is_dir(), folder.join("steadfast.db").is_file()) {
        (false, _) => Some("the folder does not exist"),
        (true, false) => Some("the folder has no steadfast.db"),
        (true, true) => None,
    };
    if let Some(missing) = missing {
        let reason = format!("{missing}; name the folder that `steadfast serve --data` was given");
        return Err(failed(&place, reason));
    }
    open_store(&place, clock, Opening::DEFAULT).await
}

/// Takes the data folder from everybody but its owner. With a database elsewhere nobody else does.
pub(crate) async fn tighten(data: &Path) -> io::Result<()> {
    let data = data.to_owned();
    tokio::task::spawn_blocking(move || private::tighten(&data)).await??;
    Ok(())
}

fn failed(place: &Place, reason: String) -> OpenError {
    OpenError::Failed { what: place.to_string(), reason }
}
