//! SQL of handlers, with statements that are cached while the object is in memory.

use std::ops::Deref;

use rusqlite::{CachedStatement, Connection, Params, Result, Row};

/// The database of an object, inside of a turn: a [`Connection`] with a statement cache. Handlers
/// run the same few statements repeatedly, and preparing one takes longer than running it.
#[derive(Debug)]
pub struct Sql(Connection);

impl Sql {
    pub(in crate::object) fn new(connection: Connection) -> Self {
        Self(connection)
    }

    pub(in crate::object) fn connection_mut(&mut self) -> &mut Connection {
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
