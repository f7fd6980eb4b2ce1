//! The statements that read queues, and how their rows are understood.

use super::{Fields, recorded};
use crate::{Letter, QueueDepth, StoreError, Timestamp};

/// The columns of [`recorded`], without an outcome, then the queue and all attempts.
macro_rules! letter {
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
pub(crate) const LETTERS: &str = concat!(
    "SELECT * FROM (",
    letter!(
        "FROM work w JOIN message m ON m.position = w.position \
         WHERE w.target = ?1 AND NOT w.ordered AND w.due_at = ?2 AND w.position > ?3 \
         AND w.due_at <= ?4 ORDER BY w.position LIMIT ?5"
    ),
    ") AS same UNION ALL SELECT * FROM (",
    letter!(
        "FROM work w JOIN message m ON m.position = w.position \
         WHERE w.target = ?1 AND NOT w.ordered AND w.due_at > ?2 AND w.due_at <= ?4 \
         ORDER BY w.due_at, w.position LIMIT ?5"
    ),
    ") AS later LIMIT ?5"
);

pub(crate) const LEASED: &str = letter!(
    "FROM work w JOIN message m ON m.position = w.position \
     WHERE w.target = ?1 AND NOT w.ordered AND w.holder IS NOT NULL AND w.due_at > ?2 \
     ORDER BY w.due_at, w.position LIMIT ?3"
);

pub(crate) const DEPTH: &str = "SELECT d.ready, d.delayed, d.leased, \
     (SELECT count(*) FROM outcome o WHERE o.queue = ?1 AND o.queue IS NOT NULL), \
     (SELECT m.created_at FROM message m WHERE m.position = d.first) FROM (\
     SELECT count(CASE WHEN w.due_at <= ?2 THEN 1 END) AS ready, \
     count(CASE WHEN w.due_at > ?2 AND w.holder IS NULL THEN 1 END) AS delayed, \
     count(CASE WHEN w.due_at > ?2 AND w.holder IS NOT NULL THEN 1 END) AS leased, \
     min(w.position) AS first FROM work w WHERE w.target = ?1 AND NOT w.ordered) AS d";

pub(crate) const NEXT_DUE: &str = "SELECT w.due_at FROM work w WHERE w.target = ?1 \
     AND NOT w.ordered AND w.due_at > ?2 ORDER BY w.due_at LIMIT 1";

pub(crate) fn letter(row: &dyn Fields) -> Result<Letter, StoreError> {
    let message = recorded(row)?;
    Ok(Letter { message, queue: row.id(25)?, attempts: row.count(26)? })
}

pub(crate) fn depth(row: &dyn Fields) -> Result<QueueDepth, StoreError> {
    Ok(QueueDepth {
        ready: row.count(0)?.into(),
        delayed: row.count(1)?.into(),
        leased: row.count(2)?.into(),
        dead: row.count(3)?.into(),
        oldest: row.maybe_int(4)?.map(Timestamp),
    })
}
