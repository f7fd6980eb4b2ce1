//! The rate of requests that a token may send.

use std::num::NonZeroU32;

use governor::{DefaultKeyedRateLimiter, Quota, RateLimiter};
use steadfast_api::Code;
use steadfast_web::Problem;

/// Tokens or clients whose rates are known before old ones are forgotten.
const KEYS_MAX: usize = 10_000;

/// Logins of one client per second: each may be a guess.
const LOGINS: NonZeroU32 = NonZeroU32::new(20).unwrap();

/// Refusals of one client or token at once that are recorded, and then one per second.
const REFUSALS: NonZeroU32 = NonZeroU32::new(20).unwrap();

/// Limits the requests of each token, and logins.
pub(crate) struct Rates {
    logins: DefaultKeyedRateLimiter<String>,
    refusals: DefaultKeyedRateLimiter<String>,
    per_second: u32,
    limiter: Option<DefaultKeyedRateLimiter<String>>,
}

impl Rates {
    /// At most this many requests of a token per second, and twice as many at once; 0 is no limit.
    pub(crate) fn per_second(per_second: u32) -> Self {
        let limiter = NonZeroU32::new(per_second).map(|rate| {
            let burst = rate.saturating_mul(NonZeroU32::MIN.saturating_add(1));
            RateLimiter::keyed(Quota::per_second(rate).allow_burst(burst))
        });
        let logins = RateLimiter::keyed(Quota::per_second(LOGINS));
        let refusals = Quota::per_second(NonZeroU32::MIN).allow_burst(REFUSALS);
        Self { logins, refusals: RateLimiter::keyed(refusals), per_second, limiter }
    }

    /// Counts a login of a client, or refuses it.
    pub(crate) fn check_login(&self, client: &str) -> Result<(), Problem> {
        if allows(&self.logins, client) {
            return Ok(());
        }
        let detail = format!("more than {LOGINS} logins per second; try again in a second");
        Err(Problem::of(Code::RateLimited, detail))
    }

    /// Whether a refusal of this client or token is recorded.
    pub(crate) fn may_record(&self, by: &str) -> bool {
        allows(&self.refusals, by)
    }

    /// Counts a request of a token, or refuses it.
    pub(crate) fn check(&self, token: &str) -> Result<(), Problem> {
        let Some(limiter) = &self.limiter else { return Ok(()) };
        if allows(limiter, token) {
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

fn allows(limiter: &DefaultKeyedRateLimiter<String>, key: &str) -> bool {
    if KEYS_MAX < limiter.len() {
        limiter.retain_recent();
    }
    limiter.check_key(&key.to_owned()).is_ok()
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
}
