//! The statements that read entries, and their rows.

use std::ops::Bound;

use super::{
    statement::{Param, RowReader, Select, params, statements},
    table::select,
};
use crate::{EntityId, Entry, EntryKey, EntryRange, StoreError};

/// Existing entries of a list, in the order of their keys.
fn listed(keys: &str) -> String {
    select::<Entry>(&format!(
        "WHERE space = ?1 AND {keys} AND value IS NOT NULL ORDER BY key LIMIT ?3"
    ))
}

statements! {
    ENTRY = select::<Entry>("WHERE space = ?1 AND key = ?2");
    pub(super) EXPIRED = select::<Entry>(
        "WHERE expires_at IS NOT NULL AND expires_at <= ?1 ORDER BY expires_at LIMIT ?2"
    );
    pub(super) BY_AGE = select::<Entry>(
        "WHERE space = ?1 AND (changed_at, key) > (?2, ?3) AND changed_at <= ?4 \
         AND value IS NOT NULL ORDER BY changed_at, key LIMIT ?5"
    );
    LIST = listed("key >= ?2");
    LIST_BEHIND = listed("key > ?2");
    LIST_UNTIL = listed("key >= ?2 AND key < ?4");
    LIST_BEHIND_UNTIL = listed("key > ?2 AND key < ?4");
}

pub(super) const REFERENCED: &str = "SELECT reference, space, key FROM entry \
     WHERE reference = ?1 AND reference IS NOT NULL ORDER BY space, key LIMIT 1";
pub(super) const REFERENCED_MANY: &str = "SELECT DISTINCT ON (reference) reference, space, key \
     FROM entry WHERE reference = ANY (?1::bytea[]) AND reference IS NOT NULL \
     ORDER BY reference, space, key";

/// A range of a list in the order of keys.
pub(super) fn list(space: String, range: EntryRange, limit: usize) -> Select {
    let (is_behind, from) = match range.from {
        Bound::Included(key) => (false, key),
        Bound::Excluded(key) => (true, key),
        Bound::Unbounded => (false, Vec::new()),
    };
    let sql: &'static str = match (is_behind, range.until.is_some()) {
        (false, false) => &LIST,
        (true, false) => &LIST_BEHIND,
        (false, true) => &LIST_UNTIL,
        (true, true) => &LIST_BEHIND_UNTIL,
    };
    let mut params = params![space, from, limit];
    params.extend(range.until.map(Param::from));
    (sql, params)
}

/// One entry.
pub(super) fn one(entry: &EntryKey) -> Select {
    (&ENTRY, params![entry.space().to_owned(), entry.key().to_vec()])
}

/// A referenced resource, and the entry that refers to it.
pub(super) fn reference(row: &mut RowReader<'_>) -> Result<(EntityId, EntryKey), StoreError> {
    Ok((row.id()?, EntryKey::stored(&row.text()?, row.bytes()?)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sql::plans::{has, steps};

    #[test]
    fn lists_ages_expiry_and_references_walk_an_index() {
        for statement in [&LIST, &LIST_BEHIND] {
            let steps = steps(statement);
            assert!(has(&steps, "(space=? AND key>?)") && !has(&steps, "B-TREE"), "{steps:#?}");
        }
        for statement in [&LIST_UNTIL, &LIST_BEHIND_UNTIL] {
            let steps = steps(statement);
            let bounds = "(space=? AND key>? AND key<?)";
            assert!(has(&steps, bounds) && !has(&steps, "B-TREE"), "{steps:#?}");
        }
        let expired = steps(&EXPIRED);
        assert!(has(&expired, "entry_expires") && !has(&expired, "B-TREE"), "{expired:#?}");
        assert!(has(&steps(REFERENCED), "entry_reference"));
        let by_age = steps(&BY_AGE);
        let bounds = "INDEX entry_changed (space=? AND (changed_at,key)>(?,?)";
        assert!(has(&by_age, bounds) && !has(&by_age, "B-TREE"), "{by_age:#?}");
    }
}
