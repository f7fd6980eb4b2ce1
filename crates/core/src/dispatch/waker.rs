//! Wakes the loop of an engine, and tracks whether it has work.

use parking_lot::Mutex;
use steadfast_store::{StoreClock, Timestamp};
use tokio::sync::Notify;

#[derive(Default)]
pub(crate) struct LoopWaker {
    state: Mutex<State>,
    woken: Notify,
    idle: Notify,
}

#[derive(Default)]
struct State {
    is_settled: bool,
    wake_at: Option<Timestamp>,
    wakes: u64,
    /// The loop has ended.
    is_over: bool,
}

impl LoopWaker {
    /// Wakes the loop.
    pub(crate) fn wake(&self) {
        let mut state = self.state.lock();
        (state.is_settled, state.wakes) = (state.is_over, state.wakes + 1);
        drop(state);
        self.woken.notify_one();
    }

    /// Whether the loop has no work. A loop whose wake-up time has passed still has to run.
    pub(crate) fn is_settled(&self, now: Timestamp) -> bool {
        let state = self.state.lock();
        state.is_settled && state.wake_at.is_none_or(|it| now < it)
    }

    /// Returns when the loop has no work.
    pub(crate) async fn settled(&self, clock: &StoreClock) {
        loop {
            let idle = self.idle.notified();
            if self.is_settled(clock.now()) {
                return;
            }
            idle.await;
        }
    }

    /// The time at which the loop has work.
    pub(crate) fn wake_at(&self) -> Option<Timestamp> {
        self.state.lock().wake_at
    }

    /// Returns when the loop is woken.
    pub(super) async fn woken(&self) {
        self.woken.notified().await;
    }

    /// The number of wake-ups.
    pub(super) fn wakes(&self) -> u64 {
        self.state.lock().wakes
    }

    /// Records that a loop sleeps, unless it was woken since `wakes` was read.
    pub(super) fn sleep(&self, wakes: u64, is_settled: bool, wake_at: Option<Timestamp>) {
        let mut state = self.state.lock();
        state.is_settled = is_settled && state.wakes == wakes;
        state.wake_at = wake_at;
        drop(state);
        self.idle.notify_waiters();
    }

    /// Records that the loop has ended.
    pub(super) fn end(&self) {
        let mut state = self.state.lock();
        *state = State { is_settled: true, is_over: true, wake_at: None, wakes: state.wakes };
        drop(state);
        self.idle.notify_waiters();
    }
}
