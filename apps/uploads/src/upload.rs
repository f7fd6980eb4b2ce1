//! One image, as its organization keeps it.

use serde::{Deserialize, Serialize};
use steadfast_core::{
    Error, Result, Sql,
    rusqlite::{OptionalExtension, Row},
};

use crate::{IMAGE_NOT_FOUND, classifier::Label};

/// The tables of an organization. `sequence` is the bucket's number of the change: it alone decides
/// what is newer.
pub(crate) const SCHEMA: &str = "\
    CREATE TABLE Upload (
        name TEXT PRIMARY KEY,
        eventId TEXT NOT NULL UNIQUE,
        workflowId TEXT NOT NULL UNIQUE,
        status TEXT NOT NULL CHECK (status IN ('queued', 'running', 'classified', 'failed')),
        classificationLabel TEXT,
        classificationScore REAL,
        topFive TEXT,
        error TEXT,
        sequence INTEGER NOT NULL,
        version TEXT NOT NULL,
        size INTEGER NOT NULL,
        contentType TEXT,
        retries INTEGER NOT NULL DEFAULT 0,
        createdAt INTEGER NOT NULL,
        updatedAt INTEGER NOT NULL,
        completedAt INTEGER
    ) STRICT;
    CREATE INDEX UploadCreated ON Upload (createdAt, name);
    -- The rows that are not final are few.
    CREATE INDEX UploadOpen ON Upload (name) WHERE status IN ('queued', 'running');
    CREATE TABLE Tombstone (
        name TEXT PRIMARY KEY,
        sequence INTEGER NOT NULL,
        deletedAt INTEGER NOT NULL
    ) STRICT;
    CREATE INDEX TombstoneDeleted ON Tombstone (deletedAt);
    -- Runs of images that ended without a result: of this write in all, and since its user last
    -- retried it.
    CREATE TABLE LostRun (
        name TEXT PRIMARY KEY,
        lost INTEGER NOT NULL,
        lostSinceRetry INTEGER NOT NULL
    ) STRICT";

/// How far an image is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// Its run is about to begin.
    Queued,
    /// It is being classified.
    Running,
    /// It has a label.
    Classified,
    /// It could not be classified.
    Failed,
}

steadfast_core::store::texts! {
    Status { Queued = "queued", Running = "running", Classified = "classified", Failed = "failed" }
}

impl Status {
    /// As it is stored and shown.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// The status of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        name.parse().ok()
    }
}

/// One image.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Upload {
    /// Its name in its organization.
    pub name: String,
    /// Which write of the image this is about.
    pub event_id: String,
    /// The run that classifies it.
    pub workflow_id: String,
    /// How far it is.
    pub status: Status,
    /// The label, if it is known.
    pub classification_label: Option<String>,
    /// How sure that is, from 0 to 1.
    pub classification_score: Option<f64>,
    /// The five most likely labels.
    pub top_five: Vec<Label>,
    /// Why it could not be classified.
    pub error: Option<String>,
    /// The bucket's number of the change.
    pub sequence: i64,
    /// The version of the blob.
    pub version: String,
    /// Its size in bytes.
    pub size: u64,
    /// Its media type, if it is known.
    pub content_type: Option<String>,
    /// How often somebody asked for another attempt.
    pub retries: u32,
    /// When it was uploaded, in milliseconds.
    pub created_at: i64,
    /// When something last changed.
    pub updated_at: i64,
    /// When it was classified, or failed.
    pub completed_at: Option<i64>,
}

pub(crate) fn read(row: &Row<'_>) -> steadfast_core::rusqlite::Result<Upload> {
    let status: String = row.get("status")?;
    let top_five: Option<String> = row.get("topFive")?;
    Ok(Upload {
        name: row.get("name")?,
        event_id: row.get("eventId")?,
        workflow_id: row.get("workflowId")?,
        // The table accepts no other.
        status: Status::from_name(&status).unwrap_or(Status::Failed),
        classification_label: row.get("classificationLabel")?,
        classification_score: row.get("classificationScore")?,
        top_five: top_five.and_then(|it| serde_json::from_str(&it).ok()).unwrap_or_default(),
        error: row.get("error")?,
        sequence: row.get("sequence")?,
        version: row.get("version")?,
        size: row.get("size")?,
        content_type: row.get("contentType")?,
        retries: row.get("retries")?,
        created_at: row.get("createdAt")?,
        updated_at: row.get("updatedAt")?,
        completed_at: row.get("completedAt")?,
    })
}

/// The row of a name.
pub(crate) fn find(sql: &Sql, name: &str) -> Result<Option<Upload>> {
    Ok(sql.query_row("SELECT * FROM Upload WHERE name = ?1", [name], read).optional()?)
}

/// Rows that are not final, by name, behind one.
pub(crate) fn open_rows(sql: &Sql, after: &str, limit: usize) -> Result<Vec<Upload>> {
    let mut select = sql.prepare(
        "SELECT * FROM Upload WHERE status IN ('queued', 'running') AND ?1 < name \
         ORDER BY name LIMIT ?2",
    )?;
    let rows = select.query_map((after, limit), read)?;
    Ok(rows.collect::<steadfast_core::rusqlite::Result<_>>()?)
}

/// The row of a run, if it is not final.
pub(crate) fn find_open(sql: &Sql, workflow_id: &str) -> Result<Option<Upload>> {
    let select = "SELECT * FROM Upload WHERE workflowId = ?1 AND status IN ('queued', 'running')";
    Ok(sql.query_row(select, [workflow_id], read).optional()?)
}

/// Whether there are rows that are not final.
pub(crate) fn has_open_rows(sql: &Sql) -> Result<bool> {
    let select = "SELECT EXISTS (SELECT 1 FROM Upload INDEXED BY UploadOpen \
                  WHERE status IN ('queued', 'running'))";
    Ok(sql.query_row(select, (), |row| row.get(0))?)
}

/// When the oldest deletion was that is remembered.
pub(crate) fn oldest_tombstone(sql: &Sql) -> Result<Option<i64>> {
    Ok(sql.query_row("SELECT min(deletedAt) FROM Tombstone", (), |row| row.get(0))?)
}

/// Runs of an image that were lost: in all, and since its user last retried it.
pub(crate) fn lost_runs(sql: &Sql, name: &str) -> Result<(u32, u32)> {
    let select = "SELECT lost, lostSinceRetry FROM LostRun WHERE name = ?1";
    let found = sql.query_row(select, [name], |row| Ok((row.get(0)?, row.get(1)?)));
    Ok(found.optional()?.unwrap_or_default())
}

/// Counts a run of an image that was lost.
pub(crate) fn lose_run(sql: &Sql, name: &str) -> Result<()> {
    let count = "INSERT INTO LostRun (name, lost, lostSinceRetry) VALUES (?1, 1, 1) \
                 ON CONFLICT (name) DO UPDATE SET lost = lost + 1, \
                 lostSinceRetry = lostSinceRetry + 1";
    sql.execute(count, [name])?;
    Ok(())
}

/// Another write begins without lost runs.
pub(crate) fn forget_lost_runs(sql: &Sql, name: &str) -> Result<()> {
    sql.execute("DELETE FROM LostRun WHERE name = ?1", [name])?;
    Ok(())
}

/// The number of the last known change of a name. Tombstones up to `expired` do not count.
pub(crate) fn last_sequence(sql: &Sql, name: &str, expired: i64) -> Result<i64> {
    let select = "SELECT max(sequence) FROM (SELECT sequence FROM Upload WHERE name = ?1 \
                  UNION ALL SELECT sequence FROM Tombstone WHERE name = ?1 AND ?2 < deletedAt)";
    let last: Option<i64> = sql.query_row(select, (name, expired), |row| row.get(0))?;
    Ok(last.unwrap_or(0))
}

pub(crate) fn unknown(name: &str) -> Error {
    Error::terminal(format!("image `{name}` does not exist")).with_code(IMAGE_NOT_FOUND)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_status_is_the_stored_one() {
        for (status, name) in [
            (Status::Queued, "queued"),
            (Status::Running, "running"),
            (Status::Classified, "classified"),
            (Status::Failed, "failed"),
        ] {
            assert_eq!((status.name(), Status::from_name(name)), (name, Some(status)));
        }
    }
}
