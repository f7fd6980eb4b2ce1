//! The statements that read queues, and decoding of their rows.

use super::{Fields, rows::recorded};
use crate::{QueueDepth, QueuedMessage, StoreError, Timestamp};

/// The columns of [`recorded`], without an outcome, then the queue and all attempts.
macro_rules! queued {
    ($from:literal) => {
        concat!(
            "SELECT m.position, m.stream, m.version, m.kind, m.direction, m.action, m.type, ",
            "m.schema, m.data, m.metadata, m.target, m.ordered, m.cause, m.created_at, ",
            "m.origin, w.due_at, w.attempts - w.forgiven, w.holder, w.lease, CAST(NULL AS TEXT), ",
            "CAST(NULL AS BIGINT), CAST(NULL AS INTEGER), CAST(NULL AS TEXT), ",
            "CASE WHEN w.attempts > 0 THEN (SELECT a.error FROM attempt a ",
            "WHERE a.position = m.position ORDER BY a.number DESC LIMIT 1) END, m.target, ",
            "w.target, w.attempts ",
            $from
        )
    };
}

/// Two parts, because SQLite would compare only the due times with those in the index.
pub(super) const MESSAGES: &str = concat!(
    "SELECT * FROM (",
    queued!(
        "FROM work w JOIN message m ON m.position = w.position \
         WHERE w.target = ?1 AND NOT w.ordered AND w.due_at = ?2 AND w.position > ?3 \
         AND w.due_at <= ?4 ORDER BY w.position LIMIT ?5"
    ),
    ") AS same UNION ALL SELECT * FROM (",
    queued!(
        "FROM work w JOIN message m ON m.position = w.position \
         WHERE w.target = ?1 AND NOT w.ordered AND w.due_at > ?2 AND w.due_at <= ?4 \
         ORDER BY w.due_at, w.position LIMIT ?5"
    ),
    ") AS later LIMIT ?5"
);

pub(super) const LEASED: &str = queued!(
    "FROM work w JOIN message m ON m.position = w.position \
     WHERE w.target = ?1 AND NOT w.ordered AND w.holder IS NOT NULL AND w.due_at > ?2 \
     ORDER BY w.due_at, w.position LIMIT ?3"
);

/// The maintained numbers of pending and dead messages, and the counts of due and other messages
/// among up to `?3` of each.
pub(super) const DEPTH: &str = "SELECT coalesce((SELECT d.waiting FROM depth d \
     WHERE d.queue = ?1), 0), coalesce((SELECT d.dead FROM depth d WHERE d.queue = ?1), 0), \
     due.seen, later.seen, later.leased, (SELECT m.created_at FROM message m \
     WHERE m.position = CASE WHEN due.first IS NULL OR later.first < due.first \
     THEN later.first ELSE due.first END) \
     FROM (SELECT count(*) AS seen, min(f.position) AS first FROM (SELECT w.position FROM work w \
     WHERE w.target = ?1 AND NOT w.ordered AND w.due_at <= ?2 ORDER BY w.due_at, w.position \
     LIMIT ?3) AS f) AS due, \
     (SELECT count(*) AS seen, count(f.holder) AS leased, min(f.position) AS first FROM (\
     SELECT w.position, w.holder FROM work w WHERE w.target = ?1 AND NOT w.ordered \
     AND w.due_at > ?2 ORDER BY w.due_at, w.position LIMIT ?3) AS f) AS later";

pub(super) const NEXT_DUE: &str = "SELECT w.due_at FROM work w WHERE w.target = ?1 \
     AND NOT w.ordered AND w.due_at > ?2 ORDER BY w.due_at LIMIT 1";

pub(super) fn queued_message(row: &dyn Fields) -> Result<QueuedMessage, StoreError> {
    let message = recorded(row)?;
    Ok(QueuedMessage { message, queue: row.id(25)?, attempts: row.count(26)? })
}

pub(super) fn depth(row: &dyn Fields) -> Result<QueueDepth, StoreError> {
    let number = |index| row.int(index).map(|it| u64::try_from(it).unwrap_or(0));
    let oldest = row.maybe_int(5)?.map(Timestamp);
    Ok(QueueDepth::seen(number(0)?, number(1)?, [number(2)?, number(3)?, number(4)?], oldest))
}
