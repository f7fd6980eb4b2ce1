//! Maintenance after a turn: page images, and vacuum.

use steadfast_store::{Commit, Write};

use super::{DatabaseState, TurnExecutor, transaction::TurnReply};
use crate::object::CallError;

/// Empty pages from which on a database is vacuumed.
const VACUUM_PAGES: i64 = 256;

impl TurnExecutor {
    /// Images, when enough turns have changed pages since the last ones. After an error the
    /// database in memory is not valid any more.
    pub(super) fn checkpoint(&mut self) -> Result<Vec<Commit>, CallError> {
        if !self.tail.is_long(self.state().database.page_count()) {
            return Ok(Vec::new());
        }
        let vacuum =
            self.vacuum().map_err(|error| CallError::rolled_back(&self.address, &error))?;
        let mut commits = Vec::from_iter(vacuum);
        let Self { database: DatabaseState::Open(state), tail, address, .. } = self else {
            return Ok(commits);
        };
        let page = |number: u32| state.database.page(number);
        // They are in memory: turns have changed them.
        let images = tail.images(address.id(), state.database.page_count(), page);
        let images = images.map_err(|error| CallError::rolled_back(&self.address, &error))?;
        commits.extend(images.into_iter().map(|it| self.expecting().write(Write::Images(it))));
        Ok(commits)
    }

    /// A turn of the runtime that vacuums a large database that is mostly empty. If that would
    /// change too much for a turn, the database stays as it is.
    fn vacuum(&mut self) -> rusqlite::Result<Option<Commit>> {
        let database = &self.state().database;
        let free = database.number("PRAGMA freelist_count")?.unwrap_or(0);
        if free < VACUUM_PAGES || 2 * free < i64::from(database.page_count()) {
            return Ok(None);
        }
        let done = TurnReply::nothing();
        let vacuumed = database.vacuum().map_err(|error| self.state().sql_failed(&error));
        match vacuumed.and_then(|()| self.seal("vacuum", &done, None)) {
            Ok(commit) => Ok(commit),
            Err(error) => {
                let object = self.address.to_string();
                tracing::warn!(object, error = %error, "vacuum of an object failed");
                self.undo()?;
                Ok(None)
            }
        }
    }
}
