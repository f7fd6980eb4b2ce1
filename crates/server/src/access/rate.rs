//! The rate of requests that a token may send.

use std::{collections::HashMap, time::Duration};

use parking_lot::Mutex;
use steadfast_api::Code;
use steadfast_web::Problem;
use tokio::time::Instant;

/// Tokens or clients whose rates are known before old ones are forgotten.
const KEYS_MAX: usize = 10_000;

/// Logins of one client per second: each may be a guess.
const LOGINS: u32 = 20;

/// Refusals of one client or token at once that are recorded, and then one per second.
const REFUSALS: u32 = 20;

/// Limits the requests of each token, and logins.
pub(crate) struct Rates {
    logins: RateLimiter,
    refusals: RateLimiter,
    per_second: u32,
    requests: Option<RateLimiter>,
}

impl Rates {
    /// At most this many requests of a token per second, and twice as many at once; 0 is no limit.
    pub(crate) fn per_second(per_second: u32) -> Self {
        let requests =
            (0 < per_second).then(|| RateLimiter::new(per_second, per_second.saturating_mul(2)));
        let logins = RateLimiter::new(LOGINS, LOGINS);
        Self { logins, refusals: RateLimiter::new(1, REFUSALS), per_second, requests }
    }

    /// Counts a login of a client, or refuses it.
    pub(crate) fn check_login(&self, client: &str) -> Result<(), Problem> {
        if self.logins.allows(client) {
            return Ok(());
        }
        let detail = format!("more than {LOGINS} logins per second; try again in a second");
        Err(Problem::of(Code::RateLimited, detail))
    }

    /// Whether a refusal of this client or token is recorded.
    pub(crate) fn may_record(&self, by: &str) -> bool {
        self.refusals.allows(by)
    }

    /// Counts a request of a token, or refuses it.
    pub(crate) fn check(&self, token: &str) -> Result<(), Problem> {
        if self.requests.as_ref().is_none_or(|it| it.allows(token)) {
            return Ok(());
        }
        let detail = format!(
            "this token sends more than {} requests per second; try again in a second, or raise \
             --rate-limit",
            self.per_second
        );
        Err(Problem::of(Code::RateLimited, detail))
    }
}

/// A token bucket for each key (generic cell rate algorithm): one time is its whole state.
struct RateLimiter {
    /// The time in which a bucket gets one more.
    interval: Duration,
    /// The time in which an empty bucket has got all but one.
    burst: Duration,
    /// When the bucket of each key is full again. A full one need not be here.
    full_at: Mutex<HashMap<String, Instant>>,
}

impl RateLimiter {
    fn new(per_second: u32, burst: u32) -> Self {
        let interval = Duration::from_secs(1) / per_second;
        let burst = interval * burst.saturating_sub(1);
        Self { interval, burst, full_at: Mutex::default() }
    }

    fn allows(&self, key: &str) -> bool {
        let now = Instant::now();
        let mut full_at = self.full_at.lock();
        if KEYS_MAX < full_at.len() {
            full_at.retain(|_, at| now < *at);
        }
        let at = full_at.get(key).map_or(now, |it| now.max(*it));
        let is_allowed = at - now <= self.burst;
        if is_allowed {
            full_at.insert(key.to_owned(), at + self.interval);
        }
        is_allowed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_beyond_its_rate_is_refused_and_others_are_not() {
        let rates = Rates::per_second(1);
        assert!(rates.check("a").is_ok() && rates.check("a").is_ok());
        let refused = rates.check("a").unwrap_err();
        assert_eq!((refused.code(), refused.retry_after()), ("rate_limited", Some(1)));
        assert!(rates.check("b").is_ok());
        assert!((0..20).all(|_| rates.check_login("c").is_ok()));
        assert!(rates.check_login("c").is_err() && rates.check_login("d").is_ok());
        assert!((0..20).all(|_| rates.may_record("c")) && !rates.may_record("c"));
        let unlimited = Rates::per_second(0);
        assert!((0..1_000).all(|_| unlimited.check("a").is_ok()));
    }

    #[tokio::test]
    async fn a_bucket_fills_again_at_its_rate_and_full_ones_are_forgotten() {
        let limiter = RateLimiter::new(10, 3);
        let back = |tenths: u32| {
            let mut full_at = limiter.full_at.lock();
            full_at.values_mut().for_each(|it| *it -= Duration::from_millis(100) * tenths);
        };
        let allowed = || (0..10).filter(|_| limiter.allows("a")).count();
        assert_eq!(allowed(), 3);
        back(2);
        assert_eq!(allowed(), 2);
        back(100);
        assert_eq!(allowed(), 3, "a bucket does not get more than full");
        back(100);
        for key in 0..=KEYS_MAX {
            limiter.full_at.lock().insert(key.to_string(), Instant::now());
        }
        assert!(limiter.allows("a"));
        assert_eq!(limiter.full_at.lock().len(), 1);
    }
}
