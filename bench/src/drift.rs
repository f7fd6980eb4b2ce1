//! Comparisons of two environments on this machine: the overhead of one over its slower side, the
//! memory of many concurrent ones, and the time of the comparison itself. Over HTTP, through the
//! routes of the application.

mod stage;

use std::time::Duration;

use steadfast_drift::{
    Shown, Status,
    diff::{DiffOptions, compute},
};

use self::stage::{Environments, Stage};
use crate::measure::{fsync, now, percentiles, resident_mib, say};

/// The response time of both environments.
const ANSWER: Duration = Duration::from_millis(20);
/// Maximum overhead of a comparison over its slower side, in milliseconds.
const OVER_MAX: f64 = 40.0;
const COMPARISONS: usize = 200;
/// Concurrent comparisons, and their maximum memory in MiB.
const MANY: usize = 200;
const GROWTH_MAX: f64 = 100.0;
/// The response time at which all of them are in progress.
const LONG: Duration = Duration::from_secs(3);
/// Maximum time to compare two envelopes, in microseconds.
const DIFF_MAX: f64 = 100.0;

pub(crate) async fn run() {
    let shown = one_at_a_time().await;
    many_at_once().await;
    alone(&shown);
}

async fn one_at_a_time() -> Shown {
    say("Drift, one comparison at a time, both environments answer in 20 ms");
    let environments = Environments::start(ANSWER).await;
    let stage = Stage::new().await;
    let flush = fsync(stage.folder.path()).as_secs_f64() * 1_000.0;
    let (left, right) = environments.urls("one");
    stage.compare(&left, &right).await;
    let before = stage.store.activity().commits;
    let (mut whole, mut slower, mut over, mut last) = (Vec::new(), Vec::new(), Vec::new(), None);
    for _ in 0..COMPARISONS {
        let (shown, took) = stage.compare(&left, &right).await;
        let side = slower_side(&shown);
        whole.push(took);
        slower.push(side);
        over.push(took.saturating_sub(side));
        last = Some(shown);
    }
    let commits = (stage.store.activity().commits - before) as f64 / COMPARISONS as f64;
    stage.stop().await;
    let (side, _) = percentiles(slower);
    let (p50, p99) = percentiles(whole);
    say(&format!("  the slower side                    p50 {side:.1} ms; an fsync {flush:.2} ms"));
    say(&format!(
        "  from request until completed      p50 {p50:.1} ms, p99 {p99:.1} ms; {commits:.1} commits"
    ));
    let (p50, p99) = percentiles(over);
    say(&format!(
        "  over the slower side               p50 {p50:.1} ms (to be {OVER_MAX} at most), \
         p99 {p99:.1} ms, {:.2} x the slower side",
        p50 / side
    ));
    last.expect("there is one")
}

/// The duration of the slower probe, as it was recorded.
fn slower_side(shown: &Shown) -> Duration {
    let result = shown.result.as_ref().expect("a result");
    let took = [&result.left, &result.right].map(|it| {
        let response = it.as_ref().and_then(|it| it.result.response()).expect("a response");
        response.duration_ms
    });
    Duration::from_millis(took.into_iter().max().unwrap_or_default())
}

async fn many_at_once() {
    say(&format!("Drift, {MANY} comparisons at once, environments that answer after 3 s"));
    let environments = Environments::start(LONG).await;
    let stage = Stage::new().await;
    let (left, right) = environments.urls("warm");
    stage.compare(&left, &right).await;
    let empty = resident_mib();
    let began = now();
    let all = async {
        let mut begun = Vec::new();
        for number in 0..MANY {
            let (left, right) = environments.urls(&number.to_string());
            begun.push(stage.begin(&left, &right).await);
        }
        let mut ended = Vec::new();
        for it in begun {
            ended.push(it.ended().await.0);
        }
        ended
    };
    let (ended, most) = stage::watched(all).await;
    let took = began.elapsed().as_secs_f64();
    for id in ended {
        assert_eq!(stage.show(id).await.status, Status::Completed, "all are complete");
    }
    stage.stop().await;
    say(&format!(
        "  all of them completed              after {took:.2} s, {:.2} x what one answer takes",
        took / LONG.as_secs_f64()
    ));
    say(&format!(
        "  asked at the same time             {:>9} of {}",
        environments.most(),
        2 * MANY
    ));
    say(&format!(
        "  grew by                            {:>9.1} MiB (to be below {GROWTH_MAX})",
        most - empty
    ));
}

/// The comparison itself, of the last envelopes.
fn alone(shown: &Shown) {
    let result = shown.result.as_ref().expect("a result");
    let (Some(left), Some(right)) = (&result.left, &result.right) else { return };
    let options = DiffOptions { expect_requested: true };
    let times = (0..10_000).map(|_| {
        let began = now();
        std::hint::black_box(compute("id", left, right, options));
        began.elapsed()
    });
    let (p50, p99) = percentiles(times.collect());
    say(&format!(
        "Drift, the diff of two envelopes: p50 {:.1} µs (to be below {DIFF_MAX}), p99 {:.1} µs",
        p50 * 1_000.0,
        p99 * 1_000.0
    ));
}
