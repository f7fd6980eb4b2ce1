//! The statements that read entries.

use std::ops::Bound;

use super::{
    Fields,
    queries::Select,
    statement::{Param, params},
};
use crate::{EntityId, Entry, EntryKey, EntryRange, Json, StoreError, Timestamp};

/// The columns that [`entry`] reads.
macro_rules! entries {
    ($rest:literal) => {
        concat!(
            "SELECT space, key, revision, value, reference, changed_at, expires_at FROM entry ",
            $rest
        )
    };
}

pub(crate) const ENTRY: &str = entries!("WHERE space = ?1 AND key = ?2");
pub(super) const ALL_ENTRIES: &str = entries!("ORDER BY space, key");
pub(crate) const OCCUPIED: &str =
    "SELECT space FROM entry WHERE space = ?1 AND value IS NOT NULL LIMIT 1";
pub(super) const EXPIRED: &str =
    entries!("WHERE expires_at IS NOT NULL AND expires_at <= ?1 ORDER BY expires_at LIMIT ?2");
pub(super) const BY_AGE: &str = entries!(
    "WHERE space = ?1 AND (changed_at, key) > (?2, ?3) AND changed_at <= ?4 \
     AND value IS NOT NULL ORDER BY changed_at, key LIMIT ?5"
);
pub(super) const REFERENCED: &str = "SELECT reference, space, key FROM entry \
     WHERE reference = ?1 AND reference IS NOT NULL ORDER BY space, key LIMIT 1";
pub(super) const REFERENCED_MANY: &str = "SELECT DISTINCT ON (reference) reference, space, key \
     FROM entry WHERE reference = ANY (?1::bytea[]) AND reference IS NOT NULL \
     ORDER BY reference, space, key";

const LIST: &str =
    entries!("WHERE space = ?1 AND key >= ?2 AND value IS NOT NULL ORDER BY key LIMIT ?3");
const LIST_BEHIND: &str =
    entries!("WHERE space = ?1 AND key > ?2 AND value IS NOT NULL ORDER BY key LIMIT ?3");
const LIST_UNTIL: &str = entries!(
    "WHERE space = ?1 AND key >= ?2 AND key < ?4 AND value IS NOT NULL ORDER BY key LIMIT ?3"
);
const LIST_BEHIND_UNTIL: &str = entries!(
    "WHERE space = ?1 AND key > ?2 AND key < ?4 AND value IS NOT NULL ORDER BY key LIMIT ?3"
);

/// A range of a list in the order of keys.
pub(super) fn list(space: String, range: EntryRange, limit: usize) -> Select {
    let (is_behind, from) = match range.from {
        Bound::Included(key) => (false, key),
        Bound::Excluded(key) => (true, key),
        Bound::Unbounded => (false, Vec::new()),
    };
    let sql = match (is_behind, range.until.is_some()) {
        (false, false) => LIST,
        (true, false) => LIST_BEHIND,
        (false, true) => LIST_UNTIL,
        (true, true) => LIST_BEHIND_UNTIL,
    };
    let mut params = params![space, from, limit];
    params.extend(range.until.map(Param::from));
    (sql, params)
}

/// One entry.
pub(super) fn one(entry: &EntryKey) -> Select {
    (ENTRY, params![entry.space().to_owned(), entry.key().to_vec()])
}

/// A referenced resource, and the entry that refers to it.
pub(super) fn reference(row: &dyn Fields) -> Result<(EntityId, EntryKey), StoreError> {
    Ok((row.id(0)?, EntryKey::stored(&row.text(1)?, row.bytes(2)?)))
}

pub(crate) fn entry(row: &dyn Fields) -> Result<Entry, StoreError> {
    Ok(Entry {
        entry: EntryKey::stored(&row.text(0)?, row.bytes(1)?),
        revision: row.int(2)?,
        value: row.maybe_text(3)?.map(|it| Json::stored(&it)),
        reference: row.maybe_id(4)?,
        changed_at: row.time(5)?,
        expires_at: row.maybe_int(6)?.map(Timestamp),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sql::plans::{has, steps};

    #[test]
    fn lists_ages_expiry_and_references_walk_an_index() {
        for statement in [LIST, LIST_BEHIND] {
            let steps = steps(statement);
            assert!(has(&steps, "(space=? AND key>?)") && !has(&steps, "B-TREE"), "{steps:#?}");
        }
        for statement in [LIST_UNTIL, LIST_BEHIND_UNTIL] {
            let steps = steps(statement);
            let bounds = "(space=? AND key>? AND key<?)";
            assert!(has(&steps, bounds) && !has(&steps, "B-TREE"), "{steps:#?}");
        }
        let expired = steps(EXPIRED);
        assert!(has(&expired, "entry_expires") && !has(&expired, "B-TREE"), "{expired:#?}");
        assert!(has(&steps(REFERENCED), "entry_reference"));
        let by_age = steps(BY_AGE);
        let bounds = "INDEX entry_changed (space=? AND (changed_at,key)>(?,?)";
        assert!(has(&by_age, bounds) && !has(&by_age, "B-TREE"), "{by_age:#?}");
    }
}
