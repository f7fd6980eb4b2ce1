//! Queries of a library.

use steadfast_core::{Handle, Result, Turn, rusqlite::OptionalExtension};

use super::{
    GetArtifact, GetGeneration, Library, ListArtifacts, ListGenerations, ListTags, TagCount,
    Unreferred, rows,
};
use crate::{Artifact, Generation};

impl Handle<GetGeneration> for Library {
    const NAME: &'static str = "get-generation";
    type Reply = Option<Generation>;

    fn handle(&self, turn: &Turn<Self>, msg: GetGeneration) -> Result<Option<Generation>> {
        let select = "SELECT * FROM generations WHERE id = ?1";
        let found = turn.sql().query_row(select, [&msg.id], rows::read_generation).optional()?;
        found.map(|it| rows::whole_generation(turn.sql(), it)).transpose()
    }
}

impl Handle<ListGenerations> for Library {
    const NAME: &'static str = "list-generations";
    type Reply = Vec<Generation>;

    fn handle(&self, turn: &Turn<Self>, msg: ListGenerations) -> Result<Vec<Generation>> {
        let (sql, narrow) = (turn.sql(), msg.narrow);
        let (at, id) = narrow.after.unwrap_or((i64::MAX, String::new()));
        let mut select = sql.prepare(
            "SELECT * FROM generations WHERE (createdAt, id) < (?1, ?2) \
             AND (?3 IS NULL OR status = ?3) AND (?4 IS NULL OR model = ?4) \
             AND (?5 IS NULL OR EXISTS (SELECT 1 FROM tags WHERE tag = ?5 \
                  AND targetType = 'generation' AND targetId = generations.id)) \
             AND (?6 IS NULL OR ?6 <= createdAt) AND (?7 IS NULL OR createdAt < ?7) \
             ORDER BY createdAt DESC, id DESC LIMIT ?8",
        )?;
        let status = msg.status.map(|it| it.name());
        let asked =
            (at, id, status, narrow.model, narrow.tag, narrow.since, narrow.until, narrow.limit);
        let found = select.query_map(asked, rows::read_generation)?;
        let found: Vec<Generation> = found.collect::<steadfast_core::rusqlite::Result<_>>()?;
        found.into_iter().map(|it| rows::whole_generation(sql, it)).collect()
    }
}

impl Handle<GetArtifact> for Library {
    const NAME: &'static str = "get-artifact";
    type Reply = Option<Artifact>;

    fn handle(&self, turn: &Turn<Self>, msg: GetArtifact) -> Result<Option<Artifact>> {
        let select = "SELECT * FROM artifacts WHERE id = ?1";
        let found = turn.sql().query_row(select, [&msg.id], rows::read_artifact).optional()?;
        found.map(|it| rows::whole_artifact(turn.sql(), it)).transpose()
    }
}

impl Handle<Unreferred> for Library {
    const NAME: &'static str = "unreferred";
    type Reply = Vec<String>;

    fn handle(&self, turn: &Turn<Self>, msg: Unreferred) -> Result<Vec<String>> {
        let mut select = turn.sql().prepare("SELECT 1 FROM artifacts WHERE id = ?1")?;
        let mut unknown = Vec::new();
        for id in msg.ids {
            if !select.exists([&id])? {
                unknown.push(id);
            }
        }
        Ok(unknown)
    }
}

impl Handle<ListArtifacts> for Library {
    const NAME: &'static str = "list-artifacts";
    type Reply = Vec<Artifact>;

    /// A tag of its generation counts as its own.
    fn handle(&self, turn: &Turn<Self>, msg: ListArtifacts) -> Result<Vec<Artifact>> {
        let (sql, narrow) = (turn.sql(), msg.narrow);
        let (at, id) = narrow.after.unwrap_or((i64::MAX, String::new()));
        let mut select = sql.prepare(
            "SELECT * FROM artifacts WHERE (createdAt, id) < (?1, ?2) \
             AND (?3 IS NULL OR generationId = ?3) AND (?4 IS NULL OR model = ?4) \
             AND (?5 IS NULL OR EXISTS (SELECT 1 FROM tags WHERE tag = ?5 AND \
                  (targetType = 'artifact' AND targetId = artifacts.id \
                   OR targetType = 'generation' AND targetId = artifacts.generationId))) \
             AND (?6 IS NULL OR ?6 <= createdAt) AND (?7 IS NULL OR createdAt < ?7) \
             ORDER BY createdAt DESC, id DESC LIMIT ?8",
        )?;
        let asked = (
            at,
            id,
            msg.generation,
            narrow.model,
            narrow.tag,
            narrow.since,
            narrow.until,
            narrow.limit,
        );
        let found = select.query_map(asked, rows::read_artifact)?;
        let found: Vec<Artifact> = found.collect::<steadfast_core::rusqlite::Result<_>>()?;
        found.into_iter().map(|it| rows::whole_artifact(sql, it)).collect()
    }
}

impl Handle<ListTags> for Library {
    const NAME: &'static str = "list-tags";
    type Reply = Vec<TagCount>;

    /// Counts what a list that is narrowed by the tag has.
    fn handle(&self, turn: &Turn<Self>, _: ListTags) -> Result<Vec<TagCount>> {
        let mut select = turn.sql().prepare(
            "SELECT tag, sum(isGeneration), count(DISTINCT artifact) FROM ( \
                 SELECT tag, 1 AS isGeneration, NULL AS artifact FROM tags \
                 WHERE targetType = 'generation' \
             UNION ALL \
                 SELECT tag, 0, targetId FROM tags WHERE targetType = 'artifact' \
             UNION ALL \
                 SELECT tag, 0, artifacts.id FROM tags \
                 JOIN artifacts ON artifacts.generationId = tags.targetId \
                 WHERE targetType = 'generation') \
             GROUP BY tag ORDER BY tag",
        )?;
        let rows = select.query_map((), |row| {
            Ok(TagCount { tag: row.get(0)?, generations: row.get(1)?, artifacts: row.get(2)? })
        })?;
        Ok(rows.collect::<steadfast_core::rusqlite::Result<_>>()?)
    }
}
