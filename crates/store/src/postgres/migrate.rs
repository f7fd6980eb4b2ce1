//! Bringing the schema up to date, by one process at a time.

use tokio_postgres::{Client, Error, Transaction};

use super::connect::Target;
use crate::{
    OpenError,
    sql::{KNOWN_SCHEMA, MIGRATIONS},
};

/// Any number will do as long as everybody takes the same.
const LOCK: &str = "SELECT pg_advisory_xact_lock(7310312)";

pub(super) async fn migrate(client: &mut Client, target: &Target) -> Result<(), OpenError> {
    let failed = |error: Error| target.failed(&error);
    let tx = client.transaction().await.map_err(failed)?;
    tx.batch_execute(LOCK).await.map_err(failed)?;
    let meta = "CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value BIGINT NOT NULL)";
    tx.batch_execute(meta).await.map_err(failed)?;
    let schema = read(&tx, "schema").await.map_err(failed)?;
    let needs = read(&tx, "needs").await.map_err(failed)?;
    if KNOWN_SCHEMA < needs {
        let what = target.name.clone();
        return Err(OpenError::Newer { what, found: schema, known: KNOWN_SCHEMA });
    }
    for migration in MIGRATIONS.iter().filter(|it| schema < it.number) {
        tx.batch_execute(migration.postgres).await.map_err(failed)?;
        let set = "INSERT INTO meta VALUES ($1, $2) ON CONFLICT (key) DO UPDATE SET value = $2";
        tx.execute(set, &[&"schema", &migration.number]).await.map_err(failed)?;
        tx.execute(set, &[&"needs", &migration.needs]).await.map_err(failed)?;
    }
    tx.commit().await.map_err(failed)
}

async fn read(tx: &Transaction<'_>, key: &str) -> Result<i64, Error> {
    let row = tx.query_opt("SELECT value FROM meta WHERE key = $1", &[&key]).await?;
    Ok(row.map_or(0, |row| row.get(0)))
}
