//! The index against a model of a store: notices that are late or lost, stale or failed reads,
//! little memory, operators, changes of shards, and random order. In every order, no row is lost,
//! none is in flight twice, and everything is delivered in the end.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use steadfast_store::{EntityId, Entropy, SeededEntropy};

use super::*;

/// A store and an index, with reads and notices in flight.
struct World {
    chance: SeededEntropy,
    now: Timestamp,
    last: Position,
    store: BTreeMap<Position, Work>,
    index: Index,
    notices: VecDeque<Notice>,
    scan: Option<Vec<Work>>,
    reads: Vec<(TargetKey, Vec<Work>)>,
    running: BTreeMap<Position, TargetKey>,
    /// Deliveries that have ended, before the index has processed their ends.
    ended: Vec<(Position, TargetKey, End)>,
    /// Settled rows, which an operator may revive.
    settled: Vec<Work>,
    /// Held by an operator, or delivered apart.
    held: BTreeMap<Position, TargetKey>,
    /// Targets that wait for a pool.
    blocked: Vec<TargetKey>,
    /// Targets that were left in the store, because the queue of their pool was full.
    left: BTreeSet<TargetKey>,
    /// Rows that this program has no handler for.
    unserved: BTreeSet<Position>,
    delivered: usize,
    /// Deliveries of other targets since a target became ready.
    overtaken: BTreeMap<TargetKey, BTreeMap<TargetKey, usize>>,
}

const PAGE: usize = 5;

fn target(number: u8) -> EntityId {
    EntityId([number; 16])
}

impl World {
    fn new(seed: u64) -> Self {
        let chance = SeededEntropy::new(seed);
        let pick = |max: u64| 1 + (chance.next() % max) as usize;
        let (in_flight, window) = (pick(3), pick(3));
        let bounds = Bounds { in_flight, window, targets: 1 + pick(6), timers: 1 + pick(8) };
        let mut index = Index::new(bounds, OwnLimits::from([(target(0), pick(4))]));
        index.own(ShardSet::ALL, Timestamp(0));
        Self {
            index,
            chance,
            now: Timestamp(0),
            last: 0,
            store: BTreeMap::new(),
            notices: VecDeque::new(),
            scan: None,
            reads: Vec::new(),
            running: BTreeMap::new(),
            ended: Vec::new(),
            settled: Vec::new(),
            held: BTreeMap::new(),
            blocked: Vec::new(),
            left: BTreeSet::new(),
            unserved: BTreeSet::new(),
            delivered: 0,
            overtaken: BTreeMap::new(),
        }
    }

    fn below(&self, max: u64) -> u64 {
        self.chance.next() % max
    }

    fn is_one_in(&self, number: u64) -> bool {
        self.below(number) == 0
    }

    fn due(&self) -> Timestamp {
        let ahead = if self.is_one_in(2) { 0 } else { self.below(20) };
        Timestamp(self.now.0 + ahead as i64)
    }

    fn write(&mut self, work: Work) {
        self.store.insert(work.position, work);
        self.notices.push_back(Notice::Due(work));
    }

    fn remove(&mut self, position: Position) -> Option<Work> {
        let work = self.store.remove(&position)?;
        if work.ordered {
            self.notices.push_back(Notice::Unblocked(work));
        }
        Some(work)
    }

    fn commit(&mut self) {
        self.last += 1;
        let number = self.below(5) as u8;
        let (position, attempts, forgiven, claim) = (self.last, 0, 0, None);
        // A target is one of the two, so that both kinds get long backlogs.
        let (target, ordered) = (target(number), number % 2 == 1);
        let (due_at, queued) = (self.due(), false);
        if self.is_one_in(40) {
            self.unserved.insert(position);
        }
        self.write(Work { position, target, ordered, due_at, attempts, forgiven, claim, queued });
    }

    fn deliver_notice(&mut self) {
        for _ in 0..=self.below(4) {
            if let Some(notice) = self.notices.pop_front() {
                self.index.learn(&notice, self.now);
            }
        }
    }

    fn lose_notices(&mut self) {
        self.notices.clear();
        self.index.start_over(self.now);
    }

    /// The node owns other shards from now on.
    fn change_shards(&mut self) {
        let shards = (0..5).filter(|_| !self.is_one_in(3)).collect();
        self.index.own(shards, self.now);
    }

    /// Another node delivers a row of a shard that is not ours. No notice arrives here.
    fn deliver_elsewhere(&mut self) {
        let is_foreign = |it: &&Work| !self.index.shards.has(it.target);
        let Some(work) = self.store.values().find(is_foreign).copied() else { return };
        let is_here = |it: &BTreeMap<Position, TargetKey>| it.contains_key(&work.position);
        if is_here(&self.running) || is_here(&self.held) {
            return;
        }
        if self.is_one_in(2) {
            self.store.insert(work.position, Work { due_at: self.due(), ..work });
        } else {
            self.settled.extend(self.store.remove(&work.position));
        }
    }

    /// Starts a read: it sees the current store and is answered later.
    fn read(&mut self) {
        let key = |it: &Work| DueCursor { due_at: it.due_at, position: it.position };
        if let Some(cursor) = self.index.begin_scan(self.now) {
            let mut page: Vec<Work> = self.store.values().copied().collect();
            page.sort_by_key(key);
            page.retain(|it| cursor < key(it));
            page.truncate(PAGE);
            self.scan = Some(page);
        }
        while let Some((target, after)) = self.index.begin_read(self.now) {
            let of = |it: &&Work| TargetKey::of(it) == target;
            let mut works: Vec<Work> = self.store.values().filter(of).copied().collect();
            if target.ordered {
                works.retain(|it| after.position < it.position);
            } else {
                works.sort_by_key(key);
                works.retain(|it| after < key(it));
            }
            works.truncate(self.index.bounds.window);
            self.reads.push((target, works));
        }
    }

    fn answer(&mut self) {
        if self.is_one_in(2)
            && let Some(page) = self.scan.take()
        {
            if self.is_one_in(10) {
                self.index.scan_failed();
            } else {
                self.index.scanned(&page, page.len() < PAGE, self.now);
            }
        }
        if self.is_one_in(2) && !self.reads.is_empty() {
            let at = self.below(self.reads.len() as u64) as usize;
            let (key, works) = self.reads.swap_remove(at);
            if self.is_one_in(10) {
                self.index.read_failed(key, self.now);
            } else {
                let is_last = works.len() < self.index.bounds.window;
                self.index.read(key, &works, is_last, self.now);
            }
        }
    }

    fn start(&mut self) {
        self.index.wake(self.now);
        while let Some((position, key, _)) = self.index.take(true, self.now) {
            self.check_turns(key);
            assert!(self.index.shards.has(key.target), "{key:?} is in a shard of another node");
            assert!(!self.held.contains_key(&position), "{position} is held");
            let before = self.running.insert(position, key);
            assert_eq!(before, None, "{position} runs twice at once");
            let limit = self.index.limit(key);
            let running = self.running.values().filter(|it| **it == key).count();
            assert!(running <= limit, "{key:?} has {running} in flight");
            if let Some(work) = self.store.get(&position).filter(|it| it.ordered) {
                let of = |it: &&Work| TargetKey::of(it) == TargetKey::of(work);
                let first = self.store.values().find(of).map(|it| it.position);
                // The notice of an earlier one may be in flight.
                let is_late =
                    |it: &Notice| matches!(it, Notice::Due(it) if Some(it.position) == first);
                let is_excused = self.notices.iter().any(is_late);
                assert!(first == Some(position) || is_excused, "ordered work runs in its order");
            }
        }
    }

    /// A target that is ready is overtaken once by each other target at most.
    fn check_turns(&mut self, taken: TargetKey) {
        self.overtaken.remove(&taken);
        for (target, others) in &mut self.overtaken {
            let times = others.entry(taken).or_default();
            *times += 1;
            assert!(*times <= 1, "{taken:?} is served twice before {target:?}");
        }
    }

    /// Notes which targets are ready, after everything else.
    fn note_ready(&mut self) {
        let is_ready = |it: &TargetKey| self.index.is_ready(*it) && !self.index.is_apart(*it);
        let ready: Vec<TargetKey> = self.index.targets.keys().copied().filter(is_ready).collect();
        self.overtaken.retain(|it, _| ready.contains(it));
        ready.into_iter().for_each(|it| _ = self.overtaken.entry(it).or_default());
    }

    fn finish(&mut self) {
        let nth = self.below(self.running.len().max(1) as u64) as usize;
        let Some((position, key)) = self.running.iter().nth(nth).map(|(at, key)| (*at, *key))
        else {
            return;
        };
        if self.ended.iter().all(|it| it.0 != position) {
            let end = self.end_of(position);
            self.ended.push((position, key, end));
        }
        if self.is_one_in(2) {
            self.process_end();
        }
    }

    /// Gives the index the end of a delivery.
    fn process_end(&mut self) {
        if !self.ended.is_empty() {
            let at = self.below(self.ended.len() as u64) as usize;
            let (position, key, end) = self.ended.swap_remove(at);
            self.running.remove(&position);
            if end == End::NoRoom {
                self.blocked.push(key);
            }
            self.index.finished(key, position, end, self.now);
        }
    }

    fn end_of(&mut self, position: Position) -> End {
        let later = Timestamp(self.now.0 + 1 + self.below(20) as i64);
        let Some(work) = self.store.get(&position).copied() else { return End::Gone };
        // A row that is settled or not yet due is detected at delivery.
        if self.now < work.due_at {
            return End::Again(work.due_at);
        }
        if self.unserved.contains(&position) {
            return End::Unserved;
        }
        match self.below(16) {
            // Without a write: a delivery that failed, a blocked target, or a full pool.
            0 | 1 => End::Deferred(later),
            2 => End::Rest(later),
            3 => End::NoRoom,
            // Claimed, and not settled: no notice is sent.
            4 => {
                let due_at = later;
                self.store.insert(position, Work { due_at, attempts: work.attempts + 1, ..work });
                End::Again(due_at)
            }
            5 | 6 => {
                let due_at = self.due();
                self.write(Work { due_at, attempts: work.attempts + 1, ..work });
                // The notice of our own commit may come before the end is processed.
                if self.is_one_in(2) {
                    self.deliver_notice();
                }
                End::Again(due_at)
            }
            _ => {
                self.delivered += 1;
                let settled = self.remove(position);
                self.settled.extend(settled);
                if self.is_one_in(2) {
                    self.deliver_notice();
                }
                End::Gone
            }
        }
    }

    /// A pool has a permit for a target that waits for one, or its queue is full.
    fn give_room(&mut self) {
        if !self.blocked.is_empty() {
            let at = self.below(self.blocked.len() as u64) as usize;
            let target = self.blocked.swap_remove(at);
            if self.blocked.contains(&target) {
                return;
            }
            let is_full = self.is_one_in(3) && self.index.is_blocked(target);
            if is_full && self.index.can_leave(target) {
                self.index.leave(target);
                self.left.insert(target);
            } else {
                self.index.unblock(target, self.now);
            }
        }
    }

    /// A pool that has left targets has capacity.
    fn find_left(&mut self) {
        if !std::mem::take(&mut self.left).is_empty() {
            self.index.scan_again();
        }
    }

    /// An operator revives a row, even one whose end is not processed yet.
    fn revive(&mut self) {
        if !self.settled.is_empty() {
            let at = self.below(self.settled.len() as u64) as usize;
            let work = self.settled.swap_remove(at);
            self.write(Work { due_at: self.due(), attempts: 0, ..work });
        }
    }

    /// An operator settles or rewrites a row that is not in flight.
    fn operate(&mut self) {
        if self.is_one_in(3) {
            return self.revive();
        }
        let nth = self.below(8) as usize;
        let Some(work) = self.store.values().nth(nth).copied() else { return };
        let position = work.position;
        if self.running.contains_key(&position) || self.held.contains_key(&position) {
            return;
        }
        match self.below(3) {
            0 => _ = self.remove(position),
            1 => self.write(Work { due_at: self.due(), attempts: 0, ..work }),
            _ if !work.ordered && self.index.targets.contains_key(&TargetKey::of(&work)) => {
                self.index.hold(&[work]);
                self.held.insert(position, TargetKey::of(&work));
            }
            _ => {}
        }
    }

    fn release(&mut self) {
        let Some((position, key)) = self.held.pop_first() else { return };
        let end = match self.store.get(&position).copied() {
            Some(_) if self.is_one_in(2) => {
                self.remove(position);
                End::Gone
            }
            Some(work) => End::Again(work.due_at),
            None => End::Gone,
        };
        self.index.finished(key, position, end, self.now);
    }

    fn assert_nothing_is_lost(&self) {
        let mut firsts = Vec::new();
        // In the order of position, so that the first row of an ordered target is checked first.
        for work in self.store.values() {
            let target = TargetKey::of(work);
            let is_behind = work.ordered && firsts.contains(&target);
            if work.ordered && !is_behind {
                firsts.push(target);
            }
            if is_behind || self.index.covers(work) {
                continue;
            }
            let is_told = self.notices.iter().any(|it| match it {
                Notice::Due(it) => it.position == work.position,
                Notice::Unblocked(it) => {
                    it.position == work.position || (work.ordered && it.target == work.target)
                }
            });
            let is_apart = self.left.contains(&target) || self.unserved.contains(&work.position);
            assert!(is_told || is_apart, "{work:?} is lost: {:?}", self.index);
        }
        let Bounds { timers, targets, .. } = self.index.bounds;
        assert!(self.index.timers.len() <= timers);
        assert!(self.index.dozing.len() <= timers);
        // Ordered targets that are due, and the target with its own limit, are not bounded.
        assert!(self.index.in_room.len() <= targets + 6);
        let in_room = self.index.targets.values().filter(|it| it.takes_room()).count();
        let is_counted = self.index.in_room.iter().all(|it| self.index.targets[it].takes_room());
        assert!(
            is_counted && self.index.in_room.len() == in_room,
            "each change of a target is counted"
        );
    }

    fn step(&mut self) {
        match self.below(16) {
            0..=3 => self.commit(),
            4 => self.now.0 += self.below(5) as i64,
            5..=6 => self.finish(),
            7 if self.is_one_in(2) => self.process_end(),
            7 if self.is_one_in(4) => self.find_left(),
            7 => self.give_room(),
            8..=9 => self.answer(),
            10 if self.is_one_in(30) => self.lose_notices(),
            10 if self.is_one_in(15) => self.change_shards(),
            10 => self.deliver_elsewhere(),
            11 if self.is_one_in(3) => self.operate(),
            12 if self.is_one_in(2) => self.release(),
            13..=14 => self.deliver_notice(),
            _ => self.read(),
        }
        self.start();
        self.assert_nothing_is_lost();
        self.note_ready();
    }

    /// Without new commits, everything is delivered in the end, woken only at the times that the
    /// index returns.
    fn run_out(&mut self) {
        self.index.own(ShardSet::ALL, self.now);
        for _ in 0..20_000 {
            self.deliver_notice();
            self.read();
            self.answer();
            self.start();
            self.finish();
            self.process_end();
            self.give_room();
            self.find_left();
            self.release();
            let is_reading = self.scan.is_some() || !self.reads.is_empty();
            let is_busy = !self.running.is_empty() || !self.blocked.is_empty();
            if is_reading || is_busy || !self.held.is_empty() || !self.notices.is_empty() {
                continue;
            }
            match self.index.wake_at(self.now) {
                Some(at) => self.now = self.now.max(at),
                None if self.index.is_settled(self.now) => break,
                None => {}
            }
        }
        let left = self.store.values().filter(|it| !self.is_left(it)).count();
        assert_eq!(left, 0, "left over: {:?}\n{:?}", self.store, self.index);
        assert_eq!(self.index.begin_scan(self.now), None, "an idle index asks nothing");
        assert_eq!(self.index.begin_read(self.now), None);
    }

    /// Left for another program, or behind such a row.
    fn is_left(&self, work: &Work) -> bool {
        let is_before = |it: &&Position| {
            let before = self.store.get(it);
            before.is_some_and(|it| it.target == work.target && it.position < work.position)
        };
        self.unserved.contains(&work.position)
            || work.ordered && self.unserved.iter().any(|it| is_before(&it))
    }
}

#[test]
fn nothing_is_lost_and_everything_is_delivered_however_reads_and_commits_interleave() {
    let seeds = std::env::var_os("STEADFAST_SOAK").map_or(600, |_| 10_000);
    for seed in 0..seeds {
        let mut world = World::new(seed);
        for _ in 0..300 {
            world.step();
        }
        world.run_out();
        assert!(0 < world.delivered, "seed {seed}");
    }
}

#[test]
fn a_target_with_a_limit_of_its_own_neither_waits_for_others_nor_exceeds_it() {
    let bounds = Bounds { in_flight: 1, window: 9, targets: 9, timers: 9 };
    let mut index = Index::new(bounds, OwnLimits::from([(target(0), 2)]));
    let now = Timestamp(0);
    index.own(ShardSet::ALL, now);
    assert_eq!(index.begin_scan(now), Some(DueCursor::START));
    index.scanned(&[], true, now);
    for position in 1..=6 {
        let target = target(position as u8 % 2);
        let (ordered, due_at, attempts, forgiven, claim) = (false, now, 0, 0, None);
        let work =
            Work { position, target, ordered, due_at, attempts, forgiven, claim, queued: false };
        index.learn(&Notice::Due(work), now);
    }
    let mut take = |room| index.take(room, now).map(|(it, _, shared)| (it, shared));
    assert_eq!([take(false), take(false), take(false)], [Some((2, false)), Some((4, false)), None]);
    assert_eq!([take(true), take(true)], [Some((1, true)), None]);
    index.finished(TargetKey { target: target(0), ordered: false }, 2, End::Gone, now);
    let next = index.take(false, now).map(|(it, _, shared)| (it, shared));
    assert_eq!(next, Some((6, false)));
}
