//! Writes to a library. Each may come twice, and in any order.

use steadfast_core::{
    Handle, Object, Outcome, Result, Turn, rusqlite::OptionalExtension, store::crash,
};

use super::{
    Changed, DeleteArtifact, DeleteGeneration, GenerationChanged, Library, ReserveId, mirror, rows,
};
use crate::{
    Artifact, Discard, DiscardAgain, GenerationManager, LibraryHeard, OrphanSweep, StartSweep,
    ids::id_of, jobs::DISCARD_AGAIN, orphans::SWEEP,
};

impl Handle<ReserveId> for Library {
    const NAME: &'static str = "reserve-id";
    type Reply = String;

    fn handle(&self, turn: &Turn<Self>, msg: ReserveId) -> Result<String> {
        Ok(id_of(turn.now(), &format!("{} {}", turn.name(), msg.key)))
    }
}

impl Handle<GenerationChanged> for Library {
    const NAME: &'static str = "generation-changed";
    type Reply = ();

    fn handle(&self, turn: &Turn<Self>, msg: GenerationChanged) -> Result<()> {
        let (sql, mut generation) = (turn.sql(), msg.generation);
        // Artifacts are stored in the same turn: a reader who sees `ready` sees all of them.
        let artifacts = std::mem::take(&mut generation.artifacts);
        if rows::is_deleted(sql, &generation.id)? {
            if !artifacts.is_empty() {
                let artifacts = artifacts.into_iter().map(|it| it.id).collect();
                turn.perform(&Discard { workspace: turn.name().into(), artifacts });
            }
            return Ok(());
        }
        let select = "SELECT version FROM generations WHERE id = ?1";
        let known: Option<i64> =
            sql.query_row(select, [&generation.id], |it| it.get(0)).optional()?;
        if known.is_some_and(|it| msg.version <= it) {
            return Ok(());
        }
        sql.execute(
            "INSERT OR REPLACE INTO generations \
             (id, status, model, generation, version, createdAt, completedAt) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
            (
                &generation.id,
                generation.status.name(),
                &generation.request.model,
                serde_json::to_string(&generation)?,
                msg.version,
                generation.created_at,
                generation.completed_at,
            ),
        )?;
        artifacts.iter().try_for_each(|it| record(turn, it))?;
        crash::point("generation.library.written");
        if generation.completed_at.is_some() || !artifacts.is_empty() {
            let heard = LibraryHeard { version: msg.version };
            turn.send(GenerationManager::at(&generation.id), heard);
        }
        if known.is_none() {
            start_sweep(turn)?;
            // Only with the first word: later ones must not bring back what somebody has removed.
            for tag in &generation.request.tags {
                let insert = "INSERT OR IGNORE INTO tags VALUES (?1, 'generation', ?2)";
                sql.execute(insert, (tag, &generation.id))?;
            }
        }
        Ok(())
    }
}

/// From its first generation on, blobs that nothing refers to are looked for.
fn start_sweep(turn: &Turn<Library>) -> Result<()> {
    const STARTED: &str = "sweep-started";
    if turn.kv().get::<bool>(STARTED)?.is_none() {
        turn.kv().put(STARTED, &true)?;
        turn.send(OrphanSweep::at(SWEEP), StartSweep);
    }
    Ok(())
}

/// An artifact that is known, or was deleted, stays as it is.
fn record(turn: &Turn<Library>, artifact: &Artifact) -> Result<()> {
    if rows::is_deleted(turn.sql(), &artifact.id)? {
        return Ok(());
    }
    turn.sql().execute(
        "INSERT OR IGNORE INTO artifacts (id, generationId, model, artifact, createdAt) \
         VALUES (?1, ?2, ?3, ?4, ?5)",
        (
            &artifact.id,
            &artifact.generation_id,
            &artifact.model,
            serde_json::to_string(artifact)?,
            artifact.created_at,
        ),
    )?;
    Ok(())
}

impl Handle<DeleteGeneration> for Library {
    const NAME: &'static str = "delete-generation";
    type Reply = ();

    /// Rows, tags and blobs go; its id is remembered, for what is still on its way.
    fn handle(&self, turn: &Turn<Self>, msg: DeleteGeneration) -> Result<()> {
        let sql = turn.sql();
        let mut select = sql.prepare("SELECT id FROM artifacts WHERE generationId = ?1")?;
        let rows = select.query_map([&msg.id], |row| row.get(0))?;
        let artifacts: Vec<String> = rows.collect::<steadfast_core::rusqlite::Result<_>>()?;
        for id in &artifacts {
            forget(turn, id)?;
        }
        sql.execute("DELETE FROM artifacts WHERE generationId = ?1", [&msg.id])?;
        sql.execute("DELETE FROM generations WHERE id = ?1", [&msg.id])?;
        // Its key may be used again: for another one, not for this one.
        forget(turn, &msg.id)?;
        if !artifacts.is_empty() {
            turn.perform(&Discard { workspace: turn.name().into(), artifacts });
        }
        Ok(())
    }
}

impl Handle<DeleteArtifact> for Library {
    const NAME: &'static str = "delete-artifact";
    type Reply = Option<Changed>;

    fn handle(&self, turn: &Turn<Self>, msg: DeleteArtifact) -> Result<Option<Changed>> {
        let Some(generation) = mirror::generation_of(turn, &msg.id)? else { return Ok(None) };
        turn.sql().execute("DELETE FROM artifacts WHERE id = ?1", [&msg.id])?;
        forget(turn, &msg.id)?;
        let changed = mirror::tell(turn, &generation, Some(&msg.id))?;
        turn.perform(&Discard { workspace: turn.name().into(), artifacts: vec![msg.id] });
        Ok(Some(changed))
    }
}

/// Removes tags, and remembers that there was something.
fn forget(turn: &Turn<Library>, id: &str) -> Result<()> {
    turn.sql().execute("DELETE FROM tags WHERE targetId = ?1", [id])?;
    let insert = "INSERT OR IGNORE INTO deleted (id, at) VALUES (?1, ?2)";
    turn.sql().execute(insert, (id, turn.now().0))?;
    Ok(())
}

impl Handle<Outcome<Discard>> for Library {
    const NAME: &'static str = "discarded";
    type Reply = ();

    fn handle(&self, turn: &Turn<Self>, msg: Outcome<Discard>) -> Result<()> {
        if let Err(error) = msg.result {
            let Discard { workspace, artifacts } = msg.job;
            tracing::warn!(%error, ?artifacts, "blobs were not removed; it is tried again");
            let again = DiscardAgain { workspace, artifacts };
            turn.send_after(DISCARD_AGAIN, turn.address(), again);
        }
        Ok(())
    }
}

impl Handle<DiscardAgain> for Library {
    const NAME: &'static str = "discard-again";
    type Reply = ();

    fn handle(&self, turn: &Turn<Self>, msg: DiscardAgain) -> Result<()> {
        let DiscardAgain { workspace, artifacts } = msg;
        turn.perform(&Discard { workspace, artifacts });
        Ok(())
    }
}
