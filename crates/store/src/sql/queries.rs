//! The statements that read streams, messages, work, queues and what the sweep deletes, and their
//! rows.

use super::{
    objects::{SORT_KEY, addresses, names},
    statement::{RowReader, Select, params, statements},
    table::{Stored, list, select},
    tables::lease,
};
use crate::{
    Address, Attempt, DueCursor, EntityId, EntityKind, ExpiryRow, KeyName, Position, QueueDepth,
    QueuedMessage, Recorded, Settlement, Snapshot, State, StoreError, StreamSummary, Totals, Work,
    plan::MessageRow,
};

/// Messages with their states: the columns that [`recorded`] reads.
fn messages(from: &str) -> String {
    format!(
        "SELECT {}, w.due_at, w.attempts - w.forgiven, w.holder, w.lease, \
         (SELECT a.error FROM attempt a WHERE a.position = m.position \
         ORDER BY a.number DESC LIMIT 1), {} FROM {from}",
        list::<MessageRow>("m."),
        list::<(Position, Settlement)>("o.")
    )
}

statements! {
    pub(super) STREAM = messages(
        "message m LEFT JOIN work w ON w.position = m.position \
         LEFT JOIN outcome o ON o.position = m.position \
         WHERE m.origin = (SELECT e.origin FROM entity e WHERE e.id = ?1) AND m.version >= ?2 \
         ORDER BY m.version LIMIT ?3"
    );
    /// The bound is repeated in the joins: PostgreSQL would merge from the start of each table.
    pub(super) ALL = messages(
        "message m LEFT JOIN work w ON w.position = m.position AND w.position > ?1 \
         LEFT JOIN outcome o ON o.position = m.position AND o.position > ?1 \
         WHERE m.position > ?1 ORDER BY m.position LIMIT ?2"
    );
    pub(super) MESSAGE = messages(
        "message m LEFT JOIN work w ON w.position = m.position \
         LEFT JOIN outcome o ON o.position = m.position WHERE m.position = ?1"
    );
    PENDING = messages(
        "work w JOIN message m ON m.position = w.position \
         LEFT JOIN outcome o ON o.position = m.position AND o.position > ?1 \
         WHERE w.position > ?1 AND m.position > ?1 ORDER BY w.position LIMIT ?2"
    );
    PENDING_OF_STREAM = messages(
        "message m JOIN work w ON w.position = m.position \
         LEFT JOIN outcome o ON o.position = m.position \
         WHERE m.origin = (SELECT e.origin FROM entity e WHERE e.id = ?1) AND m.position > ?2 \
         ORDER BY m.version LIMIT ?3"
    );
    DEAD = messages(
        "outcome o JOIN message m ON m.position = o.position \
         LEFT JOIN work w ON w.position = m.position \
         WHERE o.state <> 'done' AND o.state = 'dead' AND o.position > ?1 \
         ORDER BY o.position LIMIT ?2"
    );
    DEAD_LETTERS = messages(
        "outcome o JOIN message m ON m.position = o.position \
         LEFT JOIN work w ON w.position = m.position \
         WHERE o.queue IS NOT NULL AND o.queue = ?1 AND o.position > ?2 \
         ORDER BY o.position LIMIT ?3"
    );
    pub(super) ATTEMPTS = select::<Attempt>("WHERE position = ?1 ORDER BY number");
    pub(super) SNAPSHOT = select::<Snapshot>("WHERE entity = ?1");
}

pub(super) fn pending(stream: Option<EntityId>, after: Position, limit: usize) -> Select {
    match stream {
        None => (&PENDING, params![after, limit]),
        Some(stream) => (&PENDING_OF_STREAM, params![stream, after, limit]),
    }
}

pub(super) fn dead(queue: Option<EntityId>, after: Position, limit: usize) -> Select {
    match queue {
        None => (&DEAD, params![after, limit]),
        Some(queue) => (&DEAD_LETTERS, params![queue, after, limit]),
    }
}

pub(super) fn recorded(row: &mut RowReader<'_>) -> Result<Recorded, StoreError> {
    let message = MessageRow::read(row)?;
    let (pending, last_error) = (pending_state(row)?, row.maybe_text()?);
    let state = match pending {
        Some(pending) => Some(pending),
        None => row.rest(<(Position, Settlement)>::read)?.map(|it| State::Settled(it.1)),
    };
    Ok(message.recorded(state, last_error))
}

/// The columns of the work of a message, which are empty if it is not pending.
fn pending_state(row: &mut RowReader<'_>) -> Result<Option<State>, StoreError> {
    let Some(due_at) = row.maybe_time()? else {
        row.skip(3);
        return Ok(None);
    };
    let attempts = row.count()?;
    Ok(Some(match lease(row)? {
        Some(lease) => State::InFlight { lease, until: due_at, attempts },
        None => State::Pending { due_at, attempts },
    }))
}

// Streams.

/// Streams from one address to another.
fn streams_between(from: &str, until: &str, kinds: &str) -> String {
    format!(
        "SELECT * FROM (SELECT e.kind, e.class, e.name, e.created_at, e.closed_at, \
         (SELECT m.version FROM message m WHERE m.origin = e.origin \
         ORDER BY m.version DESC LIMIT 1) AS version, \
         (SELECT m.created_at FROM message m WHERE m.origin = e.origin \
         ORDER BY m.version DESC LIMIT 1) AS updated_at, {SORT_KEY} AS address FROM entity e \
         WHERE {SORT_KEY} > {from} AND {SORT_KEY} < {until} AND e.origin IS NOT NULL{kinds} \
         AND EXISTS (SELECT 1 FROM message m WHERE m.origin = e.origin) \
         ORDER BY {SORT_KEY} LIMIT ?3) AS found"
    )
}

statements! {
    /// Most objects have no messages, so streams have an index of their own; but for runs, which
    /// all have a stream.
    STREAMS = format!(
        "SELECT * FROM ({} UNION ALL {}) AS found ORDER BY address LIMIT ?3",
        streams_between("?1", "?2", " AND e.kind <> 'run'"),
        streams_between("?4", "?5", "")
    );
}

/// The streams between two addresses, and the runs of them.
pub(super) fn streams(
    within: Option<(EntityKind, String)>,
    after: Option<Address>,
    limit: usize,
) -> Select {
    let after = after.map_or(String::new(), |it| it.to_string());
    let (after, end) = match within {
        // `~` follows every letter of a kind.
        None => (after, "~".into()),
        Some((kind, class)) => {
            let (start, end) = addresses(kind, &class, &names("", None));
            (after.max(start), end)
        }
    };
    // `0` follows `/`.
    let runs = (after.clone().max("run/".into()), end.clone().min("run0".into()));
    (&STREAMS, params![after, end, limit, runs.0, runs.1])
}

pub(super) fn stream_summary(row: &mut RowReader<'_>) -> Result<StreamSummary, StoreError> {
    Ok(StreamSummary {
        address: row.address()?,
        created_at: row.time()?,
        closed_at: row.maybe_time()?,
        version: row.int()?,
        updated_at: row.time()?,
    })
}

pub(super) const VERSION: &str = "SELECT coalesce((SELECT m.version FROM message m \
     WHERE m.origin = (SELECT e.origin FROM entity e WHERE e.id = ?1) \
     ORDER BY m.version DESC LIMIT 1), 0)";

pub(super) const ADDRESS: &str = "SELECT kind, class, name FROM entity WHERE id = ?1";
pub(super) const ADDRESSES: &str =
    "SELECT kind, class, name FROM entity WHERE id = ANY (?1::bytea[])";

// Work.

/// Rows at a due time, then rows behind it: SQLite would compare only the due times with those in
/// the index.
fn in_due_order(same: &str, later: &str, limit: &str) -> String {
    format!(
        "SELECT * FROM ({same}) AS same UNION ALL SELECT * FROM ({later}) AS later LIMIT {limit}"
    )
}

statements! {
    pub(super) DUE = in_due_order(
        &select::<Work>(
            "WHERE due_at = ?1 AND position > ?2 AND NOT queued ORDER BY position LIMIT ?3"
        ),
        &select::<Work>("WHERE due_at > ?1 AND NOT queued ORDER BY due_at, position LIMIT ?3"),
        "?3"
    );
    BACKLOG_ORDERED = select::<Work>(
        "WHERE target = ?1 AND ordered AND position > ?2 ORDER BY position LIMIT ?3"
    );
    BACKLOG = in_due_order(
        &select::<Work>(
            "WHERE target = ?1 AND NOT ordered AND due_at = ?2 AND position > ?3 \
             ORDER BY position LIMIT ?4"
        ),
        &select::<Work>(
            "WHERE target = ?1 AND NOT ordered AND due_at > ?2 ORDER BY due_at, position LIMIT ?4"
        ),
        "?4"
    );
    ORPHANS = orphaned("NOT queued");
    QUEUE_ORPHANS = orphaned("queued");
}

pub(super) fn backlog(target: EntityId, ordered: bool, after: DueCursor, limit: usize) -> Select {
    if ordered {
        return (&BACKLOG_ORDERED, params![target, after.position, limit]);
    }
    (&BACKLOG, params![target, after.due_at, after.position, limit])
}

/// Claims of earlier owners.
fn orphaned(which: &str) -> String {
    select::<Work>(&format!(
        "WHERE holder IS NOT NULL AND holder > 0 AND holder < ?1 AND {which} \
         ORDER BY position LIMIT ?2"
    ))
}

pub(super) fn orphans(epoch: i64, queued: bool, limit: usize) -> Select {
    (if queued { &QUEUE_ORPHANS } else { &ORPHANS }, params![epoch, limit])
}

// Queues.

/// The pending messages of queues: the columns that [`queued_message`] reads.
fn queued(rest: &str) -> String {
    format!(
        "SELECT {}, w.due_at, w.attempts - w.forgiven, w.holder, w.lease, CASE WHEN w.attempts > 0 \
         THEN (SELECT a.error FROM attempt a WHERE a.position = m.position \
         ORDER BY a.number DESC LIMIT 1) END, w.target, w.attempts \
         FROM work w JOIN message m ON m.position = w.position {rest}",
        list::<MessageRow>("m.")
    )
}

statements! {
    pub(super) QUEUE_MESSAGES = in_due_order(
        &queued(
            "WHERE w.target = ?1 AND NOT w.ordered AND w.due_at = ?2 AND w.position > ?3 \
             AND w.due_at <= ?4 ORDER BY w.position LIMIT ?5"
        ),
        &queued(
            "WHERE w.target = ?1 AND NOT w.ordered AND w.due_at > ?2 AND w.due_at <= ?4 \
             ORDER BY w.due_at, w.position LIMIT ?5"
        ),
        "?5"
    );
    pub(super) LEASED = queued(
        "WHERE w.target = ?1 AND NOT w.ordered AND w.holder IS NOT NULL AND w.due_at > ?2 \
         ORDER BY w.due_at, w.position LIMIT ?3"
    );
}

pub(super) fn queued_message(row: &mut RowReader<'_>) -> Result<QueuedMessage, StoreError> {
    let message = MessageRow::read(row)?;
    let (pending, last_error) = (pending_state(row)?, row.maybe_text()?);
    let message = message.recorded(pending, last_error);
    Ok(QueuedMessage { message, queue: row.id()?, attempts: row.count()? })
}

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

pub(super) fn depth(row: &mut RowReader<'_>) -> Result<QueueDepth, StoreError> {
    let mut number = || row.int().map(|it| u64::try_from(it).unwrap_or(0));
    let (waiting, dead, seen) = (number()?, number()?, [number()?, number()?, number()?]);
    Ok(QueueDepth::seen(waiting, dead, seen, row.maybe_time()?))
}

pub(super) const NEXT_DUE: &str = "SELECT w.due_at FROM work w WHERE w.target = ?1 \
     AND NOT w.ordered AND w.due_at > ?2 ORDER BY w.due_at LIMIT 1";

// The sweep, and the store as a whole.

statements! {
    pub(super) EXPIRING = select::<ExpiryRow>(
        "WHERE list = ?1 AND since < ?2 ORDER BY since, position, entity LIMIT ?3"
    );
}

pub(super) const EXPIRED_KEYS: &str = "SELECT scope, key FROM idempotency \
     WHERE expires_at <= ?1 ORDER BY expires_at LIMIT ?2";

pub(super) fn key_name(row: &mut RowReader<'_>) -> Result<KeyName, StoreError> {
    Ok(KeyName { scope: row.id()?, key: row.text()?.into() })
}

/// The next messages that the sweep has not processed. Times ascend with positions.
pub(super) const SWEEP: &str = "SELECT found.position FROM (SELECT position, created_at \
     FROM message WHERE position > (SELECT swept FROM counter) ORDER BY position LIMIT ?2) \
     AS found WHERE found.created_at < ?1 ORDER BY found.position";

pub(super) const TOTALS: &str = "SELECT position, pending, dead FROM counter WHERE id = 1";

pub(super) fn totals(row: &mut RowReader<'_>) -> Result<Totals, StoreError> {
    Ok(Totals { position: row.int()?, pending: row.int()?, dead: row.int()? })
}

pub(crate) const COUNTER: &str =
    "SELECT position, at, delete_from, swept FROM counter WHERE id = 1";

/// Whether a pending message may have crashed a process.
pub(crate) const IS_SUSPECT: &str =
    "SELECT EXISTS (SELECT 1 FROM work WHERE position <= ?1) AND ?1 > 0";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sql::plans::{has, steps};

    #[test]
    fn the_sweep_walks_an_index() {
        for (statement, index) in [
            (EXPIRING.as_str(), "PRIMARY KEY (list=? AND since<?)"),
            (EXPIRED_KEYS, "idempotency_expires (expires_at<?)"),
        ] {
            let steps = steps(statement);
            assert!(has(&steps, index) && !has(&steps, "B-TREE"), "{steps:#?}");
        }
    }
}
