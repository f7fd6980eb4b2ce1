//! A generation as those who watch it see it.

use std::collections::HashMap;

use steadfast_core::{Result, Turn};

use super::{
    GenerationManager,
    rows::{self, Kept},
};
use crate::{Generation, GenerationMessage, GenerationStatus, TaskState};

/// Tells everybody who watches how far a task is.
pub(super) fn tell(turn: &Turn<GenerationManager>, index: u32) -> Result<()> {
    if let Some(task) = rows::task_at(turn, index)? {
        turn.broadcast(&GenerationMessage::TaskChanged { task: task.view(turn.name()) });
    }
    Ok(())
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
    generation.library_error.clone_from(&kept.library_error);
    for task in rows::tasks(turn)?.iter().filter(|it| it.is_unconfirmed(kept)) {
        generation.artifacts.retain(|it| it.index != task.index);
        generation.counts.ready = generation.counts.ready.saturating_sub(1);
        for shown in generation.tasks.iter_mut().filter(|it| it.index == task.index) {
            shown.status = TaskState::Streaming;
        }
    }
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
