//! Replies under idempotency keys. They are rows of the object's own database: recorded with the
//! turn, found without a query to the store. The store keeps replies to runs and to requests: see
//! `call_key.rs`.

use std::time::Duration;

use rusqlite::{OptionalExtension, params};
use steadfast_store::Timestamp;

use super::{tables::Table, turn_state::TurnState};
use crate::object::{
    CallError,
    call_key::{Key, RequestHash},
};

/// Retention of the reply to a call with a key.
const KEEP: Duration = Duration::from_hours(24);

const FIND: &str = "SELECT request, reply FROM _steadfast_key WHERE key = ?1 AND expires_at > ?2";
const INSERT: &str = "INSERT INTO _steadfast_key (key, request, reply, expires_at) \
     VALUES (?1, ?2, ?3, ?4)";
/// Keys expire in the order in which they were recorded: checking the oldest is enough.
const EXPIRE: &str = "DELETE FROM _steadfast_key WHERE id IN (SELECT id FROM \
     (SELECT id, expires_at FROM _steadfast_key ORDER BY id LIMIT 8) WHERE expires_at <= ?1)";

/// The recorded reply of a key.
pub(super) fn find(
    state: &TurnState,
    key: &Key,
    expired: Timestamp,
) -> Result<Option<String>, CallError> {
    if key.stored.is_some() || !state.tables.has(Table::Key) {
        return Ok(None);
    }
    let database = &state.database;
    let found = database.guard.system(|| {
        let mut find = database.connection.prepare_cached(FIND)?;
        let row = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?));
        find.query_row(params![key.text, expired.0], row).optional()
    });
    let found: Option<(RequestHash, String)> = found.map_err(|error| state.sql_failed(&error))?;
    found.map(|(request, reply)| key.check(request).map(|()| reply)).transpose()
}

/// Records the reply with the turn.
pub(super) fn keep(
    state: &TurnState,
    key: &Key,
    expired: Timestamp,
    reply: &str,
) -> Result<(), CallError> {
    match key.stored.as_deref() {
        None => insert(state, key, expired, reply).map_err(|error| state.sql_failed(&error)),
        Some(stored) => {
            let record = stored.record(&state.address, key.request, reply)?;
            state.reply_record.replace(Some(record));
            Ok(())
        }
    }
}

fn insert(state: &TurnState, key: &Key, expired: Timestamp, reply: &str) -> rusqlite::Result<()> {
    let database = &state.database;
    state.tables.need(Table::Key, database)?;
    let until = state.now.after(KEEP);
    database.guard.system(|| {
        let sql = &database.connection;
        sql.prepare_cached(EXPIRE)?.execute([expired.0])?;
        // An expired key that was not among the oldest.
        sql.prepare_cached("DELETE FROM _steadfast_key WHERE key = ?1")?.execute([&key.text])?;
        let row = params![key.text, key.request, reply, until.0];
        sql.prepare_cached(INSERT)?.execute(row).map(|_| ())
    })
}
