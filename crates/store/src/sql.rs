//! The parts that both SQL stores share: queries as statements, and decoding of rows.
//!
//! Statements are written with `?1`; PostgreSQL gets them as `$1`.

mod dump;
pub(crate) mod entries;
pub(crate) mod expiry;
mod fields;
mod migrations;
#[cfg(test)]
mod plans;
pub(crate) mod queries;
mod query;
mod queues;
mod rows;
mod runs;
mod statement;

pub use self::migrations::{BASELINE_FORMAT, Migration};
pub(crate) use self::{
    fields::Fields,
    migrations::{FORMAT, MIGRATIONS, SET_FORMAT, missing, newest},
    rows::{head, key_row, settled_row, turn_brief, work},
    statement::{Dialect, Param, Statement},
};
