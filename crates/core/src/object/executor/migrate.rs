//! Migrations: the tables of an object follow its class.

use steadfast_store::Timestamp;

use super::{
    TurnExecutor,
    database::Database,
    tables::{TableSet, Tables},
};
use crate::object::CallError;

impl TurnExecutor {
    /// Migrates the tables to the version of the class. The next turn that commits includes the
    /// migration; until then it is only in memory, so inspecting an object writes nothing.
    pub(super) fn migrate(&mut self, now: Timestamp) -> Result<(), CallError> {
        if self.migrated {
            return Ok(());
        }
        let fails =
            |detail: String| CallError::Migration { object: self.address.to_string(), detail };
        let database = &self.state().database;
        let version = database.number("PRAGMA user_version").map_err(|it| fails(it.to_string()))?;
        let version = usize::try_from(version.unwrap_or(0)).unwrap_or(usize::MAX);
        let Some(scripts) = self.class.migrations.get(version..) else {
            let known = self.class.migrations.len();
            return Err(fails(format!("it is at version {version}, this code knows {known}")));
        };
        if !scripts.is_empty() {
            let is_template = version == 0 && self.seq == 0 && is_always_the_same(scripts);
            let needed =
                if is_template { self.class.template.tables() } else { TableSet::default() };
            let tables = (&self.state().tables, needed);
            let migrated = database
                .at(now, self.options.migration_time, || run(database, scripts, version, tables));
            if let Err(detail) = migrated {
                let error = fails(detail);
                self.undo().map_err(|it| self.state().sql_failed(&it))?;
                return Err(error);
            }
            if is_template && let Ok(pages) = self.state().database.pages() {
                self.class.template.keep(pages, needed);
            }
        }
        self.migrated = true;
        Ok(())
    }
}

/// Runs migrations in one transaction, in memory, and creates these tables of the runtime.
fn run(
    database: &Database,
    scripts: &[&str],
    from: usize,
    tables: (&Tables, TableSet),
) -> Result<(), String> {
    let text = |error: rusqlite::Error| error.to_string();
    database.begin().map_err(text)?;
    for (index, script) in scripts.iter().enumerate() {
        let number = from + index + 1;
        // It is user code, with the rights of user code.
        let run = database.connection.execute_batch(script);
        run.map_err(|error| format!("migration {number} fails: {error}"))?;
    }
    tables.0.need_all(tables.1, database).map_err(text)?;
    let version = format!("PRAGMA user_version = {}", from + scripts.len());
    database.execute_batch(&version).map_err(text)?;
    match database.commit() {
        Ok(true) => Ok(()),
        Ok(false) => Err("a migration ended its transaction".into()),
        Err(error) => Err(text(error)),
    }
}

/// Functions that return the time or a random value.
const VARYING: &[&str] = &[
    "changes",
    "current_date",
    "current_time",
    "current_timestamp",
    "date",
    "datetime",
    "julianday",
    "now",
    "random",
    "randomblob",
    "strftime",
    "time",
    "timediff",
    "total_changes",
    "unixepoch",
];

/// Whether the migrations are deterministic, so that the result can be reused for new objects. A
/// false positive of the word search is harmless.
fn is_always_the_same(scripts: &[&str]) -> bool {
    let is_part = |it: char| it.is_alphanumeric() || it == '_';
    let varies = |word: &str| VARYING.iter().any(|it| it.eq_ignore_ascii_case(word));
    !scripts.iter().any(|script| script.split(|it| !is_part(it)).any(varies))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn migrations_with_time_or_chance_run_for_each_object() {
        assert!(is_always_the_same(&["CREATE TABLE t (x); INSERT INTO t VALUES (0)"]));
        assert!(is_always_the_same(&["CREATE TABLE t (timeoutMs INTEGER, updatedAt INTEGER)"]));
        for varying in ["datetime('now')", "CURRENT_TIMESTAMP", "unixepoch()", "randomblob(16)"] {
            let script = format!("CREATE TABLE t (x); INSERT INTO t VALUES ({varying})");
            assert!(!is_always_the_same(&["CREATE TABLE u (y)", &script]), "{varying}");
        }
    }
}
