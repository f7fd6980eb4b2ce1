//! Migrations, by the owner alone.

use std::time::Duration;

use futures_util::FutureExt;
use tokio::task::JoinSet;
use tokio_postgres::{Client, Error};

use super::{
    connect::{Session, Target},
    node::{self, HEARTBEAT},
};
use crate::{
    OpenError,
    sql::{self, Migration},
};

/// The migrations that a store lacks, each with its number. Fails if its format is not known.
pub(super) async fn missing(
    client: &Client,
    target: &Target,
    migrations: &'static [Migration],
) -> Result<Vec<(i64, Migration)>, OpenError> {
    let found = format_of(client).await.map_err(|error| target.failed(&error))?;
    sql::missing(&target.name, found, migrations)
}

/// Applies the missing migrations, one transaction each, so that an interrupted one continues. A
/// migration of a large table may take long: the lease is renewed meanwhile.
pub(super) async fn migrate(
    client: &mut Client,
    target: &Target,
    migrations: &'static [Migration],
    epoch: Option<i64>,
) -> Result<(), OpenError> {
    let failed = |error: Error| target.failed(&error);
    let missing = missing(client, target, migrations).await?;
    if missing.is_empty() {
        return Ok(());
    }
    // Ends when this is dropped.
    let mut alive = JoinSet::new();
    if let Some(epoch) = epoch {
        let session = target.connect().await.map_err(failed)?;
        alive.spawn(stay_alive(session, epoch, target.lease).boxed());
    }
    for (number, migration) in missing {
        let tx = client.transaction().await.map_err(failed)?;
        tx.batch_execute("SET LOCAL statement_timeout = 0").await.map_err(failed)?;
        tx.batch_execute(migration.postgres).await.map_err(failed)?;
        tx.execute(sql::SET_FORMAT, &[&number]).await.map_err(failed)?;
        if let Some(epoch) = epoch
            && node::renew(&tx, epoch, target.lease).await.map_err(failed)? != 1
        {
            return Err(target.refused("another process took it over meanwhile".into()));
        }
        tx.commit().await.map_err(failed)?;
    }
    Ok(())
}

async fn stay_alive(session: Session, epoch: i64, lease: Duration) {
    let mut beat = tokio::time::interval(HEARTBEAT);
    loop {
        beat.tick().await;
        // The migration itself detects whether this process still owns the store.
        let _ = node::renew(&session.client, epoch, lease).await;
    }
}

/// The number of the format; `None` if there are no tables yet.
async fn format_of(client: &Client) -> Result<Option<i64>, Error> {
    if !node::exists(client, "meta").await? {
        return Ok(None);
    }
    client.query_one(sql::FORMAT, &[]).await.map(|row| row.get(0))
}
