//! Rows by key, as a batch sees them. There are twenty types of rows, so the search is compiled
//! once, for their hashes.

use std::{
    collections::HashMap,
    hash::{BuildHasher, Hash, RandomState},
};

use crate::sort::sort_by;

/// Rows by key. It tracks changes and can undo those of the last commit.
#[derive(Debug)]
pub(crate) struct Table<K, V> {
    rows: Vec<Row<K, V>>,
    index: Index,
    /// The places of changed rows, and what was there.
    undo: Vec<(usize, Option<V>, bool)>,
}

#[derive(Debug)]
struct Row<K, V> {
    key: K,
    /// `None` if it does not exist, or no longer.
    value: Option<V>,
    /// Whether this batch has written or removed it.
    changed: bool,
}

impl<K, V> Default for Table<K, V> {
    fn default() -> Self {
        Self { rows: Vec::new(), index: Index::default(), undo: Vec::new() }
    }
}

impl<K: Hash + Ord, V> Table<K, V> {
    /// Adds a row that the store has.
    pub(crate) fn load(&mut self, key: K, row: V) {
        let at = self.place(key);
        self.rows[at].value = Some(row);
    }

    /// A row that the store has, to complete it.
    pub(crate) fn loaded(&mut self, key: &K) -> Option<&mut V> {
        let at = self.find(key)?;
        self.rows[at].value.as_mut()
    }

    pub(crate) fn get(&self, key: &K) -> Option<&V> {
        self.rows[self.find(key)?].value.as_ref()
    }

    /// The existing rows.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.rows.iter().filter_map(|it| Some((&it.key, it.value.as_ref()?)))
    }

    /// Whether this batch has written or removed the row.
    pub(crate) fn has_changed(&self, key: &K) -> bool {
        self.find(key).is_some_and(|at| self.rows[at].changed)
    }

    /// Writes or, with `None`, removes a row.
    pub(crate) fn set(&mut self, key: K, row: Option<V>) {
        let at = self.place(key);
        self.change(at, row, true);
    }

    /// Hides a row. In the store it does not change, unless another write removes it.
    pub(crate) fn hide(&mut self, key: &K) {
        if let Some(at) = self.find(key) {
            self.change(at, None, self.rows[at].changed);
        }
    }

    fn change(&mut self, at: usize, value: Option<V>, changed: bool) {
        let row = &mut self.rows[at];
        let value = std::mem::replace(&mut row.value, value);
        self.undo.push((at, value, std::mem::replace(&mut row.changed, changed)));
    }

    /// The changed rows, in key order; `None` for a deleted row.
    pub(crate) fn into_changes(self) -> Vec<(K, Option<V>)> {
        let changed = self.rows.into_iter().filter(|it| it.changed);
        let mut changes: Vec<_> = changed.map(|it| (it.key, it.value)).collect();
        sort_by(&mut changes, |(a, _), (b, _)| a.cmp(b));
        changes
    }

    fn find(&self, key: &K) -> Option<usize> {
        if self.rows.len() <= Index::FROM {
            return self.rows.iter().position(|it| it.key == *key);
        }
        self.index.find(self.index.hashes.hash_one(key), &|at| self.rows[at].key == *key)
    }

    /// The place of a row, which is added if there is none.
    fn place(&mut self, key: K) -> usize {
        if let Some(at) = self.find(&key) {
            return at;
        }
        self.rows.push(Row { key, value: None, changed: false });
        if Index::FROM < self.rows.len() {
            for row in &self.rows[self.index.next.len()..] {
                self.index.add(self.index.hashes.hash_one(&row.key));
            }
        }
        self.rows.len() - 1
    }
}

/// A table, whatever its rows are.
pub(super) trait Undo {
    /// Accepts the changes since the last call.
    fn accept(&mut self);

    /// Undoes the changes since the last `accept`.
    fn reject(&mut self);
}

impl<K, V> Undo for Table<K, V> {
    fn accept(&mut self) {
        self.undo.clear();
    }

    fn reject(&mut self) {
        while let Some((at, value, changed)) = self.undo.pop() {
            (self.rows[at].value, self.rows[at].changed) = (value, changed);
        }
    }
}

/// Finds places by hash.
#[derive(Debug, Default)]
struct Index {
    hashes: RandomState,
    /// The last place of each hash.
    last: HashMap<u64, usize>,
    /// For each place the one before it with the same hash.
    next: Vec<Option<usize>>,
}

impl Index {
    /// Up to as many rows are found without it.
    const FROM: usize = 8;

    fn add(&mut self, hash: u64) {
        let before = self.last.insert(hash, self.next.len());
        self.next.push(before);
    }

    fn find(&self, hash: u64, is_it: &dyn Fn(usize) -> bool) -> Option<usize> {
        let mut place = self.last.get(&hash).copied();
        while let Some(at) = place
            && !is_it(at)
        {
            place = self.next[at];
        }
        place
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A table of as many rows as are found without the index, and of more.
    fn tables() -> [Table<u32, char>; 2] {
        [5, 50].map(|rows| {
            let mut table = Table::default();
            (0..rows).for_each(|key| table.load(key * 7 % rows, 'a'));
            table
        })
    }

    #[test]
    fn a_rejected_commit_leaves_no_trace() {
        for mut table in tables() {
            table.set(1, Some('b'));
            table.accept();
            table.set(1, None);
            table.set(2, Some('c'));
            table.set(99, Some('d'));
            table.hide(&3);
            assert_eq!([1, 2, 3, 4, 99].map(|it| table.get(&it).copied()), {
                [None, Some('c'), None, Some('a'), Some('d')]
            });
            table.reject();
            assert_eq!([1, 2, 3, 99].map(|it| table.get(&it).copied()), {
                [Some('b'), Some('a'), Some('a'), None]
            });
            assert!(table.has_changed(&1) && !table.has_changed(&2) && !table.has_changed(&99));
            assert_eq!(table.into_changes(), [(1, Some('b'))]);
        }
    }

    #[test]
    fn changes_are_in_the_order_of_keys_and_hidden_rows_do_not_change() {
        for mut table in tables() {
            let rows = table.iter().count();
            table.set(4, None);
            table.hide(&0);
            table.hide(&4);
            table.set(2, Some('b'));
            table.set(60, Some('c'));
            assert_eq!(table.iter().count(), rows - 1);
            assert_eq!(table.into_changes(), [(2, Some('b')), (4, None), (60, Some('c'))]);
        }
    }

    #[test]
    fn places_with_the_same_hash_are_told_apart() {
        let mut index = Index::default();
        [7, 8, 7, 7].into_iter().for_each(|hash| index.add(hash));
        for place in [0, 2, 3] {
            assert_eq!(index.find(7, &|at| at == place), Some(place));
        }
        assert_eq!(index.find(8, &|_| true), Some(1));
        assert_eq!(index.find(7, &|_| false), None);
        assert_eq!(index.find(9, &|_| true), None);
    }
}
