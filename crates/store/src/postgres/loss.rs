//! Acknowledged commits that the database lacks: a replica that was behind became the primary, or a
//! backup was restored. The loss is recorded in the database, so that no owner continues by
//! accident.

use tokio_postgres::{Client, Error, GenericClient};

use super::{
    connect::Target,
    node::{self, AcknowledgedBatch},
};
use crate::{CommitsLost, OpenError, Position, Timestamp, process, sql::queries};

/// The gap in positions after a loss: no acknowledged position is reused.
const GAP: i64 = 1_000_000;

/// The histories of a store. Each loss begins a new one, whose messages have ids of their own.
#[derive(Clone, Debug, Default)]
pub(super) struct Lineages(Vec<(Position, i64)>);

impl Lineages {
    pub(super) async fn read(client: &Client) -> Result<Self, Error> {
        let sql = "SELECT begins, lineage FROM loss WHERE begins IS NOT NULL ORDER BY lineage";
        let rows = client.query(sql, &[]).await?;
        Ok(Self(rows.iter().map(|row| (row.get(0), row.get(1))).collect()))
    }

    /// The one that is written now.
    pub(super) fn current(&self) -> i64 {
        self.0.last().map_or(0, |it| it.1)
    }

    /// The history of a position.
    pub(super) fn of(&self, position: Position) -> i64 {
        self.0.iter().rev().find(|it| it.0 < position).map_or(0, |it| it.1)
    }
}

/// Refuses a store that lacks commits, until an operator has accepted the loss.
pub(super) async fn check(client: &Client, target: &Target) -> Result<(), OpenError> {
    let failed = |error: Error| target.failed(&error);
    if !node::exists(client, "loss").await.map_err(failed)? {
        return Ok(());
    }
    let sql = "SELECT batch_from, batch_to, kept, lost FROM loss WHERE begins IS NULL LIMIT 1";
    match client.query_opt(sql, &[]).await.map_err(failed)? {
        None => Ok(()),
        Some(row) => {
            let lost = CommitsLost {
                batches: (row.get(0), row.get(1)),
                positions: (row.get(2), row.get(3)),
            };
            Err(OpenError::CommitsLost { what: target.name.clone(), lost })
        }
    }
}

/// Records a loss, and returns the lost commits.
pub(super) async fn note(
    client: &impl GenericClient,
    known: AcknowledgedBatch,
    found: AcknowledgedBatch,
    at: Timestamp,
) -> Result<CommitsLost, Error> {
    let lost = CommitsLost {
        batches: ((found.commits + 1).min(known.commits), known.commits),
        positions: (found.position.min(known.position), known.position),
    };
    let sql = "INSERT INTO loss (lineage, batch_from, batch_to, kept, lost, owner, found_at) \
         SELECT coalesce(max(lineage), 0) + 1, $1, $2, $3, $4, $5, $6 FROM loss";
    let (batches, positions) = (lost.batches, lost.positions);
    let who = process::describe();
    client.execute(sql, &[&batches.0, &batches.1, &positions.0, &positions.1, &who, &at.0]).await?;
    Ok(lost)
}

/// Accepts the loss and begins a new history.
pub(super) async fn accept(client: &mut Client) -> Result<(), Error> {
    let tx = client.transaction().await?;
    let lost = "SELECT max(lost) FROM loss WHERE begins IS NULL";
    let Some(lost) = tx.query_one(lost, &[]).await?.get::<_, Option<i64>>(0) else {
        return Ok(());
    };
    let position: i64 = tx.query_one(queries::COUNTER, &[]).await?.get(0);
    let begins = position.max(lost) + GAP;
    tx.execute("UPDATE counter SET position = $1 WHERE id = 1", &[&begins]).await?;
    tx.execute("UPDATE loss SET begins = $1 WHERE begins IS NULL", &[&begins]).await?;
    tx.commit().await?;
    tracing::warn!(begins, "lost commits were accepted; a new history begins");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_belongs_to_the_history_it_was_written_in() {
        let lineages = Lineages(vec![(1_000, 1), (5_000, 3)]);
        let found = [1, 1_000, 1_001, 5_000, 5_001].map(|it| lineages.of(it));
        assert_eq!(found, [0, 0, 1, 1, 3]);
        assert_eq!(Lineages::default().of(7), 0);
    }
}
