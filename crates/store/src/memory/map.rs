//! A map of the store in memory: a sorted list. It takes a fifth of the code of a `BTreeMap`, which
//! is compiled for each type of its rows.

use std::{
    ops::{Bound, Range, RangeBounds},
    vec,
};

/// Rows in the order of their keys.
#[derive(Clone, Debug)]
pub(super) struct Map<K, V>(Vec<(K, V)>);

impl<K, V> Default for Map<K, V> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<K: Ord, V> Map<K, V> {
    pub(super) fn insert(&mut self, key: K, row: V) {
        match self.find(&key) {
            Ok(at) => self.0[at].1 = row,
            Err(at) => self.0.insert(at, (key, row)),
        }
    }

    pub(super) fn remove(&mut self, key: &K) -> Option<V> {
        let at = self.find(key).ok()?;
        Some(self.0.remove(at).1)
    }

    pub(super) fn get(&self, key: &K) -> Option<&V> {
        let at = self.find(key).ok()?;
        Some(&self.0[at].1)
    }

    pub(super) fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        let at = self.find(key).ok()?;
        Some(&mut self.0[at].1)
    }

    pub(super) fn contains_key(&self, key: &K) -> bool {
        self.find(key).is_ok()
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = &K> {
        self.0.iter().map(|(key, _)| key)
    }

    pub(super) fn values(&self) -> impl Iterator<Item = &V> {
        self.0.iter().map(|(_, row)| row)
    }

    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = (&K, &V)> {
        self.range(..)
    }

    pub(super) fn range(
        &self,
        keys: impl RangeBounds<K>,
    ) -> impl DoubleEndedIterator<Item = (&K, &V)> {
        self.0[self.places(keys)].iter().map(|(key, row)| (key, row))
    }

    /// Removes the rows of a range of keys.
    pub(super) fn take(&mut self, keys: impl RangeBounds<K>) -> vec::IntoIter<(K, V)> {
        let places = self.places(keys);
        self.0.drain(places).collect::<Vec<_>>().into_iter()
    }

    pub(super) fn retain(&mut self, mut is_kept: impl FnMut(&K, &V) -> bool) {
        self.0.retain(|(key, row)| is_kept(key, row));
    }

    fn places(&self, keys: impl RangeBounds<K>) -> Range<usize> {
        let first = match keys.start_bound() {
            Bound::Included(first) => self.find(first).unwrap_or_else(|at| at),
            Bound::Excluded(before) => self.find(before).map_or_else(|at| at, |at| at + 1),
            Bound::Unbounded => 0,
        };
        let end = match keys.end_bound() {
            Bound::Included(last) => self.find(last).map_or_else(|at| at, |at| at + 1),
            Bound::Excluded(end) => self.find(end).unwrap_or_else(|at| at),
            Bound::Unbounded => self.0.len(),
        };
        first..end.max(first)
    }

    /// The place of a key, or where it belongs. Most keys are new and the last.
    fn find(&self, key: &K) -> Result<usize, usize> {
        if self.0.last().is_none_or(|(last, _)| last < key) {
            return Err(self.0.len());
        }
        self.0.binary_search_by(|(it, _)| it.cmp(key))
    }
}

impl<K: Ord, V> Extend<(K, V)> for Map<K, V> {
    fn extend<I: IntoIterator<Item = (K, V)>>(&mut self, rows: I) {
        rows.into_iter().for_each(|(key, row)| self.insert(key, row));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn it_is_a_map_in_the_order_of_its_keys() {
        let (mut map, mut expected) = (Map::default(), BTreeMap::new());
        for step in 0..3_000_u64 {
            let key = (step * 7_919) % 257;
            match step % 5 {
                0 => assert_eq!(map.remove(&key), expected.remove(&key)),
                1 => {
                    let range = key..=key + 3;
                    let found: Vec<_> = map.take(range.clone()).collect();
                    let rows = expected.extract_if(range, |_, _| true);
                    assert_eq!(found, rows.collect::<Vec<_>>());
                }
                _ => {
                    map.insert(key, step);
                    expected.insert(key, step);
                }
            }
            assert!(map.iter().eq(expected.iter()));
            assert_eq!((map.get(&key), map.len()), (expected.get(&key), expected.len()));
            let behind = (Bound::Excluded(key), Bound::Unbounded);
            assert!(map.range(behind).eq(expected.range(behind)));
            assert!(map.range(..key).rev().eq(expected.range(..key).rev()));
        }
    }

    #[test]
    fn a_range_that_ends_before_it_begins_is_empty() {
        let mut map = Map::default();
        map.extend([(1, 'a'), (2, 'b')]);
        assert_eq!(map.range((Bound::Included(2), Bound::Included(0))).count(), 0);
    }
}
