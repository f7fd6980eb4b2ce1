//! The runtime's own tables inside of an object. Each is made when it is first needed: an empty
//! table is a page in memory and in every image. Once a class has shown that its objects need one
//! in their first turn, new ones have it from the start.

use std::cell::Cell;

use super::database::Database;

/// One of them.
struct Table {
    bit: u8,
    sql: &'static str,
}

const ALARM: Table = Table {
    bit: 1,
    sql: "CREATE TABLE _steadfast_alarm (\
     name TEXT NOT NULL PRIMARY KEY, due_at INTEGER NOT NULL, ring_at INTEGER NOT NULL, \
     message TEXT NOT NULL, \
     body TEXT NOT NULL, every INTEGER, catch_up TEXT NOT NULL, attempts INTEGER NOT NULL, \
     failed INTEGER NOT NULL, error TEXT) STRICT, WITHOUT ROWID; \
     CREATE INDEX _steadfast_alarm_ring ON _steadfast_alarm (ring_at) WHERE NOT failed",
};

const KEY: Table = Table {
    bit: 2,
    sql: "CREATE TABLE _steadfast_key (\
     id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, request BLOB NOT NULL, \
     reply TEXT NOT NULL, expires_at INTEGER NOT NULL) STRICT",
};

const KV: Table = Table {
    bit: 4,
    sql: "CREATE TABLE _steadfast_kv (\
     key TEXT NOT NULL PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID",
};

const CONNECTION: Table = Table {
    bit: 8,
    sql: "CREATE TABLE _steadfast_connection (\
     id INTEGER PRIMARY KEY, tags TEXT NOT NULL, attachment TEXT, \
     connected_at INTEGER NOT NULL, closing INTEGER NOT NULL) STRICT",
};

const ALL: [Table; 4] = [ALARM, KEY, KV, CONNECTION];

const WHICH: &str = "SELECT total(name = '_steadfast_alarm') + 2 * total(name = '_steadfast_key') \
     + 4 * total(name = '_steadfast_kv') + 8 * total(name = '_steadfast_connection') \
     FROM sqlite_schema WHERE type = 'table'";

/// Some of the tables, a bit for each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Which(u8);

impl Which {
    /// These and the others.
    pub(super) fn and(self, others: Self) -> Self {
        Self(self.0 | others.0)
    }
}

/// Which of the tables are there.
#[derive(Debug, Default)]
pub(super) struct Tables {
    which: Cell<Which>,
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
        self.which.set(Which(which as u8));
        Ok(())
    }

    pub(super) fn which(&self) -> Which {
        self.which.get()
    }

    /// Whether the tables with our names are ours.
    pub(super) fn are_ours(&self, database: &Database) -> rusqlite::Result<bool> {
        let named = "SELECT count(*) FROM sqlite_schema WHERE lower(substr(name, 1, 11)) = \
             '_steadfast_' AND type IN ('table', 'view')";
        Ok(database.number(named)? == Some(i64::from(self.which.get().0.count_ones())))
    }

    pub(super) fn has_alarm(&self) -> bool {
        self.has(&ALARM)
    }

    pub(super) fn has_key(&self) -> bool {
        self.has(&KEY)
    }

    pub(super) fn has_kv(&self) -> bool {
        self.has(&KV)
    }

    pub(super) fn has_connection(&self) -> bool {
        self.has(&CONNECTION)
    }

    pub(super) fn need_alarm(&self, database: &Database) -> rusqlite::Result<()> {
        self.need(&ALARM, database)
    }

    pub(super) fn need_key(&self, database: &Database) -> rusqlite::Result<()> {
        self.need(&KEY, database)
    }

    pub(super) fn need_kv(&self, database: &Database) -> rusqlite::Result<()> {
        self.need(&KV, database)
    }

    pub(super) fn need_connection(&self, database: &Database) -> rusqlite::Result<()> {
        self.need(&CONNECTION, database)
    }

    /// Makes those that are not there.
    pub(super) fn need_all(&self, which: Which, database: &Database) -> rusqlite::Result<()> {
        let mut needed = ALL.iter().filter(|it| which.0 & it.bit != 0);
        needed.try_for_each(|it| self.need(it, database))
    }

    fn has(&self, table: &Table) -> bool {
        self.which.get().0 & table.bit != 0
    }

    fn need(&self, table: &Table, database: &Database) -> rusqlite::Result<()> {
        if !self.has(table) {
            database.execute_batch(table.sql)?;
            self.which.set(self.which().and(Which(table.bit)));
        }
        Ok(())
    }
}
