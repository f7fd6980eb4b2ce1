//! All work that is due or will be, by target: a pure structure without I/O or clock.
//!
//! Work up to the *horizon*, in due order, is known: it is in the window of its target, or a timer
//! waits for it. Work behind the horizon is found by a scan, at the latest when the time of the
//! horizon has come. Memory is bounded: a timer or a target without room pulls the horizon back.
//! A target takes room until it delivers or waits for a permit: permits and the queues of their
//! pools are bounded as well, each kind of work by itself, so one kind cannot fill the room.
//!
//! Only work of the shards that this node owns is taken in. Deliveries of a lost shard that are in
//! flight end here, and nothing else of it begins. A gained shard is found by a scan.
//!
//! An ordered target whose first row is not due is *dozing*: only the timer of that row is kept.
//! Targets take turns: each delivers one row, then goes to the back.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};

use steadfast_store::{DueCursor, EntityId, Notice, Position, Timestamp, Work};

use super::{
    shards::ShardSet,
    window::{self, Entry, Order, Rest, Window},
};

/// The ordered or the unordered work of a target: they do not wait for each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct TargetKey {
    pub(crate) target: EntityId,
    pub(crate) ordered: bool,
}

impl TargetKey {
    pub(crate) fn of(work: &Work) -> Self {
        Self { target: work.target, ordered: work.ordered }
    }

    fn order(self) -> Order {
        if self.ordered { Order::Position } else { Order::Due }
    }
}

/// Limits of memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// Maximum deliveries in flight to one target.
    pub(crate) in_flight: usize,
    /// Rows of one target that are ready.
    pub(crate) window: usize,
    /// Targets that neither deliver nor wait for a permit.
    pub(crate) targets: usize,
    pub(crate) timers: usize,
}

/// Targets that have limits of their own.
pub(crate) type OwnLimits = HashMap<EntityId, usize>;

/// The end of a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The row is settled, or belongs to another owner.
    Gone,
    /// It is due again at this time, which the store has.
    Again(Timestamp),
    /// It is retried at this time, which the store does not have.
    Deferred(Timestamp),
    /// Its target could not be used and pauses until then. The row is the next.
    Rest(Timestamp),
    /// Its pool is full. The row is the next when its target is unblocked.
    NoRoom,
    /// This program has no handler for it. It is left for a program that has one.
    Unserved,
}

/// The source of a row.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Found {
    Commit,
    Scan,
}

#[derive(Debug)]
pub(crate) struct Index {
    bounds: Bounds,
    shards: ShardSet,
    own_limits: OwnLimits,
    horizon: DueCursor,
    scan: Option<OpenScan>,
    targets: HashMap<TargetKey, Target>,
    /// Those that take room.
    in_room: HashSet<TargetKey>,
    timers: BTreeMap<(Timestamp, Position), (TargetKey, u32)>,
    /// When the timer of a row fires.
    timed: HashMap<Position, Timestamp>,
    /// The first row of each ordered target that waits for its time.
    dozing: HashMap<TargetKey, (Timestamp, Position)>,
    /// When deferrals and pauses of targets end.
    wakes: BTreeSet<(Timestamp, TargetKey)>,
    ready: VecDeque<TargetKey>,
    /// The same of targets with limits of their own: they do not wait for the others.
    ready_apart: VecDeque<TargetKey>,
    reads: VecDeque<TargetKey>,
    /// An ordered target was left in the store: an unknown one may have rows before.
    has_left: bool,
}

#[derive(Debug)]
struct Target {
    window: Window,
    /// It is in the queue of targets that can deliver.
    is_ready: bool,
    /// It is in the queue of targets to be read.
    is_queued: bool,
    /// Its pool is full.
    is_blocked: bool,
    rests_until: Option<Timestamp>,
}

/// A scan in progress.
#[derive(Debug)]
struct OpenScan {
    /// The lowest cursor that the horizon was pulled back to.
    floor: DueCursor,
    /// Rows that ended or were written: the answer may have them as they were.
    changed: HashSet<Position>,
}

impl Target {
    fn new(window: Window) -> Self {
        Self { window, is_ready: false, is_queued: false, is_blocked: false, rests_until: None }
    }

    fn waits(&self) -> bool {
        self.is_blocked || self.rests_until.is_some()
    }

    fn takes_room(&self) -> bool {
        !self.is_blocked && self.window.running() == 0
    }
}

impl Index {
    /// An index without shards. [`Self::own`] gives it some.
    pub(crate) fn new(bounds: Bounds, own_limits: OwnLimits) -> Self {
        Self {
            bounds,
            shards: ShardSet::NONE,
            own_limits,
            horizon: DueCursor::START,
            scan: None,
            targets: HashMap::new(),
            in_room: HashSet::new(),
            timers: BTreeMap::new(),
            timed: HashMap::new(),
            dozing: HashMap::new(),
            wakes: BTreeSet::new(),
            ready: VecDeque::new(),
            ready_apart: VecDeque::new(),
            reads: VecDeque::new(),
            has_left: false,
        }
    }

    /// Sets the shards that this node owns from now on.
    pub(crate) fn own(&mut self, shards: ShardSet, now: Timestamp) {
        if !shards.is_subset_of(self.shards) {
            self.pull_back(DueCursor::START);
        }
        self.shards = shards;
        self.ready.retain(|it| shards.has(it.target));
        self.ready_apart.retain(|it| shards.has(it.target));
        self.reads.retain(|it| shards.has(it.target));
        self.dozing.retain(|it, _| shards.has(it.target));
        self.timers.retain(|(_, position), (key, _)| {
            let is_owned = shards.has(key.target);
            if !is_owned {
                self.timed.remove(position);
            }
            is_owned
        });
        let is_lost = |it: &TargetKey| !shards.has(it.target);
        let lost: Vec<TargetKey> = self.targets.keys().copied().filter(is_lost).collect();
        for key in lost {
            if let Some(target) = self.targets.get_mut(&key) {
                (target.is_ready, target.is_queued, target.rests_until) = (false, false, None);
                target.window.disown();
            }
            self.review(key, now);
        }
        // Gained targets that had deliveries in flight are read like others.
        let kept: Vec<TargetKey> = self.targets.keys().copied().collect();
        kept.into_iter().for_each(|it| self.review(it, now));
    }

    /// Takes in a notice of a commit.
    pub(crate) fn learn(&mut self, notice: &Notice, now: Timestamp) {
        match notice {
            Notice::Due(work) => self.place(work, Found::Commit, now),
            Notice::Unblocked(work) => self.settled(work, now),
        }
    }

    /// Some notices were lost: everything is scanned again.
    pub(crate) fn start_over(&mut self, now: Timestamp) {
        // A first row may have been settled, and one before it revived.
        for (_, (_, position)) in std::mem::take(&mut self.dozing) {
            self.cancel_timer(position);
        }
        self.targets.values_mut().for_each(|it| it.window.doubt());
        let mut ordered: Vec<TargetKey> =
            self.targets.keys().copied().filter(|it| it.ordered).collect();
        ordered.sort_unstable();
        for key in ordered {
            self.targets.entry(key).and_modify(|it| it.window.forget());
            self.review(key, now);
        }
        self.scan.iter_mut().for_each(|it| it.changed.clear());
        self.pull_back(DueCursor::START);
    }

    /// The cursor to scan from, if a scan is needed. The result goes to `scanned`.
    pub(crate) fn begin_scan(&mut self, now: Timestamp) -> Option<DueCursor> {
        let is_owner = self.shards != ShardSet::NONE;
        let is_near = self.horizon.due_at <= now || self.timers.len() < self.bounds.timers / 2;
        let has_room = self.in_room.len() < self.bounds.targets;
        let is_wanted = is_owner && is_near && has_room;
        if self.scan.is_some() || self.horizon == DueCursor::END || !is_wanted {
            return None;
        }
        self.scan = Some(OpenScan { floor: DueCursor::END, changed: HashSet::new() });
        Some(self.horizon)
    }

    /// Takes in a page of a scan; `is_last` if the store has no more rows.
    pub(crate) fn scanned(&mut self, page: &[Work], is_last: bool, now: Timestamp) {
        let reached = match page.last() {
            Some(last) if !is_last => DueCursor { due_at: last.due_at, position: last.position },
            Some(_) | None => DueCursor::END,
        };
        // First the horizon, then the rows: a row without capacity pulls it back again.
        let Some(OpenScan { floor, changed }) = self.scan.take() else { return };
        self.horizon = reached.min(floor);
        for work in page.iter().filter(|it| !changed.contains(&it.position)) {
            self.place(work, Found::Scan, now);
        }
    }

    /// A scan failed; it is repeated.
    pub(crate) fn scan_failed(&mut self) {
        self.scan = None;
    }

    /// The next target to be read, and the cursor. The result goes to `read`.
    pub(crate) fn begin_read(&mut self, now: Timestamp) -> Option<(TargetKey, DueCursor)> {
        while let Some(key) = self.reads.pop_front() {
            let Some(target) = self.targets.get_mut(&key) else { continue };
            target.is_queued = false;
            if let Some(after) = target.window.begin_read(1, now) {
                return Some((key, after));
            }
        }
        None
    }

    /// Takes in rows of a target, in its order; `is_last` if the store has no more of them.
    pub(crate) fn read(&mut self, key: TargetKey, works: &[Work], is_last: bool, now: Timestamp) {
        let Some(target) = self.targets.get_mut(&key) else { return };
        if !self.shards.has(key.target) {
            target.window.read_failed();
            return self.review(key, now);
        }
        // Behind a row that is not due yet, by due time, nothing is due. Timers wait for those.
        let is_over = !key.ordered && works.last().is_some_and(|it| now < it.due_at);
        let rest = if is_last || is_over { Rest::Nothing } else { Rest::More };
        let is_due = |it: &&Work| key.ordered || it.due_at <= now;
        let rows: Vec<Entry> = works.iter().filter(is_due).map(Entry::of).collect();
        target.window.read(&rows, now, rest);
        self.review(key, now);
    }

    /// A read failed; it is repeated.
    pub(crate) fn read_failed(&mut self, key: TargetKey, now: Timestamp) {
        if let Some(target) = self.targets.get_mut(&key) {
            target.window.read_failed();
            self.review(key, now);
        }
    }

    /// Moves rows that have become due to their windows.
    pub(crate) fn wake(&mut self, now: Timestamp) {
        while let Some(entry) = self.timers.first_entry()
            && entry.key().0 <= now
        {
            let ((due_at, position), (key, attempts)) = entry.remove_entry();
            self.timed.remove(&position);
            if key.ordered {
                self.dozing.remove(&key);
                self.unread_target(key);
                self.review(key, now);
            } else if !self.is_late(key, position) {
                self.put(key, Entry { position, due_at, attempts }, Found::Scan, now);
            }
        }
        while let Some((until, key)) = self.wakes.first().copied()
            && until <= now
        {
            self.wakes.pop_first();
            let Some(target) = self.targets.get_mut(&key) else { continue };
            target.rests_until.take_if(|it| *it <= now);
            target.window.undefer(now);
            self.review(key, now);
        }
    }

    /// The next row to deliver, round-robin over targets, and whether it takes one of the shared
    /// load permits. Without `room` none is free.
    pub(crate) fn take(
        &mut self,
        room: bool,
        now: Timestamp,
    ) -> Option<(Position, TargetKey, bool)> {
        let next = |it: &mut Self| {
            let shared = |it: &mut Self| room.then(|| it.ready.pop_front()).flatten();
            it.ready_apart.pop_front().or_else(|| shared(it))
        };
        while let Some(key) = next(self) {
            let limit = self.limit(key);
            let Some(target) = self.targets.get_mut(&key) else { continue };
            target.is_ready = false;
            // Since it was queued, another row may have become the first.
            let is_due = target.window.front().is_some_and(|it| it.due_at <= now);
            if target.waits() || limit <= target.window.busy() || !is_due {
                self.review(key, now);
                continue;
            }
            let taken = target.window.take(1, |_| true);
            self.review(key, now);
            if let Some(entry) = taken.first() {
                return Some((entry.position, key, !self.is_apart(key)));
            }
        }
        None
    }

    /// Holds rows that are to be delivered apart from all others. Each ends like a delivery.
    pub(crate) fn hold(&mut self, works: &[Work]) {
        for work in works {
            let (key, window) = (TargetKey::of(work), self.bounds.window);
            let empty = || Target::new(Window::empty(key.order(), window));
            self.targets.entry(key).or_insert_with(empty).window.hold(Entry::of(work));
            self.count_room(key);
        }
    }

    /// A delivery ended.
    pub(crate) fn finished(&mut self, key: TargetKey, at: Position, end: End, now: Timestamp) {
        let Some(target) = self.targets.get_mut(&key) else { return };
        if !self.shards.has(key.target) {
            // The owner of the shard knows from the store what follows.
            target.window.finished(at, window::End::Gone);
            return self.review(key, now);
        }
        let end = match end {
            End::Gone => window::End::Gone,
            End::Again(due_at) => window::End::Again(due_at),
            End::Deferred(until) => {
                self.wakes.insert((until, key));
                window::End::Deferred(until)
            }
            End::Rest(until) => {
                target.rests_until = target.rests_until.max(Some(until));
                self.wakes.insert((until, key));
                window::End::Back
            }
            End::NoRoom => {
                target.is_blocked = true;
                window::End::Back
            }
            // The others wait for it.
            End::Unserved if key.ordered && !target.window.has_before(at) => {
                self.has_left = true;
                self.targets.remove(&key);
                return self.count_room(key);
            }
            End::Unserved if key.ordered => {
                target.window.forget();
                window::End::Back
            }
            End::Unserved => window::End::Gone,
        };
        let placed = target.window.finished(at, end);
        // A row that is kept here is unchanged in the store.
        if !matches!(end, window::End::Back | window::End::Deferred(_)) {
            self.scan.iter_mut().for_each(|it| _ = it.changed.insert(at));
        }
        for entry in placed.into_iter().flatten() {
            let target = self.targets.get_mut(&key).filter(|_| !key.ordered);
            match target {
                // The store may have another due time by now: the row must not be lost.
                Some(target) if entry.due_at <= now => target.window.put_back(entry),
                Some(_) | None => self.put(key, entry, Found::Commit, now),
            }
        }
        self.review(key, now);
    }

    /// A pool has a permit for a blocked target; `false` if the target needs none any more.
    pub(crate) fn unblock(&mut self, key: TargetKey, now: Timestamp) -> bool {
        let Some(target) = self.targets.get_mut(&key) else { return false };
        target.is_blocked = false;
        self.review(key, now);
        self.is_ready(key)
    }

    /// Whether all of a target can be found in the store.
    pub(crate) fn can_leave(&self, key: TargetKey) -> bool {
        let is_stored = |it: &Window| it.in_flight() + it.deferred() == 0 && !it.is_reading();
        self.targets.get(&key).is_some_and(|it| is_stored(&it.window))
    }

    /// Leaves a target in the store: the queue of its pool is full.
    pub(crate) fn leave(&mut self, key: TargetKey) {
        self.has_left |= key.ordered;
        if self.targets.remove(&key).is_some_and(|it| it.is_ready) {
            self.ready.retain(|it| *it != key);
            self.ready_apart.retain(|it| *it != key);
        }
        self.count_room(key);
    }

    /// A pool whose queue was full has capacity: targets that were left are scanned for.
    pub(crate) fn scan_again(&mut self) {
        self.pull_back(DueCursor::START);
    }

    fn place(&mut self, work: &Work, found: Found, now: Timestamp) {
        let (key, entry) = (TargetKey::of(work), Entry::of(work));
        if !self.shards.has(key.target) {
            return;
        }
        if let Some(target) = self.targets.get_mut(&key) {
            // A claim of this process needs no notice; one from outside does, because it may
            // expire.
            let is_ours = work.claim.is_some_and(|(lease, _)| lease.holder != 0);
            if is_ours && target.window.is_in_flight(entry.position) {
                return;
            }
            // It waits for its time, unless it was written since.
            if found == Found::Scan && target.window.refresh_deferred(entry) {
                return;
            }
            if !target.window.learn(entry) {
                return;
            }
        }
        if found == Found::Commit {
            self.scan.iter_mut().for_each(|it| _ = it.changed.insert(entry.position));
        }
        self.put(key, entry, found, now);
    }

    /// Puts a row that is not in flight where it belongs.
    fn put(&mut self, key: TargetKey, entry: Entry, found: Found, now: Timestamp) {
        if !key.ordered {
            self.cancel_timer(entry.position);
            if now < entry.due_at {
                return self.set_timer(entry, key);
            }
        }
        // With the horizon at the end every ordered target with work is known, so that new work
        // of another one is its first. A row that a scan finds may have others before it.
        let is_at_end = self.horizon == DueCursor::END && self.scan.is_none() && !self.has_left;
        let mut is_first = is_at_end && found == Found::Commit;
        if let Some(first) = self.dozing.get(&key).copied() {
            if first.1 < entry.position {
                return;
            }
            self.dozing.remove(&key);
            self.cancel_timer(first.1);
            is_first = false;
        }
        let is_full = self.bounds.targets <= self.in_room.len() && !self.is_apart(key);
        if !self.targets.contains_key(&key) && is_full {
            let (due_at, position) = (entry.due_at, entry.position - 1);
            return self.pull_back(DueCursor { due_at, position });
        }
        if key.ordered && !is_first {
            self.unread_target(key);
        }
        let empty = || Target::new(Window::empty(key.order(), self.bounds.window));
        self.targets.entry(key).or_insert_with(empty).window.place(entry, now);
        self.review(key, now);
    }

    /// Makes a target that has to be read, unless it is known.
    fn unread_target(&mut self, key: TargetKey) {
        let unread = || Target::new(Window::unread(key.order(), self.bounds.window));
        self.targets.entry(key).or_insert_with(unread);
    }

    /// A row was settled by another commit: an ordered target may continue with the next.
    fn settled(&mut self, work: &Work, now: Timestamp) {
        let key = TargetKey::of(work);
        if !self.shards.has(key.target) {
            return;
        }
        self.scan.iter_mut().for_each(|it| _ = it.changed.insert(work.position));
        match self.dozing.get(&key).copied() {
            Some(first) if first.1 != work.position => return,
            Some(first) => {
                self.dozing.remove(&key);
                self.cancel_timer(first.1);
            }
            None => {}
        }
        self.unread_target(key);
        if let Some(target) = self.targets.get_mut(&key) {
            target.window.settled(work.position);
        }
        self.review(key, now);
    }

    /// Puts a target where it belongs now, and counts whether it takes room.
    fn review(&mut self, key: TargetKey, now: Timestamp) {
        self.arrange(key, now);
        self.count_room(key);
    }

    fn count_room(&mut self, key: TargetKey) {
        if self.targets.get(&key).is_some_and(Target::takes_room) {
            self.in_room.insert(key);
        } else {
            self.in_room.remove(&key);
        }
    }

    /// Makes a target ready, to be read, dozing, or removes it.
    fn arrange(&mut self, key: TargetKey, now: Timestamp) {
        let (limit, is_apart) = (self.limit(key), self.is_apart(key));
        let is_lost = !self.shards.has(key.target);
        let Some(target) = self.targets.get_mut(&key) else { return };
        let is_over = target.window.in_flight() == 0 && !target.window.is_reading();
        if target.window.is_idle() || is_lost && is_over {
            self.targets.remove(&key);
            return;
        }
        if is_lost {
            return;
        }
        if target.waits() || limit <= target.window.deferred() {
            return;
        }
        if target.window.would_read(1, now) {
            if !std::mem::replace(&mut target.is_queued, true) {
                self.reads.push_back(key);
            }
            return;
        }
        // An ordered target must not go away while it is read: a late answer would count as new.
        let has_room = target.window.busy() < limit && !(key.ordered && target.window.is_reading());
        let Some(&entry) = target.window.front() else { return };
        if !has_room || target.is_ready {
            return;
        }
        if entry.due_at <= now {
            target.is_ready = true;
            let ready = if is_apart { &mut self.ready_apart } else { &mut self.ready };
            ready.push_back(key);
        } else if key.ordered {
            self.targets.remove(&key);
            self.dozing.insert(key, (entry.due_at, entry.position));
            self.set_timer(entry, key);
        }
    }

    fn set_timer(&mut self, entry: Entry, key: TargetKey) {
        self.timers.insert((entry.due_at, entry.position), (key, entry.attempts));
        self.timed.insert(entry.position, entry.due_at);
        if self.bounds.timers < self.timers.len() {
            if let Some(((_, position), (dropped, _))) = self.timers.pop_last() {
                self.timed.remove(&position);
                self.dozing.remove(&dropped);
            }
            let last = self.timers.keys().next_back().copied();
            let (due_at, position) = last.unwrap_or((Timestamp::MIN, 0));
            self.pull_back(DueCursor { due_at, position });
        }
    }

    fn cancel_timer(&mut self, position: Position) {
        if let Some(due_at) = self.timed.remove(&position) {
            self.timers.remove(&(due_at, position));
        }
    }

    fn pull_back(&mut self, to: DueCursor) {
        self.horizon = self.horizon.min(to);
        if let Some(scan) = &mut self.scan {
            scan.floor = scan.floor.min(to);
        }
    }

    /// Maximum rows of a target in flight.
    fn limit(&self, key: TargetKey) -> usize {
        let limit = self.own_limits.get(&key.target).copied().unwrap_or(self.bounds.in_flight);
        if key.ordered { 1 } else { limit }
    }

    fn is_apart(&self, key: TargetKey) -> bool {
        self.own_limits.contains_key(&key.target)
    }

    /// Whether a timer was overtaken: its row is in flight, or waits for another time.
    fn is_late(&self, key: TargetKey, position: Position) -> bool {
        let is_known = |it: &Window| it.is_in_flight(position) || it.is_deferred(position);
        self.targets.get(&key).is_some_and(|it| is_known(&it.window))
    }

    /// The time at which to run again, if nothing happens before. Only future times: due work waits
    /// for capacity, and an end frees capacity.
    pub(crate) fn wake_at(&self, now: Timestamp) -> Option<Timestamp> {
        let timer = self.timers.keys().next().map(|(due_at, _)| *due_at);
        let horizon = (self.horizon != DueCursor::END).then_some(self.horizon.due_at);
        let wake = self.wakes.first().map(|(until, _)| *until);
        [timer, wake, horizon.filter(|at| now < *at)].into_iter().flatten().min()
    }

    /// Whether nothing is in flight, nothing known is due and nothing has to be read now.
    pub(crate) fn is_settled(&self, now: Timestamp) -> bool {
        let has_none = self.shards == ShardSet::NONE;
        let is_scanned = has_none || self.horizon == DueCursor::END || now < self.horizon.due_at;
        let is_quiet = |(key, it): (&TargetKey, &Target)| {
            let waits = it.rests_until.is_some() || self.limit(*key) <= it.window.deferred();
            let has_more = it.window.has_more() || it.window.is_reading();
            it.window.in_flight() == 0 && !it.is_ready && (!has_more || waits)
        };
        let timer = self.timers.keys().next().map(|(due_at, _)| *due_at);
        let wake = self.wakes.first().map(|(until, _)| *until);
        let is_ahead = [timer, wake].into_iter().flatten().all(|it| now < it);
        is_scanned && self.scan.is_none() && is_ahead && self.targets.iter().all(is_quiet)
    }

    /// Whether a timer, a window or a scan covers this work. Only the first row of an ordered
    /// target counts: the others wait for it. Work of other shards is covered by their owners.
    pub(crate) fn covers(&self, work: &Work) -> bool {
        let (key, entry) = (TargetKey::of(work), Entry::of(work));
        !self.shards.has(key.target)
            || self.horizon < DueCursor { due_at: work.due_at, position: work.position }
            || self.timers.contains_key(&(work.due_at, work.position))
            || self.dozing.contains_key(&key)
            || self.targets.get(&key).is_some_and(|it| it.window.covers(&entry))
    }

    /// Whether a target is about to deliver.
    pub(crate) fn is_ready(&self, key: TargetKey) -> bool {
        self.targets.get(&key).is_some_and(|it| it.is_ready)
    }

    /// Whether a target waits for its pool, and none of its rows in flight could be requeued.
    pub(crate) fn is_blocked(&self, key: TargetKey) -> bool {
        self.targets.get(&key).is_some_and(|it| it.is_blocked && it.window.running() == 0)
    }

    /// Whether no row of a target is in flight.
    pub(crate) fn is_at_rest(&self, key: TargetKey) -> bool {
        self.targets.get(&key).is_none_or(|it| it.window.running() == 0)
    }
}

#[cfg(test)]
#[path = "model.rs"]
mod model;
