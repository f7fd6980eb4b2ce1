//! The one clock of a store, for due times, leases, alarms and expiry.
//!
//! It follows the wall clock and never runs backwards, not even across restarts: every commit
//! records it. If the wall clock is set back, this clock continues a tenth slower until the wall
//! clock has caught up. If the wall clock is set forward, this clock follows.

use std::{sync::Arc, time::Duration};

use crate::{Clock, Sleep, TimeLeft, Timestamp};
use parking_lot::{Mutex, MutexGuard};

/// A larger step of the clock is reported, and suspends deletion by age.
pub const CLOCK_STEP_MAX: Duration = Duration::from_mins(5);

/// Duration of that suspension after a step forward.
const HOLD_AFTER_STEP: Duration = Duration::from_hours(24);

/// The same after a start at which the clock is ahead of the last commit. Most often the store was
/// just closed for a while.
const HOLD_AFTER_GAP: Duration = Duration::from_hours(1);

/// Minimum step back that is logged.
const TELL_FROM: Duration = Duration::from_secs(1);

/// The recorded clock of a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ClockRecord {
    /// The time of the last commit; zero if there was none.
    pub(crate) at: Timestamp,
    /// Nothing is deleted by age before this time.
    pub(crate) delete_from: Timestamp,
}

/// The time of a batch of commits.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct BatchTime {
    pub(crate) record: ClockRecord,
    /// See [`ClockReport::keys_expired`]. Sweeps delete nothing that is younger.
    pub(crate) keys_expired: Timestamp,
}

/// A step of the wall clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockStep {
    /// When it was detected, by the clock of the store after the step.
    pub at: Timestamp,
    /// Its size.
    pub by: Duration,
    /// Whether it was forward.
    pub forward: bool,
}

/// The clock of a store compared to the wall clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockReport {
    /// The time of the store.
    pub now: Timestamp,
    /// The time of the wall clock.
    pub wall: Timestamp,
    /// The last step beyond the bound that this process has detected.
    pub step: Option<ClockStep>,
    /// The bound: see [`StoreClock::step_max`].
    pub step_max: Duration,
    /// Deletion by age is suspended until this time of the store.
    pub delete_from: Timestamp,
}

impl ClockReport {
    /// The lead of the store clock over the wall clock.
    pub fn ahead(&self) -> Duration {
        self.now.since(self.wall)
    }

    /// The time against which the age of data is compared for deletion. `None` while the two clocks
    /// differ by more than the bound, and for a while after a step forward.
    pub fn deletion_time(&self) -> Option<Timestamp> {
        let is_steady = self.ahead() <= self.step_max && self.delete_from <= self.now;
        is_steady.then_some(self.now.min(self.wall))
    }

    /// Idempotency keys that expire at this time or before are free. While deletion is suspended
    /// none is: a key must not end with a time that only jumped.
    pub fn keys_expired(&self) -> Timestamp {
        self.deletion_time().unwrap_or(Timestamp::MIN)
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
    /// The last returned time, or the time at which it got ahead, with the elapsed time then.
    last: Timestamp,
    last_elapsed: Duration,
    /// Whether it is ahead of the wall clock since then.
    is_ahead: bool,
    /// The last time of the wall clock, with the elapsed time then.
    wall: Timestamp,
    wall_elapsed: Duration,
    step: Option<ClockStep>,
    delete_from: Timestamp,
}

impl StoreClock {
    /// Continues from the recorded clock.
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

    /// The bound of a step that is reported and suspends deletion by age.
    pub fn step_max(&self) -> Duration {
        self.step_max
    }

    /// The time of the store.
    pub fn now(&self) -> Timestamp {
        self.look(&mut self.state()).0
    }

    /// The time since a fixed moment. Setting the clock does not change it.
    pub fn elapsed(&self) -> Duration {
        self.wall.elapsed()
    }

    /// Returns when [`now`](StoreClock::now) has reached `at`.
    pub fn sleep_until(&self, at: Timestamp) -> Sleep<'_> {
        Clock::sleep_until(self, at)
    }

    /// Returns after `duration`. Setting the clock does not change it.
    pub fn sleep(&self, duration: Duration) -> Sleep<'_> {
        self.wall.sleep(duration)
    }

    /// Compares it to the wall clock.
    pub fn report(&self) -> ClockReport {
        let mut state = self.state();
        let (now, wall) = self.look(&mut state);
        let State { step, delete_from, .. } = *state;
        ClockReport { now, wall, step, step_max: self.step_max, delete_from }
    }

    /// The time against which the age of data is compared for deletion, if deletion is allowed: see
    /// [`ClockReport::deletion_time`].
    pub fn deletion_time(&self) -> Option<Timestamp> {
        self.report().deletion_time()
    }

    /// The time of the next batch.
    pub(crate) fn batch_time(&self) -> BatchTime {
        let report = self.report();
        let record = ClockRecord { at: report.now, delete_from: report.delete_from };
        BatchTime { record, keys_expired: report.keys_expired() }
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
        // The wall clock as it would be without the step.
        let would_be = state.wall.after(elapsed.saturating_sub(state.wall_elapsed));
        if would_be < wall {
            self.notice(state, wall.since(would_be), now, true);
        } else {
            self.notice(state, would_be.since(wall), now, false);
        }
        (state.wall, state.wall_elapsed) = (wall, elapsed);
        // While it is ahead it counts from where that began, so that rounding errors do not add up.
        if !(state.is_ahead && is_ahead) {
            (state.last, state.last_elapsed, state.is_ahead) = (now, elapsed, is_ahead);
        }
        (now, wall)
    }

    /// Records a step of the wall clock.
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
            tracing::warn!(by_ms, "the wall clock was set forward; deletion by age is suspended");
        } else if forward {
            tracing::info!(by_ms, "the wall clock was set forward");
        } else {
            tracing::warn!(by_ms, "the wall clock was set back; the store's clock continues");
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

    fn wait<'a>(&'a self, left: TimeLeft<'a>) -> Sleep<'a> {
        self.wall.wait(left)
    }

    fn sleep(&self, duration: Duration) -> Sleep<'_> {
        StoreClock::sleep(self, duration)
    }
}
