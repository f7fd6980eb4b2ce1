//! The agenda against a model of a store: reads that are answered late, little room, and chance.

use std::collections::{BTreeMap, BTreeSet};

use steadfast_store::{Address, EntityId, EntityKind, Entropy, SeededEntropy};

use super::*;

/// A store and an agenda, with reads that are under way.
struct World {
    chance: SeededEntropy,
    now: Timestamp,
    last: Position,
    store: BTreeMap<Position, Work>,
    agenda: Agenda,
    scan: Option<Vec<Work>>,
    fills: Vec<(LaneKey, usize, Vec<Work>)>,
    running: BTreeSet<Position>,
    /// Lanes that wait for a place.
    blocked: Vec<LaneKey>,
    delivered: usize,
    /// Deliveries of other lanes since a lane became ready.
    overtaken: BTreeMap<LaneKey, BTreeMap<LaneKey, usize>>,
}

const PAGE: usize = 5;

fn target(number: u64) -> EntityId {
    Address::new(EntityKind::Stream, "t", &number.to_string()).unwrap().id()
}

impl World {
    fn new(seed: u64) -> Self {
        let chance = SeededEntropy::new(seed);
        let pick = |max: u64| 1 + (chance.next() % max) as usize;
        let bounds =
            Bounds { lane: pick(3), window: pick(3), lanes: 1 + pick(6), timers: 1 + pick(8) };
        Self {
            agenda: Agenda::new(bounds, OwnPlaces::from([(target(0), pick(4))])),
            chance,
            now: Timestamp(0),
            last: 0,
            store: BTreeMap::new(),
            scan: None,
            fills: Vec::new(),
            running: BTreeSet::new(),
            blocked: Vec::new(),
            delivered: 0,
            overtaken: BTreeMap::new(),
        }
    }

    fn below(&self, max: u64) -> u64 {
        self.chance.next() % max
    }

    fn target(&self) -> EntityId {
        target(self.below(5))
    }

    fn due(&self) -> Timestamp {
        let ahead = if self.below(2) == 0 { 0 } else { self.below(20) };
        Timestamp(self.now.0 + ahead as i64)
    }

    fn commit(&mut self) {
        self.last += 1;
        let target = self.target();
        let work = Work {
            position: self.last,
            target,
            // A target is either, so that both kinds get long backlogs.
            ordered: target.0[1].is_multiple_of(2),
            due_at: self.due(),
            attempts: 0,
            forgiven: 0,
            claim: None,
            queued: false,
        };
        self.store.insert(work.position, work);
        self.agenda.learn(&Notice::Due(work), self.now);
    }

    /// Starts a read: it sees the store as it is now and is answered later.
    fn read(&mut self) {
        if let Some(cursor) = self.agenda.wants_scan(self.now) {
            let mut page: Vec<Work> = self.store.values().copied().collect();
            page.sort_by_key(|it| (it.due_at, it.position));
            let behind =
                |it: &Work| cursor < DueCursor { due_at: it.due_at, position: it.position };
            page.retain(behind);
            page.truncate(PAGE);
            self.scan = Some(page);
        }
        while let Some((key, limit)) = self.agenda.wants_fill() {
            let of = |it: &&Work| LaneKey::of(it) == key;
            let mut works: Vec<Work> = self.store.values().filter(of).copied().collect();
            if !key.ordered {
                works.sort_by_key(|it| (it.due_at, it.position));
            }
            works.truncate(limit);
            self.fills.push((key, limit, works));
        }
    }

    fn answer(&mut self) {
        if self.below(2) == 0
            && let Some(page) = self.scan.take()
        {
            self.agenda.scanned(&page, page.len() < PAGE, self.now);
        }
        if self.below(2) == 0
            && let Some((key, limit, works)) = self.fills.pop()
        {
            self.agenda.filled(key, &works, works.len() < limit, self.now);
        }
    }

    fn start(&mut self) {
        self.agenda.wake(self.now);
        while let Some((position, lane, _)) = self.agenda.take(true, self.now) {
            self.check_turns(lane);
            assert!(self.running.insert(position), "{position} runs twice at once");
            if let Some(work) = self.store.get(&position).filter(|it| it.ordered) {
                let of = |it: &&Work| LaneKey::of(it) == LaneKey::of(work);
                let first = self.store.values().find(of).map(|it| it.position);
                assert_eq!(first, Some(position), "ordered work runs in its order");
            }
        }
    }

    /// A lane that is ready is overtaken once by each other lane at most.
    fn check_turns(&mut self, taken: LaneKey) {
        self.overtaken.remove(&taken);
        for (lane, others) in &mut self.overtaken {
            let times = others.entry(taken).or_default();
            *times += 1;
            assert!(*times <= 1, "{taken:?} is served twice before {lane:?}");
        }
    }

    /// Notes which lanes are ready, after everything else.
    fn note_ready(&mut self) {
        let ready = |it: &LaneKey| self.agenda.is_ready(*it) && !self.agenda.is_apart(*it);
        let lanes: Vec<LaneKey> = self.agenda.lanes.keys().copied().filter(ready).collect();
        self.overtaken.retain(|it, _| lanes.contains(it));
        lanes.into_iter().for_each(|it| _ = self.overtaken.entry(it).or_default());
    }

    fn finish(&mut self) {
        let Some(position) = self.running.pop_first() else { return };
        let later = |it: &Self| Timestamp(it.now.0 + 1 + it.below(20) as i64);
        let end = match self.store.get_mut(&position) {
            // What is gone or not due yet is found out at delivery.
            None => End::Gone,
            Some(work) if self.now < work.due_at => End::Again(work.due_at),
            // Without a write: nobody to deliver it to, a target in trouble, or no place.
            Some(_) if self.chance.next().is_multiple_of(6) => End::PutOff(later(self)),
            Some(_) if self.chance.next().is_multiple_of(8) => End::Rest(later(self)),
            Some(work) if self.chance.next().is_multiple_of(8) => {
                self.blocked.push(LaneKey::of(work));
                End::NoRoom
            }
            Some(_) if self.chance.next().is_multiple_of(4) => {
                let due_at = self.due();
                let work = self.store.get_mut(&position).unwrap();
                work.due_at = due_at;
                let work = *work;
                // The notice of our own commit may come before the end is told.
                self.agenda.learn(&Notice::Due(work), self.now);
                End::Again(due_at)
            }
            Some(_) => {
                self.delivered += 1;
                let work = self.store.remove(&position).unwrap();
                if work.ordered {
                    self.agenda.learn(&Notice::Unblocked(work), self.now);
                }
                if self.chance.next().is_multiple_of(8) {
                    // Settled and revived before the end is told.
                    self.store.insert(position, work);
                    self.agenda.learn(&Notice::Due(work), self.now);
                }
                End::Gone
            }
        };
        self.agenda.finished(position, end, self.now);
    }

    /// A place is free for a lane that waits for one.
    fn give_place(&mut self) {
        if !self.blocked.is_empty() {
            let index = self.below(self.blocked.len() as u64) as usize;
            let lane = self.blocked.swap_remove(index);
            if !self.blocked.contains(&lane) {
                self.agenda.unblock_lane(lane, self.now);
            }
        }
    }

    fn cancel_one(&mut self) {
        let pick = self.below(8) as usize;
        let position = self.store.keys().nth(pick).copied();
        if let Some(position) = position.filter(|it| !self.running.contains(it)) {
            let work = self.store.remove(&position).unwrap();
            if work.ordered {
                self.agenda.learn(&Notice::Unblocked(work), self.now);
            }
        }
    }

    fn assert_nothing_is_forgotten(&self) {
        let mut seen = BTreeSet::new();
        // In the order of position, so the first of an ordered lane comes first.
        for work in self.store.values() {
            let first = seen.insert(LaneKey::of(work));
            if work.ordered && !first {
                continue;
            }
            assert!(self.agenda.covers(work), "{work:?} is forgotten by {:?}", self.agenda);
        }
        assert!(self.agenda.timers.len() <= self.agenda.bounds.timers);
        assert!(self.agenda.put_offs.len() <= self.agenda.bounds.timers);
        assert!(self.agenda.dozing.len() <= 2 * self.agenda.bounds.timers);
    }

    fn step(&mut self) {
        match self.below(12) {
            0..=3 => self.commit(),
            4 => self.now.0 += self.below(5) as i64,
            5..=6 => self.finish(),
            8 if self.below(2) == 0 => self.give_place(),
            7..=8 => self.answer(),
            9 if self.below(40) == 0 => self.agenda.start_over(),
            10 if self.below(4) == 0 => self.cancel_one(),
            _ => self.read(),
        }
        self.start();
        self.assert_nothing_is_forgotten();
        self.note_ready();
    }

    /// Without new commits, everything is delivered in the end, woken only at the times told.
    fn run_out(&mut self) {
        for _ in 0..20_000 {
            self.read();
            self.answer();
            self.start();
            self.finish();
            self.give_place();
            let is_reading = self.scan.is_some() || !self.fills.is_empty();
            if is_reading || !self.running.is_empty() || !self.blocked.is_empty() {
                continue;
            }
            match self.agenda.next_wake(self.now) {
                Some(at) => self.now = self.now.max(at),
                None if self.agenda.is_settled(self.now) => break,
                None => {}
            }
        }
        assert_eq!(self.store.len(), 0, "left over: {:?}\n{:?}", self.store, self.agenda);
        assert_eq!(self.agenda.wants_scan(self.now), None, "an idle agenda asks nothing");
    }
}

#[test]
fn nothing_is_forgotten_and_everything_is_delivered_however_reads_and_commits_interleave() {
    for seed in 0..400 {
        let mut world = World::new(seed);
        for _ in 0..300 {
            world.step();
        }
        world.run_out();
        assert!(0 < world.delivered, "seed {seed}");
    }
}

#[test]
fn a_target_with_places_of_its_own_neither_waits_for_others_nor_has_more_than_those() {
    let bounds = Bounds { lane: 1, window: 9, lanes: 9, timers: 9 };
    let mut agenda = Agenda::new(bounds, OwnPlaces::from([(target(0), 2)]));
    agenda.scanned(&[], true, Timestamp(0));
    for position in 1..=6 {
        let target = target(position as u64 % 2);
        let (ordered, due_at, attempts, forgiven, claim) = (false, Timestamp(0), 0, 0, None);
        let work =
            Work { position, target, ordered, due_at, attempts, forgiven, claim, queued: false };
        agenda.learn(&Notice::Due(work), Timestamp(0));
    }
    let mut take = |room| agenda.take(room, Timestamp(0)).map(|(it, _, shared)| (it, shared));
    assert_eq!([take(false), take(false), take(false)], [Some((2, false)), Some((4, false)), None]);
    assert_eq!([take(true), take(true)], [Some((1, true)), None]);
    agenda.finished(2, End::Gone, Timestamp(0));
    let next = agenda.take(false, Timestamp(0)).map(|(it, _, shared)| (it, shared));
    assert_eq!(next, Some((6, false)));
}
