//! What the library has of this generation: whether it has heard of the end, and what people have
//! changed.

use std::collections::HashMap;

use steadfast::{Handle, Result, Turn};

use super::{
    GenerationManager,
    rows::{self, Kept},
};
use crate::{Generation, GenerationMessage, GenerationStatus, LibraryChanged, LibraryHeard};

impl Handle<LibraryChanged> for GenerationManager {
    const NAME: &'static str = "library-changed";
    type Reply = ();

    fn handle(&self, turn: &Turn<Self>, msg: LibraryChanged) -> Result<()> {
        if rows::request(turn)?.is_none() {
            return Ok(());
        }
        let tags = msg.tags.map(|it| serde_json::to_string(&it)).transpose()?;
        turn.sql().execute(
            "INSERT INTO mirror (id, tags, turn) VALUES (?1, ?2, ?3) \
             ON CONFLICT (id) DO UPDATE SET tags = excluded.tags, turn = excluded.turn \
             WHERE turn < excluded.turn",
            (msg.artifact.unwrap_or_default(), tags, msg.turn),
        )?;
        Ok(())
    }
}

impl Handle<LibraryHeard> for GenerationManager {
    const NAME: &'static str = "library-heard";
    type Reply = ();

    fn handle(&self, turn: &Turn<Self>, msg: LibraryHeard) -> Result<()> {
        let Some(before) = rows::request(turn)?.filter(|it| it.heard < msg.version) else {
            return Ok(());
        };
        turn.sql().execute("UPDATE request SET heard = ?1", [msg.version])?;
        let was_over = before.is_over();
        let kept = Kept { heard: msg.version, ..before };
        if !was_over && kept.is_over() && !kept.is_deleted {
            tell_of_the_end(turn, &kept)?;
        }
        Ok(())
    }
}

/// Tells everybody who watches that it is over.
pub(super) fn tell_of_the_end(turn: &Turn<GenerationManager>, kept: &Kept) -> Result<()> {
    let generation = Box::new(shown(turn, kept)?);
    turn.broadcast(&GenerationMessage::GenerationFinished { generation });
    Ok(())
}

/// Shows a generation as the library has it: with tags, without what was deleted, and not over
/// before it is over there.
pub(super) fn shown(turn: &Turn<GenerationManager>, kept: &Kept) -> Result<Generation> {
    let mut generation = rows::generation(turn, kept)?;
    if !kept.is_over() {
        (generation.status, generation.completed_at) = (GenerationStatus::Active, None);
    }
    let mut select = turn.sql().prepare("SELECT id, tags FROM mirror")?;
    let rows = select.query_map((), |row| Ok((row.get(0)?, row.get(1)?)))?;
    let mut changed = HashMap::new();
    for row in rows {
        let (id, tags): (String, Option<String>) = row?;
        let tags: Option<Vec<String>> = tags.map(|it| serde_json::from_str(&it)).transpose()?;
        changed.insert(id, tags);
    }
    if let Some(Some(tags)) = changed.remove("") {
        generation.request.tags = tags;
    }
    // As the library has them.
    generation.request.tags.sort_unstable();
    generation.request.tags.dedup();
    generation.artifacts.retain_mut(|it| match changed.remove(&it.id) {
        Some(None) => false,
        Some(Some(tags)) => {
            it.tags = tags;
            true
        }
        None => true,
    });
    Ok(generation)
}
