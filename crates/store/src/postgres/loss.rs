//! Acknowledged commits that the database lacks: a replica that was behind became the primary, or a
//! backup was restored. The loss is recorded in the database, so that no owner continues by
//! accident.
//!
//! A memo, a file on the machine of the owner, has the last acknowledged batch. If owner and
//! database are lost together, the next owner on this machine notices that commits are missing.

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use serde::{Deserialize, Serialize};
use tokio::{
    task::JoinHandle,
    time::{Instant, timeout},
};
use tokio_postgres::{Client, Error, GenericClient};

use super::{
    connect::Target,
    node::{self, AcknowledgedBatch, Node},
};
use crate::{CommitsLost, OpenError, Position, Timestamp, private, process, sql::queries};

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

/// Minimum interval between two writes of the file.
const WRITE_EVERY: Duration = Duration::from_secs(1);

/// Maximum wait for the last note.
const END_MAX: Duration = Duration::from_secs(5);

/// The entry with the name of a store. It tells the store of a file from others.
pub(super) const NAME: (&str, &[u8]) = ("system", b"store-name");

/// The contents of the file. Batch numbers belong to the process.
#[derive(Debug, Serialize, Deserialize)]
struct Contents {
    store: String,
    lineage: i64,
    process: String,
    epoch: i64,
    commits: i64,
    position: Position,
}

/// Reads the name of a store; `None` if it has none yet.
pub(super) async fn name_of(client: &Client) -> Result<Option<String>, Error> {
    let value = "SELECT value FROM entry WHERE space = $1 AND key = $2";
    let row = client.query_opt(value, &[&NAME.0, &NAME.1]).await?;
    Ok(row.and_then(|row| row.get(0)).and_then(|it: String| serde_json::from_str(&it).ok()))
}

/// The last batch that this machine knows, and the one found in the database, if that is an older
/// one. `lineage` is the current history of the database.
pub(super) fn missing(
    file: &Path,
    store: &str,
    lineage: i64,
    (node, position): (&Node, Position),
) -> io::Result<Option<(AcknowledgedBatch, AcknowledgedBatch)>> {
    let text = match fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let known: Contents = serde_json::from_str(&text)?;
    // Commits whose loss was accepted are not missing.
    if known.store != store || known.lineage < lineage {
        return Ok(None);
    }
    let is_same = node.process == known.process;
    let commits = if is_same { node.last_batch } else { 0 };
    let is_behind = lineage < known.lineage
        || position < known.position
        || ((is_same || node.epoch < known.epoch) && commits < known.commits);
    if !is_behind {
        return Ok(None);
    }
    let Contents { epoch, commits: batch, position: last, .. } = known;
    let known = AcknowledgedBatch { epoch, batch, commits: batch, position: last };
    let found = AcknowledgedBatch { epoch: node.epoch, batch: node.last_batch, commits, position };
    Ok(Some((known, found)))
}

/// Writes the file, behind the commits.
#[derive(Debug)]
pub(super) struct Memo {
    file: PathBuf,
    store: String,
    process: String,
    lineage: i64,
    /// The contents of the file.
    last: Option<AcknowledgedBatch>,
    written_at: Option<Instant>,
    writing: Option<JoinHandle<()>>,
}

impl Memo {
    pub(super) fn new(file: PathBuf, store: String, process: String, lineage: i64) -> Self {
        Self { file, store, process, lineage, last: None, written_at: None, writing: None }
    }

    /// Notes what was acknowledged, unless the file was written a moment ago. Without a commit of
    /// this process the note of the one before stays true.
    pub(super) fn note(&mut self, known: AcknowledgedBatch) {
        let is_early = self.written_at.is_some_and(|it| it.elapsed() < WRITE_EVERY);
        let is_busy = self.writing.as_ref().is_some_and(|it| !it.is_finished());
        let AcknowledgedBatch { epoch, commits, position, .. } = known;
        let is_new = self.last.is_none_or(|it| (it.commits, it.position) != (commits, position));
        if is_early || is_busy || !is_new || commits == 0 {
            return;
        }
        (self.last, self.written_at) = (Some(known), Some(Instant::now()));
        let (store, process, lineage) = (self.store.clone(), self.process.clone(), self.lineage);
        let contents = Contents { store, lineage, process, epoch, commits, position };
        let file = self.file.clone();
        self.writing = Some(tokio::task::spawn_blocking(move || write(&file, &contents)));
    }

    /// Notes it at the end. A folder that does not answer is not waited for.
    pub(super) async fn end(mut self, known: AcknowledgedBatch) {
        let last = async {
            if let Some(writing) = self.writing.take() {
                let _ = writing.await;
            }
            self.written_at = None;
            self.note(known);
            if let Some(writing) = self.writing.take() {
                let _ = writing.await;
            }
        };
        let _ = timeout(END_MAX, last).await;
    }
}

fn write(file: &Path, contents: &Contents) {
    let written = serde_json::to_string(contents).map_err(io::Error::from);
    let written = written.and_then(|text| {
        let new = file.with_extension("new");
        let opened = private::open_file(&new)?;
        opened.set_len(0)?;
        fs::write(&new, text)?;
        opened.sync_all()?;
        fs::rename(&new, file)
    });
    if let Err(error) = written {
        tracing::warn!(%error, "what was acknowledged last could not be noted in the data folder");
    }
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
