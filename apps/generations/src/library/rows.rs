//! The tables of a library.

use steadfast_core::{
    Result, Sql,
    rusqlite::{OptionalExtension, Row},
};

use crate::{Artifact, Generation, GenerationStatus};

pub(super) const SCHEMA: &str = "\
    CREATE TABLE generations (
        id TEXT PRIMARY KEY,
        status TEXT NOT NULL,
        model TEXT NOT NULL,
        generation TEXT NOT NULL,
        version INTEGER NOT NULL,
        createdAt INTEGER NOT NULL,
        completedAt INTEGER
    ) STRICT;
    CREATE INDEX generationsCreated ON generations (createdAt, id);
    CREATE TABLE artifacts (
        id TEXT PRIMARY KEY,
        generationId TEXT NOT NULL,
        model TEXT NOT NULL,
        artifact TEXT NOT NULL,
        createdAt INTEGER NOT NULL
    ) STRICT;
    CREATE INDEX artifactsCreated ON artifacts (createdAt, id);
    CREATE INDEX artifactsGeneration ON artifacts (generationId);
    CREATE TABLE tags (
        tag TEXT NOT NULL,
        targetType TEXT NOT NULL CHECK (targetType IN ('generation', 'artifact')),
        targetId TEXT NOT NULL,
        PRIMARY KEY (tag, targetType, targetId)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX tagsTarget ON tags (targetType, targetId);
    CREATE TABLE deleted (id TEXT PRIMARY KEY, at INTEGER NOT NULL) STRICT";

/// The JSON of a row; a column that cannot be read is a damaged library.
fn json<T: serde::de::DeserializeOwned>(
    row: &Row<'_>,
    column: &str,
) -> steadfast_core::rusqlite::Result<T> {
    let text: String = row.get(column)?;
    serde_json::from_str(&text).map_err(|_| steadfast_core::rusqlite::Error::InvalidQuery)
}

pub(super) fn read_generation(row: &Row<'_>) -> steadfast_core::rusqlite::Result<Generation> {
    json(row, "generation")
}

pub(super) fn read_artifact(row: &Row<'_>) -> steadfast_core::rusqlite::Result<Artifact> {
    json(row, "artifact")
}

pub(super) fn tags_of(sql: &Sql, target: &str, id: &str) -> Result<Vec<String>> {
    let mut select =
        sql.prepare("SELECT tag FROM tags WHERE targetType = ?1 AND targetId = ?2 ORDER BY tag")?;
    let rows = select.query_map((target, id), |row| row.get(0))?;
    Ok(rows.collect::<steadfast_core::rusqlite::Result<_>>()?)
}

/// Adds what is kept beside it.
pub(super) fn whole_artifact(sql: &Sql, mut artifact: Artifact) -> Result<Artifact> {
    artifact.tags = tags_of(sql, "artifact", &artifact.id)?;
    Ok(artifact)
}

/// Adds what is kept beside it.
pub(super) fn whole_generation(sql: &Sql, mut found: Generation) -> Result<Generation> {
    found.request.tags = tags_of(sql, "generation", &found.id)?;
    let mut select = sql.prepare("SELECT * FROM artifacts WHERE generationId = ?1")?;
    let rows = select.query_map([&found.id], read_artifact)?;
    let artifacts: Vec<Artifact> = rows.collect::<steadfast_core::rusqlite::Result<_>>()?;
    for artifact in artifacts {
        found.artifacts.push(whole_artifact(sql, artifact)?);
    }
    found.artifacts.sort_by_key(|it| it.index);
    // Stored artifacts count, whatever the last message said.
    let ready = u32::try_from(found.artifacts.len()).unwrap_or(u32::MAX);
    if found.counts.ready < ready && found.status == GenerationStatus::Failed {
        found.status = GenerationStatus::Ready;
    }
    Ok(found)
}

pub(super) fn is_deleted(sql: &Sql, id: &str) -> Result<bool> {
    let select = "SELECT 1 FROM deleted WHERE id = ?1";
    Ok(sql.query_row(select, [id], |_| Ok(())).optional()?.is_some())
}
