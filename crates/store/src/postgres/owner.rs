//! One owner: the node row, its epoch and its lease.
//!
//! Every batch writes its number into this row under our epoch. Who takes over raises the epoch
//! first, which waits until the old backend has ended, and only then reads how its last batch
//! ended.

use std::time::Duration;

use tokio_postgres::{Client, Error};

use super::{connect::Target, trouble::Trouble};
use crate::{OpenError, Owner, Timestamp, process, sql::queries, store_clock::ClockRecord};

/// How long the lease lasts without a sign of life.
pub(super) const LEASE_SECONDS: i32 = 15;

/// How often an idle owner gives a sign of life.
pub(super) const HEARTBEAT: Duration = Duration::from_secs(5);

/// What it is to own the store.
pub(super) struct Held {
    pub(super) owner: Owner,
    /// Our name in the node row.
    pub(super) process: String,
}

/// Takes the store, or says who has it.
pub(super) async fn take(client: &Client, target: &Target) -> Result<Held, OpenError> {
    let failed = |error: Error| target.failed(&error);
    let node = look(client).await.map_err(failed)?;
    let gone = process::is_gone(&node.process);
    if !node.free && !gone && still_alive(client, &node).await.map_err(failed)? {
        return Err(OpenError::Taken { what: target.name.clone(), owner: node.owner });
    }
    let process = process::identity();
    let sql = format!(
        "UPDATE node SET epoch = epoch + 1, last_batch = 0, clean = FALSE, owner = $1, \
         process = $2, lease_until = clock_timestamp() + interval '{LEASE_SECONDS} s', \
         suspect = CASE WHEN clean THEN suspect ELSE (SELECT position FROM counter) END \
         WHERE epoch = $3 AND (lease_until < clock_timestamp() OR $4) RETURNING epoch, suspect"
    );
    let params: [&(dyn tokio_postgres::types::ToSql + Sync); 4] =
        [&process::describe(), &process, &node.epoch, &gone];
    let row = client.query_opt(&sql, &params).await.map_err(failed)?;
    let Some(row) = row else {
        let owner = look(client).await.map_err(failed)?.owner;
        return Err(OpenError::Taken { what: target.name.clone(), owner });
    };
    let suspect: i64 = row.get(1);
    let is_suspect = client.query_one(&queries::IS_SUSPECT.replace('?', "$"), &[&suspect]).await;
    let is_suspect: bool = is_suspect.map_err(failed)?.get(0);
    let owner = Owner { epoch: row.get(0), unclean_until: is_suspect.then_some(suspect) };
    Ok(Held { owner, process })
}

struct Node {
    epoch: i64,
    owner: String,
    process: String,
    /// Whether the lease is over.
    free: bool,
    /// When it ends, by the database's clock.
    lease_until: f64,
}

async fn look(client: &Client) -> Result<Node, Error> {
    let sql = "SELECT epoch, owner, process, lease_until < clock_timestamp(), \
         extract(epoch FROM lease_until)::float8 FROM node";
    let row = client.query_one(sql, &[]).await?;
    Ok(Node {
        epoch: row.get(0),
        owner: row.get(1),
        process: row.get(2),
        free: row.get(3),
        lease_until: row.get(4),
    })
}

/// An owner on another machine lives if its lease moves; if not, we wait for its end.
async fn still_alive(client: &Client, node: &Node) -> Result<bool, Error> {
    if process::is_here(&node.process) {
        return Ok(true);
    }
    let mut pause = tokio::time::interval(Duration::from_millis(500));
    loop {
        pause.tick().await;
        let now = look(client).await?;
        if now.epoch != node.epoch || node.lease_until < now.lease_until {
            return Ok(true);
        }
        if now.free {
            return Ok(false);
        }
    }
}

/// Raises the epoch to `epoch` after a lost connection, which ends the old backend's say, and
/// returns the last batch that it committed.
///
/// Each attempt must ask for a higher epoch: one that was given up may still arrive, and must then
/// change nothing.
pub(super) async fn raise(client: &Client, process: &str, epoch: i64) -> Result<i64, Trouble> {
    let sql = format!(
        "UPDATE node SET epoch = $2, \
         lease_until = clock_timestamp() + interval '{LEASE_SECONDS} s' \
         WHERE process = $1 AND epoch < $2 RETURNING last_batch"
    );
    let row = client.query_opt(&sql, &[&process, &epoch]).await?;
    Ok(row.ok_or(Trouble::Fenced)?.get(0))
}

/// Says goodbye, so that the next owner need not wait.
pub(super) async fn leave(client: &Client, epoch: i64) -> Result<(), Error> {
    let sql = "UPDATE node SET clean = TRUE, lease_until = '-infinity' WHERE epoch = $1";
    client.execute(sql, &[&epoch]).await.map(|_| ())
}

/// What is recorded of the clock of the store.
pub(super) async fn clock(client: &Client) -> Result<ClockRecord, Error> {
    let row = client.query_one(queries::COUNTER, &[]).await?;
    Ok(ClockRecord { at: Timestamp(row.get(1)), delete_from: Timestamp(row.get(2)) })
}
