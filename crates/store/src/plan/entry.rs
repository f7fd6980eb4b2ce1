//! Entries: a change increases the revision, and a removed entry keeps its revision for a time.
//! Counters are entries that are written as differences.

use super::{Counted, decide::Batch};
use crate::{Count, Entry, EntryKey, Json, Put, Rejection};

impl Batch {
    pub(super) fn check_revision(&self, entry: &EntryKey, expected: i64) -> Result<(), Rejection> {
        let actual = self.facts.entries.get(entry).map_or(0, |it| it.revision);
        if actual == expected {
            return Ok(());
        }
        Err(Rejection::Revision { entry: entry.clone(), expected, actual })
    }

    /// If earlier commits of the batch removed entries, the list may still have others.
    pub(super) fn check_vacant(&self, space: &str) -> Result<(), Rejection> {
        let is_in = |it: &&Entry| it.entry.space() == space && it.value.is_some();
        let changed =
            self.facts.entries.iter().filter(|(key, _)| self.facts.entries.has_changed(key));
        if self.facts.spaces.contains(space) || changed.map(|it| it.1).any(|it| is_in(&it)) {
            return Err(Rejection::NotVacant { space: space.into() });
        }
        Ok(())
    }

    pub(super) fn put(&mut self, put: &Put) {
        let before = self.facts.entries.get(&put.entry).map_or(0, |it| it.revision);
        let at = self.draft.at;
        let row = Entry {
            entry: put.entry.clone(),
            revision: before + 1,
            value: put.value.clone(),
            reference: put.reference,
            changed_at: at,
            expires_at: put.expires.map(|it| at.after(it)),
        };
        self.receipt.revisions.push(row.revision);
        self.write_whole(&put.entry, Some(row));
    }

    /// Adds to a counter. Later commits of the batch see the sum.
    pub(super) fn count(&mut self, it: &Count) -> Result<(), Rejection> {
        let row = self.facts.entries.get(&it.entry);
        let number = match row.and_then(|it| it.value.as_ref()) {
            Some(value) => Some(value.as_str().parse::<i64>().map_err(|_| {
                let entry = it.entry.clone();
                Rejection::NotANumber { entry }
            })?),
            None => None,
        };
        let before = number.unwrap_or(0);
        let next = before.saturating_add(it.delta);
        if let Some(max) = it.max.filter(|max| *max < next) {
            return Err(Rejection::Limit { entry: it.entry.clone(), count: before, max });
        }
        let at = self.draft.at;
        let mut row = match row {
            Some(row) if number.is_some() => row.clone(),
            found => Entry {
                entry: it.entry.clone(),
                revision: found.map_or(0, |it| it.revision),
                value: None,
                reference: None,
                changed_at: at,
                expires_at: it.expires.map(|it| at.after(it)),
            },
        };
        row.revision += 1;
        row.value = Some(Json::stored(&next.to_string()));
        let counted = self.facts.counts.get(&it.entry).copied();
        let is_written = self.facts.entries.has_changed(&it.entry) && counted.is_none();
        if number.is_some() && !is_written {
            let zero = Counted { delta: 0, times: 0, at_most: i64::MAX };
            let Counted { delta, times, at_most } = counted.unwrap_or(zero);
            // A difference that does not fit is written as a whole row.
            let added = next.checked_sub(before).and_then(|it| delta.checked_add(it));
            let counted = added.map(|delta| {
                let limit = it.max.map_or(i64::MAX, |max| max.saturating_sub(delta));
                Counted { delta, times: times + 1, at_most: at_most.min(limit) }
            });
            self.facts.counts.set(it.entry.clone(), counted);
        }
        self.facts.entries.set(it.entry.clone(), Some(row));
        Ok(())
    }

    /// Writes or removes a row that is not written as a difference, even if it was counted before.
    fn write_whole(&mut self, entry: &EntryKey, row: Option<Entry>) {
        if self.facts.counts.get(entry).is_some() {
            self.facts.counts.set(entry.clone(), None);
        }
        self.facts.entries.set(entry.clone(), row);
    }

    pub(super) fn expire(&mut self, entry: &EntryKey) {
        let row = self.facts.entries.get(entry);
        if row.and_then(|it| it.expires_at).is_some_and(|it| it <= self.draft.at) {
            self.write_whole(entry, None);
            self.receipt.forgotten += 1;
        }
    }
}
