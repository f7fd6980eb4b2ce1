//! Checks of the store, of its pending work, and of its clock.

use std::time::Duration;

use steadfast_api::{rfc3339, server::Check};
use steadfast_core::Runtime;
use steadfast_store::{ClockReport, ClockStep, Health, Setting, Store};

use crate::waterfall::words_of;

/// Checks that need only the store.
pub(super) async fn checks(store: &dyn Store, works: bool, deep: bool) -> Vec<Check> {
    let mut checks = vec![health(store), invariants(store, deep).await];
    checks.extend(work(store, works).await);
    checks.extend(settings(store).await);
    checks
}

/// The settings of the database that durability depends on.
async fn settings(store: &dyn Store) -> Vec<Check> {
    match store.settings().await {
        Ok(settings) => settings
            .into_iter()
            .map(|Setting { name, value, concern }| match concern {
                Some(concern) => Check::warning(&name, format!("{value}: {concern}")),
                None => Check::ok(&name, value),
            })
            .collect(),
        Err(error) => vec![Check::failed("settings", error.to_string())],
    }
}

fn health(store: &dyn Store) -> Check {
    match store.health() {
        Health::Ready => Check::ok("store", format!("can write, epoch {}", store.owner().epoch)),
        Health::Degraded { reason } => {
            Check::warning("store", format!("cannot write now: {reason}"))
        }
        Health::Failed { reason } => Check::failed("store", format!("failed: {reason}")),
    }
}

/// The invariants cover all rows. In a store with more positions than this, only `--deep` checks
/// them.
const SMALL: i64 = 20_000;

async fn invariants(store: &dyn Store, deep: bool) -> Check {
    let is_small = store.totals().await.is_ok_and(|it| it.position <= SMALL);
    if !is_small && !deep {
        let how = "not checked in a store of this size; `steadfast doctor --deep` reads every row";
        return Check::ok("invariants", how);
    }
    match store.violations().await {
        Ok(found) if found.is_empty() => Check::ok("invariants", "all hold"),
        Ok(found) => Check::failed("invariants", found.join("; ")),
        Err(error) => Check::failed("invariants", error.to_string()),
    }
}

async fn work(store: &dyn Store, works: bool) -> [Check; 2] {
    let totals = match store.totals().await {
        Ok(totals) => totals,
        Err(error) => {
            let failed = |name| Check::failed(name, error.to_string());
            return [failed("pending"), failed("dead")];
        }
    };
    let pending = match totals.pending {
        0 => Check::ok("pending", "no message is pending"),
        count if works => Check::ok("pending", format!("{count} messages are pending")),
        // Only the program with their handlers delivers messages.
        count => Check::warning(
            "pending",
            format!("{count} messages are pending, and nothing in this process handles them"),
        ),
    };
    let dead = match totals.dead {
        0 => Check::ok("dead", "no message is dead"),
        count => Check::warning(
            "dead",
            format!("{count} messages are dead; see `steadfast streams dead`"),
        ),
    };
    [pending, dead]
}

/// Maximum number of positions in the report.
const NAMED_MAX: usize = 10;

/// All pending work must have something that wakes it.
pub(super) async fn wake_ups(runtime: &Runtime) -> Check {
    match runtime.forgotten().await {
        Ok(found) if found.is_empty() => Check::ok("wake-ups", "all pending work is scheduled"),
        Ok(found) => {
            let named: Vec<String> = found.iter().take(NAMED_MAX).map(i64::to_string).collect();
            let (count, named) = (found.len(), named.join(", "));
            let detail =
                format!("nothing will deliver {count} messages ({named}, …); restart the program");
            Check::failed("wake-ups", detail)
        }
        Err(error) => Check::failed("wake-ups", error.to_string()),
    }
}

/// Reports messages for targets that this program does not declare: another program must deliver
/// them.
pub(super) async fn unserved(runtime: &Runtime) -> Check {
    match runtime.unserved().await {
        Ok(found) if found.is_empty() => Check::ok("served", "this program serves all stored work"),
        Ok(found) => {
            let named: Vec<String> =
                found.iter().take(NAMED_MAX).map(ToString::to_string).collect();
            let named = named.join("; ");
            let advice = "start the program that declares it, or declare it here";
            Check::warning("served", format!("not served here: {named}; {advice}"))
        }
        Err(error) => Check::failed("served", error.to_string()),
    }
}

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
pub(super) fn clock(report: &ClockReport) -> Check {
    if let Some(trouble) = difference(report) {
        return Check::warning("clock", trouble);
    }
    if report.now < report.delete_from {
        let until = rfc3339(report.delete_from);
        return Check::ok("clock", format!("deletion by age waits until {until}, after a gap"));
    }
    Check::ok("clock", "the store's clock and the wall clock agree")
}

/// A duration in its two largest units, in whole seconds.
fn words(duration: Duration) -> String {
    match duration.as_secs() {
        seconds @ 0..60 => format!("{seconds} s"),
        seconds => words_of(seconds.saturating_mul(1_000)),
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
