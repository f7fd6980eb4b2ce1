//! The smallest object: a named counter with a database of its own.

use serde::{Deserialize, Serialize};
use steadfast_core::{App, Error, Handle, Object, Result, Turn, rusqlite::OptionalExtension};

/// Counts, each counter by its name.
#[derive(Debug)]
pub struct Counter;

/// Counts on by so many, or back.
#[derive(Debug, Serialize, Deserialize)]
pub struct Increment {
    /// How many.
    pub by: i64,
}

/// Asks how far it has counted.
#[derive(Debug, Serialize, Deserialize)]
pub struct Read {}

impl Object for Counter {
    const CLASS: &'static str = "counter";
    type Calls = (Increment, Read);
    const MIGRATIONS: &'static [&'static str] =
        &["CREATE TABLE counter (n INTEGER NOT NULL) STRICT; INSERT INTO counter VALUES (0)"];
}

impl Handle<Increment> for Counter {
    const NAME: &'static str = "increment";
    const PUBLIC: bool = true;
    type Reply = i64;

    fn handle(&self, turn: &Turn<Self>, msg: Increment) -> Result<i64> {
        // A sum that is too large for an integer is none.
        let add = "UPDATE counter SET n = n + ?1 WHERE typeof(n + ?1) = 'integer' RETURNING n";
        let mut add = turn.sql().prepare_cached(add)?;
        let n = add.query_row([msg.by], |row| row.get(0)).optional()?;
        n.ok_or_else(|| Error::terminal("a counter counts to 64 bits").with_code("out_of_range"))
    }
}

impl Handle<Read> for Counter {
    const NAME: &'static str = "read";
    const PUBLIC: bool = true;
    type Reply = i64;

    fn handle(&self, turn: &Turn<Self>, _: Read) -> Result<i64> {
        let mut read = turn.sql().prepare_cached("SELECT n FROM counter")?;
        Ok(read.query_row((), |row| row.get(0))?)
    }
}

/// The application.
pub fn app() -> App {
    App::new("counter").object(Counter)
}
