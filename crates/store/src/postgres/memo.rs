//! The last acknowledged batch, in a file on the machine of the owner. If owner and database are
//! lost together, the next owner on this machine notices a database that lacks commits.

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
use tokio_postgres::{Client, Error};

use super::node::{AcknowledgedBatch, Node};
use crate::{Position, private};

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
