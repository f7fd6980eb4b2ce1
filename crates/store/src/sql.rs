//! The parts that both SQL stores share: `tables` describes the tables, `changes` writes them,
//! `facts` reads what a batch needs, and `query` answers queries.
//!
//! Statements are written with `?1`; PostgreSQL gets them as `$1`.

mod changes;
mod dump;
mod entries;
mod facts;
mod migrations;
mod objects;
#[cfg(test)]
mod plans;
pub(crate) mod queries;
mod query;
mod runs;
mod statement;
mod table;
mod tables;

pub use self::migrations::{BASELINE_FORMAT, Migration};
pub(crate) use self::{
    changes::CHANGES,
    facts::READS,
    migrations::{FORMAT, MIGRATIONS, SET_FORMAT, missing, newest},
    statement::{Dialect, Fields, Param, RowReader, Statement, Value},
    table::Values,
};
