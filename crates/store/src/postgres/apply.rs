//! Writes the rows of a plan: one statement per table, the rows as arrays, all in one round trip.

use futures_util::future::try_join_all;
use tokio_postgres::{Client, Error, Statement, types::ToSql};

use super::pipeline::{Params, PendingReply, execute, send};
use crate::{EntityId, EntryKey, ExpiryRow, KeyName, Timestamp, plan::Plan};

/// One statement for each table and kind of change, in the order of execution.
const STATEMENTS: [&str; 41] = [
    "DELETE FROM outcome o USING message m, unnest($1::bytea[], $2::bigint[]) AS c (id, version), \
     entity e WHERE e.id = c.id AND m.origin = e.origin AND m.version <= c.version \
     AND o.position = m.position",
    "DELETE FROM attempt a USING message m, unnest($1::bytea[], $2::bigint[]) AS c (id, version), \
     entity e WHERE e.id = c.id AND m.origin = e.origin AND m.version <= c.version \
     AND a.position = m.position",
    "DELETE FROM message m USING unnest($1::bytea[], $2::bigint[]) AS c (id, version), entity e \
     WHERE e.id = c.id AND m.origin = e.origin AND m.version <= c.version",
    "DELETE FROM outcome o USING message m WHERE m.origin = ANY (ARRAY(SELECT e.origin \
     FROM entity e WHERE e.id = ANY ($1::bytea[]))) AND o.position = m.position",
    "DELETE FROM attempt a USING message m WHERE m.origin = ANY (ARRAY(SELECT e.origin \
     FROM entity e WHERE e.id = ANY ($1::bytea[]))) AND a.position = m.position",
    "DELETE FROM message WHERE origin = ANY (ARRAY(SELECT e.origin FROM entity e \
     WHERE e.id = ANY ($1::bytea[])))",
    "DELETE FROM snapshot WHERE entity = ANY ($1::bytea[])",
    "DELETE FROM run WHERE number = ANY (ARRAY(SELECT e.origin FROM entity e \
     WHERE e.id = ANY ($1::bytea[])))",
    "DELETE FROM entity WHERE id = ANY ($1::bytea[])",
    "INSERT INTO entity (id, shard, kind, class, name, created_at, origin) SELECT * FROM \
     unnest($1::bytea[], $2::smallint[], $3::text[], $4::text[], $5::text[], $6::bigint[], \
     $7::bigint[])",
    "UPDATE entity e SET origin = o.origin FROM unnest($1::bytea[], $2::bigint[]) \
     AS o (id, origin) WHERE e.id = o.id",
    "INSERT INTO message (position, stream, version, kind, direction, action, type, schema, data, \
     metadata, target, ordered, cause, created_at, origin) SELECT * FROM unnest($1::bigint[], \
     $2::bytea[], $3::bigint[], $4::text[], $5::text[], $6::text[], $7::text[], $8::int[], \
     $9::text[], $10::text[], $11::bytea[], $12::bool[], $13::bigint[], $14::bigint[], \
     $15::bigint[])",
    "INSERT INTO work (position, shard, target, ordered, due_at, attempts, forgiven, holder, \
     lease, claimed_at, queued) SELECT * FROM unnest($1::bigint[], $2::smallint[], $3::bytea[], \
     $4::bool[], $5::bigint[], $6::int[], $7::int[], $8::bigint[], $9::bigint[], $10::bigint[], \
     $11::bool[]) ON CONFLICT (position) DO UPDATE SET shard = excluded.shard, \
     target = excluded.target, ordered = excluded.ordered, queued = excluded.queued, \
     due_at = excluded.due_at, \
     attempts = excluded.attempts, forgiven = excluded.forgiven, holder = excluded.holder, \
     lease = excluded.lease, claimed_at = excluded.claimed_at",
    "DELETE FROM work WHERE position = ANY ($1::bigint[])",
    "INSERT INTO outcome (position, state, settled_at, attempts, error, queue) SELECT * \
     FROM unnest($1::bigint[], $2::text[], $3::bigint[], $4::int[], $5::text[], $6::bytea[]) \
     ON CONFLICT (position) DO UPDATE SET state = excluded.state, \
     settled_at = excluded.settled_at, attempts = excluded.attempts, error = excluded.error, \
     queue = excluded.queue",
    "DELETE FROM outcome WHERE position = ANY ($1::bigint[])",
    "INSERT INTO attempt (position, number, started_at, ended_at, error) SELECT * FROM unnest( \
     $1::bigint[], $2::int[], $3::bigint[], $4::bigint[], $5::text[])",
    "UPDATE entity e SET closed_at = c.at FROM unnest($1::bytea[], $2::bigint[]) AS c (id, at) \
     WHERE e.id = c.id",
    "INSERT INTO snapshot (entity, version, code, state) SELECT * FROM unnest($1::bytea[], \
     $2::bigint[], $3::int[], $4::text[]) ON CONFLICT (entity) DO UPDATE SET \
     version = excluded.version, code = excluded.code, state = excluded.state",
    "INSERT INTO idempotency (scope, key, request_hash, position, status, reply, expires_at) \
     SELECT * FROM unnest($1::bytea[], $2::text[], $3::bytea[], $4::bigint[], $5::int[], \
     $6::text[], $7::bigint[]) ON CONFLICT (scope, key) DO UPDATE SET \
     request_hash = excluded.request_hash, position = excluded.position, \
     status = excluded.status, reply = excluded.reply, expires_at = excluded.expires_at",
    "DELETE FROM idempotency i USING unnest($1::bytea[], $2::text[]) AS g (scope, key) \
     WHERE i.scope = g.scope AND i.key = g.key",
    "DELETE FROM message WHERE position = ANY ($1::bigint[])",
    "DELETE FROM outcome WHERE position = ANY ($1::bigint[])",
    "DELETE FROM attempt WHERE position = ANY ($1::bigint[])",
    "DELETE FROM head WHERE number = ANY ($1::bigint[])",
    "DELETE FROM base WHERE number = ANY ($1::bigint[])",
    "INSERT INTO head (number, seq, position, chk) SELECT * FROM unnest($1::bigint[], \
     $2::bigint[], $3::bigint[], $4::bigint[]) ON CONFLICT (number) DO UPDATE SET \
     seq = excluded.seq, position = excluded.position, chk = excluded.chk",
    "INSERT INTO base (entity, number, seq, position, chk, pages, history_bytes, parts_seq, \
     parts) SELECT * FROM unnest($1::bytea[], $2::bigint[], $3::bigint[], $4::bigint[], \
     $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[], $9::bigint[]) \
     ON CONFLICT (entity) DO UPDATE SET number = excluded.number, \
     seq = excluded.seq, position = excluded.position, chk = excluded.chk, \
     pages = excluded.pages, history_bytes = excluded.history_bytes, \
     parts_seq = excluded.parts_seq, parts = excluded.parts",
    "INSERT INTO turn (position, entity, seq, prev, at, cause, sent, chk, input, delta) \
     SELECT * FROM unnest($1::bigint[], $2::bytea[], $3::bigint[], $4::bigint[], $5::bigint[], \
     $6::bigint[], $7::bigint[], $8::bigint[], $9::text[], $10::bytea[])",
    "DELETE FROM image i USING unnest($1::bytea[], $2::bigint[]) AS c (entity, pages) \
     WHERE i.entity = c.entity AND i.page > c.pages",
    "INSERT INTO image (entity, page, seq, crc, data) SELECT * FROM unnest($1::bytea[], \
     $2::bigint[], $3::bigint[], $4::bigint[], $5::bytea[]) ON CONFLICT (entity, page) \
     DO UPDATE SET seq = excluded.seq, crc = excluded.crc, data = excluded.data",
    "DELETE FROM turn WHERE position = ANY ($1::bigint[])",
    "INSERT INTO run (number, entity, workflow, name, status, created_at, changed_at, \
     expires_at) SELECT * FROM unnest($1::bigint[], $2::bytea[], $3::text[], $4::text[], \
     $5::text[], $6::bigint[], $7::bigint[], $8::bigint[]) ON CONFLICT (number) DO UPDATE SET \
     status = excluded.status, changed_at = excluded.changed_at, \
     expires_at = excluded.expires_at",
    "UPDATE run r SET expires_at = k.at FROM unnest($1::bytea[], $2::bigint[]) AS k (id, at), \
     entity e WHERE e.id = k.id AND r.number = e.origin AND r.expires_at IS NOT NULL",
    "INSERT INTO entry (space, key, revision, value, reference, changed_at, expires_at) \
     SELECT * FROM unnest($1::text[], $2::bytea[], $3::bigint[], $4::text[], $5::bytea[], \
     $6::bigint[], $7::bigint[]) ON CONFLICT (space, key) DO UPDATE SET \
     revision = excluded.revision, value = excluded.value, reference = excluded.reference, \
     changed_at = excluded.changed_at, expires_at = excluded.expires_at",
    // The limits hold for the counters as they are now, or the division by zero rolls back.
    "WITH counted AS (UPDATE entry e SET revision = e.revision + c.times, \
     value = (e.value::bigint + c.delta)::text FROM unnest($1::text[], $2::bytea[], $3::bigint[], \
     $4::bigint[], $5::bigint[]) AS c (space, key, times, delta, at_most) \
     WHERE e.space = c.space AND e.key = c.key \
     RETURNING e.value::bigint - c.delta <= c.at_most AS fits) \
     SELECT 1 / (count(*) = cardinality($1::text[]))::int FROM counted WHERE fits",
    "DELETE FROM entry e USING unnest($1::text[], $2::bytea[]) AS g (space, key) \
     WHERE e.space = g.space AND e.key = g.key",
    "DELETE FROM expiring e USING unnest($1::text[], $2::bigint[], $3::bigint[], $4::bytea[]) \
     AS g (list, since, position, entity) WHERE e.list = g.list AND e.since = g.since \
     AND e.position = g.position AND e.entity = g.entity",
    "INSERT INTO expiring (list, since, position, entity) SELECT * FROM unnest($1::text[], \
     $2::bigint[], $3::bigint[], $4::bytea[]) ON CONFLICT DO NOTHING",
    "INSERT INTO depth AS d (queue, waiting, dead) SELECT * FROM unnest($1::bytea[], \
     $2::bigint[], $3::bigint[]) ON CONFLICT (queue) DO UPDATE SET \
     waiting = d.waiting + excluded.waiting, dead = d.dead + excluded.dead",
    "UPDATE counter SET position = $1, at = $2, delete_from = $3, swept = coalesce($4, swept), \
     pending = pending + $5, dead = dead + $6 WHERE id = 1",
];

/// The prepared statements.
pub(super) struct Writes {
    statements: Vec<Statement>,
}

impl Writes {
    pub(super) async fn prepare(client: &Client) -> Result<Self, Error> {
        let statements = try_join_all(STATEMENTS.iter().map(|sql| client.prepare(sql))).await?;
        Ok(Self { statements })
    }

    /// Writes the plan and commits. Once this is polled, the commit may happen.
    pub(super) async fn write(&self, client: &Client, plan: &Plan) -> Result<(), WriteFailure> {
        let all = params(plan);
        let mut replies = Vec::with_capacity(all.len());
        // Sent in this order without waiting: if a write fails, COMMIT rolls back.
        for (statement, params) in self.statements.iter().zip(&all) {
            let Some(params) = params else { continue };
            let reply = send(execute(client, statement, params)).await;
            if let PendingReply::Ready(Err(error)) = reply {
                // It was not sent, so COMMIT would commit the others without it.
                return Err(WriteFailure::Statement(error));
            }
            replies.push(reply);
        }
        let committed = send(client.batch_execute("COMMIT")).await;
        let mut written = Ok(());
        for reply in replies {
            // The first error counts: those behind it only report that the transaction is aborted.
            written = written.and(reply.wait().await.map(|_| ()));
        }
        let committed = committed.wait().await;
        written.map_err(WriteFailure::Statement)?;
        committed.map_err(WriteFailure::Commit)
    }
}

/// The statement that failed.
pub(super) enum WriteFailure {
    /// A write: COMMIT, sent behind it, rolled back.
    Statement(Error),
    /// COMMIT itself: it may have happened.
    Commit(Error),
}

fn params(plan: &Plan) -> [Option<Params<'_>>; 41] {
    let erased = || {
        (!plan.erased.is_empty())
            .then(|| -> Params<'_> { vec![column(&plan.erased, |it| it.0.as_slice())] })
    };
    let cut = || (!plan.cut.is_empty()).then(|| numbers(&plan.cut));
    let is_gone = !plan.erased.is_empty() || !plan.put_aside.is_empty();
    let gone = || is_gone.then(|| gone(plan));
    [
        cut(),
        cut(),
        cut(),
        erased(),
        erased(),
        erased(),
        gone(),
        gone(),
        gone(),
        (!plan.entities.is_empty()).then(|| entities(plan)),
        (!plan.origins.is_empty()).then(|| numbers(&plan.origins)),
        (!plan.messages.is_empty()).then(|| messages(plan)),
        (!plan.works.is_empty()).then(|| works(plan)),
        positions(&plan.works_gone),
        (!plan.settled.is_empty()).then(|| outcomes(plan)),
        positions(&plan.unsettled),
        (!plan.attempts.is_empty()).then(|| attempts(plan)),
        (!plan.closed.is_empty()).then(|| times(&plan.closed)),
        (!plan.snapshots.is_empty()).then(|| snapshots(plan)),
        (!plan.keys.is_empty()).then(|| keys(plan)),
        (!plan.keys_gone.is_empty()).then(|| keys_gone(&plan.keys_gone)),
        positions(&plan.forgotten),
        positions(&plan.forgotten),
        positions(&plan.forgotten),
        positions(&plan.heads_gone),
        positions(&plan.heads_gone),
        (!plan.heads.is_empty()).then(|| heads(plan)),
        (!plan.bases.is_empty()).then(|| bases(plan)),
        (!plan.turns.is_empty()).then(|| turns(plan)),
        (!plan.images_cut.is_empty()).then(|| images_cut(plan)),
        (!plan.images.is_empty()).then(|| images(plan)),
        positions(&plan.turns_forgotten),
        (!plan.runs.is_empty()).then(|| runs(plan)),
        (!plan.runs_kept.is_empty()).then(|| times(&plan.runs_kept)),
        (!plan.entries.is_empty()).then(|| entries(plan)),
        (!plan.counts.is_empty()).then(|| counts(plan)),
        (!plan.entries_gone.is_empty()).then(|| entries_gone(&plan.entries_gone)),
        (!plan.processed.is_empty()).then(|| expiring(&plan.processed)),
        (!plan.expiring.is_empty()).then(|| expiring(&plan.expiring)),
        (!plan.depths.is_empty()).then(|| depths(plan)),
        Some(counter(plan)),
    ]
}

/// One column of rows, as an array.
fn column<'a, R, T>(rows: &'a [R], of: impl Fn(&'a R) -> T) -> Box<dyn ToSql + Sync + Send + 'a>
where
    T: ToSql + Sync + Send + 'a,
{
    Box::new(rows.iter().map(of).collect::<Vec<T>>())
}

fn positions(positions: &[i64]) -> Option<Params<'_>> {
    (!positions.is_empty()).then(|| -> Params<'_> { vec![Box::new(positions)] })
}

fn gone(plan: &Plan) -> Params<'_> {
    let put_aside = plan.put_aside.iter().map(|(id, _)| id);
    vec![Box::new(plan.erased.iter().chain(put_aside).map(|it| bytes(*it)).collect::<Vec<_>>())]
}

fn bytes(id: EntityId) -> Vec<u8> {
    id.0.to_vec()
}

fn entities(plan: &Plan) -> Params<'_> {
    let rows = &plan.entities;
    vec![
        column(rows, |it| bytes(it.address.id())),
        column(rows, |it| i16::from(it.address.id().shard())),
        column(rows, |it| it.address.kind().tag()),
        column(rows, |it| it.address.class()),
        column(rows, |it| it.address.name()),
        column(rows, |it| it.created_at.0),
        column(rows, |it| it.origin),
    ]
}

fn numbers(rows: &[(EntityId, i64)]) -> Params<'_> {
    vec![column(rows, |it| it.0.0.as_slice()), column(rows, |it| it.1)]
}

fn messages(plan: &Plan) -> Params<'_> {
    let rows = &plan.messages;
    vec![
        column(rows, |it| it.position),
        column(rows, |it| it.stream.0.as_slice()),
        column(rows, |it| it.version),
        column(rows, |it| it.kind.tag()),
        column(rows, |it| it.direction.tag()),
        column(rows, |it| &*it.action),
        column(rows, |it| &*it.message_type),
        column(rows, |it| it.schema),
        column(rows, |it| it.data.as_str()),
        column(rows, |it| it.metadata.as_str()),
        column(rows, |it| it.target.map(bytes)),
        column(rows, |it| it.ordered),
        column(rows, |it| it.cause),
        column(rows, |it| it.created_at.0),
        column(rows, |it| it.origin),
    ]
}

fn works(plan: &Plan) -> Params<'_> {
    let rows = &plan.works;
    vec![
        column(rows, |it| it.position),
        column(rows, |it| i16::from(it.target.shard())),
        column(rows, |it| it.target.0.as_slice()),
        column(rows, |it| it.ordered),
        column(rows, |it| it.due_at.0),
        column(rows, |it| it.attempts.cast_signed()),
        column(rows, |it| it.forgiven.cast_signed()),
        column(rows, |it| it.claim.map(|(lease, _)| lease.holder)),
        column(rows, |it| it.claim.map(|(lease, _)| lease.number)),
        column(rows, |it| it.claim.map(|(_, at)| at.0)),
        column(rows, |it| it.queued),
    ]
}

fn outcomes(plan: &Plan) -> Params<'_> {
    let rows = &plan.settled;
    vec![
        column(rows, |it| it.0),
        column(rows, |it| it.1.as_.tag()),
        column(rows, |it| it.1.at.0),
        column(rows, |it| it.1.attempts.cast_signed()),
        column(rows, |it| it.1.error.as_deref()),
        column(rows, |it| it.1.queue.map(bytes)),
    ]
}

fn attempts(plan: &Plan) -> Params<'_> {
    let rows = &plan.attempts;
    vec![
        column(rows, |it| it.position),
        column(rows, |it| it.number.cast_signed()),
        column(rows, |it| it.started_at.0),
        column(rows, |it| it.ended_at.0),
        column(rows, |it| it.error.as_str()),
    ]
}

fn counter(plan: &Plan) -> Params<'_> {
    vec![
        Box::new(plan.position),
        Box::new(plan.at.0),
        Box::new(plan.delete_from.0),
        Box::new(plan.swept),
        Box::new(plan.pending),
        Box::new(plan.dead),
    ]
}

fn depths(plan: &Plan) -> Params<'_> {
    let rows = &plan.depths;
    vec![column(rows, |it| it.0.0.as_slice()), column(rows, |it| it.1), column(rows, |it| it.2)]
}

fn expiring(rows: &[ExpiryRow]) -> Params<'_> {
    vec![
        column(rows, |it| it.list.tag()),
        column(rows, |it| it.since.0),
        column(rows, |it| it.position),
        column(rows, |it| it.entity.0.as_slice()),
    ]
}

fn keys_gone(rows: &[KeyName]) -> Params<'_> {
    vec![column(rows, |it| it.scope.0.as_slice()), column(rows, |it| &*it.key)]
}

fn times(rows: &[(EntityId, Timestamp)]) -> Params<'_> {
    vec![column(rows, |it| it.0.0.as_slice()), column(rows, |it| it.1.0)]
}

fn snapshots(plan: &Plan) -> Params<'_> {
    let rows = &plan.snapshots;
    vec![
        column(rows, |it| it.stream.0.as_slice()),
        column(rows, |it| it.version),
        column(rows, |it| it.code),
        column(rows, |it| it.state.as_str()),
    ]
}

fn keys(plan: &Plan) -> Params<'_> {
    let rows = &plan.keys;
    vec![
        column(rows, |it| it.scope.0.as_slice()),
        column(rows, |it| &*it.key),
        column(rows, |it| it.request_hash.as_slice()),
        column(rows, |it| it.position),
        column(rows, |it| it.status),
        column(rows, |it| it.reply.as_ref().map(|reply| reply.as_str())),
        column(rows, |it| it.expires_at.0),
    ]
}

fn heads(plan: &Plan) -> Params<'_> {
    let rows = &plan.heads;
    vec![
        column(rows, |it| it.base.number),
        column(rows, |it| it.seq),
        column(rows, |it| it.position),
        column(rows, |it| i64::from(it.chk)),
    ]
}

fn bases(plan: &Plan) -> Params<'_> {
    let rows = &plan.bases;
    vec![
        column(rows, |it| it.entity.0.as_slice()),
        column(rows, |it| it.number),
        column(rows, |it| it.seq),
        column(rows, |it| it.position),
        column(rows, |it| i64::from(it.chk)),
        column(rows, |it| i64::from(it.pages)),
        column(rows, |it| it.history_bytes),
        column(rows, |it| it.parts_seq),
        column(rows, |it| it.parts),
    ]
}

fn turns(plan: &Plan) -> Params<'_> {
    let rows = &plan.turns;
    vec![
        column(rows, |it| it.position),
        column(rows, |it| it.entity.0.as_slice()),
        column(rows, |it| it.seq),
        column(rows, |it| it.prev),
        column(rows, |it| it.at.0),
        column(rows, |it| it.cause),
        column(rows, |it| i64::from(it.sent)),
        column(rows, |it| i64::from(it.chk)),
        column(rows, |it| &*it.input),
        column(rows, |it| &*it.delta),
    ]
}

fn images_cut(plan: &Plan) -> Params<'_> {
    let rows = &plan.images_cut;
    vec![column(rows, |it| it.0.0.as_slice()), column(rows, |it| i64::from(it.1))]
}

fn images(plan: &Plan) -> Params<'_> {
    let rows = &plan.images;
    vec![
        column(rows, |it| it.0.0.as_slice()),
        column(rows, |it| i64::from(it.1.page)),
        column(rows, |it| it.1.seq),
        column(rows, |it| i64::from(it.1.crc)),
        column(rows, |it| &*it.1.data),
    ]
}

fn runs(plan: &Plan) -> Params<'_> {
    let rows = &plan.runs;
    vec![
        column(rows, |it| it.0),
        column(rows, |it| bytes(it.1.run.id())),
        column(rows, |it| it.1.run.class()),
        column(rows, |it| it.1.run.name()),
        column(rows, |it| it.1.status.tag()),
        column(rows, |it| it.1.created_at.0),
        column(rows, |it| it.1.changed_at.0),
        column(rows, |it| it.1.expires_at.map(|it| it.0)),
    ]
}

fn entries(plan: &Plan) -> Params<'_> {
    let rows = &plan.entries;
    vec![
        column(rows, |it| it.entry.space()),
        column(rows, |it| it.entry.key()),
        column(rows, |it| it.revision),
        column(rows, |it| it.value.as_ref().map(|it| it.as_str())),
        column(rows, |it| it.reference.map(bytes)),
        column(rows, |it| it.changed_at.0),
        column(rows, |it| it.expires_at.map(|it| it.0)),
    ]
}

fn counts(plan: &Plan) -> Params<'_> {
    let rows = &plan.counts;
    vec![
        column(rows, |it| it.0.space()),
        column(rows, |it| it.0.key()),
        column(rows, |it| it.1.times),
        column(rows, |it| it.1.delta),
        column(rows, |it| it.1.at_most),
    ]
}

fn entries_gone(rows: &[EntryKey]) -> Params<'_> {
    vec![column(rows, |it| it.space()), column(rows, |it| it.key())]
}
