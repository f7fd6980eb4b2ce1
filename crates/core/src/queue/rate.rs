//! Rate limit of a queue, in messages per second.

use std::time::Duration;

use steadfast_store::Timestamp;

/// The burst: messages of a quarter of a second, or one.
const BURST_SECONDS: f64 = 0.25;

/// A token bucket.
#[derive(Debug, Default)]
pub(super) struct Rate {
    /// The remaining tokens, as of `at`.
    left: f64,
    at: Option<Timestamp>,
}

impl Rate {
    /// The number of `wanted` messages that may be delivered now; or when one may.
    pub(super) fn allows(
        &mut self,
        per_second: Option<f64>,
        wanted: usize,
        now: Timestamp,
    ) -> Result<usize, Timestamp> {
        let Some(rate) = per_second else { return Ok(wanted) };
        let burst = (rate * BURST_SECONDS).max(1.0);
        let elapsed = self.at.map_or(f64::MAX, |at| now.since(at).as_secs_f64());
        self.left = (self.left + elapsed * rate).min(burst);
        self.at = Some(now);
        // A whole message must fit; rounding errors of the sum must not cost a millisecond.
        let whole = (self.left + 1e-6).floor();
        if 1.0 <= whole {
            return Ok(wanted.min(whole as usize));
        }
        let wait = Duration::from_secs_f64((1.0 - self.left) / rate);
        Err(now.after(wait.max(Duration::from_millis(1))))
    }

    pub(super) fn spend(&mut self, number: usize, now: Timestamp) {
        if self.at.is_some() {
            self.left -= number as f64;
            self.at = Some(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_is_delivered_in_a_second_than_allowed() {
        let mut rate = Rate::default();
        let mut delivered = 0;
        let mut now = Timestamp(0);
        while now < Timestamp(10_000) {
            match rate.allows(Some(8.0), 100, now) {
                Ok(number) => {
                    rate.spend(number, now);
                    delivered += number;
                }
                Err(at) => {
                    assert!(now < at);
                    now = at;
                }
            }
        }
        assert!((79..=83).contains(&delivered), "{delivered}");
    }

    #[test]
    fn without_a_rate_all_is_delivered() {
        assert_eq!(Rate::default().allows(None, 7, Timestamp(1)), Ok(7));
    }
}
