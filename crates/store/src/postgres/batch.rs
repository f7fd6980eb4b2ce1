//! Reads the rows that a batch needs and writes those of its plan: one round trip each, with one
//! statement for each kind of row, whose rows are arrays.
//!
//! Requests are sent in a fixed order, without waiting for the replies in between. The server
//! executes them in the order in which the driver queued them, and a write that is queued behind
//! COMMIT runs outside of the transaction. The driver queues a request when its future is first
//! polled, so [`send`] polls it once, and the order of the calls is the order of the requests.
//! Combinators such as `join_all` promise no order of first polls.

use std::{
    future::{Future, poll_fn},
    task::Poll,
};

use futures_util::future::{BoxFuture, FutureExt, try_join_all};
use tokio_postgres::{Client, Error, Row, Statement, types::ToSql};

use super::{
    batch_error::BatchError,
    read::{numbered, params},
};
use crate::{
    Query, StoreError, Sweep,
    plan::{Candidates, Facts, Needs, Plan},
    sql::{CHANGES, Dialect, READS, RowReader, Value},
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

/// Finds the rows that a sweep may delete, in a round trip of its own.
pub(super) async fn candidates(client: &Client, sweep: Sweep) -> Result<Candidates, BatchError> {
    let query = Query::candidates(sweep, sweep.list.page());
    let mut found = query.no_rows();
    for statement in query.statements(Dialect::Postgres) {
        for row in client.query(&numbered(&statement), &params(&statement)).await? {
            let added = found.add(&row, statement.text);
            added.map_err(|error| BatchError::Bug(error.to_string()))?;
        }
    }
    Ok(found.into_candidates())
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

/// The parameters of a statement, as arrays.
pub(super) type Arrays<'a> = Vec<Vec<Value<'a>>>;

/// The reply to a request that was sent.
pub(super) enum PendingReply<'a, T> {
    /// The request failed before it was sent, or the reply is already here.
    Ready(T),
    /// The driver has the request.
    Waiting(BoxFuture<'a, T>),
}

impl<T> PendingReply<'_, T> {
    /// Waits for the reply. Wait in the order of the requests: the driver buffers only a part of a
    /// reply, and passes on no later reply before the earlier ones are taken or dropped.
    pub(super) async fn wait(self) -> T {
        match self {
            PendingReply::Ready(reply) => reply,
            PendingReply::Waiting(request) => request.await,
        }
    }
}

/// Sends a request and returns immediately.
pub(super) async fn send<'a, T>(
    request: impl Future<Output = T> + Send + 'a,
) -> PendingReply<'a, T> {
    let mut request = request.boxed();
    match poll_fn(|cx| Poll::Ready(request.poll_unpin(cx))).await {
        Poll::Ready(reply) => PendingReply::Ready(reply),
        Poll::Pending => PendingReply::Waiting(request),
    }
}

/// The parameters as the driver takes them.
pub(super) fn references<'a>(arrays: &'a Arrays<'_>) -> Vec<&'a (dyn ToSql + Sync)> {
    arrays.iter().map(|it| it as &(dyn ToSql + Sync)).collect()
}

#[cfg(test)]
mod tests {
    use std::mem;

    use parking_lot::Mutex;

    use super::*;

    /// A request that records when it is sent, and whose reply arrives at once.
    async fn request(sent: &Mutex<Vec<usize>>, number: usize) -> usize {
        let mut is_sent = false;
        poll_fn(|cx| {
            if mem::replace(&mut is_sent, true) {
                return Poll::Ready(number);
            }
            sent.lock().push(number);
            cx.waker().wake_by_ref();
            Poll::Pending
        })
        .await
    }

    #[tokio::test]
    async fn requests_are_sent_in_order_even_if_replies_arrive_meanwhile() {
        let sent = Mutex::new(Vec::new());
        let mut replies = Vec::new();
        for number in 0..40 {
            replies.push(send(request(&sent, number)).await);
        }
        let committed = send(request(&sent, 40)).await;
        let in_order: Vec<usize> = (0..=40).collect();
        assert_eq!(*sent.lock(), in_order, "nothing is sent after the last one");
        for (number, reply) in replies.into_iter().enumerate() {
            assert_eq!(reply.wait().await, number);
        }
        assert_eq!(committed.wait().await, 40);
    }
}
