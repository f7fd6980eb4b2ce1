//! Changes in a library while the manager of a generation is still there. The manager shows them,
//! too, so that a request for one generation does not wait for a library that is busy with all.

use serde::{Deserialize, Serialize};
use steadfast_core::{Object, Result, Turn, rusqlite::OptionalExtension};

use super::{Library, rows};
use crate::{GenerationManager, LibraryChanged};

/// A change, and the generation whose manager is notified. The library sends the message itself; a
/// caller that wants to see the change at once may deliver it earlier.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Changed {
    /// The generation.
    pub generation: String,
    /// The change.
    pub change: LibraryChanged,
}

/// Tells the manager. One that is not there any more takes no notice.
pub(super) fn tell(
    turn: &Turn<Library>,
    generation: &str,
    artifact: Option<&str>,
) -> Result<Changed> {
    let sql = turn.sql();
    let tags = match artifact {
        Some(id) if rows::is_deleted(sql, id)? => None,
        Some(id) => Some(rows::tags_of(sql, "artifact", id)?),
        None => Some(rows::tags_of(sql, "generation", generation)?),
    };
    let artifact = artifact.map(str::to_owned);
    let change = LibraryChanged { artifact, tags, turn: turn.seq() };
    turn.send(GenerationManager::at(generation), change.clone());
    Ok(Changed { generation: generation.into(), change })
}

/// The generation that an artifact belongs to.
pub(super) fn generation_of(turn: &Turn<Library>, artifact: &str) -> Result<Option<String>> {
    let select = "SELECT generationId FROM artifacts WHERE id = ?1";
    Ok(turn.sql().query_row(select, [artifact], |row| row.get(0)).optional()?)
}
