//! Reads the rows that a batch needs and writes those of its plan: one round trip each, with one
//! statement for each kind of row, whose rows are arrays.

use futures_util::future::try_join_all;
use tokio_postgres::{Client, Error, Row, Statement};

use super::{
    batch_error::BatchError,
    pipeline::{Arrays, PendingReply, references, send},
};
use crate::{
    StoreError,
    plan::{Facts, Needs, Plan},
    sql::{CHANGES, READS, RowReader},
};

/// The statements of a connection, prepared.
pub(super) struct Statements {
    reads: Vec<Statement>,
    writes: Vec<Statement>,
}

/// The parameters of the reads; `None` if no row is needed.
pub(super) type Keys<'a> = Vec<Option<Arrays<'a>>>;

/// Replies to the reads.
type Replies<'a> = Vec<PendingReply<'a, Result<Vec<Row>, Error>>>;

pub(super) fn keys(needs: &Needs) -> Keys<'_> {
    let arrays = READS.iter().map(|it| (0 < it.keys.len(needs)).then(|| it.keys.arrays(needs)));
    arrays.collect()
}

impl Statements {
    pub(super) async fn prepare(client: &Client) -> Result<Self, Error> {
        let reads = READS.iter().map(|it| client.prepare(&it.sql.postgres));
        let writes = CHANGES.iter().map(|it| client.prepare(&it.sql.postgres));
        Ok(Self { reads: try_join_all(reads).await?, writes: try_join_all(writes).await? })
    }

    /// Sends the reads of the rows that are needed.
    pub(super) async fn read<'a>(&'a self, client: &'a Client, keys: &'a Keys<'a>) -> Replies<'a> {
        let mut replies = Vec::with_capacity(keys.len());
        for (statement, keys) in self.reads.iter().zip(keys) {
            let query = async move {
                let Some(keys) = keys else { return Ok(Vec::new()) };
                client.query(statement, &references(keys)).await
            };
            replies.push(send(query).await);
        }
        replies
    }

    /// Writes the plan and commits. Once this is polled, the commit may happen.
    pub(super) async fn write(&self, client: &Client, plan: &Plan) -> Result<(), WriteFailure> {
        let rows = CHANGES.iter().map(|it| &it.rows);
        let arrays: Vec<Option<Arrays<'_>>> =
            rows.map(|it| (0 < it.len(plan)).then(|| it.arrays(plan))).collect();
        let mut replies = Vec::with_capacity(arrays.len());
        // Sent in this order without waiting: if a write fails, COMMIT rolls back.
        for (statement, arrays) in self.writes.iter().zip(&arrays) {
            let Some(arrays) = arrays else { continue };
            let write = async move { client.execute(statement, &references(arrays)).await };
            let reply = send(write).await;
            if let PendingReply::Ready(Err(error)) = reply {
                // It was not sent, so COMMIT would commit the others without it.
                return Err(WriteFailure::Statement(error));
            }
            replies.push(reply);
        }
        let committed = send(client.batch_execute("COMMIT")).await;
        let mut written = Ok(());
        for reply in replies {
            // The first error counts: those behind it only report that the transaction is aborted.
            written = written.and(reply.wait().await.map(|_| ()));
        }
        let committed = committed.wait().await;
        written.map_err(WriteFailure::Statement)?;
        committed.map_err(WriteFailure::Commit)
    }
}

/// Waits for the rows of the reads.
pub(super) async fn facts(replies: Replies<'_>) -> Result<Facts, BatchError> {
    let mut answers = Vec::with_capacity(replies.len());
    for reply in replies {
        // The first error in order is the cause of those behind it.
        answers.push(reply.wait().await?);
    }
    let mut facts = Facts::default();
    let mut load = || {
        for (read, rows) in READS.iter().zip(&answers) {
            if read.must_find && rows.is_empty() {
                return Err(StoreError::corrupt("the counter is missing"));
            }
            rows.iter().try_for_each(|row| (read.load)(&mut RowReader::new(row), &mut facts))?;
        }
        Ok(())
    };
    load().map_err(|error| BatchError::Bug(error.to_string()))?;
    Ok(facts)
}

/// The statement that failed.
pub(super) enum WriteFailure {
    /// A write: COMMIT, sent behind it, rolled back.
    Statement(Error),
    /// COMMIT itself: it may have happened.
    Commit(Error),
}
