//! The rate of requests that a token may send, of logins, and of refusals that are recorded.

use std::{collections::HashMap, time::Duration};

use parking_lot::Mutex;
use steadfast_api::Code;
use steadfast_web::Problem;
use tokio::time::Instant;

/// Tokens or clients whose rates are known before old ones are forgotten.
const KEYS_MAX: usize = 10_000;

/// Logins of one client per second: each may be a guess.
const LOGINS: u32 = 20;

/// Changes of the tokens of one organization at once by its admins, and then one per second.
const CHANGES: u32 = 20;

/// Refusals of one client or token at once that are recorded, and then one per second.
const REFUSALS: u32 = 20;

/// Refusals of all clients without a token that are recorded at once, and those of all tokens.
const REFUSALS_IN_TOTAL: u32 = 1_000;

/// Then one in this time: 1,000 a day, so that the log of 400 days stays small.
const REFUSAL_INTERVAL: Duration = Duration::from_secs(86);

/// Limits the requests of each token, logins, and the records of refusals.
pub(crate) struct Rates {
    logins: RateLimiter,
    changes: RateLimiter,
    refusals: RateLimiter,
    /// One bucket for the refusals of all tokens, and one for those of clients without a token, so
    /// that strangers do not use up the records of tokens.
    refusals_in_total: RateLimiter,
    /// Refusals that were not recorded, by token or client.
    unrecorded: Mutex<HashMap<String, u64>>,
    per_second: u32,
    requests: Option<RateLimiter>,
}

impl Rates {
    /// At most this many requests of a token per second, and twice as many at once; 0 is no limit.
    pub(crate) fn per_second(per_second: u32) -> Self {
        let second = Duration::from_secs(1);
        let requests = (0 < per_second)
            .then(|| RateLimiter::new(second / per_second, per_second.saturating_mul(2)));
        Self {
            logins: RateLimiter::new(second / LOGINS, LOGINS),
            changes: RateLimiter::new(second, CHANGES),
            refusals: RateLimiter::new(second, REFUSALS),
            refusals_in_total: RateLimiter::new(REFUSAL_INTERVAL, REFUSALS_IN_TOTAL),
            unrecorded: Mutex::default(),
            per_second,
            requests,
        }
    }

    /// Counts a login of a client, or refuses it. The client is the text of its network.
    pub(crate) fn check_login(&self, client: &str) -> Result<(), Problem> {
        if self.logins.allows(client) {
            return Ok(());
        }
        let detail = format!("more than {LOGINS} logins per second; try again in a second");
        Err(Problem::of(Code::RateLimited, detail))
    }

    /// Counts a change of the tokens of an organization by one of its admins, or refuses it.
    pub(crate) fn check_change(&self, organization: &str) -> Result<(), Problem> {
        if self.changes.allows(organization) {
            return Ok(());
        }
        let detail = format!(
            "the tokens of organization `{organization}` change more than once per second; try \
             again in a second"
        );
        Err(Problem::of(Code::RateLimited, detail))
    }

    /// Counts a refusal of a token or, without one, of a client. If it is to be recorded, returns
    /// the number of those before it that were not.
    pub(crate) fn record_refusal(&self, token: Option<&str>, client: &str) -> Option<u64> {
        let (by, all) = token.map_or((client, "clients"), |it| (it, "tokens"));
        // First the total: beyond it, no memory is needed for each of many clients.
        let is_recorded = self.refusals_in_total.has_room(all)
            && self.refusals.allows(by)
            && self.refusals_in_total.allows(all);
        let mut unrecorded = self.unrecorded.lock();
        if is_recorded {
            let own = unrecorded.remove(by).unwrap_or_default();
            return Some(own.saturating_add(unrecorded.remove(OTHERS).unwrap_or_default()));
        }
        if KEYS_MAX <= unrecorded.len() && !unrecorded.contains_key(by) {
            let sum = unrecorded.drain().fold(0, |sum: u64, (_, it)| sum.saturating_add(it));
            unrecorded.insert(OTHERS.to_owned(), sum);
        }
        let count = unrecorded.entry(by.to_owned()).or_default();
        *count = count.saturating_add(1);
        None
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

/// The key of unrecorded refusals whose tokens and clients were forgotten, because they were too
/// many. The next record has their number.
const OTHERS: &str = "";

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
    fn new(interval: Duration, burst: u32) -> Self {
        let burst = interval * burst.saturating_sub(1);
        Self { interval, burst, full_at: Mutex::default() }
    }

    /// Whether a request with this key would be allowed.
    fn has_room(&self, key: &str) -> bool {
        let full_at = self.full_at.lock().get(key).copied();
        full_at.is_none_or(|it| it.saturating_duration_since(Instant::now()) <= self.burst)
    }

    fn allows(&self, key: &str) -> bool {
        let now = Instant::now();
        let mut full_at = self.full_at.lock();
        if KEYS_MAX < full_at.len() {
            full_at.retain(|_, at| now < *at);
        }
        let known = full_at.get_mut(key);
        let at = known.as_deref().map_or(now, |it| now.max(*it));
        let is_allowed = at - now <= self.burst;
        match known {
            Some(known) if is_allowed => *known = at + self.interval,
            None if is_allowed => _ = full_at.insert(key.to_owned(), at + self.interval),
            Some(_) | None => {}
        }
        is_allowed
    }
}

/// Lines of the log have this distance, whatever strangers send.
const LOG_PERIOD: Duration = Duration::from_secs(1);

/// Requests with a token or an access key that does not exist or has ended, or with a wrong
/// signature.
#[derive(Default)]
pub(crate) struct RefusedCredentials(Mutex<State>);

#[derive(Default)]
struct State {
    count: u64,
    /// The time and the count of the last line of the log.
    logged: Option<(Instant, u64)>,
}

impl RefusedCredentials {
    /// Counts a request. A line of the log has the number since the line before it.
    pub(crate) fn note(&self, client: &str, code: &str, route: &str) {
        let now = Instant::now();
        let mut state = self.0.lock();
        state.count += 1;
        let (count, logged) = (state.count, state.logged);
        if logged.is_some_and(|(at, _)| now < at + LOG_PERIOD) {
            return;
        }
        state.logged = Some((now, count));
        drop(state);
        let refused = count - logged.map_or(0, |it| it.1);
        tracing::warn!(client, code, route, refused, "requests with a wrong credential");
    }

    /// The number since the start of the process.
    pub(crate) fn count(&self) -> u64 {
        self.0.lock().count
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
        assert!((0..20).all(|_| rates.check_change("acme").is_ok()));
        assert!(rates.check_change("acme").is_err() && rates.check_change("other").is_ok());
        let unlimited = Rates::per_second(0);
        assert!((0..1_000).all(|_| unlimited.check("a").is_ok()));
    }

    #[test]
    fn refusals_that_are_not_recorded_are_counted_with_the_next_record() {
        let rates = Rates::per_second(1);
        assert!((0..20).all(|_| rates.record_refusal(None, "c") == Some(0)));
        assert!((0..30).all(|_| rates.record_refusal(None, "c").is_none()));
        assert_eq!(rates.record_refusal(None, "d"), Some(0), "another client");
        rates.refusals.full_at.lock().clear();
        assert_eq!(rates.record_refusal(None, "c"), Some(30));
        assert_eq!(rates.record_refusal(None, "c"), Some(0));
    }

    #[test]
    fn refusals_have_a_quota_in_total_and_clients_do_not_use_up_that_of_tokens() {
        let rates = Rates::per_second(1);
        let of_clients = (0..30_000).filter_map(|it| rates.record_refusal(None, &it.to_string()));
        assert_eq!(of_clients.count(), REFUSALS_IN_TOTAL as usize);
        assert_eq!(rates.refusals.full_at.lock().len(), REFUSALS_IN_TOTAL as usize);
        assert!(rates.unrecorded.lock().len() <= KEYS_MAX, "the memory is bounded");
        // The number of those that were forgotten is with the next record of any.
        assert!(rates.record_refusal(Some("a"), "c").is_some_and(|it| 10_000 < it));
        let of_tokens = (0..2_000).filter_map(|it| rates.record_refusal(Some(&it.to_string()), ""));
        assert_eq!(of_tokens.count(), REFUSALS_IN_TOTAL as usize - 1);
    }

    #[tokio::test]
    async fn a_bucket_fills_again_at_its_rate_and_full_ones_are_forgotten() {
        let limiter = RateLimiter::new(Duration::from_millis(100), 3);
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
