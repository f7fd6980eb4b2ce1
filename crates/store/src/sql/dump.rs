//! Every row of a store as text, and the rows that break an invariant.

use super::{
    Fields, entries, expiry,
    queries::{ALL_HEADS, COUNTER},
    rows, runs,
    statement::{Dialect, Statement, Text},
};
use crate::StoreError;

const ENTITIES: &str =
    "SELECT kind, class, name, created_at, closed_at, origin FROM entity ORDER BY id";
const MESSAGES: &str = "SELECT position, stream, version, kind, direction, action, type, schema, \
     data, metadata, target, ordered, cause, created_at, origin FROM message ORDER BY position";
const WORKS: &str = "SELECT position, target, ordered, due_at, attempts, forgiven, holder, lease, \
     claimed_at, queued FROM work ORDER BY position";
const OUTCOMES: &str =
    "SELECT position, state, settled_at, attempts, error, queue FROM outcome ORDER BY position";
const ATTEMPTS: &str =
    "SELECT position, number, started_at, ended_at, error FROM attempt ORDER BY position, number";
const SNAPSHOTS: &str = "SELECT entity, version, code, state FROM snapshot ORDER BY entity";
const KEYS: &str = "SELECT scope, key, request_hash, position, status, reply, expires_at \
     FROM idempotency ORDER BY scope, key";
const TURNS: &str = "SELECT position, entity, seq, prev, at, cause, sent, chk, input, delta \
     FROM turn ORDER BY position";
const IMAGES: &str = "SELECT page, seq, crc, data, entity FROM image ORDER BY entity, page";

/// Each table with the function that reads its rows.
macro_rules! tables {
    ($($statement:expr => $decode:path,)*) => {
        [$(($statement, |row| Ok(format!("{:?}", $decode(row)?)))),*]
    };
}

const TABLES: [(&str, Text); 14] = tables! {
    ENTITIES => rows::entity_row,
    MESSAGES => rows::message_row,
    WORKS => rows::work,
    OUTCOMES => rows::settled_row,
    ATTEMPTS => rows::attempt,
    SNAPSHOTS => rows::snapshot,
    KEYS => rows::key_row,
    ALL_HEADS => rows::head,
    TURNS => rows::turn,
    IMAGES => rows::owned_image,
    runs::ALL_RUNS => rows::run_summary,
    entries::ALL_ENTRIES => entries::entry,
    expiry::ALL_EXPIRING => expiry::expiring,
    expiry::ALL_DEPTHS => expiry::depth_row,
};

fn counter(row: &dyn Fields) -> Result<String, StoreError> {
    Ok(format!("counter {} {} {} {}", row.int(0)?, row.int(1)?, row.int(2)?, row.int(3)?))
}

/// Reads all tables.
pub(super) fn all() -> Vec<Statement> {
    let tables = std::iter::once((COUNTER, counter as Text)).chain(TABLES);
    tables.map(|(sql, text)| Statement { text, ..Statement::of(sql, vec![]) }).collect()
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
