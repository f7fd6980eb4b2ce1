//! The node row, which identifies the owner of the store: its lease, and its last batch. And the
//! writer's connection, over which batches were acknowledged.

use std::time::{Duration, Instant};

use deadpool_postgres::Object;
use parking_lot::{Mutex, MutexGuard};
use tokio_postgres::{Client, Error, GenericClient};

use crate::Position;

/// Duration of the lease after the last heartbeat.
pub(super) const LEASE: Duration = Duration::from_secs(6);

/// An owner stops answering this long before its lease ends: clocks run at different speeds.
const RESERVE: Duration = Duration::from_secs(1);

/// Interval between heartbeats of an idle owner.
pub(super) const HEARTBEAT: Duration = Duration::from_secs(2);

/// How long an owner with this lease answers after it requested the renewal.
pub(super) fn answers(lease: Duration) -> Duration {
    lease.saturating_sub(RESERVE)
}

/// The end of a lease that begins now, in SQL.
pub(super) fn lease_end(lease: Duration) -> String {
    format!("clock_timestamp() + interval '{} ms'", lease.as_millis())
}

/// The last acknowledged batch: a database that has less has lost commits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct AcknowledgedBatch {
    /// The epoch.
    pub(crate) epoch: i64,
    /// The last batch of this owner, which may have been a heartbeat.
    pub(crate) batch: i64,
    /// The last batch with commits.
    pub(crate) commits: i64,
    /// The last position.
    pub(crate) position: Position,
}

/// The row of the owner.
#[derive(PartialEq)]
pub(super) struct Node {
    pub(super) epoch: i64,
    pub(super) last_batch: i64,
    pub(super) owner: String,
    pub(super) process: String,
    /// When its lease ends, by the database's clock, in seconds; minus infinity after a clean
    /// shutdown.
    pub(super) lease_until: f64,
}

/// Reads the node row, with columns that every version has. `None` if there is no store yet.
pub(super) async fn look(client: &Client) -> Result<Option<Node>, Error> {
    if !exists(client, "node").await? {
        return Ok(None);
    }
    let sql = "SELECT epoch, last_batch, owner, process, \
         extract(epoch FROM lease_until)::float8 FROM node WHERE id = 1";
    Ok(client.query_opt(sql, &[]).await?.map(|row| Node {
        epoch: row.get(0),
        last_batch: row.get(1),
        owner: row.get(2),
        process: row.get(3),
        lease_until: row.get(4),
    }))
}

/// Whether the current schema has this table.
pub(super) async fn exists(client: &Client, table: &str) -> Result<bool, Error> {
    let sql = "SELECT to_regclass(format('%I.%I', current_schema(), $1::text)) IS NOT NULL";
    let row = client.query_one(sql, &[&table]).await?;
    Ok(row.get(0))
}

/// Records a clean shutdown, so that the next owner need not wait.
pub(super) async fn leave(client: &Client, epoch: i64) -> Result<(), Error> {
    let sql = "UPDATE node SET clean = TRUE, lease_until = '-infinity' WHERE id = 1 AND epoch = $1";
    client.execute(sql, &[&epoch]).await.map(|_| ())
}

/// Renews the lease, and returns whether there is such an owner: 1 or 0.
pub(super) async fn renew(
    client: &impl GenericClient,
    epoch: i64,
    lease: Duration,
) -> Result<u64, Error> {
    let lease_end = lease_end(lease);
    let sql = format!("UPDATE node SET lease_until = {lease_end} WHERE id = 1 AND epoch = $1");
    client.execute(&sql, &[&epoch]).await
}

/// Whether a database lacks an acknowledged batch.
pub(super) async fn is_behind(client: &Client, known: AcknowledgedBatch) -> Result<bool, Error> {
    let sql = "SELECT epoch, last_batch FROM node WHERE id = 1";
    let row = client.query_one(sql, &[]).await?;
    let (epoch, batch): (i64, i64) = (row.get(0), row.get(1));
    Ok(epoch < known.epoch || (epoch == known.epoch && batch < known.commits))
}

/// The writer's connection, and the last batch that was acknowledged over it.
pub(super) struct WriterLink(Mutex<State>);

struct State {
    acknowledged: AcknowledgedBatch,
    /// When the writer connected. Older connections may be to a server that was replaced.
    since: Instant,
}

impl WriterLink {
    pub(super) fn new(epoch: i64, position: Position) -> Self {
        let acknowledged = AcknowledgedBatch { epoch, batch: 0, commits: 0, position };
        Self(Mutex::new(State { acknowledged, since: now() }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock()
    }

    /// The batch that the database must have.
    pub(super) fn acknowledged(&self) -> AcknowledgedBatch {
        self.state().acknowledged
    }

    /// Records a batch that is about to be acknowledged.
    pub(super) fn acknowledge(&self, acknowledged: AcknowledgedBatch) {
        self.state().acknowledged = acknowledged;
    }

    /// The writer has connected again.
    pub(super) fn reconnected(&self, acknowledged: AcknowledgedBatch) {
        *self.state() = State { acknowledged, since: now() };
    }

    /// Whether a reader's connection is not older than the writer's.
    pub(super) fn is_current(&self, reader: &deadpool_postgres::Client) -> bool {
        self.state().since <= Object::metrics(reader).created
    }
}

#[expect(clippy::disallowed_methods, reason = "connections live in real time, in tests as well")]
fn now() -> Instant {
    Instant::now()
}
