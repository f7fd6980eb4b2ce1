//! Entries: a change increases the revision, and a removed entry keeps its revision for a time.

use super::decide::Batch;
use crate::{Entry, EntryKey, Put, Rejection};

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
        self.facts.entries.set(put.entry.clone(), Some(row));
    }

    pub(super) fn expire(&mut self, entry: &EntryKey) {
        let row = self.facts.entries.get(entry);
        if row.and_then(|it| it.expires_at).is_some_and(|it| it <= self.draft.at) {
            self.facts.entries.set(entry.clone(), None);
            self.receipt.forgotten += 1;
        }
    }
}
