//! Wakes the loop of an engine, and knows whether it has something to do.

use std::sync::Arc;

use parking_lot::Mutex;
use steadfast_store::{StoreClock, Timestamp};
use tokio::sync::Notify;

#[derive(Default)]
pub(crate) struct Bell {
    state: Mutex<State>,
    rung: Notify,
    idle: Notify,
}

#[derive(Default)]
struct State {
    is_settled: bool,
    wake_at: Option<Timestamp>,
    rings: u64,
    /// The loop has ended.
    is_over: bool,
}

impl Bell {
    /// Has the loop look again.
    pub(crate) fn ring(&self) {
        let mut state = self.state.lock();
        (state.is_settled, state.rings) = (state.is_over, state.rings + 1);
        drop(state);
        self.rung.notify_one();
    }

    /// Whether the loop has nothing to do. One whose time has come has not looked since.
    pub(crate) fn is_settled(&self, now: Timestamp) -> bool {
        let state = self.state.lock();
        state.is_settled && state.wake_at.is_none_or(|it| now < it)
    }

    /// Returns when the loop has nothing to do.
    pub(crate) async fn settled(&self, clock: &StoreClock) {
        loop {
            let idle = self.idle.notified();
            if self.is_settled(clock.now()) {
                return;
            }
            idle.await;
        }
    }

    /// When the loop has something to do.
    pub(crate) fn wake_at(&self) -> Option<Timestamp> {
        self.state.lock().wake_at
    }

    /// Returns when the bell has rung.
    pub(super) async fn rung(&self) {
        self.rung.notified().await;
    }

    /// How often the bell has rung.
    pub(super) fn rings(&self) -> u64 {
        self.state.lock().rings
    }

    /// Notes that a loop sleeps, unless it was woken since it began to look.
    pub(super) fn sleep(&self, rings: u64, is_settled: bool, wake_at: Option<Timestamp>) {
        let mut state = self.state.lock();
        state.is_settled = is_settled && state.rings == rings;
        state.wake_at = wake_at;
        drop(state);
        self.idle.notify_waiters();
    }
}

/// Says that the loop has ended, however that came.
pub(super) struct Closing(pub(super) Arc<Bell>);

impl Drop for Closing {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        *state = State { is_settled: true, is_over: true, wake_at: None, rings: state.rings };
        drop(state);
        self.0.idle.notify_waiters();
    }
}
