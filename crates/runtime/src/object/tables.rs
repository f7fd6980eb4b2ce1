//! The runtime's own tables inside of an object. Each is made when it is first needed: an empty
//! table is a page in memory and in every image.

use std::cell::Cell;

use super::database::Database;

const ALARM: &str = "CREATE TABLE _steadfast_alarm (\
     name TEXT NOT NULL PRIMARY KEY, due_at INTEGER NOT NULL, ring_at INTEGER NOT NULL, \
     message TEXT NOT NULL, \
     body TEXT NOT NULL, every INTEGER, catch_up TEXT NOT NULL, attempts INTEGER NOT NULL, \
     failed INTEGER NOT NULL, error TEXT) STRICT, WITHOUT ROWID; \
     CREATE INDEX _steadfast_alarm_ring ON _steadfast_alarm (ring_at) WHERE NOT failed";

const KEY: &str = "CREATE TABLE _steadfast_key (\
     id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, request BLOB NOT NULL, \
     reply TEXT NOT NULL, expires_at INTEGER NOT NULL) STRICT";

const KV: &str = "CREATE TABLE _steadfast_kv (\
     key TEXT NOT NULL PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID";

const CONNECTION: &str = "CREATE TABLE _steadfast_connection (\
     id INTEGER PRIMARY KEY, tags TEXT NOT NULL, attachment TEXT, \
     connected_at INTEGER NOT NULL, closing INTEGER NOT NULL) STRICT";

const WHICH: &str = "SELECT total(name = '_steadfast_alarm') + 2 * total(name = '_steadfast_key') \
     + 4 * total(name = '_steadfast_kv') + 8 * total(name = '_steadfast_connection') \
     FROM sqlite_schema WHERE type = 'table'";

/// Which of the tables are there.
#[derive(Debug, Default)]
pub(super) struct Tables {
    alarm: Cell<bool>,
    key: Cell<bool>,
    kv: Cell<bool>,
    connection: Cell<bool>,
}

impl Tables {
    pub(super) fn of(database: &Database) -> rusqlite::Result<Self> {
        let tables = Self::default();
        tables.look_again(database)?;
        Ok(tables)
    }

    /// What was made may have been undone.
    pub(super) fn look_again(&self, database: &Database) -> rusqlite::Result<()> {
        let which: f64 = database.guard.system(|| {
            database.connection.prepare_cached(WHICH)?.query_row((), |row| row.get(0))
        })?;
        let which = which as u8;
        self.alarm.set(which & 1 != 0);
        self.key.set(which & 2 != 0);
        self.kv.set(which & 4 != 0);
        self.connection.set(which & 8 != 0);
        Ok(())
    }

    /// Whether the tables with our names are ours.
    pub(super) fn are_ours(&self, database: &Database) -> rusqlite::Result<bool> {
        let ours = [&self.alarm, &self.key, &self.kv, &self.connection];
        let ours = ours.into_iter().filter(|it| it.get()).count();
        let named = "SELECT count(*) FROM sqlite_schema WHERE lower(substr(name, 1, 11)) = \
             '_steadfast_' AND type IN ('table', 'view')";
        Ok(database.number(named)?.and_then(|it| usize::try_from(it).ok()) == Some(ours))
    }

    pub(super) fn has_alarm(&self) -> bool {
        self.alarm.get()
    }

    pub(super) fn has_key(&self) -> bool {
        self.key.get()
    }

    pub(super) fn has_kv(&self) -> bool {
        self.kv.get()
    }

    pub(super) fn has_connection(&self) -> bool {
        self.connection.get()
    }

    pub(super) fn need_alarm(&self, database: &Database) -> rusqlite::Result<()> {
        need(&self.alarm, database, ALARM)
    }

    pub(super) fn need_key(&self, database: &Database) -> rusqlite::Result<()> {
        need(&self.key, database, KEY)
    }

    pub(super) fn need_kv(&self, database: &Database) -> rusqlite::Result<()> {
        need(&self.kv, database, KV)
    }

    pub(super) fn need_connection(&self, database: &Database) -> rusqlite::Result<()> {
        need(&self.connection, database, CONNECTION)
    }
}

fn need(there: &Cell<bool>, database: &Database, sql: &str) -> rusqlite::Result<()> {
    if !there.get() {
        database.execute_batch(sql)?;
        there.set(true);
    }
    Ok(())
}
