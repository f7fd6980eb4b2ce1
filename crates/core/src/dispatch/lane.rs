//! What is known of the work of one target.

use std::collections::{HashSet, VecDeque};

use steadfast_store::{EntityId, Position, Timestamp, Work};

/// The ordered or the unordered work of a target: they do not wait for each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct LaneKey {
    pub(super) target: EntityId,
    pub(super) ordered: bool,
}

impl LaneKey {
    pub(super) fn of(work: &Work) -> Self {
        Self { target: work.target, ordered: work.ordered }
    }
}

/// A window on the work of one lane. An unordered one holds due work; an ordered one holds the next
/// work in its order, due or not.
#[derive(Debug, Default)]
pub(super) struct Lane {
    pub(super) window: VecDeque<(Position, Timestamp)>,
    /// The store may hold work of this lane that neither the window nor a timer knows.
    pub(super) more: bool,
    /// It stands in the queue of lanes to be filled.
    pub(super) hungry: bool,
    /// The store is being asked for it.
    pub(super) filling: bool,
    /// Something was settled since the store was asked, so its answer may be wrong: ask again.
    pub(super) stale: bool,
    /// Something found no room since the store was asked, so its answer may lack it.
    pub(super) overflowed: bool,
    /// Deliveries under way.
    pub(super) running: usize,
    /// It stands in the queue of lanes that can go on.
    pub(super) queued: bool,
    /// There is no place for its first message.
    pub(super) blocked: bool,
    /// Its target is in trouble.
    pub(super) rests_until: Option<Timestamp>,
    /// What is gone since the store was asked, whose answer may not know of it.
    pub(super) gone: HashSet<Position>,
}

impl Lane {
    pub(super) fn contains(&self, position: Position) -> bool {
        self.window.iter().any(|(it, _)| *it == position)
    }

    pub(super) fn is_idle(&self) -> bool {
        self.window.is_empty() && !self.more && !self.filling && self.running == 0
    }

    /// Whether it waits for a place, or for its target.
    pub(super) fn waits(&self) -> bool {
        self.blocked || self.rests_until.is_some()
    }

    pub(super) fn is_hungry(&self) -> bool {
        self.window.is_empty() && self.more && !self.filling
    }

    /// Adds due work of an unordered lane.
    pub(super) fn add(&mut self, position: Position, due_at: Timestamp, window_max: usize) {
        if self.contains(position) {
            return;
        }
        // Behind what only the store knows, it has to wait: messages come in their order.
        if self.more || window_max <= self.window.len() {
            self.overflow();
        } else {
            self.window.push_back((position, due_at));
        }
    }

    /// Puts a message back that could not be delivered: among the first, in its order.
    pub(super) fn put_back(&mut self, position: Position, due_at: Timestamp) {
        let index = self.window.iter().take_while(|(it, _)| *it < position).count();
        self.window.insert(index, (position, due_at));
    }

    /// Adds the newest work of an ordered lane, whose order must be known up to there.
    pub(super) fn add_last(&mut self, position: Position, due_at: Timestamp, window_max: usize) {
        if let Some(known) = self.window.iter_mut().find(|(it, _)| *it == position) {
            known.1 = due_at;
            return;
        }
        let follows = self.window.back().is_none_or(|(last, _)| *last < position);
        if self.more || !follows || window_max <= self.window.len() {
            // Revived work comes before what we know: look at the whole again.
            if !follows {
                self.window.clear();
            }
            self.overflow();
        } else {
            self.window.push_back((position, due_at));
        }
    }

    fn overflow(&mut self) {
        self.more = true;
        self.overflowed = true;
    }
}
