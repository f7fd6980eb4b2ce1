//! The one clock of a store: it follows the wall clock, never runs backwards, and recovers.

use std::time::Duration;

use steadfast_store::{
    Clock, Commit, Outcome, Remember, Retention, SystemClock, Timestamp, Write, sweep,
};

use crate::lab::{Lab, START, address, event};

crate::laws::laws!(
    it_runs_a_tenth_slower_after_a_step_back_until_the_wall_clock_catches_up,
    it_continues_from_the_last_commit_when_the_store_is_opened_under_a_clock_that_is_behind,
    nothing_is_deleted_by_age_on_a_time_that_just_jumped_not_even_by_the_next_owner,
    nothing_is_deleted_by_age_while_the_clocks_differ,
    deletion_by_age_waits_for_an_hour_after_a_gap_before_the_start,
    it_never_runs_backwards_whatever_the_wall_clock_does,
    a_key_holds_while_deletion_is_suspended,
    a_key_holds_after_a_moment_under_a_clock_that_was_ahead,
);

const HOUR: Duration = Duration::from_hours(1);
const MONTH: Duration = Duration::from_hours(30 * 24);
const KEEP: Retention = Retention { keep: HOUR, ..Retention::DEFAULT };

fn before(at: Timestamp, time: Duration) -> Timestamp {
    Timestamp(at.0 - time.as_millis() as i64)
}

/// Settled messages that a sweep could delete if they are older than an hour.
async fn fill(lab: &Lab) {
    lab.append(&address("old"), (0..3).map(|_| event("x")).collect()).await;
}

async fn swept(lab: &Lab) -> usize {
    sweep(&*lab.store, KEEP).await.unwrap()
}

async fn it_runs_a_tenth_slower_after_a_step_back_until_the_wall_clock_catches_up(lab: Lab) {
    let now = || lab.store.clock().now();
    for step in [HOUR, MONTH] {
        let began = now();
        lab.clock.set(before(began, step));
        assert_eq!(now(), began, "it does not go back");
        lab.clock.advance(step * 5);
        assert_eq!(now(), began.after(step * 5 * 9 / 10), "a tenth slower");
        lab.clock.advance(step * 5);
        assert_eq!(now(), lab.clock.now(), "they meet");
        lab.clock.advance(step);
        assert_eq!(now(), lab.clock.now(), "and stay together");
    }
}

async fn it_continues_from_the_last_commit_when_the_store_is_opened_under_a_clock_that_is_behind(
    mut lab: Lab,
) {
    for step in [HOUR, MONTH] {
        lab.clock.advance(step);
        let stream = address("a");
        lab.append(&stream, vec![event("one")]).await;
        let last = lab.clock.now();
        lab.clock.set(before(last, step));
        lab.restart().await;
        assert_eq!(lab.store.clock().now(), last);
        lab.clock.advance(Duration::from_secs(10));
        lab.append(&stream, vec![event("two")]).await;
        let version = lab.version(&stream).await;
        let two = lab.store.read_stream(stream.id(), version, 1).await.unwrap().remove(0);
        assert_eq!(two.created_at, last.after(Duration::from_secs(9)));
        lab.clock.advance(step * 10);
    }
}

async fn nothing_is_deleted_by_age_on_a_time_that_just_jumped_not_even_by_the_next_owner(
    mut lab: Lab,
) {
    fill(&lab).await;
    lab.clock.set(START.after(MONTH));
    assert_eq!(swept(&lab).await, 0);
    let report = lab.store.clock().report();
    let step = report.step.expect("the step is reported");
    assert_eq!((step.by, step.forward, step.at), (MONTH, true, START.after(MONTH)));
    assert_eq!(report.deletion_time(), None);
    // The step is recorded with the next commit, so that the next owner has it.
    lab.append(&address("new"), vec![event("x")]).await;
    lab.restart().await;
    lab.clock.advance(23 * HOUR);
    assert_eq!(swept(&lab).await, 0);
    lab.clock.advance(HOUR);
    assert_eq!(swept(&lab).await, 2, "a day later the new time is believed");
}

async fn nothing_is_deleted_by_age_while_the_clocks_differ(lab: Lab) {
    fill(&lab).await;
    lab.clock.advance(Duration::from_mins(61));
    lab.append(&address("new"), vec![event("x")]).await;
    let now = lab.clock.now();
    lab.clock.set(before(now, Duration::from_mins(10)));
    assert_eq!(swept(&lab).await, 0, "ten minutes are too much");
    let report = lab.store.clock().report();
    assert_eq!(report.ahead(), Duration::from_mins(10));
    // After 50 minutes it is ahead by 5. The earlier time counts.
    lab.clock.advance(Duration::from_mins(50));
    let report = lab.store.clock().report();
    assert_eq!(report.ahead(), Duration::from_mins(5));
    assert_eq!(report.deletion_time(), Some(lab.clock.now()));
    assert_eq!(swept(&lab).await, 2);
}

async fn deletion_by_age_waits_for_an_hour_after_a_gap_before_the_start(mut lab: Lab) {
    fill(&lab).await;
    lab.clock.set(START.after(MONTH));
    lab.restart().await;
    assert_eq!(lab.store.clock().report().step, None, "a store may be closed for a month");
    assert_eq!(swept(&lab).await, 0);
    lab.clock.advance(HOUR);
    assert_eq!(swept(&lab).await, 2);
}

/// Random with a seed; each round a step, some time, a commit or a restart.
async fn it_never_runs_backwards_whatever_the_wall_clock_does(mut lab: Lab) {
    let mut chance: u64 = 7;
    let mut next = move |max: u64| {
        chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (chance >> 33) % max
    };
    let (mut last, stream) = (lab.store.clock().now(), address("a"));
    for _ in 0..300 {
        let ms = [1, 400, 60_000, 3_600_000, 2_592_000_000][next(5) as usize] + next(1_000);
        let time = Duration::from_millis(ms);
        match next(10) {
            0..=1 => lab.clock.set(lab.clock.now().after(time)),
            2..=3 => lab.clock.set(before(lab.clock.now(), time)),
            4..=7 => lab.clock.advance(time),
            8 => _ = lab.append(&stream, vec![event("x")]).await,
            _ => {
                // The next owner may return a time again that was returned and not recorded.
                lab.append(&stream, vec![event("x")]).await;
                last = lab.store.clock().now();
                if next(2) == 0 { lab.restart().await } else { lab.kill().await }
            }
        }
        let now = lab.store.clock().now();
        assert!(last <= now && lab.clock.now() <= now, "{last} {now} {}", lab.clock.now());
        last = now;
    }
}

/// Commits a request with a key; whether it was committed before.
async fn pays_again(lab: &Lab) -> bool {
    let stream = address("account");
    let key = Remember::new(stream.id(), "pay-1", b"100").unwrap();
    let pay = Write::Append { stream, messages: vec![event("paid")] };
    matches!(lab.commit(Commit::of(pay).write(Write::Remember(key))).await, Outcome::Duplicate(_))
}

async fn a_key_holds_while_deletion_is_suspended(mut lab: Lab) {
    assert!(!pays_again(&lab).await);
    lab.clock.set(START.after(25 * HOUR));
    assert!(pays_again(&lab).await, "a day has passed by the time of day only");
    lab.append(&address("new"), vec![event("x")]).await;
    lab.restart().await;
    assert!(pays_again(&lab).await, "the next owner knows of the step");
    lab.clock.advance(23 * HOUR);
    swept(&lab).await;
    assert!(pays_again(&lab).await);
    lab.clock.advance(HOUR);
    assert!(!pays_again(&lab).await, "the new time is believed");
    assert_eq!(lab.version(&address("account")).await, 2);
}

async fn a_key_holds_after_a_moment_under_a_clock_that_was_ahead(mut lab: Lab) {
    assert!(!pays_again(&lab).await);
    lab.clock.set(START.after(25 * HOUR));
    lab.append(&address("new"), vec![event("x")]).await;
    lab.clock.set(START.after(Duration::from_secs(2)));
    assert!(pays_again(&lab).await, "two seconds have passed");
    lab.restart().await;
    assert!(pays_again(&lab).await, "also for the next owner");
    swept(&lab).await;
    assert!(pays_again(&lab).await, "and after a sweep");
}

#[tokio::test]
async fn a_sleeper_of_the_machines_clock_checks_again_within_a_second() {
    let looks = std::sync::atomic::AtomicU32::new(0);
    // An hour is left, and at the next check nothing: as if the clock had been set.
    let left = || match looks.fetch_add(1, std::sync::atomic::Ordering::SeqCst) {
        0 => HOUR,
        _ => Duration::ZERO,
    };
    let slept = SystemClock.wait(Box::new(left));
    tokio::time::timeout(Duration::from_secs(30), slept).await.expect("it looks again");
}
