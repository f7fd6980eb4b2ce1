//! The statements that read the rows that a batch needs.

use std::sync::LazyLock;

use super::{
    objects::{HEAD, IS_HISTORY, heads},
    queries::COUNTER,
    statement::{RowReader, Value},
    table::{self, Parameters, Sql, Stored, values},
};
use crate::{
    EntityId, Entry, EntryKey, Head, Position, Settlement, StoreError, Work,
    plan::{Brief, DeadBrief, Erasure, Facts, KeyRow, Needs, TurnBrief},
};

/// A statement, the keys of the rows that are needed, and what their rows mean.
pub(crate) struct Read {
    pub(crate) sql: Sql,
    pub(crate) keys: NeededKeys,
    pub(crate) load: Load,
    /// A store without the row is damaged.
    pub(crate) must_find: bool,
}

type NeededKeys = Box<dyn Parameters<Needs>>;

/// Adds a row to the facts.
type Load = fn(&mut RowReader<'_>, &mut Facts) -> Result<(), StoreError>;

/// A statement for one key `?1` in SQLite, for many in PostgreSQL.
fn read(sql: &str, keys: NeededKeys, load: Load) -> Read {
    let kind = if sql.contains(".position = ?1") { "bigint" } else { "bytea" };
    let postgres = sql.replace("= ?1", &format!("= ANY ($1::{kind}[])"));
    Read { sql: Sql { sqlite: sql.into(), postgres }, keys, load, must_find: false }
}

/// Reads rows by their keys.
fn by_key<R: Stored>(keys: NeededKeys, load: Load) -> Read {
    Read { sql: table::by_key::<R>(), keys, load, must_find: false }
}

fn ids(keys: fn(&Needs) -> &[EntityId]) -> NeededKeys {
    values(keys, &[|it| Value::Id(*it)])
}

fn positions(keys: fn(&Needs) -> &[Position]) -> NeededKeys {
    values(keys, &[|it| Value::Int(*it)])
}

/// All of them, in the order in which they are sent.
pub(crate) static READS: LazyLock<Vec<Read>> = LazyLock::new(|| {
    let nothing = values(std::slice::from_ref::<Needs>, &[]);
    let keys = values::<Needs, (EntityId, Box<str>)>(
        |it| &it.keys,
        &[|it| it.0.into(), |it| (&*it.1).into()],
    );
    let entries = values::<Needs, EntryKey>(
        |it| &it.entries,
        &[|it| it.space().into(), |it| it.key().into()],
    );
    let spaces = values::<Needs, Box<str>>(|it| &it.spaces, &[|it| (&**it).into()]);
    let entity = "SELECT e.id FROM entity e WHERE e.id = ?1";
    let occupied = Sql {
        sqlite: "SELECT space FROM entry WHERE space = ?1 AND value IS NOT NULL LIMIT 1".into(),
        postgres: "SELECT n.space FROM unnest($1::text[]) AS n (space) WHERE EXISTS \
             (SELECT 1 FROM entry e WHERE e.space = n.space AND e.value IS NOT NULL)"
            .into(),
    };
    vec![
        Read { must_find: true, ..read(COUNTER, nothing, load_counter) },
        read(STREAM_END, ids(|it| &it.streams), load_stream),
        read(entity, ids(|it| &it.entities), |row, facts| {
            facts.entities.insert(row.id()?);
            Ok(())
        }),
        by_key::<Work>(positions(|it| &it.works), |row, facts| {
            let work = Work::read(row)?;
            facts.works.load(work.position, work);
            Ok(())
        }),
        read(BRIEF, positions(|it| &it.messages), load_brief),
        by_key::<(Position, Settlement)>(positions(|it| &it.messages), |row, facts| {
            let (position, settled) = Stored::read(row)?;
            facts.settled.load(position, settled);
            Ok(())
        }),
        by_key::<KeyRow>(keys, |row, facts| {
            let key = KeyRow::read(row)?;
            facts.keys.load((key.scope, key.key.clone()), key);
            Ok(())
        }),
        read(&HEAD, ids(|it| &it.heads), |row, facts| {
            let head = Head::read(row)?;
            facts.heads.load(head.base.entity, head);
            Ok(())
        }),
        read(&turn(), positions(|it| &it.turns), load_turn),
        read(ERASURE, ids(|it| &it.erasures), load_erasure),
        read(ERASURE_DEAD, ids(|it| &it.erasures), load_dead),
        by_key::<Entry>(entries, |row, facts| {
            let entry = Entry::read(row)?;
            facts.entries.load(entry.entry.clone(), entry);
            Ok(())
        }),
        Read {
            sql: occupied,
            keys: spaces,
            load: |row, facts| {
                facts.spaces.insert(row.text()?.into());
                Ok(())
            },
            must_find: false,
        },
        by_key::<(EntityId, i64, i64)>(ids(|it| &it.queues), |row, facts| {
            let (queue, waiting, _) = Stored::read(row)?;
            facts.waiting.insert(queue, waiting);
            Ok(())
        }),
    ]
});

fn load_counter(row: &mut RowReader<'_>, facts: &mut Facts) -> Result<(), StoreError> {
    (facts.position, facts.at) = (row.int()?, row.time()?);
    row.skip(1);
    facts.swept = row.int()?;
    Ok(())
}

/// The end of a stream. No row: it is unknown; empty columns: it has no message.
pub(super) const STREAM_END: &str = "SELECT e.id, e.origin, \
     (SELECT m.version FROM message m WHERE m.origin = e.origin \
     ORDER BY m.version DESC LIMIT 1), (SELECT m.position FROM message m \
     WHERE m.origin = e.origin ORDER BY m.version DESC LIMIT 1) FROM entity e WHERE e.id = ?1";

fn load_stream(row: &mut RowReader<'_>, facts: &mut Facts) -> Result<(), StoreError> {
    let (id, origin) = (row.id()?, row.maybe_int()?);
    let (version, last) = (row.maybe_int()?, row.maybe_int()?);
    facts.load_stream(id, origin, version.unwrap_or(0), last);
    Ok(())
}

const BRIEF: &str = "SELECT m.position, m.stream, m.target, m.ordered, \
     EXISTS (SELECT 1 FROM entity e WHERE e.id = m.target AND e.kind = 'queue'), \
     NOT EXISTS (SELECT 1 FROM message n WHERE n.origin = m.origin AND n.version > m.version), \
     EXISTS (SELECT 1 FROM entity e WHERE e.id = m.stream AND e.kind IN ('process', 'run')) \
     FROM message m WHERE m.position = ?1";

fn load_brief(row: &mut RowReader<'_>, facts: &mut Facts) -> Result<(), StoreError> {
    let position = row.int()?;
    let brief = Brief {
        stream: row.id()?,
        target: row.maybe_id()?,
        ordered: row.flag()?,
        queued: row.flag()?,
        last: row.flag()?,
        recorded: row.flag()?,
    };
    facts.messages.load(position, brief);
    Ok(())
}

/// Turns, and the heads of their objects.
pub(super) fn turn() -> String {
    format!(
        "SELECT t.position, t.entity, length(t.delta), {IS_HISTORY}, {} FROM turn t \
         LEFT JOIN base b ON b.entity = t.entity LEFT JOIN head h ON h.number = b.number \
         WHERE t.position = ?1",
        heads()
    )
}

fn load_turn(row: &mut RowReader<'_>, facts: &mut Facts) -> Result<(), StoreError> {
    let position = row.int()?;
    let brief = TurnBrief { entity: row.id()?, bytes: row.int()?, is_history: row.flag()? };
    facts.turns.load(position, brief);
    if let Some(head) = row.rest(Head::read)? {
        facts.heads.load(head.base.entity, head);
    }
    Ok(())
}

/// An entity that is to be deleted, if it has ended: its first pending message, or work for it;
/// whether it is a run; whether it is detached; the last version that is deleted now, if its record
/// is too long; the number of messages that are deleted; its origin; and when its last message was
/// written.
pub(super) const ERASURE: &str = "SELECT e.id, coalesce((SELECT m.position FROM message m \
     JOIN work w ON w.position = m.position WHERE m.origin = e.origin \
     ORDER BY m.version LIMIT 1), (SELECT min(found.position) FROM (\
     SELECT w.position FROM work w WHERE w.target = e.id AND w.ordered UNION ALL \
     SELECT w.position FROM work w WHERE w.target = e.id AND NOT w.ordered) AS found)), \
     CASE WHEN EXISTS (SELECT 1 FROM run r WHERE r.number = e.origin) THEN 1 ELSE 0 END, \
     CASE WHEN e.kind = 'system' THEN 1 ELSE 0 END, \
     (SELECT m.version - 1 FROM message m WHERE m.origin = e.origin ORDER BY m.version \
     LIMIT 1 OFFSET 2000), \
     (SELECT count(*) FROM (SELECT 1 AS one FROM message m WHERE m.origin = e.origin \
     LIMIT 2000) AS found), e.origin, (SELECT m.created_at FROM message m \
     WHERE m.origin = e.origin ORDER BY m.version DESC LIMIT 1) \
     FROM entity e WHERE e.id = ?1 AND (e.kind = 'run' \
     OR (e.kind = 'process' AND (e.closed_at IS NOT NULL OR e.origin IS NULL)) \
     OR (e.kind = 'object' AND NOT EXISTS (SELECT 1 FROM base b WHERE b.entity = e.id)) \
     OR (e.kind = 'system' AND e.class = 'erased'))";

fn load_erasure(row: &mut RowReader<'_>, facts: &mut Facts) -> Result<(), StoreError> {
    let id = row.id()?;
    let found = Erasure {
        work: row.maybe_int()?,
        is_run: row.flag()?,
        is_aside: row.flag()?,
        dead: Vec::new(),
        cut: row.maybe_int()?,
        messages: row.count()? as usize,
        origin: row.maybe_int()?,
        last_at: row.maybe_time()?,
    };
    facts.erasures.load(id, found);
    Ok(())
}

/// The dead messages of an entity that is to be deleted.
pub(super) const ERASURE_DEAD: &str = "SELECT e.id, m.position, m.version, o.queue, o.settled_at \
     FROM entity e JOIN message m ON m.origin = e.origin \
     JOIN outcome o ON o.position = m.position AND o.state = 'dead' \
     WHERE e.id = ?1 ORDER BY m.version";

fn load_dead(row: &mut RowReader<'_>, facts: &mut Facts) -> Result<(), StoreError> {
    let id = row.id()?;
    let (position, version, queue) = (row.int()?, row.int()?, row.maybe_id()?);
    // An entity that has not ended is not deleted.
    if let Some(found) = facts.erasures.loaded(&id) {
        found.dead.push(DeadBrief { position, version, queue, at: row.time()? });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        plan::ERASED_MAX,
        sql::plans::{has, steps},
    };

    #[test]
    fn no_fact_is_searched_in_a_whole_table() {
        for read in READS.iter() {
            steps(&read.sql.sqlite);
        }
    }

    #[test]
    fn records_to_erase_are_found_by_their_origin() {
        let dead = steps(ERASURE_DEAD);
        assert!(has(&dead, "message_stream (origin=?)") && !has(&dead, "B-TREE"), "{dead:#?}");
        assert!(has(&steps(ERASURE), "message_stream (origin=?)"));
        assert!(ERASURE.contains(&format!("LIMIT {ERASED_MAX})")));
        assert!(ERASURE.contains(&format!("OFFSET {ERASED_MAX})")));
    }
}
