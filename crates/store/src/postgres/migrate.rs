//! Migrations, by the owner alone.

use futures_util::FutureExt;
use tokio::task::JoinSet;
use tokio_postgres::{Client, Error};

use super::{
    connect::{Session, Target},
    node::{self, HEARTBEAT},
};
use crate::{
    OpenError,
    sql::{KNOWN_SCHEMA, MIGRATIONS},
};

/// Refuses a store that needs a newer binary.
pub(super) async fn check(client: &Client, target: &Target) -> Result<(), OpenError> {
    let (schema, needs) = read(client).await.map_err(|error| target.failed(&error))?;
    if KNOWN_SCHEMA < needs {
        let what = target.name.clone();
        return Err(OpenError::Newer { what, found: schema, known: KNOWN_SCHEMA });
    }
    Ok(())
}

/// Applies the missing migrations, one transaction each, so that an interrupted one continues. A
/// migration of a large table may take long: the lease is renewed meanwhile.
pub(super) async fn migrate(
    client: &mut Client,
    target: &Target,
    epoch: Option<i64>,
) -> Result<(), OpenError> {
    let failed = |error: Error| target.failed(&error);
    check(client, target).await?;
    let (schema, _) = read(client).await.map_err(failed)?;
    let missing = || MIGRATIONS.iter().filter(|it| schema < it.number);
    if missing().next().is_none() {
        return Ok(());
    }
    // Ends when this is dropped.
    let mut alive = JoinSet::new();
    if let Some(epoch) = epoch {
        alive.spawn(stay_alive(target.connect().await.map_err(failed)?, epoch).boxed());
    }
    for migration in missing() {
        let tx = client.transaction().await.map_err(failed)?;
        tx.batch_execute("SET LOCAL statement_timeout = 0").await.map_err(failed)?;
        let meta = "CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value BIGINT NOT NULL)";
        tx.batch_execute(meta).await.map_err(failed)?;
        tx.batch_execute(migration.postgres).await.map_err(failed)?;
        let set = "INSERT INTO meta VALUES ($1, $2) ON CONFLICT (key) \
             DO UPDATE SET value = greatest(meta.value, $2)";
        tx.execute(set, &[&"schema", &migration.number]).await.map_err(failed)?;
        tx.execute(set, &[&"needs", &migration.needs]).await.map_err(failed)?;
        if let Some(epoch) = epoch
            && node::renew(&tx, epoch).await.map_err(failed)? != 1
        {
            return Err(target.refused("another process took it over meanwhile".into()));
        }
        tx.commit().await.map_err(failed)?;
    }
    Ok(())
}

async fn stay_alive(session: Session, epoch: i64) {
    let mut beat = tokio::time::interval(HEARTBEAT);
    loop {
        beat.tick().await;
        // The migration itself detects whether this process still owns the store.
        let _ = node::renew(&session.client, epoch).await;
    }
}

/// The schema, and the schema that it needs; zeros for an empty database.
async fn read(client: &Client) -> Result<(i64, i64), Error> {
    if !node::exists(client, "meta").await? {
        return Ok((0, 0));
    }
    let rows = client.query("SELECT key, value FROM meta", &[]).await?;
    let value = |key: &str| {
        let row = rows.iter().find(|row| row.get::<_, &str>(0) == key);
        row.map_or(0, |row| row.get(1))
    };
    Ok((value("schema"), value("needs")))
}
