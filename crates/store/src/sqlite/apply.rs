//! Writes the rows of a plan.

use rusqlite::{Connection, Result, params};

use super::{entries, runs};
use crate::{
    Attempt, Base, EntityId, ExpiryRow, Head, KeyName, PageImage, Position, RecordedTurn,
    Settlement, Snapshot, Timestamp, Work,
    plan::{EntityRow, KeyRow, MessageRow, Plan},
};

pub(super) fn apply(connection: &Connection, plan: &Plan) -> Result<()> {
    runs::erase(connection, plan)?;
    each(connection, INSERT_ENTITY, &plan.entities, entity)?;
    each(connection, SET_ORIGIN, &plan.origins, origin)?;
    each(connection, INSERT_MESSAGE, &plan.messages, message)?;
    each(connection, PUT_WORK, &plan.works, work)?;
    each(connection, "DELETE FROM work WHERE position = ?1", &plan.works_gone, by_position)?;
    each(connection, PUT_OUTCOME, &plan.settled, outcome)?;
    each(connection, "DELETE FROM outcome WHERE position = ?1", &plan.unsettled, by_position)?;
    each(connection, INSERT_ATTEMPT, &plan.attempts, attempt)?;
    each(connection, CLOSE, &plan.closed, close)?;
    each(connection, PUT_SNAPSHOT, &plan.snapshots, snapshot)?;
    each(connection, PUT_KEY, &plan.keys, key)?;
    each(connection, EXPIRE_KEY, &plan.keys_gone, key_gone)?;
    for table in [
        "DELETE FROM message WHERE position = ?1",
        "DELETE FROM outcome WHERE position = ?1",
        "DELETE FROM attempt WHERE position = ?1",
    ] {
        each(connection, table, &plan.forgotten, by_position)?;
    }
    let gone = "DELETE FROM head WHERE number = ?1";
    each(connection, gone, &plan.heads_gone, by_position)?;
    each(connection, "DELETE FROM base WHERE number = ?1", &plan.heads_gone, by_position)?;
    heads(connection, &plan.heads)?;
    each(connection, PUT_BASE, &plan.bases, base)?;
    each(connection, INSERT_TURN, &plan.turns, turn)?;
    each(connection, CUT_IMAGES, &plan.images_cut, cut_images)?;
    each(connection, PUT_IMAGE, &plan.images, image)?;
    let forgotten = "DELETE FROM turn WHERE position = ?1";
    each(connection, forgotten, &plan.turns_forgotten, by_position)?;
    runs::put(connection, &plan.runs)?;
    each(connection, KEEP_RUN, &plan.runs_kept, close)?;
    entries::write(connection, plan)?;
    each(connection, LOOKED, &plan.processed, expiring)?;
    each(connection, PUT_EXPIRING, &plan.expiring, expiring)?;
    each(connection, COUNT_DEPTH, &plan.depths, depth)?;
    connection.prepare_cached(COUNT)?.execute(params![
        plan.position,
        plan.at.0,
        plan.delete_from.0,
        plan.swept,
        plan.pending,
        plan.dead,
    ])?;
    Ok(())
}

const COUNT: &str = "UPDATE counter SET position = ?1, at = ?2, delete_from = ?3, \
     swept = coalesce(?4, swept), pending = pending + ?5, dead = dead + ?6 WHERE id = 1";

const COUNT_DEPTH: &str = "INSERT INTO depth (queue, waiting, dead) VALUES (?1, ?2, ?3) \
     ON CONFLICT (queue) DO UPDATE SET waiting = waiting + ?2, dead = dead + ?3";

fn depth(statement: &mut Statement<'_>, row: &(EntityId, i64, i64)) -> Result<usize> {
    statement.execute(params![row.0.0, row.1, row.2])
}

const LOOKED: &str = "DELETE FROM expiring WHERE list = ?1 AND since = ?2 AND position = ?3 \
     AND entity = ?4";

const PUT_EXPIRING: &str = "INSERT INTO expiring (list, since, position, entity) \
     VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO NOTHING";

fn expiring(statement: &mut Statement<'_>, row: &ExpiryRow) -> Result<usize> {
    statement.execute(params![row.list.tag(), row.since.0, row.position, row.entity.0])
}

const EXPIRE_KEY: &str = "DELETE FROM idempotency WHERE scope = ?1 AND key = ?2";

fn key_gone(statement: &mut Statement<'_>, row: &KeyName) -> Result<usize> {
    statement.execute(params![row.scope.0, row.key])
}

type Statement<'a> = rusqlite::CachedStatement<'a>;

fn each<T>(
    connection: &Connection,
    sql: &str,
    rows: &[T],
    run: fn(&mut Statement<'_>, &T) -> Result<usize>,
) -> Result<()> {
    if rows.is_empty() {
        return Ok(());
    }
    let mut statement = connection.prepare_cached(sql)?;
    rows.iter().try_for_each(|row| run(&mut statement, row).map(|_| ()))
}

const INSERT_ENTITY: &str = "INSERT INTO entity (id, shard, kind, class, name, created_at, \
     origin) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";

fn entity(statement: &mut Statement<'_>, row: &EntityRow) -> Result<usize> {
    let id = row.address.id();
    let (kind, class, name) = (row.address.kind().tag(), row.address.class(), row.address.name());
    let created_at = row.created_at.0;
    statement.execute(params![id.0, id.shard(), kind, class, name, created_at, row.origin])
}

const SET_ORIGIN: &str = "UPDATE entity SET origin = ?2 WHERE id = ?1";

fn origin(statement: &mut Statement<'_>, (id, origin): &(EntityId, Position)) -> Result<usize> {
    statement.execute(params![id.0, origin])
}

const INSERT_MESSAGE: &str = "INSERT INTO message (position, stream, version, kind, direction, \
     action, type, schema, data, metadata, target, ordered, cause, created_at, origin) \
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)";

fn message(statement: &mut Statement<'_>, row: &MessageRow) -> Result<usize> {
    statement.execute(params![
        row.position,
        row.stream.0,
        row.version,
        row.kind.tag(),
        row.direction.tag(),
        row.action,
        row.message_type,
        row.schema,
        row.data.as_str(),
        row.metadata.as_str(),
        row.target.map(|it| it.0),
        row.ordered,
        row.cause,
        row.created_at.0,
        row.origin,
    ])
}

const PUT_WORK: &str = "INSERT INTO work (position, shard, target, ordered, due_at, attempts, \
     forgiven, holder, lease, claimed_at, queued) \
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11) \
     ON CONFLICT (position) DO UPDATE SET shard = ?2, target = ?3, ordered = ?4, due_at = ?5, \
     attempts = ?6, forgiven = ?7, holder = ?8, lease = ?9, claimed_at = ?10, queued = ?11";

fn work(statement: &mut Statement<'_>, row: &Work) -> Result<usize> {
    statement.execute(params![
        row.position,
        row.target.shard(),
        row.target.0,
        row.ordered,
        row.due_at.0,
        row.attempts,
        row.forgiven,
        row.claim.map(|(lease, _)| lease.holder),
        row.claim.map(|(lease, _)| lease.number),
        row.claim.map(|(_, at)| at.0),
        row.queued,
    ])
}

const PUT_OUTCOME: &str = "INSERT INTO outcome (position, state, settled_at, attempts, error, \
     queue) VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT (position) DO UPDATE SET state = ?2, \
     settled_at = ?3, attempts = ?4, error = ?5, queue = ?6";

fn outcome(statement: &mut Statement<'_>, row: &(Position, Settlement)) -> Result<usize> {
    let (position, it) = row;
    let queue = it.queue.map(|it| it.0);
    statement.execute(params![position, it.as_.tag(), it.at.0, it.attempts, it.error, queue])
}

const INSERT_ATTEMPT: &str = "INSERT INTO attempt (position, number, started_at, ended_at, error) \
     VALUES (?1, ?2, ?3, ?4, ?5)";

fn attempt(statement: &mut Statement<'_>, row: &Attempt) -> Result<usize> {
    let (started_at, ended_at) = (row.started_at.0, row.ended_at.0);
    statement.execute(params![row.position, row.number, started_at, ended_at, row.error])
}

const CLOSE: &str = "UPDATE entity SET closed_at = ?2 WHERE id = ?1";

fn close(statement: &mut Statement<'_>, (id, at): &(EntityId, Timestamp)) -> Result<usize> {
    statement.execute(params![id.0, at.0])
}

const KEEP_RUN: &str = "UPDATE run SET expires_at = ?2 \
     WHERE number = (SELECT e.origin FROM entity e WHERE e.id = ?1) AND expires_at IS NOT NULL";

const PUT_SNAPSHOT: &str = "INSERT INTO snapshot (entity, version, code, state) \
     VALUES (?1, ?2, ?3, ?4) ON CONFLICT (entity) DO UPDATE SET version = ?2, code = ?3, \
     state = ?4";

fn snapshot(statement: &mut Statement<'_>, row: &Snapshot) -> Result<usize> {
    statement.execute(params![row.stream.0, row.version, row.code, row.state.as_str()])
}

const PUT_KEY: &str = "INSERT INTO idempotency (scope, key, request_hash, position, status, \
     reply, expires_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) ON CONFLICT (scope, key) DO UPDATE \
     SET request_hash = ?3, position = ?4, status = ?5, reply = ?6, expires_at = ?7";

fn key(statement: &mut Statement<'_>, row: &KeyRow) -> Result<usize> {
    statement.execute(params![
        row.scope.0,
        row.key,
        row.request_hash,
        row.position,
        row.status,
        row.reply.as_ref().map(|it| it.as_str()),
        row.expires_at.0,
    ])
}

/// Most heads exist already.
fn heads(connection: &Connection, rows: &[Head]) -> Result<()> {
    if rows.is_empty() {
        return Ok(());
    }
    let mut update = connection.prepare_cached(UPDATE_HEAD)?;
    let mut insert = connection.prepare_cached(INSERT_HEAD)?;
    for it in rows {
        let row = params![it.base.number, it.seq, it.position, it.chk];
        if update.execute(row)? == 0 {
            insert.execute(row)?;
        }
    }
    Ok(())
}

const UPDATE_HEAD: &str = "UPDATE head SET seq = ?2, position = ?3, chk = ?4 WHERE number = ?1";

const INSERT_HEAD: &str = "INSERT INTO head (number, seq, position, chk) VALUES (?1, ?2, ?3, ?4)";

const PUT_BASE: &str = "INSERT INTO base (entity, number, seq, position, chk, pages, \
     history_bytes, parts_seq, parts) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9) \
     ON CONFLICT (entity) DO UPDATE SET number = ?2, seq = ?3, position = ?4, chk = ?5, \
     pages = ?6, history_bytes = ?7, parts_seq = ?8, parts = ?9";

fn base(statement: &mut Statement<'_>, it: &Base) -> Result<usize> {
    statement.execute(params![
        it.entity.0,
        it.number,
        it.seq,
        it.position,
        it.chk,
        it.pages,
        it.history_bytes,
        it.parts_seq,
        it.parts,
    ])
}

const INSERT_TURN: &str = "INSERT INTO turn (position, entity, seq, prev, at, cause, sent, chk, \
     input, delta) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)";

fn turn(statement: &mut Statement<'_>, it: &RecordedTurn) -> Result<usize> {
    statement.execute(params![
        it.position,
        it.entity.0,
        it.seq,
        it.prev,
        it.at.0,
        it.cause,
        it.sent,
        it.chk,
        it.input,
        &*it.delta,
    ])
}

const CUT_IMAGES: &str = "DELETE FROM image WHERE entity = ?1 AND page > ?2";

fn cut_images(statement: &mut Statement<'_>, cut: &(EntityId, u32)) -> Result<usize> {
    statement.execute(params![cut.0.0, cut.1])
}

const PUT_IMAGE: &str = "INSERT INTO image (entity, page, seq, crc, data) \
     VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT (entity, page) DO UPDATE SET seq = ?3, crc = ?4, \
     data = ?5";

fn image(statement: &mut Statement<'_>, row: &(EntityId, PageImage)) -> Result<usize> {
    let (entity, it) = row;
    statement.execute(params![entity.0, it.page, it.seq, it.crc, &*it.data])
}

fn by_position(statement: &mut Statement<'_>, position: &Position) -> Result<usize> {
    statement.execute([position])
}
