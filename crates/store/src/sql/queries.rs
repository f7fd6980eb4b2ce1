//! The statements that read. Both databases run them as they are.

use super::statement::{Param, params};
use crate::{Address, DueCursor, EntityId, EntityKind, Position, limits};

/// A statement and its parameters.
pub(super) type Select = (&'static str, Vec<Param>);

/// The columns that [`super::recorded`] reads.
macro_rules! recorded {
    ($from:literal) => {
        concat!(
            "SELECT m.position, m.stream, m.version, m.kind, m.direction, m.action, m.type, ",
            "m.schema, m.data, m.metadata, m.target, m.ordered, m.cause, m.created_at, ",
            "m.origin, w.due_at, w.attempts - w.forgiven, w.holder, w.lease, ",
            "o.state, o.settled_at, o.attempts, o.error, ",
            "(SELECT a.error FROM attempt a WHERE a.position = m.position ",
            "ORDER BY a.number DESC LIMIT 1), o.queue ",
            $from
        )
    };
}

/// The columns that [`super::work`] reads.
macro_rules! work {
    ($rest:literal) => {
        concat!(
            "SELECT position, target, ordered, due_at, attempts, forgiven, holder, lease, ",
            "claimed_at, queued FROM work ",
            $rest
        )
    };
}

/// The columns that [`super::head`] reads.
macro_rules! head {
    ($rest:literal) => {
        concat!(
            "SELECT h.seq, h.position, h.chk, b.entity, b.number, b.seq, b.position, b.chk, ",
            "b.pages, b.history_bytes, b.parts_seq, b.parts ",
            "FROM base b JOIN head h ON h.number = b.number ",
            $rest
        )
    };
}

pub(crate) const HEAD: &str = head!("WHERE b.entity = ?1");
const HEADS: &str =
    head!("WHERE b.history_bytes > ?1 AND b.number > ?2 ORDER BY b.number LIMIT ?3");
const LARGE_HEADS: &str = head!(
    "WHERE b.history_bytes > ?1 AND b.history_bytes > 1048576 AND b.number > ?2 \
     ORDER BY b.number LIMIT ?3"
);
/// Objects with a long history are in an index of their own.
pub(super) fn heads(history_over: i64) -> &'static str {
    if history_over < 1 << 20 { HEADS } else { LARGE_HEADS }
}
pub(super) const ALL_HEADS: &str = head!("ORDER BY b.number");

/// The sort key of entities, as the index has it. No kind and no class contains a `/`.
macro_rules! address {
    () => {
        "(e.kind || '/' || e.class || '/' || e.name)"
    };
}
pub(super) use address;

/// The columns of [`HEAD`], then its address and the time of its last turn.
const OBJECTS: &str = concat!(
    "SELECT h.seq, h.position, h.chk, b.entity, b.number, b.seq, \
     b.position, b.chk, b.pages, b.history_bytes, b.parts_seq, b.parts, e.class, e.name, \
     e.created_at, (SELECT t.at FROM turn t WHERE t.position = h.position) \
     FROM entity e JOIN base b ON b.entity = e.id JOIN head h ON h.number = b.number WHERE ",
    address!(),
    " >= ?1 AND ",
    address!(),
    " < ?2 ORDER BY ",
    address!(),
    " LIMIT ?3"
);
const COUNT_OBJECTS: &str = concat!(
    "SELECT count(*) FROM (SELECT 1 AS one FROM entity e JOIN base b ON b.entity = e.id WHERE ",
    address!(),
    " >= ?1 AND ",
    address!(),
    " < ?2 LIMIT ?3) AS found"
);
/// Jumps from each class of a kind to the next: the index is not read as a whole. `0` follows `/`.
const CLASSES: &str = concat!(
    "WITH RECURSIVE walk (class, n) AS (SELECT (SELECT e.class FROM entity e WHERE ",
    address!(),
    " >= ?2 AND ",
    address!(),
    " < ?1 || '0' ORDER BY ",
    address!(),
    " LIMIT 1), CAST(1 AS BIGINT) UNION ALL SELECT (SELECT e.class FROM entity e WHERE ",
    address!(),
    " >= ?1 || '/' || walk.class || '0' AND ",
    address!(),
    " < ?1 || '0' ORDER BY ",
    address!(),
    " LIMIT 1), walk.n + 1 FROM walk WHERE walk.class IS NOT NULL AND walk.n < ?3) \
     SELECT class FROM walk WHERE class IS NOT NULL AND n <= ?3 ORDER BY n"
);

pub(super) fn classes(kind: EntityKind, after: Option<String>, limit: usize) -> Select {
    let from = match after {
        None => format!("{}/", kind.tag()),
        Some(after) => format!("{}/{after}0", kind.tag()),
    };
    (CLASSES, params![kind.tag(), from, limit])
}

pub(super) fn objects(class: &str, prefix: &str, after: Option<&str>, limit: usize) -> Select {
    let (from, until) = addresses(EntityKind::Object, class, &names(prefix, after));
    (OBJECTS, params![from, until, limit])
}

pub(super) fn count_objects(class: &str, max: usize) -> Select {
    let (from, until) = addresses(EntityKind::Object, class, &names("", None));
    (COUNT_OBJECTS, params![from, until, max])
}

/// The addresses of the names between two texts.
pub(super) fn addresses(
    kind: EntityKind,
    class: &str,
    (from, until): &(String, String),
) -> (String, String) {
    // There is no such class, but there may be names that look like it.
    if class.contains('/') {
        return (String::new(), String::new());
    }
    let address = |name: &str| format!("{}/{class}/{name}", kind.tag());
    (address(from), address(until))
}

/// The names after `after` that begin with `prefix`: from the first text up to the second,
/// exclusive. Bytes of UTF-8 have the order of their characters.
pub(super) fn names(prefix: &str, after: Option<&str>) -> (String, String) {
    // No name contains a NUL, and PostgreSQL takes none.
    if prefix.contains('\0') {
        return (String::new(), String::new());
    }
    // Nothing is between a name and this.
    let behind = after.map_or(String::new(), |it| format!("{it}\u{1}"));
    let from = if behind.as_str() < prefix { prefix.to_owned() } else { behind };
    let mut until = prefix.to_owned();
    while let Some(last) = until.pop() {
        // The next character; after the last of all, that of the character before.
        if let Some(next) = (last..=char::MAX).nth(1) {
            until.push(next);
            return (from, until);
        }
    }
    // Longer than any name.
    (from, char::MAX.to_string().repeat(limits::NAME_BYTES_MAX / 4 + 1))
}

pub(super) const IMAGES: &str = "SELECT page, seq, crc, data FROM image \
     WHERE entity = ?1 AND page BETWEEN ?2 AND ?3 ORDER BY page";
/// All ranges in one round trip.
pub(super) const IMAGES_MANY: &str = "SELECT i.page, i.seq, i.crc, i.data \
     FROM unnest(?2::BIGINT[], ?3::BIGINT[]) AS part (first, last) \
     JOIN image i ON i.entity = ?1 AND i.page BETWEEN part.first AND part.last ORDER BY i.page";

/// `prev` leads from each turn to the previous one; the recursion ends at a deleted turn.
macro_rules! turns_back {
    ($last:literal) => {
        concat!(
            "WITH RECURSIVE walk (position, prev, n) AS (",
            "SELECT position, prev, CAST(1 AS BIGINT) FROM turn WHERE position = ?1 UNION ALL ",
            "SELECT t.position, t.prev, walk.n + 1 FROM walk JOIN turn t ",
            "ON t.position = walk.prev WHERE walk.n < ?2) SELECT t.position, t.entity, t.seq, ",
            "t.prev, t.at, t.cause, t.sent, t.chk, t.input, ",
            $last,
            " FROM walk JOIN turn t ON t.position = walk.position ORDER BY walk.n"
        )
    };
}
pub(super) const TURNS_BACK: &str = turns_back!("t.delta");
pub(super) const TURN_SUMMARIES: &str = turns_back!("CAST(length(t.delta) AS BIGINT)");

/// A turn is history once the images contain it, or once its object is deleted.
macro_rules! is_history {
    () => {
        "CASE WHEN b.number IS NULL OR t.position <= b.position OR t.position < b.number \
         THEN 1 ELSE 0 END"
    };
}

pub(super) const OLD_TURNS: &str = concat!(
    "SELECT t.position, t.entity, t.at, ",
    is_history!(),
    " FROM turn t LEFT JOIN base b ON b.entity = t.entity \
     WHERE t.position > ?1 ORDER BY t.position LIMIT ?2"
);

pub(crate) const TURN_BRIEF: &str = concat!(
    "SELECT h.seq, h.position, h.chk, b.entity, b.number, b.seq, b.position, b.chk, b.pages, ",
    "b.history_bytes, b.parts_seq, b.parts, t.entity, length(t.delta), ",
    is_history!(),
    ", t.position FROM turn t LEFT JOIN base b ON b.entity = t.entity \
     LEFT JOIN head h ON h.number = b.number WHERE t.position = ?1"
);

pub(super) const STREAM: &str = recorded!(
    "FROM message m LEFT JOIN work w ON w.position = m.position \
     LEFT JOIN outcome o ON o.position = m.position \
     WHERE m.origin = (SELECT e.origin FROM entity e WHERE e.id = ?1) AND m.version >= ?2 \
     ORDER BY m.version LIMIT ?3"
);

// The bound is repeated in the joins: PostgreSQL would merge from the start of each table.
pub(super) const ALL: &str = recorded!(
    "FROM message m LEFT JOIN work w ON w.position = m.position AND w.position > ?1 \
     LEFT JOIN outcome o ON o.position = m.position AND o.position > ?1 \
     WHERE m.position > ?1 ORDER BY m.position LIMIT ?2"
);

pub(super) const MESSAGE: &str = recorded!(
    "FROM message m LEFT JOIN work w ON w.position = m.position \
     LEFT JOIN outcome o ON o.position = m.position WHERE m.position = ?1"
);

const PENDING: &str = recorded!(
    "FROM work w JOIN message m ON m.position = w.position \
     LEFT JOIN outcome o ON o.position = m.position AND o.position > ?1 \
     WHERE w.position > ?1 AND m.position > ?1 ORDER BY w.position LIMIT ?2"
);

const PENDING_OF_STREAM: &str = recorded!(
    "FROM message m JOIN work w ON w.position = m.position \
     LEFT JOIN outcome o ON o.position = m.position \
     WHERE m.origin = (SELECT e.origin FROM entity e WHERE e.id = ?1) AND m.position > ?2 \
     ORDER BY m.version LIMIT ?3"
);

const DEAD: &str = recorded!(
    "FROM outcome o JOIN message m ON m.position = o.position \
     LEFT JOIN work w ON w.position = m.position \
     WHERE o.state <> 'done' AND o.state = 'dead' AND o.position > ?1 \
     ORDER BY o.position LIMIT ?2"
);

const DEAD_LETTERS: &str = recorded!(
    "FROM outcome o JOIN message m ON m.position = o.position \
     LEFT JOIN work w ON w.position = m.position \
     WHERE o.queue IS NOT NULL AND o.queue = ?1 AND o.position > ?2 \
     ORDER BY o.position LIMIT ?3"
);

pub(super) fn pending(stream: Option<EntityId>, after: Position, limit: usize) -> Select {
    match stream {
        None => (PENDING, params![after, limit]),
        Some(stream) => (PENDING_OF_STREAM, params![stream, after, limit]),
    }
}

pub(super) fn dead(queue: Option<EntityId>, after: Position, limit: usize) -> Select {
    match queue {
        None => (DEAD, params![after, limit]),
        Some(queue) => (DEAD_LETTERS, params![queue, after, limit]),
    }
}

pub(super) const ATTEMPTS: &str = "SELECT position, number, started_at, ended_at, error \
     FROM attempt WHERE position = ?1 ORDER BY number";

/// The end of a stream. No row: it is unknown; empty columns: it has no message.
pub(crate) const STREAM_END: &str = "SELECT e.id, e.origin, (SELECT m.version FROM message m \
     WHERE m.origin = e.origin ORDER BY m.version DESC LIMIT 1), (SELECT m.position FROM message m \
     WHERE m.origin = e.origin ORDER BY m.version DESC LIMIT 1) FROM entity e WHERE e.id = ?1";

/// Streams from one address to another.
macro_rules! streams {
    ($from:literal, $until:literal, $rest:literal) => {
        concat!(
            "SELECT e.kind, e.class, e.name, e.created_at, e.closed_at, ",
            "(SELECT m.version FROM message m WHERE m.origin = e.origin ",
            "ORDER BY m.version DESC LIMIT 1) AS version, ",
            "(SELECT m.created_at FROM message m WHERE m.origin = e.origin ",
            "ORDER BY m.version DESC LIMIT 1) AS updated_at, ",
            address!(),
            " AS address FROM entity e WHERE ",
            address!(),
            " > ",
            $from,
            " AND ",
            address!(),
            " < ",
            $until,
            " AND e.origin IS NOT NULL",
            $rest,
            " AND EXISTS (SELECT 1 FROM message m WHERE m.origin = e.origin) ORDER BY ",
            address!(),
            " LIMIT ?3"
        )
    };
}

/// Most objects have no messages, so streams have an index of their own; but for runs, which all
/// have a stream.
const STREAMS: &str = concat!(
    "SELECT * FROM (SELECT * FROM (",
    streams!("?1", "?2", " AND e.kind <> 'run'"),
    ") AS found UNION ALL SELECT * FROM (",
    streams!("?4", "?5", ""),
    ") AS found) AS found ORDER BY address LIMIT ?3"
);

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
    (STREAMS, params![after, end, limit, runs.0, runs.1])
}

pub(super) const VERSION: &str = "SELECT coalesce((SELECT m.version FROM message m \
     WHERE m.origin = (SELECT e.origin FROM entity e WHERE e.id = ?1) \
     ORDER BY m.version DESC LIMIT 1), 0)";

pub(super) const ADDRESS: &str = "SELECT kind, class, name FROM entity WHERE id = ?1";
pub(super) const ADDRESSES: &str =
    "SELECT kind, class, name FROM entity WHERE id = ANY (?1::bytea[])";

pub(super) const SNAPSHOT: &str =
    "SELECT entity, version, code, state FROM snapshot WHERE entity = ?1";

pub(super) const DUE: &str = concat!(
    "SELECT * FROM (",
    work!("WHERE due_at = ?1 AND position > ?2 AND NOT queued ORDER BY position LIMIT ?3"),
    ") AS same UNION ALL SELECT * FROM (",
    work!("WHERE due_at > ?1 AND NOT queued ORDER BY due_at, position LIMIT ?3"),
    ") AS later LIMIT ?3"
);

const BACKLOG_ORDERED: &str =
    work!("WHERE target = ?1 AND ordered AND position > ?2 ORDER BY position LIMIT ?3");

const BACKLOG: &str = concat!(
    "SELECT * FROM (",
    work!(
        "WHERE target = ?1 AND NOT ordered AND due_at = ?2 AND position > ?3 \
         ORDER BY position LIMIT ?4"
    ),
    ") AS same UNION ALL SELECT * FROM (",
    work!("WHERE target = ?1 AND NOT ordered AND due_at > ?2 ORDER BY due_at, position LIMIT ?4"),
    ") AS later LIMIT ?4"
);

const ORPHANS: &str = work!(
    "WHERE holder IS NOT NULL AND holder > 0 AND holder < ?1 AND NOT queued \
     ORDER BY position LIMIT ?2"
);

const QUEUE_ORPHANS: &str = work!(
    "WHERE holder IS NOT NULL AND holder > 0 AND holder < ?1 AND queued \
     ORDER BY position LIMIT ?2"
);

pub(super) fn backlog(target: EntityId, ordered: bool, after: DueCursor, limit: usize) -> Select {
    if ordered {
        return (BACKLOG_ORDERED, params![target, after.position, limit]);
    }
    (BACKLOG, params![target, after.due_at, after.position, limit])
}

pub(super) fn orphans(epoch: i64, queued: bool, limit: usize) -> Select {
    (if queued { QUEUE_ORPHANS } else { ORPHANS }, params![epoch, limit])
}

/// The next messages that the sweep has not processed.
pub(super) const SWEEP: &str = "SELECT position, created_at FROM message \
     WHERE position > (SELECT swept FROM counter) ORDER BY position LIMIT ?1";

pub(super) const TOTALS: &str = "SELECT position, pending, dead FROM counter WHERE id = 1";

pub(crate) const COUNTER: &str =
    "SELECT position, at, delete_from, swept FROM counter WHERE id = 1";

/// Whether a pending message may have crashed a process.
pub(crate) const IS_SUSPECT: &str =
    "SELECT EXISTS (SELECT 1 FROM work WHERE position <= ?1) AND ?1 > 0";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_a_prefix_are_between_two_texts() {
        let bounds = |prefix, after| names(prefix, after);
        assert_eq!(bounds("a", None), ("a".into(), "b".into()));
        assert_eq!(bounds("a", Some("ab")), ("ab\u{1}".into(), "b".into()));
        assert_eq!(bounds("b", Some("a")).0, "b");
        assert_eq!(bounds("\u{d7ff}", None).1, "\u{e000}");
        assert_eq!(bounds("a\u{10ffff}", None).1, "b");
        let (_, end) = bounds("", None);
        assert!("\u{10ffff}".repeat(128) < end && bounds("\u{10ffff}", None).1 == end);
    }
}
