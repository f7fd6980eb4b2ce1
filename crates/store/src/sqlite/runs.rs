//! Runs: writes their status, and deletes them.

use rusqlite::{Connection, params};

use crate::{EntityId, Position, RunSummary, Version, plan::Plan};

/// Deletes the record of a run or another entity, up to a version.
const CUT: [&str; 3] = [
    "DELETE FROM outcome WHERE position IN (SELECT m.position FROM message m \
     WHERE m.origin = (SELECT e.origin FROM entity e WHERE e.id = ?1) AND m.version <= ?2)",
    "DELETE FROM attempt WHERE position IN (SELECT m.position FROM message m \
     WHERE m.origin = (SELECT e.origin FROM entity e WHERE e.id = ?1) AND m.version <= ?2)",
    "DELETE FROM message WHERE origin = (SELECT e.origin FROM entity e WHERE e.id = ?1) \
     AND version <= ?2",
];

/// Deletes the remaining rows, in this order.
const ERASE: [&str; 3] = [
    "DELETE FROM snapshot WHERE entity = ?1",
    "DELETE FROM run WHERE number = (SELECT e.origin FROM entity e WHERE e.id = ?1)",
    "DELETE FROM entity WHERE id = ?1",
];

pub(super) fn erase(connection: &Connection, plan: &Plan) -> rusqlite::Result<()> {
    let whole = plan.erased.iter().map(|it| (*it, Version::MAX));
    let cut: Vec<(EntityId, Version)> = plan.cut.iter().copied().chain(whole).collect();
    let put_aside = plan.put_aside.iter().map(|(it, _)| *it);
    let gone: Vec<EntityId> = plan.erased.iter().copied().chain(put_aside).collect();
    if cut.is_empty() && gone.is_empty() {
        return Ok(());
    }
    for table in CUT {
        let mut statement = connection.prepare_cached(table)?;
        for (entity, version) in &cut {
            statement.execute(params![entity.0, version])?;
        }
    }
    for table in ERASE {
        let mut statement = connection.prepare_cached(table)?;
        for entity in &gone {
            statement.execute([entity.0])?;
        }
    }
    Ok(())
}

/// An existing row keeps its creation time.
const PUT_RUN: &str = "INSERT INTO run (number, entity, workflow, name, status, created_at, \
     changed_at, expires_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8) ON CONFLICT (number) \
     DO UPDATE SET status = ?5, changed_at = ?7, expires_at = ?8";

pub(super) fn put(
    connection: &Connection,
    runs: &[(Position, RunSummary)],
) -> rusqlite::Result<()> {
    if runs.is_empty() {
        return Ok(());
    }
    let mut statement = connection.prepare_cached(PUT_RUN)?;
    for (number, it) in runs {
        statement.execute(params![
            number,
            it.run.id().0,
            it.run.class(),
            it.run.name(),
            it.status.tag(),
            it.created_at.0,
            it.changed_at.0,
            it.expires_at.map(|it| it.0),
        ])?;
    }
    Ok(())
}
