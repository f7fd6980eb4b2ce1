//! Opens the store that the command line names.

use std::{path::Path, sync::Arc, time::Duration};

use steadfast_bucket::{BucketError, Buckets, FileBlobs, account};
use steadfast_store::{
    CLOCK_STEP_MAX, Clock, OpenError, PostgresOptions, PostgresStore, SeededEntropy, SqliteOptions,
    SqliteStore, Store,
};

use crate::place::Place;

/// Opens or makes the store at `place`.
pub(crate) async fn open_store(
    place: &Place,
    clock: Arc<dyn Clock>,
    clock_step_max: Duration,
) -> Result<Arc<dyn Store>, OpenError> {
    match place {
        Place::Folder(folder) => {
            let options =
                SqliteOptions { clock_step_max, ..SqliteOptions::new(folder.clone(), clock) };
            let opened = tokio::task::spawn_blocking(|| SqliteStore::open(options)).await;
            let store = opened.map_err(|error| failed(place, error.to_string()))??;
            Ok(Arc::new(store))
        }
        Place::Database(url) => {
            let options =
                PostgresOptions { clock_step_max, ..PostgresOptions::new(url.clone(), clock) };
            Ok(Arc::new(PostgresStore::open(options).await?))
        }
    }
}

/// Opens a store that must be there: a question must not make a folder.
pub(crate) async fn open_existing_folder(
    folder: &Path,
    clock: Arc<dyn Clock>,
) -> Result<Arc<dyn Store>, OpenError> {
    let place = Place::Folder(folder.to_owned());
    let missing = match (folder.is_dir(), folder.join("steadfast.db").is_file()) {
        (false, _) => Some("there is no such folder"),
        (true, false) => Some("there is no steadfast.db in it"),
        (true, true) => None,
    };
    if let Some(missing) = missing {
        let reason = format!("{missing}; name the folder that `steadfast serve --data` was given");
        return Err(failed(&place, reason));
    }
    open_store(&place, clock, CLOCK_STEP_MAX).await
}

/// The buckets of a store, whose files are in the data folder: also those of a database, until
/// there is a place that several machines share.
pub(crate) async fn open_buckets(
    store: Arc<dyn Store>,
    data: &Path,
) -> Result<Buckets, BucketError> {
    let account = account(&*store, &SeededEntropy::from_system()).await?;
    let folder = data.join("blobs");
    let opened = tokio::task::spawn_blocking(move || FileBlobs::open(folder, &account)).await;
    let blobs = opened.map_err(|error| BucketError::Files { reason: error.to_string() })??;
    Buckets::builder(store).open(Arc::new(blobs)).await
}

fn failed(place: &Place, reason: String) -> OpenError {
    OpenError::Failed { what: place.to_string(), reason }
}
