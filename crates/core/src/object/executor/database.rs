//! The database of one object while it is in memory: its pages, and the one connection to them.

use std::{cell::Cell, sync::Arc, time::Duration};

use rusqlite::{Connection, OptionalExtension};
use steadfast_store::Timestamp;
use steadfast_vfs::{Changes, Image, Limits, NotLoaded, PAGE_SIZE, Page, at_time};

use super::{guard::Guard, sql::Sql};

/// Prepared statements in the cache, those of handlers included. Each takes some KiB.
const STATEMENTS: usize = 16;

/// The pages and the connection.
pub(in crate::object) struct Database {
    image: Arc<Image>,
    pub(in crate::object) connection: Sql,
    pub(in crate::object) guard: Arc<Guard>,
    /// SQLite has committed something that was not accepted, and cannot roll it back.
    committed: Cell<bool>,
    /// The write counter when the transaction began.
    mark: Cell<u64>,
}

impl Database {
    pub(in crate::object) fn open(image: Arc<Image>) -> rusqlite::Result<Self> {
        Self::of(image, false)
    }

    /// An empty database.
    pub(in crate::object) fn empty(limits: Limits) -> rusqlite::Result<Self> {
        Self::of(Image::new(Vec::new(), limits), false)
    }

    /// A new database with these pages.
    pub(in crate::object) fn begun(pages: Vec<Page>, limits: Limits) -> rusqlite::Result<Self> {
        Self::of(Image::begun(pages, limits), true)
    }

    fn of(image: Arc<Image>, committed: bool) -> rusqlite::Result<Self> {
        let (connection, guard) = connect(&image)?;
        let (committed, mark) = (Cell::new(committed), Cell::default());
        Ok(Self { image, connection, guard, committed, mark })
    }

    pub(in crate::object) fn pages(&self) -> Result<Vec<Page>, NotLoaded> {
        self.image.pages()
    }

    /// Bytes of the pages that are in memory.
    pub(in crate::object) fn bytes(&self) -> usize {
        self.image.loaded() * PAGE_SIZE
    }

    /// Why a page could not be read, if one could not: then the database is not valid.
    pub(in crate::object) fn fault(&self) -> Option<NotLoaded> {
        self.image.fault()
    }

    /// Runs `f` at the time of a turn: SQL functions also return `now`.
    pub(in crate::object) fn at<T>(
        &self,
        now: Timestamp,
        time: Duration,
        f: impl FnOnce() -> T,
    ) -> T {
        self.guard.allow(time);
        at_time(now.0, f)
    }

    pub(in crate::object) fn begin(&self) -> rusqlite::Result<()> {
        self.mark.set(self.image.writes());
        self.execute("BEGIN /* ours */")
    }

    /// Ends the transaction, in memory. `false` if there was no transaction any more.
    pub(in crate::object) fn commit(&self) -> rusqlite::Result<bool> {
        if self.connection.is_autocommit() {
            return Ok(false);
        }
        self.execute("COMMIT /* ours */")?;
        self.committed.set(self.committed.get() || self.wrote());
        Ok(true)
    }

    /// Undoes everything since the last `accept`, byte for byte. SQLite does not restore the bytes
    /// of free pages, and after an error it may not restore others.
    pub(in crate::object) fn rollback(&mut self) -> rusqlite::Result<()> {
        let is_there = !self.connection.is_autocommit();
        let rolled_back = is_there && self.execute("ROLLBACK /* ours */").is_ok();
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
    pub(in crate::object) fn vacuum(&self) -> rusqlite::Result<()> {
        self.committed.set(true);
        self.execute_batch("VACUUM")
    }

    /// Runs a statement of the runtime. Prepared statements are cached by their text, and this one
    /// has more rights than those of handlers. A text that a handler could write as well gets a
    /// mark.
    pub(in crate::object) fn execute(&self, sql: &str) -> rusqlite::Result<()> {
        self.guard.system(|| self.connection.prepare_cached(sql)?.execute(()).map(|_| ()))
    }

    /// Runs statements of the runtime that are not cached.
    pub(in crate::object) fn execute_batch(&self, sql: &str) -> rusqlite::Result<()> {
        self.guard.system(|| self.connection.execute_batch(sql))
    }

    /// One number, read by a statement of the runtime.
    pub(in crate::object) fn number(&self, sql: &str) -> rusqlite::Result<Option<i64>> {
        let get = |row: &rusqlite::Row<'_>| row.get(0);
        self.guard.system(|| {
            let number = self.connection.prepare_cached(sql)?.query_row((), get).optional()?;
            Ok(number.flatten())
        })
    }

    /// Whether the last transaction wrote something.
    pub(in crate::object) fn wrote(&self) -> bool {
        self.image.writes() != self.mark.get()
    }

    pub(in crate::object) fn changes(&self) -> Option<Changes> {
        self.image.changes()
    }

    /// Makes the current state the one that the next rollback restores.
    pub(in crate::object) fn accept(&self) {
        self.image.accept();
        self.committed.set(false);
    }

    pub(in crate::object) fn page(&self, number: u32) -> Result<Option<Page>, NotLoaded> {
        self.image.page(number)
    }

    pub(in crate::object) fn page_count(&self) -> u32 {
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
