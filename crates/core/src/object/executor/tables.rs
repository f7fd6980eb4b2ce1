//! The runtime's own tables inside of an object. Each is created when it is first needed: an empty
//! table takes a page in memory and in every image. If the first turns of a class need a table, new
//! objects of the class have it from the start.

use std::cell::Cell;

use super::database::Database;

#[derive(Clone, Copy, Debug)]
pub(in crate::object) enum Table {
    Alarm = 1,
    Key = 2,
    KeyValue = 4,
    Connection = 8,
}

const ALL: [Table; 4] = [Table::Alarm, Table::Key, Table::KeyValue, Table::Connection];

impl Table {
    fn sql(self) -> &'static str {
        match self {
            Table::Alarm => {
                "CREATE TABLE _steadfast_alarm (\
                 name TEXT NOT NULL PRIMARY KEY, due_at INTEGER NOT NULL, \
                 ring_at INTEGER NOT NULL, message TEXT NOT NULL, \
                 body TEXT NOT NULL, every INTEGER, catch_up TEXT NOT NULL, \
                 attempts INTEGER NOT NULL, failed INTEGER NOT NULL, error TEXT) \
                 STRICT, WITHOUT ROWID; \
                 CREATE INDEX _steadfast_alarm_ring ON _steadfast_alarm (ring_at) WHERE NOT failed"
            }
            Table::Key => {
                "CREATE TABLE _steadfast_key (\
                 id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, request BLOB NOT NULL, \
                 reply TEXT NOT NULL, expires_at INTEGER NOT NULL) STRICT"
            }
            Table::KeyValue => {
                "CREATE TABLE _steadfast_kv (\
                 key TEXT NOT NULL PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID"
            }
            Table::Connection => {
                "CREATE TABLE _steadfast_connection (\
                 id INTEGER PRIMARY KEY, tags TEXT NOT NULL, attachment TEXT, \
                 connected_at INTEGER NOT NULL, closing INTEGER NOT NULL) STRICT"
            }
        }
    }
}

const PRESENT: &str = "SELECT total(name = '_steadfast_alarm') \
     + 2 * total(name = '_steadfast_key') + 4 * total(name = '_steadfast_kv') \
     + 8 * total(name = '_steadfast_connection') FROM sqlite_schema WHERE type = 'table'";

/// A set of tables, a bit for each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::object) struct TableSet(u8);

impl TableSet {
    pub(super) fn union(self, others: Self) -> Self {
        Self(self.0 | others.0)
    }

    fn contains(self, table: Table) -> bool {
        self.0 & table as u8 != 0
    }
}

/// The tables that the database has.
#[derive(Debug, Default)]
pub(in crate::object) struct Tables {
    present: Cell<TableSet>,
}

impl Tables {
    pub(super) fn of(database: &Database) -> rusqlite::Result<Self> {
        let tables = Self::default();
        tables.look_again(database)?;
        Ok(tables)
    }

    /// Reads the schema again: a rollback may have removed tables.
    pub(super) fn look_again(&self, database: &Database) -> rusqlite::Result<()> {
        let present: f64 = database.guard.system(|| {
            database.connection.prepare_cached(PRESENT)?.query_row((), |row| row.get(0))
        })?;
        self.present.set(TableSet(present as u8));
        Ok(())
    }

    pub(super) fn present(&self) -> TableSet {
        self.present.get()
    }

    /// Whether every table with a name of the runtime was created by the runtime.
    pub(super) fn are_ours(&self, database: &Database) -> rusqlite::Result<bool> {
        let named = "SELECT count(*) FROM sqlite_schema WHERE lower(substr(name, 1, 11)) = \
             '_steadfast_' AND type IN ('table', 'view')";
        Ok(database.number(named)? == Some(i64::from(self.present().0.count_ones())))
    }

    pub(in crate::object) fn has(&self, table: Table) -> bool {
        self.present().contains(table)
    }

    /// Creates the table unless it exists.
    pub(in crate::object) fn need(
        &self,
        table: Table,
        database: &Database,
    ) -> rusqlite::Result<()> {
        if !self.has(table) {
            database.execute_batch(table.sql())?;
            self.present.set(self.present().union(TableSet(table as u8)));
        }
        Ok(())
    }

    pub(super) fn need_all(&self, tables: TableSet, database: &Database) -> rusqlite::Result<()> {
        let mut needed = ALL.into_iter().filter(|it| tables.contains(*it));
        needed.try_for_each(|it| self.need(it, database))
    }
}
