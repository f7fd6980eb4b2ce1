//! Keys and values in the database of an object, for classes that need no tables.

use rusqlite::{OptionalExtension, params};

use crate::{
    Body, Result,
    object::executor::{Table, TurnState},
};

/// The keys and values of an object. They commit with the turn and are part of the object's
/// database.
pub struct KeyValue<'a> {
    state: &'a TurnState,
}

impl<'a> KeyValue<'a> {
    pub(in crate::object) fn new(state: &'a TurnState) -> Self {
        Self { state }
    }

    /// The value of a key.
    pub fn get<T: Body>(&self, key: &str) -> Result<Option<T>> {
        if !self.state.tables.has(Table::KeyValue) {
            return Ok(None);
        }
        let text: Option<String> = self.system(|sql| {
            let mut get = sql.prepare_cached("SELECT value FROM _steadfast_kv WHERE key = ?1")?;
            get.query_row([key], |row| row.get(0)).optional()
        })?;
        Ok(text.map(|it| serde_json::from_str(&it)).transpose()?)
    }

    /// Sets a key to a value.
    pub fn put<T: Body>(&self, key: &str, value: &T) -> Result<()> {
        self.state.tables.need(Table::KeyValue, &self.state.database)?;
        let text = serde_json::to_string(value)?;
        let put = "INSERT INTO _steadfast_kv (key, value) VALUES (?1, ?2) \
             ON CONFLICT (key) DO UPDATE SET value = ?2";
        self.system(|sql| sql.prepare_cached(put)?.execute(params![key, text]))?;
        Ok(())
    }

    /// Removes a key; `false` if it was not there.
    pub fn delete(&self, key: &str) -> Result<bool> {
        if !self.state.tables.has(Table::KeyValue) {
            return Ok(false);
        }
        let delete = "DELETE FROM _steadfast_kv WHERE key = ?1";
        Ok(0 < self.system(|sql| sql.prepare_cached(delete)?.execute([key]))?)
    }

    /// The keys that begin with `prefix` and follow `after`, in order.
    pub fn keys(&self, prefix: &str, after: Option<&str>, limit: usize) -> Result<Vec<String>> {
        if !self.state.tables.has(Table::KeyValue) {
            return Ok(Vec::new());
        }
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let list = "SELECT key FROM _steadfast_kv WHERE key >= ?1 AND key > ?2 \
             AND key < ?1 || char(1114111) ORDER BY key LIMIT ?3";
        Ok(self.system(|sql| {
            let mut list = sql.prepare_cached(list)?;
            let keys =
                list.query_map(params![prefix, after.unwrap_or(""), limit], |row| row.get(0))?;
            keys.collect()
        })?)
    }

    fn system<T>(
        &self,
        f: impl FnOnce(&rusqlite::Connection) -> rusqlite::Result<T>,
    ) -> rusqlite::Result<T> {
        let database = &self.state.database;
        database.guard.system(|| f(&database.connection))
    }
}
