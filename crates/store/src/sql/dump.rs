//! Every row of a store as text, and the rows that break an invariant.

use std::fmt::Debug;

use super::{
    objects::ALL_HEADS,
    queries::COUNTER,
    statement::{Dialect, RowReader, Statement},
    table::{Stored, select},
};
use crate::{
    Attempt, EntityId, Entry, ExpiryRow, Head, PageImage, Position, RecordedTurn, RunSummary,
    Settlement, Snapshot, StoreError, Work,
    plan::{EntityRow, KeyRow, MessageRow},
};

fn counter(row: &mut RowReader<'_>) -> Result<String, StoreError> {
    Ok(format!("counter {} {} {} {}", row.int()?, row.int()?, row.int()?, row.int()?))
}

fn text<R: Stored + Debug>(row: &mut RowReader<'_>) -> Result<String, StoreError> {
    R::read(row).map(|it| format!("{it:?}"))
}

/// All rows of a table, in an order.
fn table<R: Stored + Debug>(rest: &str) -> Statement {
    Statement { text: text::<R>, ..Statement::of(select::<R>(rest), vec![]) }
}

/// Reads all tables.
pub(super) fn all() -> Vec<Statement> {
    let run = |row: &mut RowReader<'_>| {
        <(Position, RunSummary)>::read(row).map(|(_, run)| format!("{run:?}"))
    };
    vec![
        Statement { text: counter, ..Statement::of(COUNTER, vec![]) },
        table::<EntityRow>("ORDER BY id"),
        table::<MessageRow>("ORDER BY position"),
        table::<Work>("ORDER BY position"),
        table::<(Position, Settlement)>("ORDER BY position"),
        table::<Attempt>("ORDER BY position, number"),
        table::<Snapshot>("ORDER BY entity"),
        table::<KeyRow>("ORDER BY scope, key"),
        Statement { text: text::<Head>, ..Statement::of(ALL_HEADS.as_str(), vec![]) },
        table::<RecordedTurn>("ORDER BY position"),
        table::<(EntityId, PageImage)>("ORDER BY entity, page"),
        Statement { text: run, ..table::<(Position, RunSummary)>("ORDER BY entity") },
        table::<Entry>("ORDER BY space, key"),
        table::<ExpiryRow>("ORDER BY list, since, position, entity"),
        table::<(EntityId, i64, i64)>("WHERE waiting <> 0 OR dead <> 0 ORDER BY queue"),
    ]
}

/// Counts rows that violate an invariant, and describes them.
pub(super) fn violations(dialect: Dialect) -> Vec<Statement> {
    let number = |(what, count): &(&str, &str)| {
        let sql = format!(
            "WITH found (number) AS ({count}) \
             SELECT CAST(number AS TEXT) || ' {what}' FROM found WHERE number > 0"
        );
        Statement::of(sql, vec![])
    };
    let mut all: Vec<Statement> = VIOLATIONS.iter().map(number).collect();
    if dialect == Dialect::Sqlite {
        all.push(Statement::of(QUICK_CHECK, vec![]));
    }
    all
}

const QUICK_CHECK: &str =
    "SELECT 'file: ' || quick_check FROM pragma_quick_check WHERE quick_check <> 'ok' LIMIT 10";

/// Each invariant, and the statement that counts its violations.
const VIOLATIONS: &[(&str, &str)] = &[
    (
        "work without its message",
        "SELECT count(*) FROM work w \
         WHERE NOT EXISTS (SELECT 1 FROM message m WHERE m.position = w.position)",
    ),
    (
        "messages that are pending and settled at once",
        "SELECT count(*) FROM work w JOIN outcome o ON o.position = w.position",
    ),
    (
        "messages to deliver that are neither pending nor settled",
        "SELECT count(*) FROM message m WHERE m.target IS NOT NULL \
         AND NOT EXISTS (SELECT 1 FROM work w WHERE w.position = m.position) \
         AND NOT EXISTS (SELECT 1 FROM outcome o WHERE o.position = m.position)",
    ),
    (
        "messages beyond the last position",
        "SELECT count(*) FROM message WHERE position > (SELECT position FROM counter)",
    ),
    (
        "messages of an unknown stream",
        "SELECT count(*) FROM message m WHERE NOT EXISTS (SELECT 1 FROM entity e \
         WHERE e.id = m.stream AND e.origin = m.origin) AND NOT EXISTS (SELECT 1 FROM entity e \
         WHERE e.kind = 'system' AND e.class = 'erased' AND e.origin = m.origin)",
    ),
    (
        "outcomes or attempts without their message",
        "SELECT (SELECT count(*) FROM outcome o \
         WHERE NOT EXISTS (SELECT 1 FROM message m WHERE m.position = o.position)) \
         + (SELECT count(*) FROM attempt a \
         WHERE NOT EXISTS (SELECT 1 FROM message m WHERE m.position = a.position))",
    ),
    (
        "objects without a head, or heads without their object",
        "SELECT (SELECT count(*) FROM base b \
         WHERE NOT EXISTS (SELECT 1 FROM head h WHERE h.number = b.number)) \
         + (SELECT count(*) FROM head h \
         WHERE NOT EXISTS (SELECT 1 FROM base b WHERE b.number = h.number))",
    ),
    (
        "heads without their last turn",
        "SELECT count(*) FROM head h JOIN base b ON b.number = h.number \
         WHERE b.position < h.position AND NOT EXISTS (SELECT 1 FROM turn t \
         WHERE t.position = h.position AND t.entity = b.entity AND t.seq = h.seq \
         AND t.chk = h.chk)",
    ),
    (
        "turns that an object lacks and its images do not hold",
        "SELECT CAST(coalesce(sum(h.seq - b.seq - coalesce(n.turns, 0)), 0) AS BIGINT) FROM head h \
         JOIN base b ON b.number = h.number LEFT JOIN (SELECT t.entity, count(*) AS turns \
         FROM turn t JOIN base b ON b.entity = t.entity \
         WHERE t.position > b.position AND t.position >= b.number GROUP BY t.entity) n \
         ON n.entity = b.entity",
    ),
    (
        "images of objects that do not exist, or beyond their turns",
        "SELECT count(*) FROM image i LEFT JOIN base b ON b.entity = i.entity \
         LEFT JOIN head h ON h.number = b.number WHERE h.number IS NULL OR i.seq > h.seq",
    ),
    (
        "numbers of messages that are not as counted",
        "SELECT (SELECT count(*) FROM counter WHERE pending <> (SELECT count(*) FROM work) \
         OR dead <> (SELECT count(*) FROM outcome WHERE state <> 'done' AND state = 'dead')) \
         + (SELECT count(*) FROM depth d WHERE d.waiting <> (SELECT count(*) FROM work w \
         WHERE w.target = d.queue AND w.queued) OR d.dead <> (SELECT count(*) FROM outcome o \
         WHERE o.queue = d.queue AND o.state = 'dead')) \
         + (SELECT count(*) FROM work w WHERE w.queued \
         AND NOT EXISTS (SELECT 1 FROM depth d WHERE d.queue = w.target))",
    ),
    (
        "runs of an unknown entity",
        "SELECT count(*) FROM run r WHERE NOT EXISTS (SELECT 1 FROM entity e \
         WHERE e.id = r.entity AND e.origin = r.number AND e.kind = 'run' \
         AND e.class = r.workflow AND e.name = r.name)",
    ),
];
