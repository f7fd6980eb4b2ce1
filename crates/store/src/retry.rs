//! Retry policies.

use std::time::Duration;

use crate::Entropy;

/// The delay after this number of failures: `first` after one, then doubled each time up to `max`.
pub fn backoff(first: Duration, failures: u32, max: Duration) -> Duration {
    let doubled = 2_u32.saturating_pow(failures.saturating_sub(1));
    first.saturating_mul(doubled).min(max)
}

/// Exponential backoff with jitter and a limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RetryPolicy {
    /// Attempts in all, the first included. After them the message is dead.
    pub attempts_max: u32,
    /// The delay after the first failure; it doubles with each further one.
    pub delay: Duration,
    /// The maximum delay.
    pub delay_max: Duration,
}

impl RetryPolicy {
    /// About ten minutes of attempts.
    pub const DEFAULT: RetryPolicy = RetryPolicy {
        attempts_max: 10,
        delay: Duration::from_secs(1),
        delay_max: Duration::from_mins(5),
    };

    /// The delay after attempt number `attempt` (from 1) failed; `None` when it was the last.
    ///
    /// Half of the delay is fixed and half is random, so that concurrent failures do not retry at
    /// the same time.
    pub fn wait(&self, attempt: u32, entropy: &dyn Entropy) -> Option<Duration> {
        if self.attempts_max <= attempt {
            return None;
        }
        let full = backoff(self.delay, attempt, self.delay_max);
        Some(full.mul_f64(0.5 + 0.5 * entropy.unit()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SeededEntropy;

    #[test]
    fn a_delay_doubles_with_each_failure_up_to_its_maximum() {
        let seconds = |failures| {
            backoff(Duration::from_secs(60), failures, Duration::from_hours(1)).as_secs()
        };
        assert_eq!(
            [0, 1, 2, 3, 6, 7, u32::MAX].map(seconds),
            [60, 60, 120, 240, 1_920, 3_600, 3_600]
        );
    }

    #[test]
    fn waits_double_up_to_the_cap_and_end_with_the_attempts() {
        let policy = RetryPolicy {
            attempts_max: 5,
            delay: Duration::from_millis(100),
            delay_max: Duration::from_millis(300),
        };
        let entropy = SeededEntropy::new(7);
        for (attempt, full) in [(1, 100), (2, 200), (3, 300), (4, 300)] {
            let wait = policy.wait(attempt, &entropy).unwrap().as_millis();
            assert!((full / 2..=full).contains(&wait), "attempt {attempt} waits {wait} ms");
        }
        assert_eq!(policy.wait(5, &entropy), None);
        assert_eq!(policy.wait(6, &entropy), None);
    }

    #[test]
    fn attempts_that_fail_together_are_not_retried_together() {
        let entropy = SeededEntropy::new(1);
        let waits: std::collections::BTreeSet<Duration> =
            (0..100).filter_map(|_| RetryPolicy::DEFAULT.wait(3, &entropy)).collect();
        assert_eq!(waits.len(), 100);
    }
}
