//! What an object does for itself: images, becoming smaller, migrations.

use steadfast_store::{Commit, Timestamp, Write};

use super::Activation;
use crate::object::{
    CallError,
    migrate::{is_always_the_same, migrate},
    objects::Class,
    tables::Which,
    transact::{Done, broken, rolled_back},
};

/// Empty pages from which on a database is worth to be made smaller.
const VACUUM_PAGES: i64 = 256;

impl Activation {
    /// Images, when the turns that they lack have become many. An error: the database in memory is
    /// of no use any more.
    pub(super) fn checkpoint(&mut self) -> Result<Vec<Commit>, CallError> {
        if !self.tail.is_long(self.core().database.page_count()) {
            return Ok(Vec::new());
        }
        let vacuum = self.vacuum().map_err(|error| rolled_back(&self.me, &error.to_string()))?;
        let mut commits = Vec::from_iter(vacuum);
        let Some(core) = &self.core else { return Ok(commits) };
        let database = &core.database;
        let page = |number: u32| database.page(number);
        // They were read: turns have touched them.
        let images = self.tail.images(self.me.id(), database.page_count(), page);
        let images = images.map_err(|error| rolled_back(&self.me, &error.to_string()))?;
        commits.extend(images.into_iter().map(|it| self.expecting().write(Write::Images(it))));
        Ok(commits)
    }

    /// A turn of the runtime's own, if most of a larger database is empty: it becomes smaller.
    /// Where that changes too much for a turn, it stays as it is.
    fn vacuum(&mut self) -> rusqlite::Result<Option<Commit>> {
        let database = &self.core().database;
        let free = database.number("PRAGMA freelist_count")?.unwrap_or(0);
        if free < VACUUM_PAGES || 2 * free < i64::from(database.page_count()) {
            return Ok(None);
        }
        let done = Done::nothing();
        let vacuumed = database.vacuum().map_err(|error| broken(self.core(), &error));
        match vacuumed.and_then(|()| self.seal("vacuum", &done, None)) {
            Ok(commit) => Ok(commit),
            Err(error) => {
                let object = self.me.to_string();
                tracing::warn!(object, error = %error, "object was not made smaller");
                self.undo()?;
                Ok(None)
            }
        }
    }

    /// Brings the tables to where the class wants them. The next turn that commits takes them
    /// along; until then they are only in memory, so that looking at an object makes none.
    pub(in crate::object) fn migrate(
        &mut self,
        class: &Class,
        now: Timestamp,
    ) -> Result<(), CallError> {
        if self.migrated {
            return Ok(());
        }
        let fails = |detail: String| CallError::Migration { object: self.me.to_string(), detail };
        let database = &self.core().database;
        let version = database.number("PRAGMA user_version").map_err(|it| fails(it.to_string()))?;
        let version = usize::try_from(version.unwrap_or(0)).unwrap_or(usize::MAX);
        let Some(scripts) = class.migrations.get(version..) else {
            let known = class.migrations.len();
            return Err(fails(format!("it is at version {version}, this code knows {known}")));
        };
        if !scripts.is_empty() {
            let is_mould = version == 0 && self.seq == 0 && is_always_the_same(scripts);
            let needed = if is_mould { class.mould.tables() } else { Which::default() };
            let tables = (&self.core().tables, needed);
            let migrated = database.at(now, self.options.migration_time, || {
                migrate(database, scripts, version, tables)
            });
            if let Err(detail) = migrated {
                let error = fails(detail);
                self.undo().map_err(|it| broken(self.core(), &it))?;
                return Err(error);
            }
            if is_mould && let Ok(pages) = self.core().database.pages() {
                class.mould.keep(pages, needed);
            }
        }
        self.migrated = true;
        Ok(())
    }
}
