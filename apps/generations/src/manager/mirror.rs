//! What the library has of this generation, as far as people have changed it.

use std::collections::HashMap;

use steadfast::{Handle, Result, Turn};

use super::{GenerationManager, rows};
use crate::{Generation, LibraryChanged};

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

/// Shows a generation as the library has it: with tags, and without what was deleted.
pub(super) fn shown(
    turn: &Turn<GenerationManager>,
    mut generation: Generation,
) -> Result<Generation> {
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
