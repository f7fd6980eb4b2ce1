//! The actor against a model: a store, a run queue and a thread that do at each step anything that
//! the real ones may do. After each step the invariants of the actor must hold.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    panic::catch_unwind,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use steadfast_store::StoreError;

use super::*;

const LARGE: usize = 3 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Changes the value.
    Add,
    /// The same with a large commit.
    AddLarge,
    /// The same with 60 more commits of images.
    AddImages,
    /// Returns the value.
    Read,
    /// Runs twice, as a wake-up with two due alarms.
    Twice,
}

#[derive(Clone, Debug)]
struct Job {
    id: u64,
    kind: Kind,
    priority: Priority,
    abandoned: Arc<AtomicBool>,
}

impl Mail for Job {
    fn priority(&self) -> Priority {
        self.priority
    }

    fn is_abandoned(&self) -> bool {
        self.abandoned.load(Ordering::Relaxed)
    }
}

/// The end of a turn, numbered in turn order, with the state that it saw.
#[derive(Clone, Copy, Debug)]
struct Done {
    turn: u64,
    seq: u64,
    value: u64,
    is_read: bool,
}

/// A commit on top of `expects`; it moves the object on if it is a turn and not an image.
#[derive(Clone, Copy, Debug)]
struct Commit {
    number: u64,
    expects: u64,
    value: Option<u64>,
}

#[derive(Clone, Copy, Debug)]
enum Decision {
    Commit,
    Unavailable,
    UnknownApplied,
    UnknownLost,
}

#[derive(Clone, Copy, Debug)]
enum Move {
    Push(Kind, Priority),
    Abandon,
    Load(LoadResult),
    Dispatch,
    Turn,
    StopBurst,
    Submit,
    EndBurst { usable: bool, damaged: bool },
    Decide(Decision),
    Answer(usize),
    Evict { is_current: bool },
}

#[derive(Clone, Copy, Debug)]
enum LoadResult {
    Whole,
    Unavailable,
    Corrupt,
}

/// A fault of the actor, planted between it and the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Planted {
    EarlyCompletion,
    WrongOrder,
    ReloadInFlight,
    EvictionInFlight,
    ReaderAnsweredAfterFailure,
    BlockedNeverWoken,
    LostPromote,
    ByteLimitIgnored,
}

struct Burst {
    seq: u64,
    value: u64,
    commits: VecDeque<Commit>,
    is_over: bool,
}

#[derive(Default)]
struct World {
    planted: Option<Planted>,
    actor: Actor<Job, Done>,
    used: u64,
    ids: u64,
    turns: u64,
    /// Jobs in the mailbox, with their flags.
    mail: BTreeMap<u64, (Priority, Arc<AtomicBool>)>,
    /// Calls taken in a row while a delivery waited.
    in_a_row: usize,
    loading: bool,
    queued: Option<Priority>,
    /// The executor in its slot: the state in memory.
    slot: Option<(u64, u64)>,
    burst: Option<Burst>,
    submitted: VecDeque<Commit>,
    decided: Vec<(u64, Result<(), CallError>)>,
    /// Commits that the actor counts: bytes, completions, and whether they are answered.
    in_flight: BTreeMap<u64, (usize, usize, bool)>,
    /// Turns whose completion has not left.
    waiting: BTreeSet<u64>,
    /// The next completion in turn order.
    next_done: u64,
    /// Every durable state: value by number of turns.
    history: Vec<u64>,
    /// Completions that a planted fault has let out already.
    early: BTreeSet<u64>,
}

impl World {
    fn new(planted: Option<Planted>) -> Self {
        Self { planted, history: vec![0], ..Self::default() }
    }

    fn durable(&self) -> (u64, u64) {
        let seq = self.history.len() - 1;
        (seq as u64, self.history[seq])
    }

    fn enabled(&self, kinds: &[Kind]) -> Vec<Move> {
        let mut moves = Vec::new();
        for kind in kinds {
            moves.push(Move::Push(*kind, Priority::Call));
            moves.push(Move::Push(*kind, Priority::Delivery));
        }
        if !self.mail.is_empty() {
            moves.push(Move::Abandon);
        }
        if self.loading {
            let results = [LoadResult::Whole, LoadResult::Unavailable, LoadResult::Corrupt];
            moves.extend(results.map(Move::Load));
        }
        moves.extend(self.queued.map(|_| Move::Dispatch));
        match &self.burst {
            Some(burst) if !burst.is_over => moves.extend([Move::Turn, Move::StopBurst]),
            Some(burst) if !burst.commits.is_empty() => moves.push(Move::Submit),
            Some(_) => {
                moves.push(Move::EndBurst { usable: true, damaged: false });
                moves.push(Move::EndBurst { usable: false, damaged: false });
                moves.push(Move::EndBurst { usable: false, damaged: true });
            }
            None => {}
        }
        if !self.submitted.is_empty() {
            moves.extend(
                [
                    Decision::Commit,
                    Decision::Unavailable,
                    Decision::UnknownApplied,
                    Decision::UnknownLost,
                ]
                .map(Move::Decide),
            );
        }
        moves.extend((0..self.decided.len().min(4)).map(Move::Answer));
        moves.extend([true, false].map(|is_current| Move::Evict { is_current }));
        moves
    }

    fn make(&mut self, it: Move) {
        match it {
            Move::Push(kind, priority) => self.push(kind, priority),
            Move::Abandon => {
                let job = self.mail.pop_first().expect("there is mail").1;
                job.1.store(true, Ordering::Relaxed);
            }
            Move::Load(result) => self.load(result),
            Move::Dispatch => {
                self.queued = None;
                let (seq, value) = self.slot.take().expect("the slot holds the executor");
                self.burst = Some(Burst { seq, value, commits: VecDeque::new(), is_over: false });
                self.step(Input::Dispatched);
            }
            Move::Turn => self.step(Input::TakeMail),
            Move::StopBurst => self.burst.as_mut().expect("a burst").is_over = true,
            Move::Submit => {
                let burst = self.burst.as_mut().expect("a burst");
                self.submitted.extend(burst.commits.pop_front());
            }
            Move::EndBurst { usable, damaged } => {
                let Burst { seq, value, .. } = self.burst.take().expect("a burst");
                self.slot = Some((seq, value));
                let damage = damaged.then(corrupt);
                self.step(Input::BurstEnded { usable, damage });
            }
            Move::Decide(decision) => self.decide(decision),
            Move::Answer(index) => {
                let (commit, result) = self.decided.remove(index);
                let counted = self.in_flight.get_mut(&commit).expect("it is in flight");
                counted.2 = true;
                while let Some(first) = self.in_flight.first_entry().filter(|it| it.get().2) {
                    first.remove();
                }
                self.step(Input::Answered { commit, result });
            }
            Move::Evict { is_current } => self.evict(is_current),
        }
        if !self.mail.values().any(|it| it.0 == Priority::Delivery) {
            self.in_a_row = 0;
        }
        self.check();
    }

    fn push(&mut self, kind: Kind, priority: Priority) {
        self.ids += 1;
        self.used += 1;
        let abandoned = Arc::<AtomicBool>::default();
        let job = Job { id: self.ids, kind, priority, abandoned: abandoned.clone() };
        self.mail.insert(job.id, (priority, abandoned));
        let limit = (priority == Priority::Call).then_some(8);
        self.step(Input::Push { mail: job, limit, used: self.used });
    }

    fn load(&mut self, result: LoadResult) {
        self.loading = false;
        let result = match result {
            LoadResult::Whole => {
                self.slot = Some(self.durable());
                Ok(())
            }
            LoadResult::Unavailable => Err(unavailable()),
            LoadResult::Corrupt => Err(corrupt()),
        };
        self.step(Input::Loaded(result));
    }

    fn decide(&mut self, decision: Decision) {
        let commit = self.submitted.pop_front().expect("a commit");
        let fits = commit.expects == self.durable().0;
        let (applies, result) = match decision {
            _ if !fits => (false, Err(lost())),
            Decision::Commit => (true, Ok(())),
            Decision::Unavailable => (false, Err(unavailable())),
            Decision::UnknownApplied => (true, Err(unknown())),
            Decision::UnknownLost => (false, Err(unknown())),
        };
        if applies {
            self.history.extend(commit.value);
        }
        self.decided.push((commit.number, result));
    }

    fn evict(&mut self, is_current: bool) {
        let faulty = self.planted == Some(Planted::EvictionInFlight)
            && matches!(self.actor.phase, Phase::Idle)
            && self.mail.is_empty();
        if faulty {
            self.actor.phase = Phase::Evicted;
        }
        let used = if is_current { self.used } else { 0 };
        self.step(Input::Evict { used });
        if self.actor.is_evicted() {
            assert!(self.in_flight.is_empty(), "evicted while commits are in flight");
            assert!(self.mail.is_empty(), "evicted with mail");
            self.replace_actor();
        }
    }

    /// The table makes a new entry for an object whose entry was evicted.
    fn replace_actor(&mut self) {
        (self.actor, self.slot) = (Actor::default(), None);
    }

    fn step(&mut self, input: Input<'_, Job, Done>) {
        let mut outputs = Vec::new();
        let (is_answer, is_end) =
            (matches!(input, Input::Answered { .. }), matches!(input, Input::BurstEnded { .. }));
        self.actor.step(input, &mut outputs);
        match self.planted {
            Some(Planted::WrongOrder) => outputs.reverse(),
            Some(Planted::BlockedNeverWoken) if is_answer => {
                outputs.retain(|it| !matches!(it, Output::Run(_)));
            }
            Some(Planted::LostPromote) => {
                outputs.retain(|it| !matches!(it, Output::Promote));
            }
            Some(Planted::ReloadInFlight)
                if is_end && matches!(self.actor.phase, Phase::Doomed(_)) =>
            {
                outputs.push(Output::Load);
            }
            Some(
                Planted::EarlyCompletion
                | Planted::EvictionInFlight
                | Planted::ReaderAnsweredAfterFailure
                | Planted::BlockedNeverWoken
                | Planted::ReloadInFlight
                | Planted::ByteLimitIgnored,
            )
            | None => {}
        }
        outputs.into_iter().for_each(|it| self.perform(it));
        if matches!(self.actor.phase, Phase::Quarantined(_)) {
            assert!(self.in_flight.is_empty() && self.mail.is_empty(), "quarantined too early");
            self.replace_actor();
        }
    }

    fn perform(&mut self, output: Output<Job, Done>) {
        match output {
            Output::Load => {
                assert!(self.in_flight.is_empty(), "read again while commits are in flight");
                assert!(!std::mem::replace(&mut self.loading, true), "loaded twice");
            }
            Output::Run(priority) => {
                assert!(self.queued.replace(priority).is_none(), "queued twice");
            }
            Output::Promote => self.queued = Some(Priority::Call),
            Output::RunTurn(job) => self.run_turn(job),
            Output::EndBurst => self.burst.as_mut().expect("a burst").is_over = true,
            Output::Complete(done, result) => self.complete(done, result),
            Output::Refuse(job, refusal) => {
                if let Refusal::Busy = refusal {
                    let calls = self.mail.values().filter(|it| it.0 == Priority::Call).count();
                    assert!(8 < calls, "refused with {calls} calls");
                }
                let was_there = self.mail.remove(&job.id).is_some();
                assert!(was_there || job.is_abandoned(), "refused twice");
            }
            Output::Unload => self.slot = None,
            Output::CloseConnections => {}
        }
    }

    fn run_turn(&mut self, job: Job) {
        let (bytes, waiting) =
            self.in_flight.values().fold((0, 0), |sum, it| (sum.0 + it.0, sum.1 + it.1));
        assert!(self.in_flight.len() < 256 && bytes < 8 << 20 && waiting < 1_024, "no turn starts");
        let (priority, _) = self.mail.remove(&job.id).expect("it is in the mailbox");
        let waits = self.mail.values().any(|it| it.0 == Priority::Delivery);
        self.in_a_row = match priority {
            Priority::Call if waits => self.in_a_row + 1,
            Priority::Call | Priority::Delivery => 0,
        };
        assert!(self.in_a_row <= 4, "a delivery starves");
        let burst = self.burst.as_mut().expect("a burst");
        let expects = burst.seq;
        let (first, images, size) = match job.kind {
            Kind::Add | Kind::Twice => (true, 0, 100),
            Kind::AddLarge => (true, 0, LARGE),
            Kind::AddImages => (true, 60, 100),
            Kind::Read => (false, 0, 0),
        };
        if first {
            (burst.seq, burst.value) = (burst.seq + 1, self.ids * 1_000 + burst.seq);
        }
        self.turns += 1;
        let (seq, value) = (burst.seq, burst.value);
        let done = Done { turn: self.turns, seq, value, is_read: !first };
        let mut sizes = Vec::new();
        for (number, index) in (self.actor.next_commit()..).zip(0..usize::from(first) + images) {
            let (expects, value) = if index == 0 { (expects, Some(value)) } else { (seq, None) };
            burst.commits.push_back(Commit { number, expects, value });
            self.in_flight.insert(number, (size, usize::from(index == 0), false));
            sizes.push(if self.planted == Some(Planted::ByteLimitIgnored) { 0 } else { size });
        }
        self.waiting.insert(done.turn);
        if sizes.is_empty()
            && let Some(mut last) = self.in_flight.last_entry()
        {
            last.get_mut().1 += 1;
        }
        if self.planted == Some(Planted::EarlyCompletion) {
            self.complete(done, Ok(()));
            self.early.insert(done.turn);
        }
        let requeue = (job.kind == Kind::Twice).then(|| Job { kind: Kind::Add, ..job.clone() });
        if let Some(again) = &requeue {
            self.mail.insert(again.id, (priority, again.abandoned.clone()));
        }
        self.step(Input::TurnEnded { commits: &sizes, completion: done, bytes: 0, requeue });
    }

    fn complete(&mut self, done: Done, result: Result<(), CallError>) {
        if self.early.remove(&done.turn) {
            return;
        }
        let is_faulty = self.planted == Some(Planted::ReaderAnsweredAfterFailure);
        let result = if is_faulty && done.is_read { Ok(()) } else { result };
        assert!(self.waiting.remove(&done.turn), "completed twice");
        assert_eq!(done.turn, self.next_done + 1, "completed in another order");
        self.next_done = done.turn;
        if result.is_ok() {
            let durable = self.history.get(done.seq as usize);
            assert_eq!(durable, Some(&done.value), "the reply is not durable");
        }
    }

    fn check(&self) {
        let ready = match self.actor.phase {
            Phase::Ready(priority) => Some(priority),
            Phase::Unloaded
            | Phase::Loading
            | Phase::Idle
            | Phase::Running
            | Phase::Blocked
            | Phase::Doomed(_)
            | Phase::Quarantined(_)
            | Phase::Evicted => None,
        };
        assert_eq!(self.queued, ready, "queued if and only if it is ready");
        assert_eq!(self.slot.is_some(), self.actor.holds_executor(), "where the executor is");
        assert_eq!(self.burst.is_some(), matches!(self.actor.phase, Phase::Running));
        assert_eq!(self.loading, matches!(self.actor.phase, Phase::Loading));
    }

    /// Lets everything succeed: every job must be returned, and every completion must leave.
    fn settle(&mut self) {
        for _ in 0..200_000 {
            let next = if self.loading {
                Move::Load(LoadResult::Whole)
            } else if let Some(burst) = &self.burst {
                match (burst.is_over, burst.commits.is_empty()) {
                    (false, _) => Move::Turn,
                    (true, false) => Move::Submit,
                    (true, true) => Move::EndBurst { usable: true, damaged: false },
                }
            } else if self.queued.is_some() {
                Move::Dispatch
            } else if !self.submitted.is_empty() {
                Move::Decide(Decision::Commit)
            } else if !self.decided.is_empty() {
                Move::Answer(self.decided.len() - 1)
            } else {
                break;
            };
            self.make(next);
        }
        assert!(self.mail.is_empty(), "mail is left: {:?}", self.mail);
        assert!(self.waiting.is_empty(), "completions are left: {:?}", self.waiting);
    }
}

fn unavailable() -> CallError {
    StoreError::Unavailable { reason: "model".into() }.into()
}

fn unknown() -> CallError {
    StoreError::Unknown { reason: "model".into() }.into()
}

fn lost() -> CallError {
    CallError::Lost { object: "a".into(), detail: "model".into() }
}

fn corrupt() -> CallError {
    CallError::Corrupt { object: "a".into(), detail: "model".into() }
}

/// A generator of its own: the actor depends on no crate that has one.
struct Random(u64);

impl Random {
    fn below(&mut self, max: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        ((self.0 >> 33) % max as u64) as usize
    }

    /// Picks a move. Faults are rare, so that much is in flight when one happens, and pushes are
    /// not more frequent than turns.
    fn pick(&mut self, moves: &[Move]) -> Move {
        loop {
            let it = moves[self.below(moves.len())];
            let rarity = match it {
                Move::Abandon
                | Move::StopBurst
                | Move::Evict { .. }
                | Move::Load(LoadResult::Unavailable | LoadResult::Corrupt)
                | Move::EndBurst { usable: false, .. }
                | Move::Decide(
                    Decision::Unavailable | Decision::UnknownApplied | Decision::UnknownLost,
                ) => 20,
                Move::Push(..) => 8,
                Move::Load(LoadResult::Whole)
                | Move::Dispatch
                | Move::Turn
                | Move::Submit
                | Move::EndBurst { usable: true, .. }
                | Move::Decide(Decision::Commit)
                | Move::Answer(_) => 1,
            };
            if self.below(rarity) == 0 {
                return it;
            }
        }
    }
}

const KINDS: [Kind; 5] = [Kind::Add, Kind::AddLarge, Kind::AddImages, Kind::Read, Kind::Twice];

fn random_run(planted: Option<Planted>, seed: u64, steps: usize) {
    let (mut world, mut random) = (World::new(planted), Random(seed));
    for _ in 0..steps {
        let moves = world.enabled(&KINDS);
        let it = random.pick(&moves);
        world.make(it);
    }
    world.settle();
}

#[test]
fn the_actor_keeps_its_invariants_whatever_store_threads_and_callers_do() {
    let seeds = std::env::var_os("STEADFAST_SOAK").map_or(1_000, |_| 20_000);
    (0..seeds).for_each(|seed| random_run(None, seed, 500));
}

/// Every sequence of `depth` moves with two jobs; `script` says which move is made at each step.
fn all_runs(planted: Option<Planted>, depth: usize) -> usize {
    let (mut script, mut runs) = (Vec::new(), 0);
    loop {
        let mut world = World::new(planted);
        let mut moves_at = Vec::new();
        for step in 0..depth {
            let kinds = [Kind::Add, Kind::Read];
            let kinds = kinds.get(world.ids as usize..).unwrap_or_default();
            let moves = world.enabled(&kinds[..kinds.len().min(1)]);
            if script.len() == step {
                script.push(0);
            }
            moves_at.push(moves.len());
            world.make(moves[script[step]]);
        }
        world.settle();
        runs += 1;
        while script.last().is_some_and(|it| it + 1 == moves_at[script.len() - 1]) {
            script.pop();
        }
        match script.last_mut() {
            Some(last) => *last += 1,
            None => return runs,
        }
    }
}

#[test]
fn the_actor_keeps_its_invariants_in_every_short_sequence() {
    let runs = all_runs(None, 8);
    assert!(10_000 < runs, "{runs} sequences");
}

#[test]
fn the_model_catches_planted_faults() {
    let planted = [
        (Planted::EarlyCompletion, "the reply is not durable"),
        (Planted::WrongOrder, "completed in another order"),
        (Planted::ReloadInFlight, "read again while commits are in flight"),
        (Planted::EvictionInFlight, "evicted while commits are in flight"),
        (Planted::ReaderAnsweredAfterFailure, "the reply is not durable"),
        (Planted::BlockedNeverWoken, "queued if and only if it is ready"),
        (Planted::LostPromote, "queued if and only if it is ready"),
        (Planted::ByteLimitIgnored, "no turn starts"),
    ];
    for (planted, complaint) in planted {
        let runs = || {
            (0..50).for_each(|seed| random_run(Some(planted), seed, 500));
            all_runs(Some(planted), 8)
        };
        let caught = catch_unwind(runs).expect_err("the fault was not noticed");
        let text = crate::dispatch::panic_message(&*caught);
        assert!(text.contains(complaint), "{planted:?} was noticed as: {text}");
    }
}

#[test]
fn no_turn_starts_while_1_024_completions_wait() {
    let mut world = World::new(None);
    world.make(Move::Push(Kind::Add, Priority::Delivery));
    world.make(Move::Load(LoadResult::Whole));
    world.make(Move::Dispatch);
    world.make(Move::Turn);
    for _ in 0..1_023 {
        world.make(Move::Push(Kind::Read, Priority::Delivery));
        world.make(Move::Turn);
    }
    assert!(world.burst.as_ref().is_some_and(|it| !it.is_over));
    world.make(Move::Push(Kind::Read, Priority::Delivery));
    world.make(Move::Turn);
    assert!(world.burst.as_ref().is_some_and(|it| it.is_over), "it waits for its commit");
    world.settle();
}
