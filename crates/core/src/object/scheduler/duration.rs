//! The duration of the turns of a class.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Instant,
};

/// Replies of other objects do not wait behind a turn that takes longer.
const SLOW_MICROS: u64 = 500;

/// A decaying maximum of turn durations, in microseconds; each quick turn takes an eighth off.
#[derive(Debug, Default)]
pub(in crate::object) struct TurnDuration(AtomicU64);

impl TurnDuration {
    #[expect(clippy::disallowed_methods, reason = "turns take real time, in tests as well")]
    pub(in crate::object) fn measure<T>(&self, run: impl FnOnce() -> T) -> T {
        let began = Instant::now();
        let result = run();
        let took = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
        let before = self.0.load(Ordering::Relaxed);
        self.0.store(took.max(before - before / 8), Ordering::Relaxed);
        result
    }

    pub(in crate::object) fn is_slow(&self) -> bool {
        SLOW_MICROS < self.0.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_is_slow_after_a_slow_turn_and_quick_again_after_many_quick_ones() {
        let duration = TurnDuration::default();
        assert!(!duration.is_slow());
        duration.0.store(100_000, Ordering::Relaxed);
        assert!(duration.is_slow());
        (0..100).for_each(|_| duration.measure(|| ()));
        assert!(!duration.is_slow());
    }
}
