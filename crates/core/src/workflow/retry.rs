//! Retry policies of steps.

use std::time::Duration;

use steadfast_store::backoff;

/// The growth of delays between attempts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backoff {
    /// The same delay each time.
    Constant,
    /// The first delay is added each time.
    Linear,
    /// The delay doubles each time.
    Exponential,
}

/// The retry policy of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retry {
    limit: u32,
    delay: Duration,
    backoff: Backoff,
    delay_max: Duration,
}

impl Retry {
    /// Five retries, after 1, 2, 4, 8 and 16 seconds.
    pub const DEFAULT: Retry = Retry::exponential(Duration::from_secs(1));
    /// No retries.
    pub const NEVER: Retry = Retry::constant(Duration::ZERO).limit(0);

    /// A constant delay.
    pub const fn constant(delay: Duration) -> Self {
        Self::new(delay, Backoff::Constant)
    }

    /// A delay that grows by `first` each time.
    pub const fn linear(first: Duration) -> Self {
        Self::new(first, Backoff::Linear)
    }

    /// A delay that doubles each time.
    pub const fn exponential(first: Duration) -> Self {
        Self::new(first, Backoff::Exponential)
    }

    const fn new(delay: Duration, backoff: Backoff) -> Self {
        Self { limit: 5, delay, backoff, delay_max: Duration::from_hours(1) }
    }

    /// Sets the maximum of retries: there is one attempt more.
    pub const fn limit(mut self, retries: u32) -> Self {
        self.limit = retries;
        self
    }

    /// Sets the maximum delay; an hour by default.
    pub const fn delay_max(mut self, longest: Duration) -> Self {
        self.delay_max = longest;
        self
    }

    /// The delay after a failed attempt, from 1; `None` if it was the last. `chance` is from 0 to
    /// 1, and makes the delay up to a quarter longer, so that retries spread out.
    pub(super) fn wait(&self, attempt: u32, chance: f64) -> Option<Duration> {
        if self.limit < attempt {
            return None;
        }
        let wait = match self.backoff {
            Backoff::Constant => self.delay.min(self.delay_max),
            Backoff::Linear => self.delay.saturating_mul(attempt).min(self.delay_max),
            Backoff::Exponential => backoff(self.delay, attempt, self.delay_max),
        };
        Some(wait + wait.mul_f64(chance.clamp(0.0, 1.0) / 4.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn waits(retry: Retry) -> Vec<Option<u64>> {
        (1..=4).map(|it| retry.wait(it, 0.0).map(|it| it.as_secs())).collect()
    }

    #[test]
    fn there_is_one_attempt_more_than_retries_and_waits_grow_as_said() {
        let some = |waits: [u64; 3]| [waits.map(Some).as_slice(), &[None]].concat();
        assert_eq!(waits(Retry::constant(SECOND).limit(3)), some([1, 1, 1]));
        assert_eq!(waits(Retry::linear(SECOND).limit(3)), some([1, 2, 3]));
        assert_eq!(waits(Retry::exponential(SECOND).limit(3)), some([1, 2, 4]));
        assert_eq!(waits(Retry::NEVER), [None; 4]);
        let longest = Retry::exponential(SECOND).limit(u32::MAX).delay_max(SECOND * 60);
        assert_eq!(longest.wait(4_000_000, 1.0), Some(SECOND * 75));
    }
}
