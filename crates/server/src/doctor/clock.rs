//! Checks whether the clock of the store and the wall clock agree.

use std::time::Duration;

use steadfast_api::{rfc3339, server::Check};
use steadfast_store::{ClockReport, ClockStep};

/// The difference between the clocks, for people; `None` if they agree.
pub(crate) fn difference(report: &ClockReport) -> Option<String> {
    let ahead = report.ahead();
    if report.step_max < ahead {
        // It runs a tenth slower than the wall clock.
        let meet = words(ahead * 10);
        return Some(format!(
            "the store's clock is {} ahead of the wall clock; deletion by age waits until they \
             meet, in about {meet} unless the wall clock is wrong and is set",
            words(ahead)
        ));
    }
    match report.step {
        Some(ClockStep { at, by, forward: true }) if report.now < report.delete_from => {
            Some(format!(
                "the wall clock was set forward by {} at {}; deletion by age waits until {}; if \
                 the clock is wrong, set it before then",
                words(by),
                rfc3339(at),
                rfc3339(report.delete_from)
            ))
        }
        Some(_) | None => None,
    }
}

/// Checks that the clocks agree and deletion by age is active.
pub(super) fn check(report: &ClockReport) -> Check {
    if let Some(trouble) = difference(report) {
        return Check::warning("clock", trouble);
    }
    if report.now < report.delete_from {
        let until = rfc3339(report.delete_from);
        return Check::ok("clock", format!("deletion by age waits until {until}, after a gap"));
    }
    Check::ok("clock", "the store's clock and the wall clock agree")
}

/// A duration in its two largest units.
fn words(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let (days, hours) = (seconds / 86_400, seconds / 3_600 % 24);
    let (minutes, seconds) = (seconds / 60 % 60, seconds % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, _) => format!("{minutes} min {seconds} s"),
        (0, ..) => format!("{hours} h {minutes} min"),
        _ => format!("{days} d {hours} h"),
    }
}

#[cfg(test)]
mod tests {
    use steadfast_store::Timestamp;

    use super::*;

    const HOUR: i64 = 3_600_000;

    fn report(now: i64, wall: i64, step: Option<ClockStep>, delete_from: i64) -> ClockReport {
        let step_max = Duration::from_mins(5);
        let (now, wall, delete_from) = (Timestamp(now), Timestamp(wall), Timestamp(delete_from));
        ClockReport { now, wall, step, step_max, delete_from }
    }

    #[test]
    fn a_store_that_is_ahead_and_a_step_forward_are_reported_and_a_small_difference_is_not() {
        let ahead = difference(&report(2 * HOUR, HOUR, None, 0)).unwrap();
        assert!(ahead.contains("1 h 0 min ahead") && ahead.contains("10 h 0 min"), "{ahead}");
        assert_eq!(difference(&report(HOUR + 60_000, HOUR, None, 0)), None);
        let step = ClockStep { at: Timestamp(HOUR), by: Duration::from_hours(720), forward: true };
        let stepped = difference(&report(HOUR, HOUR, Some(step), 25 * HOUR)).unwrap();
        assert!(stepped.contains("forward by 30 d 0 h"), "{stepped}");
        assert!(stepped.contains("waits until 1970-01-02T01:00:00"), "{stepped}");
        assert_eq!(difference(&report(26 * HOUR, 26 * HOUR, Some(step), 25 * HOUR)), None);
    }
}
