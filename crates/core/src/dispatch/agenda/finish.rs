//! How deliveries end.

use steadfast_store::{Notice, Position, Timestamp};

use super::{Agenda, Source};
use crate::dispatch::lane::LaneKey;

/// How a delivery ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::dispatch) enum End {
    /// The message is settled, or it is not ours.
    Gone,
    /// It is due again then, and the store says so.
    Again(Timestamp),
    /// It is looked at again then, and the store does not know.
    PutOff(Timestamp),
    /// Its target is in trouble and waits until then; the message is the next.
    Rest(Timestamp),
    /// There is no place for it; the message is the next when its lane is unblocked.
    NoRoom,
}

impl Agenda {
    /// A delivery ended.
    pub(in crate::dispatch) fn finished(&mut self, position: Position, end: End, now: Timestamp) {
        let Some(key) = self.running.remove(&position) else { return };
        let heard = self.heard.remove(&position);
        let lane = self.lanes.entry(key).or_default();
        lane.running -= 1;
        lane.blocked |= end == End::NoRoom;
        if let End::Rest(until) = end {
            lane.rests_until = lane.rests_until.max(Some(until));
            self.resting.insert((until, key));
        }
        // What was written since counts, unless it is what this delivery wrote itself.
        let end = match (heard, end) {
            (Some(Notice::Unblocked(_)), _) => End::Gone,
            (Some(Notice::Due(_)), End::PutOff(_) | End::Rest(_) | End::NoRoom) => End::Gone,
            (Some(Notice::Due(_)) | None, end) => end,
        };
        match end {
            End::Gone => {
                if lane.filling {
                    lane.gone.insert(position);
                }
                self.scan.iter_mut().for_each(|it| _ = it.gone.insert(position));
            }
            End::Again(due_at) if key.ordered => lane.window.push_front((position, due_at)),
            End::Again(due_at) if due_at <= now => lane.add(position, due_at, self.bounds.window),
            End::Again(due_at) => self.set_timer(due_at, position, key),
            End::PutOff(until) => self.put_off(position, until, key, now),
            End::Rest(_) | End::NoRoom => lane.put_back(position, now),
        }
        self.review(key, now);
        if let (End::Gone, Some(Notice::Due(work))) = (end, heard) {
            self.place(&work, Source::Commit, now);
        }
    }

    fn put_off(&mut self, position: Position, until: Timestamp, key: LaneKey, now: Timestamp) {
        if key.ordered
            && let Some(lane) = self.lanes.get_mut(&key)
        {
            // The rest of its lane waits behind it, and takes no room meanwhile.
            lane.window.push_front((position, now));
            if !lane.filling {
                self.lanes.remove(&key);
                self.dozing.insert(key, (until, position));
            }
        }
        self.put_offs.insert(position, until, key);
        if self.bounds.timers < self.put_offs.len()
            && let Some((until, evicted)) = self.put_offs.evict()
        {
            self.dozing.remove(&evicted);
            let at = self.scan_again_at.map_or(until, |it| it.min(until));
            self.scan_again_at = Some(at);
        }
    }

    /// Leaves these to be delivered apart from all lanes.
    pub(in crate::dispatch) fn hold_back(&mut self, all: impl IntoIterator<Item = Position>) {
        self.held_back.extend(all);
    }

    /// One of them was delivered so: from now on it is like any other.
    pub(in crate::dispatch) fn let_in(
        &mut self,
        position: Position,
        key: LaneKey,
        end: End,
        now: Timestamp,
    ) {
        self.held_back.remove(&position);
        self.running.insert(position, key);
        self.lanes.entry(key).or_default().running += 1;
        // Nobody was refused a place.
        let end = if end == End::NoRoom { End::PutOff(now) } else { end };
        self.finished(position, end, now);
    }

    /// Whether a lane waits for a place, and nothing of it is under way that could come back.
    pub(in crate::dispatch) fn is_blocked(&self, key: LaneKey) -> bool {
        self.lanes.get(&key).is_some_and(|it| it.blocked && it.running == 0)
    }

    /// A lane has a place again; `false` if it needs none any more.
    pub(in crate::dispatch) fn unblock_lane(&mut self, key: LaneKey, now: Timestamp) -> bool {
        let Some(lane) = self.lanes.get_mut(&key) else { return false };
        lane.blocked = false;
        self.review(key, now);
        self.is_ready(key)
    }
}
