//! What people change in a library while a generation is under way: its manager shows it, too, so
//! that whoever asks how far one is need not ask a library that is busy with all of them.

use serde::{Deserialize, Serialize};
use steadfast::{Object, Result, Turn, rusqlite::OptionalExtension};

use super::{Library, rows};
use crate::GenerationManager;

/// What the library has of a generation that is under way.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LibraryChanged {
    /// Of which artifact; nothing for the generation itself.
    pub artifact: Option<String>,
    /// Its tags; nothing if it was deleted.
    pub tags: Option<Vec<String>>,
    /// The turn of the library: words come in any order, and the last one counts.
    pub turn: i64,
}

/// Tells the manager, if there is something to manage.
pub(super) fn tell(turn: &Turn<Library>, generation: &str, artifact: Option<&str>) -> Result<()> {
    let sql = turn.sql();
    let select = "SELECT 1 FROM generations WHERE id = ?1 AND status = 'active'";
    if sql.query_row(select, [generation], |_| Ok(())).optional()?.is_none() {
        return Ok(());
    }
    let tags = match artifact {
        Some(id) if rows::is_deleted(sql, id)? => None,
        Some(id) => Some(rows::tags_of(sql, "artifact", id)?),
        None => Some(rows::tags_of(sql, "generation", generation)?),
    };
    let artifact = artifact.map(str::to_owned);
    turn.send(
        GenerationManager::at(generation),
        LibraryChanged { artifact, tags, turn: turn.seq() },
    );
    Ok(())
}

/// The generation that an artifact belongs to.
pub(super) fn generation_of(turn: &Turn<Library>, artifact: &str) -> Result<Option<String>> {
    let select = "SELECT generationId FROM artifacts WHERE id = ?1";
    Ok(turn.sql().query_row(select, [artifact], |row| row.get(0)).optional()?)
}
