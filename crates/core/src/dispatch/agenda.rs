//! What the dispatcher knows: a pure structure without I/O or clock.
//!
//! Everything at or before the `cursor` (in due order) is known: it stands in a lane's window, or
//! its lane knows that there is more, or a timer waits for it, or it was put off. Everything behind
//! the cursor is found by a scan, at the latest when the cursor's time has come. Memory is bounded:
//! a timer that has no room pulls the cursor back. What was put off cannot be found like that,
//! because the store does not know its time: without room everything is scanned again then.
//!
//! Lanes take turns: each delivers one message, then it goes to the back.

mod finish;
mod look;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};

use steadfast_store::{DueCursor, EntityId, Notice, Position, Timestamp, Work};

pub(super) use self::finish::End;
use super::{
    lane::{Lane, LaneKey},
    put_offs::PutOffs,
};

/// How much the agenda holds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// Deliveries under way at once in one lane.
    pub(super) lane: usize,
    /// Due work held for one lane.
    pub(super) window: usize,
    /// Lanes.
    pub(super) lanes: usize,
    /// Timers.
    pub(super) timers: usize,
}

/// Targets that have places of their own, and how many.
pub(super) type OwnPlaces = HashMap<EntityId, usize>;

/// Where we know of work from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Source {
    Commit,
    Scan,
}

#[derive(Debug)]
pub(super) struct Agenda {
    bounds: Bounds,
    own_places: OwnPlaces,
    cursor: DueCursor,
    scan: Option<Scan>,
    lanes: HashMap<LaneKey, Lane>,
    ready: VecDeque<LaneKey>,
    /// The same of targets with places of their own: they do not wait for those of others.
    ready_apart: VecDeque<LaneKey>,
    hungry: VecDeque<LaneKey>,
    timers: BTreeMap<(Timestamp, Position), LaneKey>,
    put_offs: PutOffs,
    /// Delivered apart from all lanes.
    held_back: HashSet<Position>,
    /// Everything is scanned again then.
    scan_again_at: Option<Timestamp>,
    /// Lanes whose targets are in trouble, until then.
    resting: BTreeSet<(Timestamp, LaneKey)>,
    /// Ordered lanes whose first work is not due: only its timer is kept, the rest waits behind it.
    dozing: HashMap<LaneKey, (Timestamp, Position)>,
    running: HashMap<Position, LaneKey>,
    /// The last that was heard of work while it is under way: others may have settled or revived
    /// it.
    heard: HashMap<Position, Notice>,
}

/// What happened while a scan is under way, whose answer may not know of it.
#[derive(Debug)]
struct Scan {
    /// How far the cursor was pulled back.
    floor: DueCursor,
    /// What is gone.
    gone: HashSet<Position>,
}

impl Agenda {
    pub(super) fn new(bounds: Bounds, own_places: OwnPlaces) -> Self {
        Self {
            bounds,
            own_places,
            cursor: DueCursor::START,
            scan: None,
            lanes: HashMap::new(),
            ready: VecDeque::new(),
            ready_apart: VecDeque::new(),
            hungry: VecDeque::new(),
            timers: BTreeMap::new(),
            put_offs: PutOffs::default(),
            held_back: HashSet::new(),
            scan_again_at: None,
            resting: BTreeSet::new(),
            dozing: HashMap::new(),
            running: HashMap::new(),
            heard: HashMap::new(),
        }
    }

    /// Takes in what was just committed.
    pub(super) fn learn(&mut self, notice: &Notice, now: Timestamp) {
        match notice {
            Notice::Due(work) => self.place(work, Source::Commit, now),
            Notice::Unblocked(work) => self.unblock(work, now),
        }
    }

    /// Forgets what is known of the store: it is scanned anew.
    pub(super) fn start_over(&mut self) {
        // That the first of a lane was settled may be among what was not heard.
        for (_, timer) in self.dozing.drain() {
            self.timers.remove(&timer);
        }
        self.scan_again();
    }

    fn scan_again(&mut self) {
        // What is gone may be there again.
        self.scan.iter_mut().for_each(|it| it.gone.clear());
        self.lanes.values_mut().for_each(|it| it.gone.clear());
        self.pull_back(DueCursor::START);
    }

    /// Where to scan on, if it is time to. The answer goes to `scanned`.
    pub(super) fn wants_scan(&mut self, now: Timestamp) -> Option<DueCursor> {
        let near = self.cursor.due_at <= now || self.timers.len() < self.bounds.timers / 2;
        let room = self.lanes.len() < self.bounds.lanes;
        if self.scan.is_some() || self.cursor == DueCursor::END || !near || !room {
            return None;
        }
        self.scan = Some(Scan { floor: DueCursor::END, gone: HashSet::new() });
        Some(self.cursor)
    }

    /// Takes in a page of a scan; `complete` if nothing is behind it.
    pub(super) fn scanned(&mut self, page: &[Work], complete: bool, now: Timestamp) {
        let reached = match page.last() {
            _ if complete => DueCursor::END,
            Some(last) => DueCursor { due_at: last.due_at, position: last.position },
            None => DueCursor::END,
        };
        // First the cursor, then the rows: one without room pulls it back again.
        let scan = self.scan.take();
        let (floor, gone) = scan.map_or((DueCursor::END, HashSet::new()), |it| (it.floor, it.gone));
        self.cursor = reached.min(floor);
        let there = page.iter().filter(|it| !gone.contains(&it.position));
        there.for_each(|work| self.place(work, Source::Scan, now));
    }

    /// A scan failed; it will be wanted again.
    pub(super) fn scan_failed(&mut self) {
        self.scan = None;
    }

    /// The next lane whose window is to be filled from the store. The answer goes to `filled`.
    pub(super) fn wants_fill(&mut self) -> Option<(LaneKey, usize)> {
        while let Some(key) = self.hungry.pop_front() {
            let Some(lane) = self.lanes.get_mut(&key) else { continue };
            lane.hungry = false;
            if lane.is_hungry() {
                (lane.filling, lane.overflowed) = (true, false);
                // What is under way or put off is still in the store, in front of the rest.
                let known = lane.running + self.put_offs.count(key) + self.held_back.len();
                return Some((key, self.bounds.window + known));
            }
        }
        None
    }

    /// Takes in the backlog of a lane; `complete` if the store holds no more of it.
    pub(super) fn filled(&mut self, key: LaneKey, works: &[Work], complete: bool, now: Timestamp) {
        let Some(lane) = self.lanes.get_mut(&key) else { return };
        lane.filling = false;
        let gone = std::mem::take(&mut lane.gone);
        if std::mem::take(&mut lane.stale) {
            return self.review(key, now);
        }
        // Unordered work comes by due time: behind what is not due yet, nothing is due.
        let future = !key.ordered && works.last().is_some_and(|it| now < it.due_at);
        lane.more = !(complete || future) || lane.overflowed;
        for work in works {
            let position = work.position;
            let is_known = self.running.contains_key(&position)
                || lane.contains(position)
                || gone.contains(&position)
                || self.held_back.contains(&position)
                || self.put_offs.contains(position);
            if !is_known && (key.ordered || work.due_at <= now) {
                lane.window.push_back((work.position, work.due_at));
            }
        }
        if key.ordered {
            lane.window.make_contiguous().sort_unstable();
        }
        self.review(key, now);
    }

    /// A fill failed; it will be wanted again.
    pub(super) fn fill_failed(&mut self, key: LaneKey) {
        if let Some(lane) = self.lanes.get_mut(&key) {
            (lane.filling, lane.hungry) = (false, true);
            lane.gone.clear();
            self.hungry.push_back(key);
        }
    }

    /// Moves what has become due to its lane.
    pub(super) fn wake(&mut self, now: Timestamp) {
        while let Some(entry) = self.timers.first_entry()
            && entry.key().0 <= now
        {
            let ((due_at, position), key) = entry.remove_entry();
            if key.ordered {
                self.dozing.remove(&key);
                self.lanes.entry(key).or_default().more = true;
            } else if !self.running.contains_key(&position) {
                self.lanes.entry(key).or_default().add(position, due_at, self.bounds.window);
            }
            self.review(key, now);
        }
        while let Some((position, key)) = self.put_offs.pop(now) {
            self.dozing.remove(&key);
            let lane = self.lanes.entry(key).or_default();
            if key.ordered {
                lane.more |= lane.window.is_empty();
            } else {
                lane.add(position, now, self.bounds.window);
            }
            self.review(key, now);
        }
        while let Some((until, key)) = self.resting.first().copied()
            && until <= now
        {
            self.resting.pop_first();
            if let Some(lane) = self.lanes.get_mut(&key) {
                lane.rests_until.take_if(|it| *it <= now);
            }
            self.review(key, now);
        }
        if self.scan_again_at.take_if(|it| *it <= now).is_some() {
            self.scan_again();
        }
    }

    /// Whether the target of a lane has places of its own.
    fn is_apart(&self, key: LaneKey) -> bool {
        self.own_places.contains_key(&key.target)
    }

    /// The next message to deliver, round-robin between lanes, and whether it takes one of the
    /// places to load that all share. Without `room` there is none of those.
    pub(super) fn take(&mut self, room: bool, now: Timestamp) -> Option<(Position, LaneKey, bool)> {
        let next = |it: &mut Self| {
            let shared = |it: &mut Self| room.then(|| it.ready.pop_front()).flatten();
            it.ready_apart.pop_front().or_else(|| shared(it))
        };
        while let Some(key) = next(self) {
            let Some(lane) = self.lanes.get_mut(&key) else { continue };
            lane.queued = false;
            if lane.waits() {
                continue;
            }
            // Since it was queued, other work may have moved to its front.
            let due = lane.window.pop_front_if(|(_, due_at)| *due_at <= now);
            if let Some((position, _)) = due {
                lane.running += 1;
                self.running.insert(position, key);
            }
            self.review(key, now);
            if let Some((position, _)) = due {
                return Some((position, key, !self.is_apart(key)));
            }
        }
        None
    }

    fn place(&mut self, work: &Work, source: Source, now: Timestamp) {
        if self.held_back.contains(&work.position) {
            return;
        }
        if self.running.contains_key(&work.position) {
            // Also a claim from outside: if that consumer fails, it is ours again.
            if work.claim.is_none_or(|(lease, _)| lease.holder == 0) {
                self.heard.insert(work.position, Notice::Due(*work));
            }
            return;
        }
        let key = LaneKey::of(work);
        match source {
            // It waits for its time.
            Source::Scan if self.put_offs.contains(work.position) => return,
            Source::Scan => {}
            // It was written since it was put off, or since it was gone.
            Source::Commit => {
                self.put_offs.remove(work.position);
                self.scan.iter_mut().for_each(|it| _ = it.gone.remove(&work.position));
                self.lanes
                    .get_mut(&key)
                    .into_iter()
                    .for_each(|it| _ = it.gone.remove(&work.position));
            }
        }
        if !key.ordered && now < work.due_at {
            return self.set_timer(work.due_at, work.position, key);
        }
        // With the cursor at the end every ordered lane that has work is known to us, so new work
        // of another lane is its first. What a scan finds may have more of its lane before the
        // cursor.
        let at_end =
            self.cursor == DueCursor::END && self.scan.is_none() && self.scan_again_at.is_none();
        let mut is_first = at_end && source == Source::Commit;
        if let Some(first) = self.dozing.get(&key).copied() {
            if first.1 < work.position {
                return;
            }
            self.dozing.remove(&key);
            self.timers.remove(&first);
            self.put_offs.remove(first.1);
            is_first = false;
        }
        let is_full = self.bounds.lanes <= self.lanes.len() && !self.is_apart(key);
        if !self.lanes.contains_key(&key) && is_full {
            return self.pull_back(DueCursor { due_at: work.due_at, position: work.position - 1 });
        }
        let window = self.bounds.window;
        let lane = self
            .lanes
            .entry(key)
            .or_insert_with(|| Lane { more: key.ordered && !is_first, ..Lane::default() });
        if key.ordered {
            lane.add_last(work.position, work.due_at, window);
        } else {
            lane.add(work.position, work.due_at, window);
        }
        self.review(key, now);
    }

    /// The first work of an ordered lane may be gone: look at what comes behind it.
    fn unblock(&mut self, work: &Work, now: Timestamp) {
        if self.running.contains_key(&work.position) {
            self.heard.insert(work.position, Notice::Unblocked(*work));
            return;
        }
        let key = LaneKey::of(work);
        match self.dozing.get(&key).copied() {
            Some(first) if first.1 != work.position => return,
            Some(first) => {
                self.dozing.remove(&key);
                self.timers.remove(&first);
            }
            None => {}
        }
        self.put_offs.remove(work.position);
        let lane = self.lanes.entry(key).or_insert_with(|| Lane { more: true, ..Lane::default() });
        lane.window.retain(|(position, _)| *position != work.position);
        lane.stale |= lane.filling;
        self.review(key, now);
    }

    /// Puts a lane where it belongs now: ready, hungry, waiting for a timer, or gone.
    fn review(&mut self, key: LaneKey, now: Timestamp) {
        let (is_put_off, is_apart) = (self.is_put_off(key), self.is_apart(key));
        let places = self.places(key).saturating_sub(self.put_offs.count(key));
        let Some(lane) = self.lanes.get_mut(&key) else { return };
        if lane.is_idle() {
            self.lanes.remove(&key);
            return;
        }
        if is_put_off || lane.waits() {
            return;
        }
        if lane.is_hungry() {
            if !std::mem::replace(&mut lane.hungry, true) {
                self.hungry.push_back(key);
            }
            return;
        }
        // A lane must not go away while the store is asked for it: a late answer would count as
        // new.
        if key.ordered && lane.filling {
            return;
        }
        let room = if key.ordered { lane.running == 0 } else { lane.running < places };
        let Some(&(position, due_at)) = lane.window.front() else { return };
        if !room || lane.queued {
            return;
        }
        if due_at <= now {
            lane.queued = true;
            let ready = if is_apart { &mut self.ready_apart } else { &mut self.ready };
            ready.push_back(key);
        } else {
            self.lanes.remove(&key);
            self.dozing.insert(key, (due_at, position));
            self.set_timer(due_at, position, key);
        }
    }

    fn set_timer(&mut self, due_at: Timestamp, position: Position, key: LaneKey) {
        self.timers.insert((due_at, position), key);
        if self.bounds.timers < self.timers.len() {
            if let Some((_, dropped)) = self.timers.pop_last() {
                self.dozing.remove(&dropped);
            }
            let last = self.timers.keys().next_back().copied();
            let (due_at, position) = last.unwrap_or((Timestamp::MIN, 0));
            self.pull_back(DueCursor { due_at, position });
        }
    }

    fn pull_back(&mut self, to: DueCursor) {
        self.cursor = self.cursor.min(to);
        if let Some(scan) = &mut self.scan {
            scan.floor = scan.floor.min(to);
        }
    }
}
