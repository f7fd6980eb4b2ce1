//! The statements that read. Both databases understand them as they are.

use crate::{Address, EntityKind, limits};

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
pub(crate) fn heads(history_over: i64) -> &'static str {
    if history_over < 1 << 20 { HEADS } else { LARGE_HEADS }
}
pub(crate) const ALL_HEADS: &str = head!("ORDER BY b.number");

/// What entities are sorted by, as the index has it. No kind and no class contains a `/`.
macro_rules! address {
    () => {
        "(e.kind || '/' || e.class || '/' || e.name)"
    };
}
pub(super) use address;

/// The columns of [`HEAD`], then who it is and when its last turn was.
pub(crate) const OBJECTS: &str = concat!(
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
pub(crate) const COUNT_OBJECTS: &str = concat!(
    "SELECT count(*) FROM (SELECT 1 AS one FROM entity e JOIN base b ON b.entity = e.id WHERE ",
    address!(),
    " >= ?1 AND ",
    address!(),
    " < ?2 LIMIT ?3) AS found"
);
/// From each class of a kind to the next: the index is not read as a whole. `0` comes behind `/`.
pub(crate) const CLASSES: &str = concat!(
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

/// The address with which the classes behind one begin.
pub(crate) fn behind_class(kind: EntityKind, after: Option<&str>) -> String {
    match after {
        None => format!("{}/", kind.tag()),
        Some(after) => format!("{}/{after}0", kind.tag()),
    }
}

/// The addresses of the names between two texts.
pub(crate) fn addresses(
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

/// The names behind `after` that begin with `prefix`: from the first text up to the second, without
/// it. Bytes of UTF-8 have the order of their characters.
pub(crate) fn names(prefix: &str, after: Option<&str>) -> (String, String) {
    // No name contains a NUL, and PostgreSQL takes none.
    if prefix.contains('\0') {
        return (String::new(), String::new());
    }
    // So nothing stands between a name and this.
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

pub(crate) const IMAGES: &str = "SELECT page, seq, crc, data FROM image \
     WHERE entity = ?1 AND page BETWEEN ?2 AND ?3 ORDER BY page";
pub(crate) const ALL_IMAGES: &str =
    "SELECT page, seq, crc, data, entity FROM image ORDER BY entity, page";

/// `prev` leads from each turn to the one before; where it is no longer kept, the walk ends.
macro_rules! turns_back {
    ($last:literal) => {
        concat!(
            "WITH RECURSIVE walk (position, prev, n) AS (",
            "SELECT position, prev, CAST(1 AS BIGINT) FROM turn WHERE position = ?1 UNION ALL ",
            "SELECT t.position, t.prev, w.n + 1 FROM walk w JOIN turn t ON t.position = w.prev ",
            "WHERE w.n < ?2) SELECT t.position, t.entity, t.seq, t.prev, t.at, t.cause, t.sent, ",
            "t.chk, t.input, ",
            $last,
            " FROM walk w JOIN turn t ON t.position = w.position ORDER BY w.n"
        )
    };
}
pub(crate) const TURNS_BACK: &str = turns_back!("t.delta");
pub(crate) const TURN_SUMMARIES: &str = turns_back!("CAST(length(t.delta) AS BIGINT)");
pub(crate) const ALL_TURNS: &str = "SELECT position, entity, seq, prev, at, cause, sent, chk, \
     input, delta FROM turn ORDER BY position";

/// A turn is history once the images hold it, or once its object is gone.
macro_rules! is_history {
    () => {
        "CASE WHEN b.number IS NULL OR t.position <= b.position OR t.position < b.number \
         THEN 1 ELSE 0 END"
    };
}

pub(crate) const OLD_TURNS: &str = concat!(
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

pub(crate) const READ_STREAM: &str = recorded!(
    "FROM message m LEFT JOIN work w ON w.position = m.position \
     LEFT JOIN outcome o ON o.position = m.position \
     WHERE m.origin = (SELECT e.origin FROM entity e WHERE e.id = ?1) AND m.version >= ?2 \
     ORDER BY m.version LIMIT ?3"
);

// The bound is repeated in the joins: PostgreSQL would merge from the start of each table.
pub(crate) const READ_ALL: &str = recorded!(
    "FROM message m LEFT JOIN work w ON w.position = m.position AND w.position > ?1 \
     LEFT JOIN outcome o ON o.position = m.position AND o.position > ?1 \
     WHERE m.position > ?1 ORDER BY m.position LIMIT ?2"
);

pub(crate) const MESSAGE: &str = recorded!(
    "FROM message m LEFT JOIN work w ON w.position = m.position \
     LEFT JOIN outcome o ON o.position = m.position WHERE m.position = ?1"
);

pub(crate) const PENDING: &str = recorded!(
    "FROM work w JOIN message m ON m.position = w.position \
     LEFT JOIN outcome o ON o.position = m.position AND o.position > ?1 \
     WHERE w.position > ?1 AND m.position > ?1 ORDER BY w.position LIMIT ?2"
);

pub(crate) const PENDING_OF_STREAM: &str = recorded!(
    "FROM message m JOIN work w ON w.position = m.position \
     LEFT JOIN outcome o ON o.position = m.position \
     WHERE m.origin = (SELECT e.origin FROM entity e WHERE e.id = ?1) AND m.position > ?2 \
     ORDER BY m.version LIMIT ?3"
);

pub(crate) const DEAD: &str = recorded!(
    "FROM outcome o JOIN message m ON m.position = o.position \
     LEFT JOIN work w ON w.position = m.position \
     WHERE o.state <> 'done' AND o.state = 'dead' AND o.position > ?1 \
     ORDER BY o.position LIMIT ?2"
);

pub(crate) const DEAD_LETTERS: &str = recorded!(
    "FROM outcome o JOIN message m ON m.position = o.position \
     LEFT JOIN work w ON w.position = m.position \
     WHERE o.queue IS NOT NULL AND o.queue = ?1 AND o.position > ?2 \
     ORDER BY o.position LIMIT ?3"
);

pub(crate) const ATTEMPTS: &str = "SELECT position, number, started_at, ended_at, error \
     FROM attempt WHERE position = ?1 ORDER BY number";

/// Where a stream stands. No row: nobody knows it; empty columns: it has no message.
pub(crate) const STREAM: &str = "SELECT e.id, e.origin, (SELECT m.version FROM message m \
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
pub(crate) const STREAMS: &str = concat!(
    "SELECT * FROM (SELECT * FROM (",
    streams!("?1", "?2", " AND e.kind <> 'run'"),
    ") AS found UNION ALL SELECT * FROM (",
    streams!("?4", "?5", ""),
    ") AS found) AS found ORDER BY address LIMIT ?3"
);

/// The part of the streams that a list shows: behind one text and before the other; and the runs
/// of them.
pub(crate) fn bounds(
    within: Option<(EntityKind, &str)>,
    after: Option<&Address>,
) -> [(String, String); 2] {
    let after = after.map_or(String::new(), ToString::to_string);
    let (after, end) = match within {
        // `~` comes behind every letter of a kind.
        None => (after, "~".into()),
        Some((kind, class)) => {
            let (start, end) = addresses(kind, class, &names("", None));
            (after.max(start), end)
        }
    };
    // `0` comes behind `/`.
    let runs = (after.clone().max("run/".into()), end.clone().min("run0".into()));
    [(after, end), runs]
}

pub(crate) const SNAPSHOT: &str =
    "SELECT entity, version, code, state FROM snapshot WHERE entity = ?1";

pub(crate) const DUE: &str = concat!(
    "SELECT * FROM (",
    work!("WHERE due_at = ?1 AND position > ?2 AND NOT queued ORDER BY position LIMIT ?3"),
    ") AS same UNION ALL SELECT * FROM (",
    work!("WHERE due_at > ?1 AND NOT queued ORDER BY due_at, position LIMIT ?3"),
    ") AS later LIMIT ?3"
);

pub(crate) const BACKLOG_ORDERED: &str =
    work!("WHERE target = ?1 AND ordered ORDER BY position LIMIT ?2");

pub(crate) const BACKLOG: &str =
    work!("WHERE target = ?1 AND NOT ordered ORDER BY due_at, position LIMIT ?2");

pub(crate) const ORPHANS: &str = work!(
    "WHERE holder IS NOT NULL AND holder > 0 AND holder < ?1 AND NOT queued \
     ORDER BY position LIMIT ?2"
);

pub(crate) const QUEUE_ORPHANS: &str = work!(
    "WHERE holder IS NOT NULL AND holder > 0 AND holder < ?1 AND queued \
     ORDER BY position LIMIT ?2"
);

/// The next messages that the sweep has not passed.
pub(crate) const SWEEP: &str = "SELECT position, created_at FROM message \
     WHERE position > (SELECT swept FROM counter) ORDER BY position LIMIT ?1";

pub(crate) const TOTALS: &str = "SELECT position, pending, dead FROM counter WHERE id = 1";

pub(crate) const ALL_ENTITIES: &str =
    "SELECT kind, class, name, created_at, closed_at, origin FROM entity ORDER BY id";
pub(crate) const ALL_SNAPSHOTS: &str =
    "SELECT entity, version, code, state FROM snapshot ORDER BY entity";
pub(crate) const ALL_MESSAGES: &str = "SELECT position, stream, version, kind, direction, action, \
     type, schema, data, metadata, target, ordered, cause, created_at, origin FROM message \
     ORDER BY position";
pub(crate) const ALL_WORKS: &str = work!("ORDER BY position");
pub(crate) const ALL_OUTCOMES: &str =
    "SELECT position, state, settled_at, attempts, error, queue FROM outcome ORDER BY position";
pub(crate) const ALL_ATTEMPTS: &str =
    "SELECT position, number, started_at, ended_at, error FROM attempt ORDER BY position, number";
pub(crate) const ALL_KEYS: &str = "SELECT scope, key, request_hash, position, status, reply, \
     expires_at FROM idempotency ORDER BY scope, key";
pub(crate) const COUNTER: &str =
    "SELECT position, at, delete_from, swept FROM counter WHERE id = 1";

/// What must never be, and the statement that counts it.
pub(crate) const VIOLATIONS: &[(&str, &str)] = &[
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

/// Whether something is pending that may have ended a process.
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
