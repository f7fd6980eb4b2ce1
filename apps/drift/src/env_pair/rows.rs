//! The tables of a pair, and what is read from them.

use serde::{Deserialize, Serialize};
use steadfast::{
    Result,
    rusqlite::{Connection, OptionalExtension, Row},
};
use steadfast_ai::explain::Explanation;

use crate::{
    CompareError, CompareResult, Shown, Status, diff::EnvDiff, envelope::SignalEnvelope,
    trend::Trend,
};

/// `sequence` is the order: times may be the same. A number that was given is never given again,
/// also when its row is forgotten.
pub(super) const SCHEMA: &str = "\
    CREATE TABLE comparisons (
        sequence INTEGER PRIMARY KEY AUTOINCREMENT,
        id TEXT NOT NULL UNIQUE,
        comparison TEXT NOT NULL,
        direction TEXT NOT NULL,
        status TEXT NOT NULL CHECK (status IN ('running', 'completed', 'failed')),
        step TEXT,
        result TEXT,
        error TEXT,
        createdAt INTEGER NOT NULL,
        completedAt INTEGER
    ) STRICT;
    CREATE TABLE probes (
        id TEXT PRIMARY KEY,
        comparisonId TEXT NOT NULL,
        side TEXT NOT NULL CHECK (side IN ('left', 'right')),
        envelope TEXT NOT NULL,
        createdAt INTEGER NOT NULL
    ) STRICT;
    CREATE INDEX probesComparison ON probes (comparisonId)";

/// What is kept of a result; the probes are beside it.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct StoredResult {
    pub(super) diff: EnvDiff,
    pub(super) trend: Trend,
    pub(super) explanation: Option<Explanation>,
    pub(super) explanation_error: Option<CompareError>,
}

pub(super) fn is_running(sql: &Connection, id: &str) -> Result<bool> {
    let select = "SELECT 1 FROM comparisons WHERE id = ?1 AND status = 'running'";
    Ok(sql.query_row(select, [id], |_| Ok(())).optional()?.is_some())
}

pub(super) fn stored_result(sql: &Connection, id: &str) -> Result<Option<StoredResult>> {
    let select = "SELECT result FROM comparisons WHERE id = ?1 AND status = 'completed'";
    let text: Option<String> = sql.query_row(select, [id], |row| row.get(0)).optional()?;
    Ok(text.map(|it| serde_json::from_str(&it)).transpose()?)
}

struct Kept {
    sequence: i64,
    comparison: String,
    status: String,
    step: Option<String>,
    error: Option<String>,
    created_at: i64,
    completed_at: Option<i64>,
}

fn read(row: &Row<'_>) -> steadfast::rusqlite::Result<Kept> {
    Ok(Kept {
        sequence: row.get("sequence")?,
        comparison: row.get("comparison")?,
        status: row.get("status")?,
        step: row.get("step")?,
        error: row.get("error")?,
        created_at: row.get("createdAt")?,
        completed_at: row.get("completedAt")?,
    })
}

fn probe(sql: &Connection, id: &str, side: &str) -> Result<Option<SignalEnvelope>> {
    let select = "SELECT envelope FROM probes WHERE comparisonId = ?1 AND side = ?2";
    let text: Option<String> = sql.query_row(select, (id, side), |row| row.get(0)).optional()?;
    Ok(text.map(|it| serde_json::from_str(&it)).transpose()?)
}

/// A comparison, with all that is known of it.
pub(super) fn find(sql: &Connection, id: &str) -> Result<Option<Shown>> {
    let select = "SELECT * FROM comparisons WHERE id = ?1";
    let Some(kept) = sql.query_row(select, [id], read).optional()? else { return Ok(None) };
    let stored = stored_result(sql, id)?;
    let (mut diff, mut trend, mut explanation, mut explanation_error) = (None, None, None, None);
    if let Some(stored) = stored {
        (diff, trend) = (Some(stored.diff), Some(stored.trend));
        (explanation, explanation_error) = (stored.explanation, stored.explanation_error);
    }
    let result = CompareResult {
        comparison_id: id.into(),
        comparison: serde_json::from_str(&kept.comparison)?,
        left: probe(sql, id, "left")?,
        right: probe(sql, id, "right")?,
        diff,
        trend,
        explanation,
        explanation_error,
    };
    Ok(Some(Shown {
        comparison_id: id.into(),
        sequence: kept.sequence,
        // The table accepts no other.
        status: Status::from_name(&kept.status).unwrap_or(Status::Failed),
        step: kept.step,
        result: Some(result),
        error: kept.error.map(|it| serde_json::from_str(&it)).transpose()?,
        created_at: kept.created_at,
        completed_at: kept.completed_at,
    }))
}
