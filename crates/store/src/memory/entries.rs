//! The table of entries, in memory.

use std::ops::Bound;

use super::map::Map;
use crate::{
    AgeCursor, EntityId, Entry, EntryKey, EntryRange, Json, Timestamp,
    plan::{Facts, Needs, Plan},
    sort::sort_by_key,
};

#[derive(Debug, Default)]
pub(super) struct EntryTable {
    rows: Map<EntryKey, Entry>,
    references: Map<(EntityId, EntryKey), ()>,
}

impl EntryTable {
    pub(super) fn facts(&self, needs: &Needs, facts: &mut Facts) {
        for key in &needs.entries {
            if let Some(row) = self.rows.get(key) {
                facts.entries.load(key.clone(), row.clone());
            }
        }
        let range = || EntryRange::prefix(b"");
        let occupied = needs.spaces.iter().filter(|it| !self.list(it, range(), 1).is_empty());
        facts.spaces.extend(occupied.cloned());
    }

    pub(super) fn apply(&mut self, plan: &Plan) {
        for row in &plan.entries {
            self.remove(&row.entry);
            self.references.extend(row.reference.map(|it| ((it, row.entry.clone()), ())));
            self.rows.insert(row.entry.clone(), row.clone());
        }
        for (key, counted) in &plan.counts {
            let Some(row) = self.rows.get_mut(key) else { continue };
            let before = row.value.as_ref().and_then(|it| it.as_str().parse::<i64>().ok());
            let next = before.unwrap_or(0).saturating_add(counted.delta);
            row.value = Some(Json::stored(&next.to_string()));
            row.revision += counted.times;
        }
        plan.entries_gone.iter().for_each(|key| self.remove(key));
    }

    fn remove(&mut self, key: &EntryKey) {
        let reference = self.rows.remove(key).and_then(|it| it.reference);
        if let Some(reference) = reference {
            self.references.remove(&(reference, key.clone()));
        }
    }

    pub(super) fn list(&self, space: &str, range: EntryRange, limit: usize) -> Vec<Entry> {
        let key = |key: Vec<u8>| EntryKey::stored(space, key);
        let from = match range.from {
            Bound::Included(it) => Bound::Included(key(it)),
            Bound::Excluded(it) => Bound::Excluded(key(it)),
            Bound::Unbounded => Bound::Included(key(Vec::new())),
        };
        let is_over = |it: &Entry| range.until.as_ref().is_some_and(|end| **end <= *it.entry.key());
        let found = self.rows.range((from, Bound::Unbounded)).map(|(_, row)| row);
        let found = found.take_while(|it| it.entry.space() == space && !is_over(it));
        found.filter(|it| it.value.is_some()).take(limit).cloned().collect()
    }

    pub(super) fn get(&self, key: &EntryKey) -> Option<Entry> {
        self.rows.get(key).cloned()
    }

    pub(super) fn by_age(
        &self,
        space: &str,
        after: &AgeCursor,
        until: Timestamp,
        limit: usize,
    ) -> Vec<Entry> {
        let first = EntryKey::stored(space, Vec::new());
        let rows = self.rows.range(first..).map(|(_, row)| row);
        let rows = rows.take_while(|it| it.entry.space() == space);
        let is_behind =
            |it: &Entry| (after.changed_at, after.key.as_slice()) < (it.changed_at, it.entry.key());
        let is_meant = |it: &&Entry| it.value.is_some() && it.changed_at <= until && is_behind(it);
        let mut found: Vec<&Entry> = rows.filter(is_meant).collect();
        sort_by_key(&mut found, |it| (it.changed_at, &it.entry));
        found.into_iter().take(limit).cloned().collect()
    }

    pub(super) fn expired(&self, at: Timestamp, limit: usize) -> Vec<Entry> {
        let timed = self.rows.values().filter_map(|it| Some((it.expires_at?, &it.entry, it)));
        let mut found: Vec<_> = timed.filter(|(expires_at, ..)| *expires_at <= at).collect();
        sort_by_key(&mut found, |(expires_at, key, _)| (*expires_at, *key));
        found.into_iter().take(limit).map(|(.., entry)| entry.clone()).collect()
    }

    pub(super) fn referenced(&self, ids: &[EntityId]) -> Vec<(EntityId, EntryKey)> {
        let by = |id: &EntityId| {
            let from = (*id, EntryKey::stored("", Vec::new()));
            let (first, ()) = self.references.range(from..).next()?;
            (first.0 == *id).then(|| first.clone())
        };
        ids.iter().filter_map(by).collect()
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Entry> {
        self.rows.values()
    }
}
