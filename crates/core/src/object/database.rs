//! The database of one object while it is in memory: its pages, the one connection to them, the
//! platform's own tables, and the initial image of a class.
//!
//! Each of the platform's tables is created when it is first needed: an empty table takes a page in
//! memory and in every image. If the first turns of a class need a table, new objects of the class
//! have it from the start.

use std::{cell::Cell, ops::Deref, sync::Arc, time::Duration};

use parking_lot::Mutex;
use rusqlite::{CachedStatement, Connection, OptionalExtension, Params, Result, Row};
use steadfast_store::Timestamp;
use steadfast_vfs::{Image, ImageChanges, Limits, NotLoaded, PAGE_SIZE, Page, at_time};

use super::guard::Guard;

/// Prepared statements in the cache, those of handlers included. Each takes some KiB.
const STATEMENTS: usize = 16;

/// The pages and the connection.
pub(super) struct Database {
    image: Arc<Image>,
    pub(super) connection: Sql,
    pub(super) guard: Arc<Guard>,
    /// SQLite has committed something that was not accepted, and cannot roll it back.
    committed: Cell<bool>,
    /// The write counter when the transaction began.
    mark: Cell<u64>,
}

impl Database {
    pub(super) fn open(image: Arc<Image>) -> rusqlite::Result<Self> {
        Self::of(image, false)
    }

    /// An empty database.
    pub(super) fn empty(limits: Limits) -> rusqlite::Result<Self> {
        Self::of(Image::new(Vec::new(), limits), false)
    }

    /// A new database with these pages.
    pub(super) fn begun(pages: Vec<Page>, limits: Limits) -> rusqlite::Result<Self> {
        Self::of(Image::begun(pages, limits), true)
    }

    fn of(image: Arc<Image>, committed: bool) -> rusqlite::Result<Self> {
        let (connection, guard) = connect(&image)?;
        let (committed, mark) = (Cell::new(committed), Cell::default());
        Ok(Self { image, connection, guard, committed, mark })
    }

    pub(super) fn pages(&self) -> Result<Vec<Page>, NotLoaded> {
        self.image.pages()
    }

    /// Bytes of the pages that are in memory.
    pub(super) fn bytes(&self) -> usize {
        self.image.loaded() * PAGE_SIZE
    }

    /// Why a page could not be read, if one could not: then the database is not valid.
    pub(super) fn fault(&self) -> Option<NotLoaded> {
        self.image.fault()
    }

    /// Runs `f` at the time of a turn: SQL functions also return `now`.
    pub(super) fn at<T>(&self, now: Timestamp, time: Duration, f: impl FnOnce() -> T) -> T {
        self.guard.allow(time);
        at_time(now.0, f)
    }

    pub(super) fn begin(&self) -> rusqlite::Result<()> {
        self.mark.set(self.image.writes());
        self.execute("BEGIN /* ours */", ()).map(|_| ())
    }

    /// Ends the transaction, in memory. `false` if there was no transaction any more.
    pub(super) fn commit(&self) -> rusqlite::Result<bool> {
        if self.connection.is_autocommit() {
            return Ok(false);
        }
        self.execute("COMMIT /* ours */", ())?;
        self.committed.set(self.committed.get() || self.wrote());
        Ok(true)
    }

    /// Undoes everything since the last `accept`, byte for byte. SQLite does not restore the bytes
    /// of free pages, and after an error it may not restore others.
    pub(super) fn rollback(&mut self) -> rusqlite::Result<()> {
        let is_there = !self.connection.is_autocommit();
        let rolled_back = is_there && self.execute("ROLLBACK /* ours */", ()).is_ok();
        if rolled_back && !self.committed.replace(false) {
            self.image.rollback();
            return Ok(());
        }
        // The cache of the connection is stale. The pages take one connection at a time.
        self.committed.set(false);
        Guard::remove(self.connection.connection_mut());
        self.connection = Sql::new(Connection::open_in_memory()?);
        self.image.rollback();
        (self.connection, self.guard) = connect(&self.image)?;
        Ok(())
    }

    /// Removes free pages from the end. Not within a transaction.
    pub(super) fn vacuum(&self) -> rusqlite::Result<()> {
        self.committed.set(true);
        self.execute_batch("VACUUM")
    }

    /// Runs a statement of the runtime; returns the number of changed rows. Prepared statements are
    /// cached by their text, and this one has more rights than those of handlers. A text that a
    /// handler could write as well gets a mark.
    pub(super) fn execute(&self, sql: &str, params: impl Params) -> rusqlite::Result<usize> {
        self.guard.system(|| self.connection.execute(sql, params))
    }

    /// The first row that a query of the runtime finds.
    pub(super) fn find<T>(
        &self,
        sql: &str,
        params: impl Params,
        read: impl FnOnce(&Row<'_>) -> Result<T>,
    ) -> rusqlite::Result<Option<T>> {
        self.guard.system(|| self.connection.query_row(sql, params, read)).optional()
    }

    /// Runs statements of the runtime that are not cached.
    pub(super) fn execute_batch(&self, sql: &str) -> rusqlite::Result<()> {
        self.guard.system(|| self.connection.execute_batch(sql))
    }

    /// One number, read by a statement of the runtime.
    pub(super) fn number(&self, sql: &str) -> rusqlite::Result<Option<i64>> {
        Ok(self.find(sql, (), |row| row.get(0))?.flatten())
    }

    /// Whether the last transaction wrote something.
    pub(super) fn wrote(&self) -> bool {
        self.image.writes() != self.mark.get()
    }

    pub(super) fn changes(&self) -> Option<ImageChanges> {
        self.image.changes()
    }

    /// Makes the current state the one that the next rollback restores.
    pub(super) fn accept(&self) {
        self.image.accept();
        self.committed.set(false);
    }

    pub(super) fn page(&self, number: u32) -> Result<Option<Page>, NotLoaded> {
        self.image.page(number)
    }

    pub(super) fn page_count(&self) -> u32 {
        self.image.page_count()
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        Guard::remove(self.connection.connection_mut());
    }
}

fn connect(image: &Arc<Image>) -> rusqlite::Result<(Sql, Arc<Guard>)> {
    let mut connection = image.connect()?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    let guard = Guard::install(&mut connection)?;
    Ok((Sql::new(connection), guard))
}

/// The database of an object, inside of a turn: a [`Connection`] with a statement cache. Handlers
/// run the same few statements repeatedly, and preparing one takes longer than running it.
#[derive(Debug)]
pub struct Sql(Connection);

impl Sql {
    pub(super) fn new(connection: Connection) -> Self {
        Self(connection)
    }

    fn connection_mut(&mut self) -> &mut Connection {
        &mut self.0
    }

    /// A prepared statement, from the cache if possible.
    pub fn prepare(&self, sql: &str) -> Result<CachedStatement<'_>> {
        self.0.prepare_cached(sql)
    }

    /// Runs a statement; returns the number of changed rows.
    pub fn execute(&self, sql: &str, params: impl Params) -> Result<usize> {
        self.prepare(sql)?.execute(params)
    }

    /// The first row that a query finds.
    pub fn query_row<T, P, F>(&self, sql: &str, params: P, f: F) -> Result<T>
    where
        P: Params,
        F: FnOnce(&Row<'_>) -> Result<T>,
    {
        self.prepare(sql)?.query_row(params, f)
    }

    /// The one row that a query finds; more than one is an error.
    pub fn query_one<T, P, F>(&self, sql: &str, params: P, f: F) -> Result<T>
    where
        P: Params,
        F: FnOnce(&Row<'_>) -> Result<T>,
    {
        self.prepare(sql)?.query_one(params, f)
    }
}

impl Deref for Sql {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        &self.0
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Table {
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
pub(super) struct TableSet(u8);

impl TableSet {
    fn union(self, others: Self) -> Self {
        Self(self.0 | others.0)
    }

    fn contains(self, table: Table) -> bool {
        self.0 & table as u8 != 0
    }
}

/// The tables that the database has.
#[derive(Debug, Default)]
pub(super) struct Tables {
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
        let present: Option<f64> = database.find(PRESENT, (), |row| row.get(0))?;
        self.present.set(TableSet(present.unwrap_or_default() as u8));
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

    pub(super) fn has(&self, table: Table) -> bool {
        self.present().contains(table)
    }

    /// Creates the table unless it exists.
    pub(super) fn need(&self, table: Table, database: &Database) -> rusqlite::Result<()> {
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

#[derive(Default)]
pub(super) struct Template {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    pages: Option<Vec<Page>>,
    /// Tables of the runtime that first turns needed. Creating one takes as long as a turn, and
    /// invalidates all prepared statements.
    tables: TableSet,
}

impl Template {
    /// The pages of a new object, shared, if they are known.
    pub(super) fn pages(&self) -> Option<Vec<Page>> {
        self.state.lock().pages.clone()
    }

    /// The tables of a new object in addition to those of its migrations.
    pub(super) fn tables(&self) -> TableSet {
        self.state.lock().tables
    }

    /// Stores the pages of a new object, unless more tables are needed by now.
    pub(super) fn keep(&self, pages: Vec<Page>, tables: TableSet) {
        let mut state = self.state.lock();
        if state.tables == tables {
            state.pages.get_or_insert(pages);
        }
    }

    /// Records the tables of an object after its first turn: the next new object is created with
    /// all of them, and then copied.
    pub(super) fn learn(&self, tables: TableSet) {
        let mut state = self.state.lock();
        let all = state.tables.union(tables);
        if all != state.tables {
            (state.tables, state.pages) = (all, None);
        }
    }
}
