//! Connections that only read, beside the writer.

use std::{collections::HashMap, ops::RangeInclusive, path::PathBuf, sync::Arc};

use parking_lot::Mutex;
use rusqlite::{Connection, OpenFlags};
use tokio::sync::Semaphore;

use super::{
    file::keep_plans,
    row::{read_error, rows},
};
use crate::{
    Address, Dump, EntityId, PageImage, Setting, StoreError,
    sql::{self, queries},
};

/// As many reads at once, at most.
const READERS_MAX: usize = 4;

/// A pool of reading connections, opened when they are needed.
pub(super) struct Readers {
    database: PathBuf,
    permits: Arc<Semaphore>,
    idle: Arc<Mutex<Vec<Connection>>>,
}

impl Readers {
    pub(super) fn new(database: PathBuf) -> Self {
        let permits = Arc::new(Semaphore::new(READERS_MAX));
        Self { database, permits, idle: Arc::default() }
    }

    pub(super) async fn run<T: Send + 'static>(
        &self,
        f: impl FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let permit = self.permits.clone().acquire_owned().await.map_err(|_| StoreError::Closed)?;
        let (database, idle) = (self.database.clone(), self.idle.clone());
        let read = move || {
            let kept = idle.lock().pop();
            let connection = kept.map_or_else(|| open(database), Ok)?;
            let result = f(&connection);
            idle.lock().push(connection);
            drop(permit);
            result
        };
        let read = tokio::task::spawn_blocking(read).await;
        read.unwrap_or_else(|error| Err(StoreError::Unavailable { reason: error.to_string() }))
    }

    pub(super) fn close(&self) {
        self.permits.close();
        self.idle.lock().clear();
    }
}

fn open(database: PathBuf) -> Result<Connection, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let opened = Connection::open_with_flags(database, flags).and_then(|connection| {
        connection.set_prepared_statement_cache_capacity(64);
        keep_plans(&connection)?;
        connection.pragma_update(None, "cache_size", -2_048)?;
        connection.busy_timeout(std::time::Duration::from_secs(5))?;
        Ok(connection)
    });
    opened.map_err(|error| read_error(&error))
}

pub(super) fn addresses(
    connection: &Connection,
    ids: &[EntityId],
) -> Result<HashMap<EntityId, Address>, StoreError> {
    let mut found = HashMap::new();
    for id in ids {
        let sql = "SELECT kind, class, name FROM entity WHERE id = ?1";
        for address in rows(connection, sql, (id.0,), sql::address)? {
            found.insert(*id, address);
        }
    }
    Ok(found)
}

pub(super) fn images(
    connection: &Connection,
    entity: EntityId,
    pages: &[RangeInclusive<u32>],
) -> Result<Vec<PageImage>, StoreError> {
    let mut found = Vec::new();
    for part in pages {
        let params = (entity.0, part.start(), part.end());
        found.extend(rows(connection, queries::IMAGES, params, sql::image)?);
    }
    Ok(found)
}

pub(super) fn settings(connection: &Connection) -> Result<Vec<Setting>, StoreError> {
    let read = |name: &str, expected: Option<&str>| {
        let sql = format!("SELECT CAST({name} AS TEXT) FROM pragma_{name}");
        let value = rows(connection, &sql, (), |row| row.text(0))?.pop().unwrap_or_default();
        let concern = expected
            .filter(|it| *it != value)
            .map(|it| format!("should be {it}; this file was changed by another program"));
        Ok::<Setting, StoreError>(Setting { name: name.into(), value, concern })
    };
    let version =
        Setting { name: "sqlite version".into(), value: rusqlite::version().into(), concern: None };
    Ok(vec![
        version,
        read("journal_mode", Some("wal"))?,
        read("page_size", Some("4096"))?,
        read("page_count", None)?,
        read("freelist_count", None)?,
    ])
}

pub(super) fn dump(connection: &Connection) -> Result<Dump, StoreError> {
    // One transaction, so that all tables are of one moment.
    let tx = connection.unchecked_transaction().map_err(|error| read_error(&error))?;
    let mut all = rows(&tx, queries::COUNTER, (), |row| {
        Ok(format!("counter {} {} {} {}", row.int(0)?, row.int(1)?, row.int(2)?, row.int(3)?))
    })?;
    all.extend(rows(&tx, queries::ALL_ENTITIES, (), |row| {
        Ok(format!("{:?}", sql::entity_row(row)?))
    })?);
    all.extend(rows(&tx, queries::ALL_MESSAGES, (), |row| {
        Ok(format!("{:?}", sql::message_row(row)?))
    })?);
    all.extend(rows(&tx, queries::ALL_WORKS, (), |row| Ok(format!("{:?}", sql::work(row)?)))?);
    all.extend(rows(&tx, queries::ALL_OUTCOMES, (), |row| {
        Ok(format!("{:?}", sql::settled_row(row)?))
    })?);
    all.extend(rows(&tx, queries::ALL_ATTEMPTS, (), |row| {
        Ok(format!("{:?}", sql::attempt(row)?))
    })?);
    all.extend(rows(&tx, queries::ALL_SNAPSHOTS, (), |row| {
        Ok(format!("{:?}", sql::snapshot(row)?))
    })?);
    all.extend(rows(&tx, queries::ALL_KEYS, (), |row| Ok(format!("{:?}", sql::key_row(row)?)))?);
    all.extend(rows(&tx, queries::ALL_HEADS, (), |row| Ok(format!("{:?}", sql::head(row)?)))?);
    all.extend(rows(&tx, queries::ALL_TURNS, (), |row| Ok(format!("{:?}", sql::turn(row)?)))?);
    all.extend(rows(&tx, queries::ALL_IMAGES, (), |row| {
        Ok(format!("{:?}", sql::owned_image(row)?))
    })?);
    all.extend(rows(&tx, sql::runs::ALL_RUNS, (), |row| {
        Ok(format!("{:?}", sql::run_summary(row)?))
    })?);
    all.extend(rows(&tx, sql::entries::ALL_ENTRIES, (), |row| {
        Ok(format!("{:?}", sql::entries::entry(row)?))
    })?);
    all.extend(rows(&tx, sql::expiry::ALL_EXPIRING, (), |row| {
        Ok(format!("{:?}", sql::expiry::expiring(row)?))
    })?);
    all.extend(rows(&tx, sql::expiry::ALL_DEPTHS, (), |row| {
        Ok(format!("{:?}", sql::expiry::depth_row(row)?))
    })?);
    Ok(Dump { rows: all })
}

pub(super) fn violations(connection: &Connection) -> Result<Vec<String>, StoreError> {
    let mut found = Vec::new();
    for (what, statement) in queries::VIOLATIONS {
        for count in rows(connection, statement, (), |row| row.int(0))? {
            if 0 < count {
                found.push(format!("{count} {what}"));
            }
        }
    }
    let check = rows(connection, "PRAGMA quick_check(10)", (), |row| row.text(0))?;
    found.extend(check.into_iter().filter(|it| it != "ok").map(|it| format!("file: {it}")));
    Ok(found)
}
