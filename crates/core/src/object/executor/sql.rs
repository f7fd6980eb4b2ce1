//! SQL as handlers write it, prepared once for as long as the object is awake.

use std::ops::Deref;

use rusqlite::{CachedStatement, Connection, Params, Result, Row};

/// The database of an object, inside of a turn: a [`Connection`] whose statements are kept, each by
/// its text. A handler runs the same few again and again, and to prepare one takes longer than to
/// run it.
#[derive(Debug)]
pub struct Sql(Connection);

impl Sql {
    pub(in crate::object) fn new(connection: Connection) -> Self {
        Self(connection)
    }

    pub(in crate::object) fn connection_mut(&mut self) -> &mut Connection {
        &mut self.0
    }

    /// A statement, prepared before if it was needed before.
    pub fn prepare(&self, sql: &str) -> Result<CachedStatement<'_>> {
        self.0.prepare_cached(sql)
    }

    /// Runs a statement; says how many rows it changed.
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
