//! Reads the rows that a batch needs.

use std::collections::{HashMap, HashSet};

use rusqlite::Connection;

use super::{entries, row::rows};
use crate::{
    EntityId, Head, Position, StoreError, Version,
    plan::{Brief, Facts, Needs, Plan},
    sql::{self, Fields, expiry, queries},
};

const ENTITY: &str = "SELECT 1 FROM entity WHERE id = ?1";
const WORK: &str = "SELECT position, target, ordered, due_at, attempts, forgiven, holder, lease, \
     claimed_at, queued FROM work WHERE position = ?1";
const BRIEF: &str = "SELECT m.stream, m.target, m.ordered, \
     NOT EXISTS (SELECT 1 FROM message n WHERE n.origin = m.origin AND n.version > m.version), \
     EXISTS (SELECT 1 FROM entity e WHERE e.id = m.target AND e.kind = 'queue'), \
     EXISTS (SELECT 1 FROM entity e WHERE e.id = m.stream AND e.kind IN ('process', 'run')) \
     FROM message m WHERE m.position = ?1";
const OUTCOME: &str =
    "SELECT position, state, settled_at, attempts, error, queue FROM outcome WHERE position = ?1";
const WAITING: &str = "SELECT waiting FROM depth WHERE queue = ?1";
const KEY: &str = "SELECT scope, key, request_hash, position, status, reply, expires_at \
     FROM idempotency WHERE scope = ?1 AND key = ?2";

/// The end of a stream: its origin, its version, and the position of its last message, if its
/// entity exists.
type Stream = Option<(Option<Position>, Version, Option<Position>)>;

fn stream(connection: &Connection, id: EntityId) -> Result<Stream, StoreError> {
    let ends = |row: &dyn Fields| {
        Ok((row.maybe_int(1)?, row.maybe_int(2)?.unwrap_or(0), row.maybe_int(3)?))
    };
    Ok(rows(connection, queries::STREAM_END, (id.0,), ends)?.pop())
}

/// A cache of rows that the one writer has written.
#[derive(Default)]
pub(super) struct WriterCache {
    /// The origin, the version and the position of the last message.
    streams: HashMap<EntityId, (Position, Version, Position)>,
    entities: HashSet<EntityId>,
    heads: HashMap<EntityId, Head>,
}

impl WriterCache {
    /// Beyond this, some 6 MB, it is cleared; rows in use are soon cached again.
    const MAX: usize = 32_768;

    /// Adds the rows of a durable plan.
    pub(super) fn learn(&mut self, plan: &Plan) {
        if Self::MAX < self.streams.len() + self.entities.len() + self.heads.len() {
            *self = Self::default();
        }
        let put_aside = plan.put_aside.iter().map(|(id, _)| id);
        for entity in plan.erased.iter().chain(put_aside) {
            self.streams.remove(entity);
            self.entities.remove(entity);
        }
        self.entities.extend(plan.runs.iter().map(|(_, it)| it.run.id()));
        for row in &plan.messages {
            self.streams.insert(row.stream, (row.origin, row.version, row.position));
            self.entities.insert(row.stream);
            self.entities.extend(row.target);
        }
        if !plan.heads_gone.is_empty() {
            self.heads.retain(|_, head| !plan.heads_gone.contains(&head.base.number));
        }
        for head in &plan.heads {
            self.entities.insert(head.base.entity);
            self.heads.insert(head.base.entity, *head);
        }
    }
}

pub(super) fn read(
    connection: &Connection,
    needs: &Needs,
    known: &WriterCache,
) -> Result<Facts, StoreError> {
    let mut facts = Facts::default();
    let counter = |row: &dyn Fields| Ok((row.int(0)?, row.time(1)?, row.int(3)?));
    let counter = rows(connection, queries::COUNTER, (), counter)?;
    (facts.position, facts.at, facts.swept) =
        counter.first().copied().ok_or_else(|| StoreError::corrupt("the counter is missing"))?;
    for id in &needs.streams {
        let stands = match known.streams.get(id) {
            Some((origin, version, last)) => Some((Some(*origin), *version, Some(*last))),
            None => stream(connection, *id)?,
        };
        let Some((origin, version, last)) = stands else { continue };
        facts.entities.insert(*id);
        facts.versions.insert(*id, version);
        if let Some(origin) = origin {
            facts.origins.load(*id, origin);
        }
        if let Some(last) = last {
            facts.lasts.load(*id, last);
        }
    }
    // Those of streams are known by now.
    let is_stream = |id: &EntityId| needs.streams.binary_search(id).is_ok();
    for id in needs.entities.iter().filter(|it| !is_stream(it)) {
        let is_stored = || rows(connection, ENTITY, (id.0,), |_| Ok(()));
        if known.entities.contains(id) || !is_stored()?.is_empty() {
            facts.entities.insert(*id);
        }
    }
    for position in &needs.works {
        for work in rows(connection, WORK, (position,), sql::work)? {
            facts.works.load(*position, work);
        }
    }
    for position in &needs.messages {
        let brief = |row: &dyn Fields| {
            let (stream, target, ordered) = (row.id(0)?, row.maybe_id(1)?, row.int(2)? != 0);
            let (last, queued, recorded) = (row.int(3)? != 0, row.int(4)? != 0, row.int(5)? != 0);
            Ok(Brief { stream, target, ordered, queued, last, recorded })
        };
        for brief in rows(connection, BRIEF, (position,), brief)? {
            facts.messages.load(*position, brief);
        }
        for (position, settled) in rows(connection, OUTCOME, (position,), sql::settled_row)? {
            facts.settled.load(position, settled);
        }
    }
    for id in &needs.heads {
        let head = match known.heads.get(id) {
            Some(head) => Some(*head),
            None => rows(connection, queries::HEAD, (id.0,), sql::head)?.pop(),
        };
        if let Some(head) = head {
            facts.heads.load(*id, head);
        }
    }
    for position in &needs.turns {
        for (brief, head) in rows(connection, queries::TURN_BRIEF, (position,), sql::turn_brief)? {
            if let Some(head) = head {
                facts.heads.load(head.base.entity, head);
            }
            facts.turns.load(*position, brief);
        }
    }
    erasures(connection, needs, &mut facts)?;
    entries::facts(connection, needs, &mut facts)?;
    keys(connection, needs, &mut facts)?;
    waiting(connection, needs, &mut facts)?;
    Ok(facts)
}

fn keys(connection: &Connection, needs: &Needs, facts: &mut Facts) -> Result<(), StoreError> {
    for (scope, key) in &needs.keys {
        for row in rows(connection, KEY, (scope.0, key), sql::key_row)? {
            facts.keys.load((*scope, key.clone()), row);
        }
    }
    Ok(())
}

fn waiting(connection: &Connection, needs: &Needs, facts: &mut Facts) -> Result<(), StoreError> {
    for id in &needs.queues {
        let waiting = rows(connection, WAITING, (id.0,), |row| row.int(0))?;
        facts.waiting.extend(waiting.first().map(|it| (*id, *it)));
    }
    Ok(())
}

fn erasures(connection: &Connection, needs: &Needs, facts: &mut Facts) -> Result<(), StoreError> {
    for id in &needs.erasures {
        for (id, mut found) in rows(connection, expiry::ERASURE, (id.0,), expiry::erasure)? {
            let dead = rows(connection, expiry::ERASURE_DEAD, (id.0,), expiry::dead_brief)?;
            found.dead = dead.into_iter().map(|(_, it)| it).collect();
            facts.erasures.load(id, found);
        }
    }
    Ok(())
}
