//! Takes ownership of a store.
//!
//! Every batch writes its number into the node row under the owner's epoch. A new owner first
//! raises the epoch, which waits until the old backend has ended, and only then reads the result of
//! its last batch. An owner that could not write the row for the duration of its lease stops
//! answering, so a process that has seen the row unchanged for that long may take over.

use std::{path::Path, time::Duration};

use futures_util::FutureExt;
use tokio::{
    task::JoinSet,
    time::{Instant, interval},
};
use tokio_postgres::{Client, Error, error::SqlState, types::ToSql};

use super::{
    connect::{PostgresOptions, Session, Target},
    loss::{self, Lineages},
    node::{self, HEARTBEAT, LEASE, Node, lease_end, leave, look, renew},
};
use crate::{
    Clock, OpenError, Owner, Position, SystemClock, Timestamp, process,
    sql::{self, Migration, queries},
    store_clock::ClockRecord,
};

/// A row that does not change for this long has no owner, whatever the database's clock shows.
const LEASE_MAX: Duration = Duration::from_secs(15);

/// Interval at which the row of another owner is read.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// Maximum wait for another process that opens the store, or holds the node row.
const OPENING_MAX: Duration = Duration::from_secs(10);

/// The advisory lock of processes that open the store. It includes the schema: a database may have
/// several stores.
const LOCK: &str = "(7310312, hashtext(current_schema()))";

/// The ownership of this process.
pub(super) struct Ownership {
    pub(super) owner: Owner,
    /// The name of this process in the node row.
    pub(super) process: String,
    /// The last position.
    pub(super) position: Position,
    pub(super) lineages: Lineages,
    /// When the lease was requested.
    pub(super) asked_at: Duration,
}

/// Takes the store, or returns its owner; creates it if necessary, and migrates its schema. Nothing
/// is changed before this process owns it.
pub(super) async fn take(
    session: &mut Session,
    target: &Target,
    options: &PostgresOptions,
) -> Result<Ownership, OpenError> {
    let failed = |error: Error| target.failed(&error);
    let client = &mut session.client;
    let process = process::identity();
    check_schema(client, target).await?;
    let held = loop {
        missing(client, target, options.migrations).await?;
        if !options.accept_loss {
            loss::check(client, target).await?;
        }
        let seen = look(client).await.map_err(failed)?;
        if let Some(node) = &seen
            && lives(client, node).await.map_err(failed)?
        {
            return Err(taken(target, &node.owner));
        }
        lock(client, target).await?;
        let now = look(client).await.map_err(failed)?;
        if seen.is_none() && now.is_none() {
            migrate(client, target, options.migrations, None).await?;
        } else if now != seen {
            unlock(client).await.map_err(failed)?;
            continue;
        }
        let Some(node) = look(client).await.map_err(failed)? else {
            return Err(target.refused("the row of its owner is missing".into()));
        };
        if let Some(file) = &options.memo {
            note_loss(client, target, (file, options), &node).await?;
        }
        if let Some(held) = raise(client, target, &node, &process).await? {
            break held;
        }
        unlock(client).await.map_err(failed)?;
    };
    let settled = settle(client, target, held, process, options).await;
    if settled.is_err() {
        // The next owner need not wait. If this fails, it waits.
        let _ = leave(client, held.0).await;
    }
    settled
}

/// Tables are created in the first schema of the search path, and only that one is used.
async fn check_schema(client: &Client, target: &Target) -> Result<(), OpenError> {
    let row = client.query_one("SELECT current_schema() IS NOT NULL", &[]).await;
    if row.map_err(|error| target.failed(&error))?.get(0) {
        return Ok(());
    }
    Err(target.refused("no schema of its search_path exists; make one".into()))
}

/// Migrates a store that this process owns, and reads its state.
async fn settle(
    client: &mut Client,
    target: &Target,
    (epoch, suspect): (i64, Position),
    process: String,
    options: &PostgresOptions,
) -> Result<Ownership, OpenError> {
    let failed = |error: Error| target.failed(&error);
    migrate(client, target, options.migrations, Some(epoch)).await?;
    if options.accept_loss {
        loss::accept(client).await.map_err(failed)?;
    } else {
        // The last owner may have recorded a loss while we waited for its end.
        loss::check(client, target).await?;
    }
    let lineages = Lineages::read(client).await.map_err(failed)?;
    let position = client.query_one(queries::COUNTER, &[]).await.map_err(failed)?.get(0);
    let is_suspect = client.query_one(&queries::IS_SUSPECT.replace('?', "$"), &[&suspect]).await;
    let is_suspect: bool = is_suspect.map_err(failed)?.get(0);
    unlock(client).await.map_err(failed)?;
    // All this may have taken longer than the lease.
    let asked_at = SystemClock.elapsed();
    if renew(client, epoch, target.lease).await.map_err(failed)? != 1 {
        return Err(target.refused("another process took it over meanwhile".into()));
    }
    let owner = Owner { epoch, unclean_until: is_suspect.then_some(suspect) };
    Ok(Ownership { owner, process, position, lineages, asked_at })
}

/// Records a loss if this machine knows of more than the database has, and refuses the store unless
/// the loss is accepted. This precedes the new epoch: an attempt that is cut off is repeated.
async fn note_loss(
    client: &Client,
    target: &Target,
    (file, options): (&Path, &PostgresOptions),
    node: &Node,
) -> Result<(), OpenError> {
    let failed = |error: Error| target.failed(&error);
    let Some(name) = loss::name_of(client).await.map_err(failed)? else { return Ok(()) };
    let lineage = Lineages::read(client).await.map_err(failed)?.current();
    let position = client.query_one(queries::COUNTER, &[]).await.map_err(failed)?.get(0);
    let missing = match loss::missing(file, &name, lineage, (node, position)) {
        Ok(missing) => missing,
        Err(error) if options.accept_loss => {
            tracing::warn!(%error, file = %file.display(), "the last note cannot be read");
            None
        }
        Err(error) => {
            let reason = format!(
                "{} cannot be read ({error}), so it is not known whether commits are missing; \
                 delete it to start without this check",
                file.display()
            );
            return Err(target.refused(reason));
        }
    };
    let Some((known, found)) = missing else { return Ok(()) };
    loss::note(client, known, found, options.clock.now()).await.map_err(failed)?;
    if options.accept_loss { Ok(()) } else { loss::check(client, target).await }
}

fn taken(target: &Target, owner: &str) -> OpenError {
    OpenError::Taken { what: target.name.clone(), owner: owner.into() }
}

/// Whether an owner is alive: its row changes within its lease. No wait is needed after a clean
/// shutdown, or if its process has certainly ended.
async fn lives(client: &Client, node: &Node) -> Result<bool, Error> {
    if node.lease_until == f64::NEG_INFINITY || process::is_gone(&node.process) {
        return Ok(false);
    }
    let since = Instant::now();
    let mut pause = interval(LOOK_EVERY);
    loop {
        pause.tick().await;
        let now = look(client).await?;
        if now.as_ref().is_some_and(|it| it.lease_until == f64::NEG_INFINITY)
            || process::is_gone(&node.process)
        {
            return Ok(false);
        }
        if now.as_ref() != Some(node) {
            return Ok(true);
        }
        // By the clock of this machine, and by the database's.
        let silent = since.elapsed();
        let over = "SELECT lease_until < clock_timestamp() FROM node WHERE id = 1";
        if LEASE_MAX < silent
            || (LEASE < silent && client.query_one(over, &[]).await?.get::<_, bool>(0))
        {
            return Ok(false);
        }
    }
}

/// Waits for other processes that open the store. A stuck one is terminated if no owner is alive.
async fn lock(client: &Client, target: &Target) -> Result<(), OpenError> {
    let failed = |error: Error| target.failed(&error);
    let since = Instant::now();
    let mut pause = interval(LOOK_EVERY);
    loop {
        pause.tick().await;
        let row = client.query_one(&format!("SELECT pg_try_advisory_lock{LOCK}"), &[]).await;
        if row.map_err(failed)?.get(0) {
            return Ok(());
        }
        if 2 * OPENING_MAX < since.elapsed() {
            return Err(taken(target, "a process that is about to open it"));
        }
        if OPENING_MAX < since.elapsed() {
            let holders = "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE granted \
                 AND locktype = 'advisory' AND objsubid = 2 \
                 AND (classid::bigint::int, objid::bigint::bit(32)::int) = \
                 (7310312, hashtext(current_schema())) \
                 AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";
            client.execute(holders, &[]).await.map_err(failed)?;
        }
    }
}

async fn unlock(client: &Client) -> Result<(), Error> {
    client.execute(&format!("SELECT pg_advisory_unlock{LOCK}"), &[]).await.map(|_| ())
}

/// Takes the row of an owner that is not alive, unless it has changed meanwhile. Returns the new
/// epoch, and the position up to which deliveries are suspect.
async fn raise(
    client: &Client,
    target: &Target,
    node: &Node,
    process: &str,
) -> Result<Option<(i64, Position)>, OpenError> {
    let failed = |error: Error| target.failed(&error);
    let sql = format!(
        "UPDATE node SET epoch = epoch + 1, last_batch = 0, clean = FALSE, owner = $1, \
         process = $2, lease_until = {}, \
         suspect = CASE WHEN clean THEN suspect ELSE (SELECT position FROM counter) END \
         WHERE id = 1 AND epoch = $3 AND last_batch = $4 RETURNING epoch, suspect",
        lease_end(target.lease)
    );
    let describe = process::describe();
    let params: [&(dyn ToSql + Sync); 4] = [&describe, &process, &node.epoch, &node.last_batch];
    let since = Instant::now();
    client.batch_execute("SET lock_timeout = '1s'").await.map_err(failed)?;
    let row = loop {
        match client.query_opt(&sql, &params).await {
            Ok(row) => break row,
            // Its backend may be in a batch that will never end.
            Err(error)
                if error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE)
                    && since.elapsed() < OPENING_MAX =>
            {
                let holders = "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE granted \
                     AND relation = 'node'::regclass AND pid <> pg_backend_pid() \
                     AND mode IN ('RowExclusiveLock', 'RowShareLock') AND database = \
                     (SELECT oid FROM pg_database WHERE datname = current_database())";
                client.execute(holders, &[]).await.map_err(failed)?;
            }
            Err(error) => return Err(failed(error)),
        }
    };
    client.batch_execute("RESET lock_timeout").await.map_err(failed)?;
    Ok(row.map(|row| (row.get(0), row.get(1))))
}

/// The recorded state of the store's clock.
pub(super) async fn clock(client: &Client) -> Result<ClockRecord, Error> {
    let row = client.query_one(queries::COUNTER, &[]).await?;
    Ok(ClockRecord { at: Timestamp(row.get(1)), delete_from: Timestamp(row.get(2)) })
}

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
