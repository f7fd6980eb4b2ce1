//! What there is to know about the agenda.

use steadfast_store::{DueCursor, Timestamp, Work};

use super::Agenda;
use crate::dispatch::lane::{Lane, LaneKey};

impl Agenda {
    /// When to look again, if nothing happens before. Only for times to come: what is due now waits
    /// for room, and room comes with an end of something.
    pub(in crate::dispatch) fn next_wake(&self, now: Timestamp) -> Option<Timestamp> {
        let timer = self.timers.keys().next().map(|(due_at, _)| *due_at);
        let horizon = (self.cursor != DueCursor::END).then_some(self.cursor.due_at);
        let resting = self.resting.first().map(|(until, _)| *until);
        let others = [self.put_offs.next(), self.scan_again_at, resting];
        let times = [timer, horizon.filter(|at| now < *at)];
        times.into_iter().chain(others).flatten().min()
    }

    /// Whether nothing is under way, nothing known is due and nothing is left to look at now.
    pub(in crate::dispatch) fn is_settled(&self, now: Timestamp) -> bool {
        let scanned = self.cursor == DueCursor::END || now < self.cursor.due_at;
        let is_quiet = |(key, it): (&LaneKey, &Lane)| {
            let waits = it.rests_until.is_some() || self.is_put_off(*key);
            it.running == 0 && !it.queued && (!it.more || waits)
        };
        let quiet = self.lanes.iter().all(is_quiet);
        let timer = self.timers.keys().next().map(|(due_at, _)| *due_at);
        let resting = self.resting.first().map(|(until, _)| *until);
        let times = [timer, self.put_offs.next(), self.scan_again_at, resting];
        let ahead = times.into_iter().flatten().all(|it| now < it);
        scanned && self.scan.is_none() && quiet && ahead
    }

    /// Whether something will wake this work. Of ordered work only the first of its lane counts:
    /// the rest waits for it.
    pub(in crate::dispatch) fn covers(&self, work: &Work) -> bool {
        let key = LaneKey::of(work);
        let lane = self.lanes.get(&key);
        self.cursor < DueCursor { due_at: work.due_at, position: work.position }
            || self.running.contains_key(&work.position)
            || self.timers.contains_key(&(work.due_at, work.position))
            || self.dozing.contains_key(&key)
            || lane.is_some_and(|it| it.more || it.contains(work.position))
            || self.put_offs.contains(work.position)
            || self.held_back.contains(&work.position)
            || self.scan_again_at.is_some()
    }

    /// Whether a lane waits because of what was put off in it.
    pub(in crate::dispatch) fn is_put_off(&self, key: LaneKey) -> bool {
        let max = if key.ordered { 1 } else { self.places(key) };
        max <= self.put_offs.count(key)
    }

    /// How many of a lane may be under way at once.
    pub(in crate::dispatch) fn places(&self, key: LaneKey) -> usize {
        self.own_places.get(&key.target).copied().unwrap_or(self.bounds.lane)
    }

    /// Whether a lane is about to be taken from.
    pub(in crate::dispatch) fn is_ready(&self, key: LaneKey) -> bool {
        self.lanes.get(&key).is_some_and(|it| it.queued)
    }

    /// Whether nothing of a lane is under way.
    pub(in crate::dispatch) fn is_at_rest(&self, key: LaneKey) -> bool {
        self.lanes.get(&key).is_none_or(|it| it.running == 0)
    }
}
