//! The tables of a pair, and what is read from them.

use serde::{Deserialize, Serialize};
use steadfast_core::{
    Result, Sql,
    rusqlite::{OptionalExtension, Row},
};

use crate::{
    Brief, CompareError, CompareResult, Shown, Status, diff::EnvDiff, envelope::SignalEnvelope,
    explain::Explanation, trend::Trend,
};

/// `sequence` is the order: times may be the same. A number that was given is never given again,
/// also when its row is forgotten. `ended` is the order of ends: the oldest end is forgotten first.
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
        completedAt INTEGER,
        ended INTEGER,
        -- The URLs, encrypted, if there are secrets in them.
        sealed TEXT
    ) STRICT;
    CREATE TABLE probes (
        id TEXT PRIMARY KEY,
        comparisonId TEXT NOT NULL,
        side TEXT NOT NULL CHECK (side IN ('left', 'right')),
        envelope TEXT NOT NULL,
        createdAt INTEGER NOT NULL
    ) STRICT;
    CREATE INDEX probesComparison ON probes (comparisonId)";

/// The stored part of a result; the probes are beside it.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct StoredResult {
    pub(super) diff: EnvDiff,
    pub(super) trend: Trend,
    pub(super) explanation: Option<Explanation>,
    pub(super) explanation_error: Option<CompareError>,
}

pub(super) fn is_running(sql: &Sql, id: &str) -> Result<bool> {
    let select = "SELECT 1 FROM comparisons WHERE id = ?1 AND status = 'running'";
    Ok(sql.query_row(select, [id], |_| Ok(())).optional()?.is_some())
}

/// How far a comparison is, and what it does.
pub(super) fn standing(sql: &Sql, id: &str) -> Result<Option<(Status, Option<String>)>> {
    let select = "SELECT status, step FROM comparisons WHERE id = ?1";
    let read = |row: &Row<'_>| Ok((row.get::<_, String>(0)?, row.get(1)?));
    let found = sql.query_row(select, [id], read).optional()?;
    Ok(found.and_then(|(status, step)| Some((Status::from_name(&status)?, step))))
}

/// Which URLs it compares, in their order.
pub(super) fn direction(sql: &Sql, id: &str) -> Result<String> {
    let select = "SELECT direction FROM comparisons WHERE id = ?1";
    Ok(sql.query_row(select, [id], |row| row.get(0))?)
}

/// Its encrypted URLs.
pub(super) fn sealed(sql: &Sql, id: &str) -> Result<Option<String>> {
    let select = "SELECT sealed FROM comparisons WHERE id = ?1";
    Ok(sql.query_row(select, [id], |row| row.get(0)).optional()?.flatten())
}

/// Its place in the history; 0 if there is none.
pub(super) fn sequence(sql: &Sql, id: &str) -> Result<i64> {
    let select = "SELECT sequence FROM comparisons WHERE id = ?1";
    Ok(sql.query_row(select, [id], |row| row.get(0)).optional()?.unwrap_or_default())
}

pub(super) fn stored_result(sql: &Sql, id: &str) -> Result<Option<StoredResult>> {
    let select = "SELECT result FROM comparisons WHERE id = ?1 AND status = 'completed'";
    let text: Option<String> = sql.query_row(select, [id], |row| row.get(0)).optional()?;
    Ok(text.map(|it| serde_json::from_str(&it)).transpose()?)
}

/// A line of the history. The database looks into the results: they are long.
pub(super) const BRIEF: &str = "\
    SELECT id, sequence, comparison, status, createdAt, completedAt, \
        json_extract(result, '$.diff.maxSeverity') AS worst, \
        coalesce(json_array_length(result, '$.diff.findings'), 0) AS findings, \
        coalesce(json_array_length(result, '$.trend.new'), 0) AS new, \
        coalesce(json_array_length(result, '$.trend.recurring'), 0) AS recurring, \
        coalesce(json_array_length(result, '$.trend.resolved'), 0) AS resolved \
    FROM comparisons WHERE sequence < ?1 ORDER BY sequence DESC LIMIT ?2";

pub(super) fn brief(row: &Row<'_>) -> Result<Brief> {
    Ok(Brief {
        comparison_id: row.get("id")?,
        sequence: row.get("sequence")?,
        comparison: serde_json::from_str(&row.get::<_, String>("comparison")?)?,
        status: Status::from_name(&row.get::<_, String>("status")?).unwrap_or(Status::Failed),
        max_severity: row.get("worst")?,
        findings: row.get("findings")?,
        new: row.get("new")?,
        recurring: row.get("recurring")?,
        resolved: row.get("resolved")?,
        created_at: row.get("createdAt")?,
        completed_at: row.get("completedAt")?,
    })
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

fn read(row: &Row<'_>) -> steadfast_core::rusqlite::Result<Kept> {
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

fn probe(sql: &Sql, id: &str, side: &str) -> Result<Option<SignalEnvelope>> {
    let select = "SELECT envelope FROM probes WHERE comparisonId = ?1 AND side = ?2";
    let text: Option<String> = sql.query_row(select, (id, side), |row| row.get(0)).optional()?;
    Ok(text.map(|it| serde_json::from_str(&it)).transpose()?)
}

/// A comparison, with all that is known of it.
pub(super) fn find(sql: &Sql, id: &str) -> Result<Option<Shown>> {
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
