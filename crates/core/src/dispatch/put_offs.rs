//! Work that was put off without a write. The store does not know when it is due again; only this
//! does.

use std::collections::{BTreeMap, HashMap};

use steadfast_store::{Position, Timestamp};

use super::lane::LaneKey;

#[derive(Debug, Default)]
pub(super) struct PutOffs {
    by_time: BTreeMap<(Timestamp, Position), LaneKey>,
    until: HashMap<Position, Timestamp>,
    in_lane: HashMap<LaneKey, usize>,
}

impl PutOffs {
    pub(super) fn insert(&mut self, position: Position, until: Timestamp, key: LaneKey) {
        self.remove(position);
        self.by_time.insert((until, position), key);
        self.until.insert(position, until);
        *self.in_lane.entry(key).or_default() += 1;
    }

    pub(super) fn remove(&mut self, position: Position) -> bool {
        let Some(until) = self.until.remove(&position) else { return false };
        if let Some(key) = self.by_time.remove(&(until, position)) {
            self.left(key);
        }
        true
    }

    fn left(&mut self, key: LaneKey) {
        if let Some(count) = self.in_lane.get_mut(&key) {
            *count -= 1;
            if *count == 0 {
                self.in_lane.remove(&key);
            }
        }
    }

    /// The next whose time has come.
    pub(super) fn pop(&mut self, now: Timestamp) -> Option<(Position, LaneKey)> {
        let entry = self.by_time.first_entry().filter(|it| it.key().0 <= now)?;
        let ((_, position), key) = entry.remove_entry();
        self.until.remove(&position);
        self.left(key);
        Some((position, key))
    }

    /// Drops the one that waits longest; returns its time and its lane.
    pub(super) fn evict(&mut self) -> Option<(Timestamp, LaneKey)> {
        let ((until, position), key) = self.by_time.pop_last()?;
        self.until.remove(&position);
        self.left(key);
        Some((until, key))
    }

    pub(super) fn contains(&self, position: Position) -> bool {
        self.until.contains_key(&position)
    }

    pub(super) fn count(&self, key: LaneKey) -> usize {
        self.in_lane.get(&key).copied().unwrap_or(0)
    }

    pub(super) fn len(&self) -> usize {
        self.by_time.len()
    }

    /// When the first of them is due again.
    pub(super) fn next(&self) -> Option<Timestamp> {
        self.by_time.keys().next().map(|(until, _)| *until)
    }
}
