//! The library's view of this generation: whether it has recorded the end, and what people have
//! changed.

use std::time::Duration;

use steadfast_core::{Handle, Outcome, Result, Turn, store::backoff};

use super::{
    GenerationManager,
    rows::{self, Kept},
    shown::{tell, tell_of_the_end},
};
use crate::{Confirm, GenerationChanged, GetWord, LibraryChanged, LibraryHeard, Record, TaskError};

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
        heard(turn, before, msg.version)
    }
}

/// The library has confirmed a version: now subscribers are notified of it.
fn heard(turn: &Turn<GenerationManager>, before: Kept, version: i64) -> Result<()> {
    turn.sql().execute("UPDATE request SET heard = ?1, libraryError = NULL", [version])?;
    let was_over = before.is_over();
    let tasks = rows::tasks(turn)?;
    let new: Vec<_> = tasks.iter().filter(|it| it.is_unconfirmed(&before)).collect();
    let kept = Kept { heard: version, library_error: None, ..before };
    // While tasks are in progress the alarm stays, for the artifacts that they will make.
    if kept.told <= version && kept.completed_at.is_some() {
        turn.cancel_alarm("confirm");
    }
    if kept.is_deleted {
        return Ok(());
    }
    for task in new.into_iter().filter(|it| !it.is_unconfirmed(&kept)) {
        tell(turn, task.index)?;
    }
    if !was_over && kept.is_over() {
        tell_of_the_end(turn, &kept)?;
    }
    Ok(())
}

impl Handle<GetWord> for GenerationManager {
    const NAME: &'static str = "get-word";
    type Reply = Option<GenerationChanged>;

    fn handle(&self, turn: &Turn<Self>, _: GetWord) -> Result<Option<GenerationChanged>> {
        match rows::request(turn)?.filter(|it| !it.is_deleted) {
            Some(kept) => word(turn, &kept).map(Some),
            None => Ok(None),
        }
    }
}

fn word(turn: &Turn<GenerationManager>, kept: &Kept) -> Result<GenerationChanged> {
    Ok(GenerationChanged { generation: rows::generation(turn, kept)?, version: kept.told })
}

impl Handle<Confirm> for GenerationManager {
    const NAME: &'static str = "confirm";
    type Reply = ();

    /// A message that the library refuses is given up. A job sends the change instead, and reports
    /// why the library refuses it.
    fn handle(&self, turn: &Turn<Self>, msg: Confirm) -> Result<()> {
        let Some(kept) = rows::request(turn)? else { return Ok(()) };
        let is_open = match kept.completed_at {
            Some(_) => kept.heard < kept.told,
            None => rows::tasks(turn)?.iter().any(|it| it.is_unconfirmed(&kept)),
        };
        if !is_open && !kept.is_deleted {
            return Ok(());
        }
        let changed = match kept.is_deleted {
            true => None,
            false => Some(Box::new(word(turn, &kept)?)),
        };
        turn.perform(&Record {
            workspace: kept.workspace,
            generation: turn.name().into(),
            changed,
        });
        let tried = msg.tried.saturating_add(1);
        let wait = backoff(Duration::from_mins(1), tried, Duration::from_hours(1));
        turn.set_alarm("confirm", wait, Confirm { tried });
        Ok(())
    }
}

impl Handle<Outcome<Record>> for GenerationManager {
    const NAME: &'static str = "recorded";
    type Reply = ();

    fn handle(&self, turn: &Turn<Self>, msg: Outcome<Record>) -> Result<()> {
        let Some(kept) = rows::request(turn)? else { return Ok(()) };
        match (msg.result, msg.job.changed) {
            (Ok(()), Some(changed)) if kept.heard < changed.version => {
                heard(turn, kept, changed.version)
            }
            (Ok(()), Some(_)) => Ok(()),
            (Ok(()), None) => {
                let heard = "UPDATE request SET heard = told, libraryError = NULL";
                turn.sql().execute(heard, ())?;
                turn.cancel_alarm("confirm");
                Ok(())
            }
            (Err(error), _) => {
                tracing::warn!(%error, generation = turn.name(), "the library refuses a change");
                let error = TaskError { code: error.code().into(), message: error.to_string() };
                let update = "UPDATE request SET libraryError = ?1";
                turn.sql().execute(update, [serde_json::to_string(&error)?])?;
                Ok(())
            }
        }
    }
}
