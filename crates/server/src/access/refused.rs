//! Requests with a wrong credential: all are counted, and at most one per second is logged.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

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
