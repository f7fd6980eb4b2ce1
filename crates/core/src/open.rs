//! Opens the store of a program: a folder, or a database by its URL.

use std::{path::Path, sync::Arc};

use steadfast_store::{
    self as store, Commit, OpenError, Put, Records, SqliteOptions, SqliteStore, Store, StoreError,
    SystemClock, Write,
};

use crate::StartError;

const SPACE: &str = "program";
const NAME: &[u8] = b"name";
const PROGRAM: Records<String> = Records::new(SPACE);

/// The path of a folder; `None` if `at` is a database URL.
pub(crate) fn folder(at: &str) -> Option<&Path> {
    let is_database = at.starts_with("postgres://") || at.starts_with("postgresql://");
    (!is_database).then(|| Path::new(at))
}

/// Opens or creates a store.
pub(crate) async fn open_store(at: &str) -> Result<Arc<dyn Store>, OpenError> {
    let Some(folder) = folder(at) else { return open_database(at).await };
    if let Some((scheme, _)) = at.split_once("://") {
        let reason =
            format!("`{scheme}` is no store; give a folder, or postgres://user@host/database");
        return Err(OpenError::Failed { what: scheme.into(), reason });
    }
    let options = SqliteOptions::new(folder, Arc::new(SystemClock));
    let opened = tokio::task::spawn_blocking(|| SqliteStore::open(options)).await;
    let failed = |reason: String| OpenError::Failed { what: at.into(), reason };
    Ok(Arc::new(opened.map_err(|error| failed(error.to_string()))??))
}

/// The name of the program that owns a data folder, if there is one. Nothing in the folder changes.
#[steadfast_store::boxed]
pub async fn owner_of(folder: &Path) -> Option<String> {
    let folder = folder.to_owned();
    let peeked = tokio::task::spawn_blocking(move || store::peek_entry(&folder, SPACE, NAME)).await;
    serde_json::from_str(&peeked.ok()??).ok()
}

/// Refuses a folder of another program before anything in it changes: opening it would migrate its
/// tables and make this process its owner.
#[steadfast_store::boxed]
pub async fn refuse_foreign(folder: &Path, program: &str) -> Result<(), StartError> {
    refuse_other(owner_of(folder).await, program)
}

/// The same for a database: opening it would take it over from a slow owner.
#[steadfast_store::boxed]
pub async fn refuse_foreign_database(url: &str, program: &str) -> Result<(), StartError> {
    let owner = peek_database(url).await?;
    refuse_other(owner.and_then(|it| serde_json::from_str(&it).ok()), program)
}

#[cfg(feature = "postgres")]
async fn open_database(url: &str) -> Result<Arc<dyn Store>, OpenError> {
    let options = store::PostgresOptions::new(url, Arc::new(SystemClock));
    Ok(Arc::new(store::PostgresStore::open(options).await?))
}

#[cfg(feature = "postgres")]
async fn peek_database(url: &str) -> Result<Option<String>, OpenError> {
    store::PostgresStore::peek_entry(url, SPACE, NAME).await
}

/// An embedded program is built without the client of PostgreSQL and TLS.
#[cfg(not(feature = "postgres"))]
async fn open_database(_: &str) -> Result<Arc<dyn Store>, OpenError> {
    let reason = "this program was built without PostgreSQL; add the feature `postgres` of \
                  steadfast";
    Err(OpenError::Failed { what: "the database".into(), reason: reason.into() })
}

#[cfg(not(feature = "postgres"))]
async fn peek_database(url: &str) -> Result<Option<String>, OpenError> {
    open_database(url).await.map(|_| None)
}

fn refuse_other(owner: Option<String>, program: &str) -> Result<(), StartError> {
    match owner {
        Some(owner) if owner != program => {
            Err(StartError::Foreign { owner, program: program.into() })
        }
        Some(_) | None => Ok(()),
    }
}

/// The name of the program that owns an open store, if there is one.
#[steadfast_store::boxed]
pub async fn program_of(store: &Arc<dyn Store>) -> Result<Option<String>, StoreError> {
    Ok(PROGRAM.find(&**store, NAME).await?.value)
}

/// Whether this program already owns the store. Another program's store is refused unless it is
/// adopted.
pub(crate) async fn is_ours(
    store: &Arc<dyn Store>,
    program: &str,
    adopts: bool,
) -> Result<bool, StartError> {
    match program_of(store).await? {
        Some(owner) if owner == program => Ok(true),
        Some(owner) if !adopts => Err(StartError::Foreign { owner, program: program.into() }),
        Some(_) | None => Ok(false),
    }
}

/// Records this program as the owner of a store.
pub(crate) async fn write_owner(store: &Arc<dyn Store>, program: &str) -> Result<(), StoreError> {
    let put = Put::of(PROGRAM.entry(NAME)?, &program)?;
    match store.commit(Commit::of(Write::Put(put))).await {
        // The next start records it.
        Ok(_) | Err(StoreError::DiskFull) => Ok(()),
        Err(error) => Err(error),
    }
}
