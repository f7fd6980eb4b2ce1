//! Times on the wire: RFC 3339, UTC, milliseconds.

use steadfast_store::Timestamp;

/// Writes a time. One that no calendar reaches becomes the last or first that it does.
pub(crate) fn rfc3339(at: Timestamp) -> String {
    let clamped = jiff::Timestamp::from_millisecond(at.0).unwrap_or(if at.0 < 0 {
        jiff::Timestamp::MIN
    } else {
        jiff::Timestamp::MAX
    });
    format!("{clamped:.3}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_has_milliseconds_and_utc() {
        assert_eq!(rfc3339(Timestamp(0)), "1970-01-01T00:00:00.000Z");
        assert_eq!(rfc3339(Timestamp(1_794_710_096_789)), "2026-11-15T02:34:56.789Z");
        assert!(rfc3339(Timestamp::MAX).starts_with("9999-12-30T"));
        assert!(rfc3339(Timestamp::MIN).starts_with("-009999-01-02T"));
    }
}
