//! The statements that read entities, objects, their turns and images, and their rows.

use super::{
    statement::{RowReader, Select, params, statements},
    table::{Stored, list, select},
    tables::read_image,
};
use crate::{
    Base, EntityId, EntityKind, Head, ObjectSummary, OldTurn, PageImage, RecordedTurn, StoreError,
    TurnSummary, limits,
};

type Image = (EntityId, PageImage);

/// The columns of [`Head`], of the tables `h` and `b`.
pub(super) fn heads() -> String {
    format!("{}, {}", list::<Head>("h."), list::<Base>("b."))
}

/// A turn is history once the images contain it, or once its object is deleted.
pub(super) const IS_HISTORY: &str = "CASE WHEN b.number IS NULL OR t.position <= b.position \
     OR t.position < b.number THEN 1 ELSE 0 END";

/// The heads of objects that the rest of the statement finds.
fn select_heads(rest: &str) -> String {
    format!("SELECT {} FROM base b JOIN head h ON h.number = b.number {rest}", heads())
}

statements! {
    pub(super) HEAD = select_heads("WHERE b.entity = ?1");
    pub(super) ALL_HEADS = select_heads("ORDER BY b.number");
    HEADS =
        select_heads("WHERE b.history_bytes > ?1 AND b.number > ?2 ORDER BY b.number LIMIT ?3");
    LARGE_HEADS = select_heads(
        "WHERE b.history_bytes > ?1 AND b.history_bytes > 1048576 AND b.number > ?2 \
         ORDER BY b.number LIMIT ?3"
    );
}

/// Objects with a long history are in an index of their own.
pub(super) fn long_heads(history_over: i64) -> &'static str {
    if history_over < 1 << 20 { &HEADS } else { &LARGE_HEADS }
}

/// The sort key of entities, as the index has it. No kind and no class contains a `/`.
pub(super) const SORT_KEY: &str = "(e.kind || '/' || e.class || '/' || e.name)";

statements! {
    /// The heads of objects, their addresses and the times of their last turns.
    OBJECTS = format!(
        "SELECT {}, e.class, e.name, e.created_at, \
         (SELECT t.at FROM turn t WHERE t.position = h.position) FROM entity e \
         JOIN base b ON b.entity = e.id JOIN head h ON h.number = b.number \
         WHERE {SORT_KEY} >= ?1 AND {SORT_KEY} < ?2 ORDER BY {SORT_KEY} LIMIT ?3",
        heads()
    );
    COUNT_OBJECTS = format!(
        "SELECT count(*) FROM (SELECT 1 AS one FROM entity e JOIN base b ON b.entity = e.id \
         WHERE {SORT_KEY} >= ?1 AND {SORT_KEY} < ?2 LIMIT ?3) AS found"
    );
    /// The number of addresses between two texts, up to a limit.
    pub(super) COUNT_ADDRESSES = format!(
        "SELECT count(*) FROM (SELECT 1 AS one FROM entity e \
         WHERE {SORT_KEY} >= ?1 AND {SORT_KEY} < ?2 LIMIT ?3) AS found"
    );
    /// Jumps from each class of a kind to the next: the index is not read as a whole. `0` follows
    /// `/`.
    CLASSES = format!(
        "WITH RECURSIVE walk (class, n) AS (SELECT (SELECT e.class FROM entity e \
         WHERE {SORT_KEY} >= ?2 AND {SORT_KEY} < ?1 || '0' ORDER BY {SORT_KEY} LIMIT 1), \
         CAST(1 AS BIGINT) UNION ALL SELECT (SELECT e.class FROM entity e \
         WHERE {SORT_KEY} >= ?1 || '/' || walk.class || '0' AND {SORT_KEY} < ?1 || '0' \
         ORDER BY {SORT_KEY} LIMIT 1), walk.n + 1 FROM walk \
         WHERE walk.class IS NOT NULL AND walk.n < ?3) \
         SELECT class FROM walk WHERE class IS NOT NULL AND n <= ?3 ORDER BY n"
    );
}

pub(super) fn classes(kind: EntityKind, after: Option<String>, limit: usize) -> Select {
    let from = match after {
        None => format!("{}/", kind.tag()),
        Some(after) => format!("{}/{after}0", kind.tag()),
    };
    (&CLASSES, params![kind.tag(), from, limit])
}

pub(super) fn objects(class: &str, prefix: &str, after: Option<&str>, limit: usize) -> Select {
    let (from, until) = addresses(EntityKind::Object, class, &names(prefix, after));
    (&OBJECTS, params![from, until, limit])
}

pub(super) fn count_objects(class: &str, max: usize) -> Select {
    let (from, until) = addresses(EntityKind::Object, class, &names("", None));
    (&COUNT_OBJECTS, params![from, until, max])
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

statements! {
    /// The images of a range of pages.
    pub(super) IMAGES = select::<Image>(
        "WHERE entity = ?1 AND page BETWEEN ?2 AND ?3 ORDER BY page"
    );
    /// The images of all ranges, in one round trip.
    pub(super) IMAGES_MANY = format!(
        "SELECT {} FROM unnest(?2::BIGINT[], ?3::BIGINT[]) AS part (first, last) \
         JOIN image i ON i.entity = ?1 AND i.page BETWEEN part.first AND part.last ORDER BY i.page",
        list::<Image>("i.")
    );
    pub(super) TURNS_BACK = turns_back(&list::<RecordedTurn>("t."));
    pub(super) TURN_SUMMARIES = turns_back(
        "t.position, t.entity, t.seq, t.prev, t.at, t.cause, t.sent, t.input, \
         CAST(length(t.delta) AS BIGINT)"
    );
    pub(super) OLD_TURNS = format!(
        "SELECT t.position, t.entity, t.at, {IS_HISTORY} FROM turn t \
         LEFT JOIN base b ON b.entity = t.entity WHERE t.position > ?1 ORDER BY t.position LIMIT ?2"
    );
}

/// `prev` leads from each turn to the previous one; the recursion ends at a deleted turn.
fn turns_back(columns: &str) -> String {
    format!(
        "WITH RECURSIVE walk (position, prev, n) AS (\
         SELECT position, prev, CAST(1 AS BIGINT) FROM turn WHERE position = ?1 UNION ALL \
         SELECT t.position, t.prev, walk.n + 1 FROM walk JOIN turn t ON t.position = walk.prev \
         WHERE walk.n < ?2) SELECT {columns} FROM walk JOIN turn t ON t.position = walk.position \
         ORDER BY walk.n"
    )
}

/// An image without the id of its object.
pub(super) fn image(row: &mut RowReader<'_>) -> Result<PageImage, StoreError> {
    row.skip(1);
    read_image(row)
}

pub(super) fn object_summary(row: &mut RowReader<'_>) -> Result<ObjectSummary, StoreError> {
    let head = Head::read(row)?;
    Ok(ObjectSummary {
        address: row.named(EntityKind::Object)?,
        created_at: row.time()?,
        updated_at: row.maybe_time()?,
        head,
    })
}

pub(super) fn turn_summary(row: &mut RowReader<'_>) -> Result<TurnSummary, StoreError> {
    Ok(TurnSummary {
        position: row.int()?,
        entity: row.id()?,
        seq: row.int()?,
        prev: row.int()?,
        at: row.time()?,
        cause: row.maybe_int()?,
        sent: row.count()?,
        input: row.text()?.into(),
        bytes: row.int()?,
    })
}

pub(super) fn old_turn(row: &mut RowReader<'_>) -> Result<OldTurn, StoreError> {
    let (position, entity, at) = (row.int()?, row.id()?, row.time()?);
    Ok(OldTurn { position, entity, at, is_history: row.flag()? })
}

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
