//! One object in this process: its mailbox, its activation while it is awake, and the commits on
//! their way. It runs one turn at a time: calls in the order in which they came, deliveries when
//! nobody waits, and all the same after a few calls.

use std::{
    sync::{Arc, Weak},
    time::Instant,
};

use parking_lot::{Mutex, MutexGuard};
use steadfast_store::{self as store, Outcome, StoreError};

use super::{
    CallError, Closed,
    activation::Activation,
    flight::{Flight, Release, Waiting, tell},
    held::Held,
    live::Op,
    mailbox::{Input, Item},
    objects::{Class, Shared},
    pool::MOMENT,
    precedence::Precedence,
};

/// Turns of one object in a row before others get their turn.
const BURST: usize = 32;

pub(super) struct Cell {
    pub(super) address: store::Address,
    pub(super) class: Arc<Class>,
    pub(super) shared: Weak<Shared>,
    state: Mutex<State>,
}

struct State {
    phase: Phase,
    mailbox: Precedence<Item>,
    activation: Option<Box<Activation>>,
    flight: Flight,
    /// When it was last used, in calls of all objects.
    used: u64,
    /// About what it takes in memory.
    bytes: usize,
    /// What a turn found damaged.
    damage: Option<CallError>,
}

/// What an object is doing.
#[derive(Clone, Debug)]
enum Phase {
    /// Nothing of it is in memory.
    Asleep,
    /// It is being read from the store.
    Loading,
    /// It is in memory and has nothing to do.
    Idle,
    /// It waits for a thread.
    Ready,
    /// Its turns run.
    Running,
    /// It waits for its commits.
    Full,
    /// A commit failed: when all others are answered, it is read again.
    Doomed,
    /// What is stored of it is damaged.
    Quarantined(CallError),
    /// It was put out of memory: whoever still holds this must look again.
    Gone,
}

/// Why something was not put into a mailbox.
pub(super) enum NotTaken {
    /// The cell is out of use: look it up again.
    Gone(Item),
    /// No.
    Refused(CallError),
}

impl Cell {
    pub(super) fn new(address: store::Address, class: Arc<Class>, shared: Weak<Shared>) -> Self {
        let state = State {
            phase: Phase::Asleep,
            mailbox: Precedence::default(),
            activation: None,
            flight: Flight::default(),
            used: 0,
            bytes: 0,
            damage: None,
        };
        Self { address, class, shared, state: Mutex::new(state) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A panic of ours leaves at worst a stuck object, never a wrong one.
        self.state.lock()
    }

    /// Puts something into the mailbox and sees to it that it is done.
    pub(super) fn push(
        self: &Arc<Self>,
        item: Item,
        mailbox_max: usize,
        used: u64,
    ) -> Result<(), NotTaken> {
        let mut state = self.state();
        if let Phase::Gone = state.phase {
            return Err(NotTaken::Gone(item));
        }
        if let Phase::Quarantined(error) = &state.phase {
            return Err(NotTaken::Refused(error.clone()));
        }
        // Deliveries are bounded by their places, and ends of connections by connections.
        let is_asked = item.is_asked();
        let is_bounded = is_asked && !matches!(item.input, Input::Closed { .. });
        if is_bounded && mailbox_max <= state.mailbox.asked() {
            // Callers that have gone away leave their places to others.
            state.mailbox.retain_asked(|it| !it.is_abandoned());
            if mailbox_max <= state.mailbox.asked() {
                return Err(NotTaken::Refused(CallError::Busy {
                    object: self.address.to_string(),
                }));
            }
        }
        let is_urgent = matches!(state.phase, Phase::Ready) && is_asked;
        state.mailbox.push(item, is_asked);
        state.used = used;
        self.go_on(state);
        if let Some(shared) = is_urgent.then(|| self.shared.upgrade()).flatten() {
            shared.pool.promote(self);
        }
        Ok(())
    }

    /// Starts what can start now.
    fn go_on(self: &Arc<Self>, mut state: MutexGuard<'_, State>) {
        let Some(shared) = self.shared.upgrade() else { return };
        let has_work = !state.mailbox.is_empty();
        match state.phase {
            Phase::Asleep if has_work => {
                state.phase = Phase::Loading;
                drop(state);
                shared.load(self.clone());
            }
            Phase::Idle if has_work => self.make_ready(&shared, state),
            Phase::Full if !state.flight.is_full() => self.make_ready(&shared, state),
            Phase::Doomed if state.flight.is_empty() => {
                state.flight.start_over();
                if let Some(damage) = state.damage.take() {
                    state.phase = Phase::Loading;
                    drop(state);
                    self.loaded(Err(damage));
                } else {
                    state.phase = Phase::Asleep;
                    self.go_on(state);
                }
            }
            Phase::Asleep
            | Phase::Loading
            | Phase::Idle
            | Phase::Ready
            | Phase::Running
            | Phase::Full
            | Phase::Doomed
            | Phase::Quarantined(_)
            | Phase::Gone => {}
        }
    }

    /// Has its turns run.
    fn make_ready(self: &Arc<Self>, shared: &Shared, mut state: MutexGuard<'_, State>) {
        state.phase = Phase::Ready;
        let is_asked = state.mailbox.has_asked();
        drop(state);
        shared.pool.push(self.clone(), is_asked);
    }

    /// Takes in what the store holds of it.
    pub(super) fn loaded(self: &Arc<Self>, loaded: Result<Box<Activation>, CallError>) {
        let mut state = self.state();
        match loaded {
            Ok(activation) => {
                self.weigh(&mut state, activation.bytes());
                state.activation = Some(activation);
                state.phase = Phase::Idle;
                self.go_on(state);
            }
            Err(error) => {
                let mut waiting = std::mem::take(&mut state.mailbox);
                state.phase = if matches!(error, CallError::Corrupt { .. }) {
                    self.hang_up();
                    Phase::Quarantined(error.clone())
                } else {
                    Phase::Asleep
                };
                drop(state);
                tell(waiting.drain().map(|item| (item.reply, Err(error.clone()))));
            }
        }
    }

    /// Ends its connections: it is out of service.
    fn hang_up(&self) {
        if let Some(shared) = self.shared.upgrade() {
            let closed = Closed::new(Closed::FAILED, "the object is out of service");
            shared.rooms.push(self.address.id(), vec![Op::CloseAll { closed }]);
        }
    }

    /// Whether turns of its class have taken long lately.
    pub(super) fn is_slow(&self) -> bool {
        self.class.pace.is_slow()
    }

    /// Runs turns, on a thread of the pool. What they led to is held back until the thread has
    /// nothing else to run, so that turns of many objects share their way to the disk.
    #[expect(clippy::disallowed_methods, reason = "turns take real time, in tests as well")]
    pub(super) fn work(self: Arc<Self>) -> Option<Held> {
        let shared = self.shared.upgrade()?;
        let mut state = self.state();
        let activation = state.activation.take()?;
        state.phase = Phase::Running;
        let mut held = Held::new(self.clone(), activation);
        let began = Instant::now();
        for number in 0..BURST {
            // Who waits for the first one does not wait for all.
            if 0 < number && MOMENT <= began.elapsed() {
                break;
            }
            if state.flight.has_failed() || state.flight.is_full() {
                break;
            }
            let Some(item) = state.mailbox.take() else { break };
            if item.is_abandoned() {
                continue;
            }
            drop(state);
            held.run(&shared, item);
            state = self.state();
            // Nor does a reply wait for the next turn of its own object, if that may take long.
            if !held.is_awake() || (0 < held.len() && self.is_slow()) {
                break;
            }
        }
        Some(held)
    }

    /// Takes note of what a turn led to: the sizes of its commits, what the first of them lets out,
    /// and the input if it is not done. Returns the number of the first commit.
    pub(super) fn note(&self, sizes: &[usize], release: Release, again: Option<Item>) -> u64 {
        let mut state = self.state();
        if let Some(item) = again.filter(|it| !it.is_abandoned()) {
            let is_asked = item.is_asked();
            state.mailbox.push(item, is_asked);
        }
        let first = state.flight.next();
        let mut release = Some(release);
        for bytes in sizes {
            state.flight.add(*bytes, release.take());
        }
        // Nothing changed: it waits for what it has seen.
        let at_once = release.and_then(|it| state.flight.wait(it));
        let told = self.let_out(at_once);
        drop(state);
        tell(told);
        first
    }

    /// What was seen in memory is told only while nobody else can have changed it.
    fn checked(&self, mut release: Release) -> Release {
        if release.is_seen
            && let Some(shared) = self.shared.upgrade()
            && let Err(error) = shared.store.check_lease()
        {
            release.fail(&CallError::Store(error));
        }
        release
    }

    /// Puts an input back to where it was taken from.
    pub(super) fn put_back(&self, item: Item) {
        let is_asked = item.is_asked();
        self.state().mailbox.put_back(item, is_asked);
    }

    /// Lets out what is durable, for connections in the order of turns: the object is locked.
    fn let_out(&self, released: impl IntoIterator<Item = Release>) -> Vec<Waiting> {
        let mut told = Vec::new();
        for release in released {
            let Release { waiting, ops, .. } = self.checked(release);
            told.extend(waiting);
            if let (false, Some(shared)) = (ops.is_empty(), self.shared.upgrade()) {
                shared.rooms.push(self.address.id(), ops);
            }
        }
        told
    }

    /// Takes note of what it takes in memory now.
    fn weigh(&self, state: &mut State, bytes: usize) {
        let before = std::mem::replace(&mut state.bytes, bytes);
        if let Some(shared) = self.shared.upgrade() {
            shared.awake.weigh(before, bytes);
        }
    }

    /// Goes on after its turns, all commits of which are on their way.
    pub(super) fn worked(self: &Arc<Self>, activation: Box<Activation>, awake: bool) {
        let mut state = self.state();
        state.phase = if state.flight.has_failed() || !awake {
            state.damage = activation.damage();
            self.weigh(&mut state, 0);
            Phase::Doomed
        } else {
            self.weigh(&mut state, activation.bytes());
            state.activation = Some(activation);
            if state.flight.is_full() { Phase::Full } else { Phase::Idle }
        };
        self.go_on(state);
    }

    /// Hears how a commit ended.
    pub(super) fn answered(self: &Arc<Self>, number: u64, result: Result<Outcome, StoreError>) {
        let answer = match result {
            Ok(Outcome::Committed(_)) => Ok(()),
            Ok(Outcome::Rejected(rejection)) => Err(CallError::Lost {
                object: self.address.to_string(),
                detail: rejection.to_string(),
            }),
            Ok(Outcome::Duplicate(_)) => {
                Err(StoreError::Corrupt { reason: "a turn met a key".into() }.into())
            }
            Err(error) => Err(CallError::Store(error)),
        };
        if let Err(error) = &answer {
            let object = self.address.to_string();
            tracing::warn!(object, error = %error, "turn was not committed; object is read again");
        }
        let mut state = self.state();
        let told = self.let_out(state.flight.answered(number, answer));
        // While it runs, the thread that runs it finds out.
        if state.flight.has_failed() && matches!(state.phase, Phase::Idle | Phase::Full) {
            state.activation = None;
            self.weigh(&mut state, 0);
            state.phase = Phase::Doomed;
        }
        self.go_on(state);
        tell(told);
    }

    /// When it was last used, if it could be put out of memory.
    pub(super) fn idle_since(&self) -> Option<u64> {
        let state = self.state();
        state.can_go().then_some(state.used)
    }

    /// Puts it out of memory if nothing goes on and it was not used since. `false` otherwise.
    pub(super) fn evict(&self, used: u64) -> bool {
        let mut state = self.state();
        if state.can_go() && state.used == used {
            state.phase = Phase::Gone;
            state.activation = None;
            self.weigh(&mut state, 0);
            return true;
        }
        false
    }
}

impl State {
    fn can_go(&self) -> bool {
        // A damaged one stays: what is wrong with it may not show when it is read again.
        matches!(self.phase, Phase::Idle | Phase::Asleep)
            && self.mailbox.is_empty()
            && self.flight.is_empty()
    }
}
