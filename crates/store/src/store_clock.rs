//! The one clock of a store: due times, leases, alarms and expiry are all told by it.
//!
//! It follows the wall clock and never runs backwards, not across restarts either: every commit
//! records it. A wall clock that is set back does not stop it: it goes on with the time that
//! passes, a tenth slower, until the wall clock has caught up. A wall clock that is set forward
//! takes it along.

use std::{sync::Arc, time::Duration};

use crate::{Clock, Left, Sleep, Timestamp};
use parking_lot::{Mutex, MutexGuard};

/// A step of the clock beyond this is reported, and deletion by age waits.
pub const CLOCK_STEP_MAX: Duration = Duration::from_mins(5);

/// Deletion by age waits this long after a step forward.
const HOLD_AFTER_STEP: Duration = Duration::from_hours(24);

/// The same after a start for which the clock is ahead of the last commit. Most often nothing is
/// wrong then: the store was closed for a while.
const HOLD_AFTER_GAP: Duration = Duration::from_hours(1);

/// A clock that is set back by less than this is not worth a line in the log.
const TELL_FROM: Duration = Duration::from_secs(1);

/// What a store has recorded of its clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ClockRecord {
    /// The time of the last commit; zero if there was none.
    pub(crate) at: Timestamp,
    /// Nothing is deleted by age before this time.
    pub(crate) delete_from: Timestamp,
}

/// A step of the wall clock that a store has noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockStep {
    /// When it was noticed, by the clock of the store after the step.
    pub at: Timestamp,
    /// By how much.
    pub by: Duration,
    /// Whether it was forward.
    pub forward: bool,
}

/// How the clock of a store and the wall clock stand to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockReport {
    /// The time of the store.
    pub now: Timestamp,
    /// The time of the wall clock.
    pub wall: Timestamp,
    /// The last step beyond the bound that this process has noticed.
    pub step: Option<ClockStep>,
    /// The bound: see [`StoreClock::step_max`].
    pub step_max: Duration,
    /// Nothing is deleted by age before this time of the store.
    pub delete_from: Timestamp,
}

impl ClockReport {
    /// By how much the clock of the store is ahead of the wall clock.
    pub fn ahead(&self) -> Duration {
        self.now.since(self.wall)
    }

    /// The time by which the age of data is judged before it is deleted. `None` while the two
    /// clocks differ by more than the bound, and for a while after a step forward.
    pub fn deletion_time(&self) -> Option<Timestamp> {
        let is_steady = self.ahead() <= self.step_max && self.delete_from <= self.now;
        is_steady.then_some(self.now.min(self.wall))
    }
}

/// The one clock of a store.
#[derive(Debug)]
pub struct StoreClock {
    wall: Arc<dyn Clock>,
    step_max: Duration,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// The time that was told last, or when it came to be ahead, and the time elapsed then.
    last: Timestamp,
    last_elapsed: Duration,
    /// Whether it is ahead of the wall clock since then.
    is_ahead: bool,
    /// What the wall clock said last, and the time elapsed then.
    wall: Timestamp,
    wall_elapsed: Duration,
    step: Option<ClockStep>,
    delete_from: Timestamp,
}

impl StoreClock {
    /// Goes on from what the store has recorded.
    pub(crate) fn new(wall: Arc<dyn Clock>, step_max: Duration, recorded: ClockRecord) -> Self {
        let (now, elapsed) = (wall.now(), wall.elapsed());
        let is_new = recorded.at == Timestamp::default();
        let gap = if is_new { Duration::ZERO } else { now.since(recorded.at) };
        let mut delete_from = recorded.delete_from;
        if step_max < gap {
            delete_from = delete_from.max(now.after(gap.min(HOLD_AFTER_GAP)));
        }
        let back = recorded.at.since(now);
        let mut step = None;
        if step_max < back {
            step = Some(ClockStep { at: recorded.at, by: back, forward: false });
        }
        if TELL_FROM < back {
            let ahead_ms = back.as_millis() as u64;
            tracing::warn!(ahead_ms, "the last commit is ahead of the wall clock");
        }
        let state = State {
            last: now.max(recorded.at),
            last_elapsed: elapsed,
            is_ahead: !back.is_zero(),
            wall: now,
            wall_elapsed: elapsed,
            step,
            delete_from,
        };
        Self { wall, step_max, state: Mutex::new(state) }
    }

    /// The bound of a step that is reported and makes deletion by age wait.
    pub fn step_max(&self) -> Duration {
        self.step_max
    }

    /// The time of the store.
    pub fn now(&self) -> Timestamp {
        self.look(&mut self.state()).0
    }

    /// The time since some fixed moment, however the clock is set meanwhile.
    pub fn elapsed(&self) -> Duration {
        self.wall.elapsed()
    }

    /// Returns when [`now`](StoreClock::now) has reached `at`.
    pub fn sleep_until(&self, at: Timestamp) -> Sleep<'_> {
        Clock::sleep_until(self, at)
    }

    /// Returns after `duration`, however the clock is set meanwhile.
    pub fn sleep(&self, duration: Duration) -> Sleep<'_> {
        self.wall.sleep(duration)
    }

    /// How it stands to the wall clock.
    pub fn report(&self) -> ClockReport {
        let mut state = self.state();
        let (now, wall) = self.look(&mut state);
        let State { step, delete_from, .. } = *state;
        ClockReport { now, wall, step, step_max: self.step_max, delete_from }
    }

    /// The time by which the age of data is judged before it is deleted, if it may be: see
    /// [`ClockReport::deletion_time`].
    pub fn deletion_time(&self) -> Option<Timestamp> {
        self.report().deletion_time()
    }

    /// What a commit records.
    pub(crate) fn record(&self) -> ClockRecord {
        let mut state = self.state();
        let (at, _) = self.look(&mut state);
        ClockRecord { at, delete_from: state.delete_from }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// The time of the store and of the wall clock.
    fn look(&self, state: &mut State) -> (Timestamp, Timestamp) {
        let (wall, elapsed) = (self.wall.now(), self.wall.elapsed());
        let passed = elapsed.saturating_sub(state.last_elapsed);
        // While it is ahead it runs a tenth slower, so that the wall clock catches up.
        let passed = if state.is_ahead { passed - passed / 10 } else { passed };
        let expected = state.last.after(passed);
        let is_ahead = wall < expected;
        let now = wall.max(expected);
        // Where the wall clock would be, had it not been set.
        let would_be = state.wall.after(elapsed.saturating_sub(state.wall_elapsed));
        if would_be < wall {
            self.notice(state, wall.since(would_be), now, true);
        } else {
            self.notice(state, would_be.since(wall), now, false);
        }
        (state.wall, state.wall_elapsed) = (wall, elapsed);
        // While it stays ahead it counts from where that began: many looks do not add up fractions.
        if !(state.is_ahead && is_ahead) {
            (state.last, state.last_elapsed, state.is_ahead) = (now, elapsed, is_ahead);
        }
        (now, wall)
    }

    /// Takes note of a step of the wall clock.
    fn notice(&self, state: &mut State, by: Duration, at: Timestamp, forward: bool) {
        if by <= TELL_FROM {
            return;
        }
        let by_ms = by.as_millis() as u64;
        if self.step_max < by {
            state.step = Some(ClockStep { at, by, forward });
        }
        if self.step_max < by && forward {
            state.delete_from = at.after(HOLD_AFTER_STEP);
            tracing::warn!(by_ms, "the wall clock was set forward; deletion by age waits");
        } else if forward {
            tracing::info!(by_ms, "the wall clock was set forward");
        } else {
            tracing::warn!(by_ms, "the wall clock was set back; the store's clock goes on");
        }
    }
}

impl Clock for StoreClock {
    fn now(&self) -> Timestamp {
        StoreClock::now(self)
    }

    fn elapsed(&self) -> Duration {
        self.wall.elapsed()
    }

    fn wait<'a>(&'a self, left: Left<'a>) -> Sleep<'a> {
        self.wall.wait(left)
    }

    fn sleep(&self, duration: Duration) -> Sleep<'_> {
        StoreClock::sleep(self, duration)
    }
}
