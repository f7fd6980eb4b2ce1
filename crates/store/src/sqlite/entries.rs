//! Entries: writing them, and reading those that a batch needs.

use rusqlite::{Connection, params};

use super::row::rows;
use crate::{
    Entry, EntryKey, StoreError,
    plan::{Facts, Needs, Plan},
    sql::entries,
};

const PUT: &str = "INSERT INTO entry (space, key, revision, value, reference, changed_at, \
     expires_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) ON CONFLICT (space, key) DO UPDATE SET \
     revision = ?3, value = ?4, reference = ?5, changed_at = ?6, expires_at = ?7";
/// Nobody else writes to the file, so the limit needs no second check.
const COUNT: &str = "UPDATE entry SET revision = revision + ?3, \
     value = CAST(CAST(value AS INTEGER) + ?4 AS TEXT) WHERE space = ?1 AND key = ?2";
const REMOVE: &str = "DELETE FROM entry WHERE space = ?1 AND key = ?2";

pub(super) fn write(connection: &Connection, plan: &Plan) -> rusqlite::Result<()> {
    put(connection, &plan.entries)?;
    if !plan.counts.is_empty() {
        let mut statement = connection.prepare_cached(COUNT)?;
        for (key, it) in &plan.counts {
            statement.execute(params![key.space(), key.key(), it.times, it.delta])?;
        }
    }
    remove(connection, &plan.entries_gone)
}

fn put(connection: &Connection, put: &[Entry]) -> rusqlite::Result<()> {
    if !put.is_empty() {
        let mut statement = connection.prepare_cached(PUT)?;
        for it in put {
            statement.execute(params![
                it.entry.space(),
                it.entry.key(),
                it.revision,
                it.value.as_ref().map(|it| it.as_str()),
                it.reference.map(|it| it.0),
                it.changed_at.0,
                it.expires_at.map(|it| it.0),
            ])?;
        }
    }
    Ok(())
}

fn remove(connection: &Connection, gone: &[EntryKey]) -> rusqlite::Result<()> {
    if !gone.is_empty() {
        let mut statement = connection.prepare_cached(REMOVE)?;
        for it in gone {
            statement.execute(params![it.space(), it.key()])?;
        }
    }
    Ok(())
}

pub(super) fn facts(
    connection: &Connection,
    needs: &Needs,
    facts: &mut Facts,
) -> Result<(), StoreError> {
    for key in &needs.entries {
        let params = (key.space(), key.key());
        for entry in rows(connection, entries::ENTRY, params, entries::entry)? {
            facts.entries.load(key.clone(), entry);
        }
    }
    for space in &needs.spaces {
        let occupied = rows(connection, entries::OCCUPIED, (space,), |row| row.text(0))?;
        facts.spaces.extend(occupied.into_iter().map(Into::into));
    }
    Ok(())
}
