//! Request ids: they match responses, log lines and reports.

use std::sync::atomic::{AtomicU64, Ordering};

use axum::http::{HeaderMap, HeaderName};
use steadfast_store::{Entropy, SeededEntropy};

/// The header of the id in requests and responses.
pub(crate) const HEADER: HeaderName = HeaderName::from_static("x-request-id");

/// Maximum length of an id from a caller, in bytes.
const LEN_MAX: usize = 64;

/// Makes request ids, unique across processes.
#[derive(Debug)]
pub(crate) struct RequestIds {
    start: u64,
    count: AtomicU64,
}

impl RequestIds {
    /// Starts at a random number.
    pub(crate) fn new() -> Self {
        Self { start: SeededEntropy::from_system().next(), count: AtomicU64::new(1) }
    }

    /// The id of a request: its own if it is safe to repeat, else a new one.
    pub(crate) fn of(&self, headers: &HeaderMap) -> String {
        let given = headers.get(HEADER).and_then(|it| it.to_str().ok());
        match given.filter(|it| is_harmless(it)) {
            Some(id) => id.to_owned(),
            None => {
                let count = self.count.fetch_add(1, Ordering::Relaxed);
                format!("{:016x}-{count}", self.start)
            }
        }
    }
}

fn is_harmless(id: &str) -> bool {
    let fits = |it: u8| it.is_ascii_alphanumeric() || matches!(it, b'-' | b'_' | b'.');
    (1..=LEN_MAX).contains(&id.len()) && id.bytes().all(fits)
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn id_for(given: &'static str) -> String {
        let headers = HeaderMap::from_iter([(HEADER, HeaderValue::from_static(given))]);
        RequestIds::new().of(&headers)
    }

    #[test]
    fn a_valid_request_id_is_kept_and_an_invalid_one_is_replaced() {
        assert_eq!(id_for("trace-1.A_b"), "trace-1.A_b");
        for strange in [
            "",
            "a b",
            "<script>",
            "0123456789012345678901234567890123456789012345678901234567890123x",
        ] {
            assert_ne!(id_for(strange), strange);
        }
    }

    #[test]
    fn two_requests_have_two_ids() {
        let ids = RequestIds::new();
        assert_ne!(ids.of(&HeaderMap::new()), ids.of(&HeaderMap::new()));
    }
}
