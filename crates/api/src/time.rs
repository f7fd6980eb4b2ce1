//! Times on the wire: RFC 3339, UTC, milliseconds.

use std::time::Duration;

use steadfast_store::Timestamp;

/// Formats a time. Times outside of the years 0 to 9999 become their first or last one.
pub fn rfc3339(at: Timestamp) -> String {
    at.rfc3339()
}

/// Parses a time. Without a zone it is UTC; a date is its midnight.
pub fn read_time(text: &str) -> Option<Timestamp> {
    Timestamp::from_rfc3339(text)
}

/// Milliseconds of a duration.
pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_read_with_or_without_its_zone() {
        let noon = Some(Timestamp(1_794_744_000_000));
        for text in ["2026-11-15T12:00:00Z", "2026-11-15T13:00:00+01:00", "2026-11-15T12:00"] {
            assert_eq!(read_time(text), noon, "{text}");
        }
        assert_eq!(read_time("2026-11-15"), Some(Timestamp(1_794_700_800_000)));
        assert_eq!(read_time("yesterday"), None);
    }

    #[test]
    fn a_time_has_milliseconds_and_utc() {
        assert_eq!(rfc3339(Timestamp(0)), "1970-01-01T00:00:00.000Z");
        assert_eq!(rfc3339(Timestamp(1_794_710_096_789)), "2026-11-15T02:34:56.789Z");
        assert!(rfc3339(Timestamp::MAX).starts_with("9999-12-31T"));
        assert!(rfc3339(Timestamp::MIN).starts_with("0000-01-01T"));
    }
}
