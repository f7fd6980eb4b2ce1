//! How long the turns of a class take.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Instant,
};

/// A turn that takes longer is one that others should not wait behind.
const SLOW_MICROS: u64 = 500;

/// The longest turn of late, in microseconds; each quick one takes an eighth off.
#[derive(Debug, Default)]
pub(super) struct Pace(AtomicU64);

impl Pace {
    #[expect(clippy::disallowed_methods, reason = "turns take real time, in tests as well")]
    pub(super) fn measure<T>(&self, run: impl FnOnce() -> T) -> T {
        let began = Instant::now();
        let result = run();
        let took = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
        let before = self.0.load(Ordering::Relaxed);
        self.0.store(took.max(before - before / 8), Ordering::Relaxed);
        result
    }

    pub(super) fn is_slow(&self) -> bool {
        SLOW_MICROS < self.0.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_is_slow_after_a_slow_turn_and_quick_again_after_many_quick_ones() {
        let pace = Pace::default();
        assert!(!pace.is_slow());
        pace.0.store(100_000, Ordering::Relaxed);
        assert!(pace.is_slow());
        (0..100).for_each(|_| pace.measure(|| ()));
        assert!(!pace.is_slow());
    }
}
