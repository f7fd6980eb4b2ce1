//! Bringing the tables of an object to where its class wants them.

use super::{
    database::Database,
    tables::{Tables, Which},
};

/// Runs migrations in one transaction, in memory, and makes these tables of the runtime's own.
pub(super) fn migrate(
    database: &Database,
    scripts: &[&str],
    from: usize,
    tables: (&Tables, Which),
) -> Result<(), String> {
    let text = |error: rusqlite::Error| error.to_string();
    database.begin().map_err(text)?;
    for (index, script) in scripts.iter().enumerate() {
        let number = from + index + 1;
        // It is code of the user's, with a user's rights.
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

/// What tells time or chance in SQL.
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

/// Whether migrations make the same of every new object, so that they need to run only once. A word
/// that only looks like time or chance does no harm.
pub(super) fn is_always_the_same(scripts: &[&str]) -> bool {
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
