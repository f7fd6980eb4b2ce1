//! The statements that write the rows of a plan.

use std::sync::LazyLock;

use super::{
    statement::Value,
    table::{self, Get, Parameters, Sql, Stored, values},
};
use crate::{
    Attempt, Base, EntityId, Entry, EntryKey, ExpiryRow, Head, KeyName, PageImage, Position,
    RecordedTurn, RunSummary, Settlement, Snapshot, Timestamp, Work,
    plan::{Counted, EntityRow, KeyRow, MessageRow, Plan},
};

/// A statement, and the rows of a plan that it writes.
pub(crate) struct Change {
    pub(crate) sql: Sql,
    pub(crate) rows: Box<dyn Parameters<Plan>>,
}

type PlanRows = Box<dyn Parameters<Plan>>;

fn change(sql: Sql, rows: PlanRows) -> Change {
    Change { sql, rows }
}

/// A change that does not follow from the description of its table.
fn custom(sqlite: &str, postgres: &str, rows: PlanRows) -> Change {
    change(Sql { sqlite: sqlite.into(), postgres: postgres.into() }, rows)
}

fn insert<R: Stored>(rows: fn(&Plan) -> &[R]) -> Change {
    change(table::insert::<R>(), table::rows(rows))
}

fn put<R: Stored>(rows: fn(&Plan) -> &[R]) -> Change {
    change(table::put::<R>(), table::rows(rows))
}

fn delete<R: Stored>(columns: &[&str], rows: PlanRows) -> Change {
    change(table::delete::<R>(columns), rows)
}

fn positions(rows: fn(&Plan) -> &[Position]) -> PlanRows {
    values(rows, &[|it| Value::Int(*it)])
}

fn ids(rows: fn(&Plan) -> &[EntityId]) -> PlanRows {
    values(rows, &[|it| Value::Id(*it)])
}

const NUMBERED: &[Get<(EntityId, i64)>] = &[|it| it.0.into(), |it| it.1.into()];
const TIMED: &[Get<(EntityId, Timestamp)>] = &[|it| it.0.into(), |it| it.1.into()];

/// All changes, in the order in which they are written.
pub(crate) static CHANGES: LazyLock<Vec<Change>> =
    LazyLock::new(|| [erasing(), messages(), objects(), others()].into_iter().flatten().collect());

/// Deletes records up to a version, and whole entities.
fn erasing() -> Vec<Change> {
    let cut = || -> PlanRows { values(|plan| &plan.cut, NUMBERED) };
    let erased = || ids(|plan| &plan.erased);
    let gone = || ids(|plan| &plan.gone);
    let origin = "(SELECT e.origin FROM entity e WHERE e.id = ?1)";
    let origins = "ANY (ARRAY(SELECT e.origin FROM entity e WHERE e.id = ANY ($1::bytea[])))";
    let of_messages = |table: &str| {
        let sqlite = format!(
            "DELETE FROM {table} WHERE position IN \
             (SELECT m.position FROM message m WHERE m.origin = {origin}"
        );
        let postgres = format!("DELETE FROM {table} t USING message m");
        let cut = custom(
            &format!("{sqlite} AND m.version <= ?2)"),
            &format!(
                "{postgres}, unnest($1::bytea[], $2::bigint[]) AS c (id, version), entity e \
                 WHERE e.id = c.id AND m.origin = e.origin AND m.version <= c.version \
                 AND t.position = m.position"
            ),
            cut(),
        );
        let whole = custom(
            &format!("{sqlite})"),
            &format!("{postgres} WHERE m.origin = {origins} AND t.position = m.position"),
            erased(),
        );
        [cut, whole]
    };
    let mut all: Vec<Change> = ["outcome", "attempt"].into_iter().flat_map(of_messages).collect();
    all.extend([
        custom(
            &format!("DELETE FROM message WHERE origin = {origin} AND version <= ?2"),
            "DELETE FROM message m USING unnest($1::bytea[], $2::bigint[]) AS c (id, version), \
             entity e WHERE e.id = c.id AND m.origin = e.origin AND m.version <= c.version",
            cut(),
        ),
        custom(
            &format!("DELETE FROM message WHERE origin = {origin}"),
            &format!("DELETE FROM message WHERE origin = {origins}"),
            erased(),
        ),
        delete::<Snapshot>(&[], gone()),
        custom(
            &format!("DELETE FROM run WHERE number = {origin}"),
            &format!("DELETE FROM run WHERE number = {origins}"),
            gone(),
        ),
        delete::<EntityRow>(&[], gone()),
    ]);
    all
}

fn messages() -> Vec<Change> {
    type Outcome = (Position, Settlement);
    let forgotten = || positions(|plan| &plan.forgotten);
    vec![
        insert::<EntityRow>(|plan| &plan.entities),
        change(table::update::<EntityRow>("origin"), values(|plan| &plan.origins, NUMBERED)),
        insert::<MessageRow>(|plan| &plan.messages),
        put::<Work>(|plan| &plan.works),
        delete::<Work>(&[], positions(|plan| &plan.works_gone)),
        put::<Outcome>(|plan| &plan.settled),
        delete::<Outcome>(&[], positions(|plan| &plan.unsettled)),
        insert::<Attempt>(|plan| &plan.attempts),
        change(table::update::<EntityRow>("closed_at"), values(|plan| &plan.closed, TIMED)),
        put::<Snapshot>(|plan| &plan.snapshots),
        put::<KeyRow>(|plan| &plan.keys),
        delete::<KeyRow>(
            &[],
            values::<_, KeyName>(
                |plan| &plan.keys_gone,
                &[|it| it.scope.into(), |it| (&*it.key).into()],
            ),
        ),
        delete::<MessageRow>(&[], forgotten()),
        delete::<Outcome>(&[], forgotten()),
        delete::<Attempt>(&["position"], forgotten()),
    ]
}

fn objects() -> Vec<Change> {
    let heads_gone = || positions(|plan| &plan.heads_gone);
    vec![
        delete::<Head>(&[], heads_gone()),
        delete::<Base>(&["number"], heads_gone()),
        put::<Head>(|plan| &plan.heads),
        put::<Base>(|plan| &plan.bases),
        insert::<RecordedTurn>(|plan| &plan.turns),
        custom(
            "DELETE FROM image WHERE entity = ?1 AND page > ?2",
            "DELETE FROM image i USING unnest($1::bytea[], $2::bigint[]) AS c (entity, pages) \
             WHERE i.entity = c.entity AND i.page > c.pages",
            values::<_, (EntityId, u32)>(
                |plan| &plan.images_cut,
                &[|it| it.0.into(), |it| it.1.into()],
            ),
        ),
        put::<(EntityId, PageImage)>(|plan| &plan.images),
        delete::<RecordedTurn>(&[], positions(|plan| &plan.turns_forgotten)),
    ]
}

fn others() -> Vec<Change> {
    vec![
        put::<(Position, RunSummary)>(|plan| &plan.runs),
        custom(
            "UPDATE run SET expires_at = ?2 \
             WHERE number = (SELECT e.origin FROM entity e WHERE e.id = ?1) \
             AND expires_at IS NOT NULL",
            "UPDATE run r SET expires_at = k.at FROM unnest($1::bytea[], $2::bigint[]) \
             AS k (id, at), entity e WHERE e.id = k.id AND r.number = e.origin \
             AND r.expires_at IS NOT NULL",
            values(|plan| &plan.runs_kept, TIMED),
        ),
        put::<Entry>(|plan| &plan.entries),
        counts(),
        delete::<Entry>(
            &[],
            values::<_, EntryKey>(
                |plan| &plan.entries_gone,
                &[|it| it.space().into(), |it| it.key().into()],
            ),
        ),
        delete::<ExpiryRow>(&[], table::rows::<_, ExpiryRow>(|plan| &plan.processed)),
        put::<ExpiryRow>(|plan| &plan.expiring),
        put::<(EntityId, i64, i64)>(|plan| &plan.depths),
        custom(
            "UPDATE counter SET position = ?1, at = ?2, delete_from = ?3, \
             swept = coalesce(?4, swept), pending = pending + ?5, dead = dead + ?6 WHERE id = 1",
            "UPDATE counter c SET position = p.position, at = p.at, delete_from = p.delete_from, \
             swept = coalesce(p.swept, c.swept), pending = c.pending + p.pending, \
             dead = c.dead + p.dead FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], \
             $4::bigint[], $5::bigint[], $6::bigint[]) \
             AS p (position, at, delete_from, swept, pending, dead) WHERE c.id = 1",
            values(
                std::slice::from_ref::<Plan>,
                &[
                    |it| it.position.into(),
                    |it| it.at.into(),
                    |it| it.delete_from.into(),
                    |it| it.swept.into(),
                    |it| it.pending.into(),
                    |it| it.dead.into(),
                ],
            ),
        ),
    ]
}

/// Counters are written as differences. In PostgreSQL the limits hold for the counters as they are
/// now, or the division by zero rolls back; nobody else writes to a file of SQLite.
fn counts() -> Change {
    custom(
        "UPDATE entry SET revision = revision + ?3, \
         value = CAST(CAST(value AS INTEGER) + ?4 AS TEXT) WHERE space = ?1 AND key = ?2",
        "WITH counted AS (UPDATE entry e SET revision = e.revision + c.times, \
         value = (e.value::bigint + c.delta)::text FROM unnest($1::text[], $2::bytea[], \
         $3::bigint[], $4::bigint[], $5::bigint[]) AS c (space, key, times, delta, at_most) \
         WHERE e.space = c.space AND e.key = c.key \
         RETURNING e.value::bigint - c.delta <= c.at_most AS fits) \
         SELECT 1 / (count(*) = cardinality($1::text[]))::int FROM counted WHERE fits",
        values::<_, (EntryKey, Counted)>(
            |plan| &plan.counts,
            &[
                |it| it.0.space().into(),
                |it| it.0.key().into(),
                |it| it.1.times.into(),
                |it| it.1.delta.into(),
                |it| it.1.at_most.into(),
            ],
        ),
    )
}
