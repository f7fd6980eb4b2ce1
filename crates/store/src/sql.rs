//! What both SQL stores share: the statements that read, and how rows are understood.
//!
//! Statements are written with `?1`; PostgreSQL gets them as `$1`.

pub(crate) mod entries;
pub(crate) mod expiry;
mod fields;
mod migrations;
#[cfg(test)]
mod plans;
pub(crate) mod queries;
pub(crate) mod queues;
mod rows;
pub(crate) mod runs;

/// A limit as the databases take it.
pub(crate) fn count(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

pub(crate) use self::{
    fields::Fields,
    migrations::{KNOWN_SCHEMA, MIGRATIONS},
    rows::{
        address, attempt, entity_row, head, image, key_row, message_row, object_summary, old_turn,
        owned_image, recorded, run_summary, settled_row, snapshot, stream_summary, sweep_row,
        totals, turn, turn_brief, turn_summary, work,
    },
};
