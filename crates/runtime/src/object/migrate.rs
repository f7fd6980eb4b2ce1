//! Bringing the tables of an object to where its class wants them.

use super::database::Database;

/// Runs migrations in one transaction, in memory.
pub(super) fn migrate(database: &Database, scripts: &[&str], from: usize) -> Result<(), String> {
    let text = |error: rusqlite::Error| error.to_string();
    database.begin().map_err(text)?;
    for (index, script) in scripts.iter().enumerate() {
        let number = from + index + 1;
        // It is code of the user's, with a user's rights.
        let run = database.connection.execute_batch(script);
        run.map_err(|error| format!("migration {number} fails: {error}"))?;
    }
    let version = format!("PRAGMA user_version = {}", from + scripts.len());
    database.execute_batch(&version).map_err(text)?;
    match database.commit() {
        Ok(true) => Ok(()),
        Ok(false) => Err("a migration ended its transaction".into()),
        Err(error) => Err(text(error)),
    }
}
