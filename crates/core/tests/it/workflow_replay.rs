//! Code that does not match the record: the run is paused with a report, and nothing is lost.

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};
use steadfast_core::{
    Ctx, Result,
    workflow::{Report, Status},
};

use crate::{
    lab::Lab,
    play::{Play, Stage, Theatre, results},
};

/// Names of steps, then an event, then one more step.
fn steps(names: &'static [&'static str]) -> Play {
    Play::of(move |ctx, stage, _| async move {
        for name in names {
            ctx.step(name, async || Ok(stage.count(name))).await?;
        }
        let event = ctx.event::<u32>("go").await?;
        ctx.step("end", async || Ok(stage.count("end"))).await?;
        Ok(json!(event))
    })
}

/// Runs under `first` until it waits, then under `changed`, which does not match, and then under
/// `first` again. Returns the report of the second one.
async fn stands(first: Play, changed: Play) -> Report {
    let Lab { store, clock, .. } = Lab::memory().await;
    let theatre = Theatre::on(store, clock, &first).await;
    theatre.start("one").await;
    theatre.sleeps("one").await;
    let changed = changed.on(&first.stage);
    let theatre = theatre.again(&changed, Duration::ZERO).await;
    let before = (ran(&theatre.stage), results(theatre.app.runs(), "play", "one").await.unwrap());
    theatre.send("one", "go", &json!(7)).await;
    let status = theatre.ends("one").await;
    let Status::Paused(Some(report)) = status else { panic!("{status:?}") };
    let steps = results(theatre.app.runs(), "play", "one").await.unwrap();
    assert_eq!((ran(&theatre.stage), steps), before, "nothing was run or recorded");
    let view = theatre.app.runs().look("play", "one").await.unwrap();
    assert_eq!(view.report.as_ref(), Some(&report));
    // Resumed under code that still does not match, it pauses again.
    theatre.app.runs().resume("play", "one").await.unwrap();
    assert!(theatre.ends("one").await.is_paused());
    let theatre = theatre.again(&first, Duration::ZERO).await;
    theatre.app.runs().resume("play", "one").await.unwrap();
    assert_eq!(theatre.completes("one").await, json!(7), "the event is still there");
    assert_eq!(ran(&theatre.stage)[..2], before.0[..2], "nothing was run again");
    assert_eq!(theatre.stage.ran("end"), 1);
    theatre.app.stop().await;
    report
}

fn ran(stage: &Stage) -> [u32; 4] {
    ["a", "b", "x", "end"].map(|it| stage.ran(it))
}

fn says(report: &Report, position: usize, expected: &str, found: &str) {
    let parts = (report.position, report.expected.as_deref(), report.found.as_deref());
    assert_eq!(parts, (Some(position), Some(expected), Some(found)), "{report:?}");
}

fn is_here(report: &Report) -> bool {
    report.line.as_ref().is_some_and(|it| it.contains(concat!("it", "/workflow_replay.rs:")))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_name_another_order_or_a_missing_step_pauses_the_run_with_a_report() {
    let report = stands(steps(&["a", "b"]), steps(&["a", "x"])).await;
    says(&report, 2, "step `b`", "step `x`");
    assert!(is_here(&report), "{report:?}");
    let report = stands(steps(&["a", "b"]), steps(&["b", "a"])).await;
    says(&report, 1, "step `a`", "step `b`");
    assert!(is_here(&report), "{report:?}");
    let report = stands(steps(&["a", "b", "a"]), steps(&["a", "a"])).await;
    says(&report, 2, "step `b`", "step `a` (2)");
    let report = stands(steps(&["a", "b"]), steps(&["a"])).await;
    says(&report, 2, "step `b`", "event `go`");
    let ends = Play::of(|ctx, stage, _| async move {
        ctx.step("a", async || Ok(stage.count("a"))).await?;
        Ok(Value::Null)
    });
    let report = stands(steps(&["a", "b"]), ends).await;
    says(&report, 2, "step `b`", "the end of the run");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_branch_that_differs_pauses_the_run_with_a_report() {
    async fn play(ctx: Ctx, stage: Stage, names: [&'static str; 2]) -> Result<Value> {
        let step = async |name| ctx.step(name, async || Ok(stage.count(name))).await;
        ctx.join(step(names[0]), step(names[1])).await?;
        let event = ctx.event::<u32>("go").await?;
        ctx.step("end", async || Ok(stage.count("end"))).await?;
        Ok(json!(event))
    }
    let first = Play::of(|ctx, stage, _| play(ctx, stage, ["a", "b"]));
    let changed = Play::of(|ctx, stage, _| play(ctx, stage, ["a", "x"]));
    let report = stands(first, changed).await;
    says(&report, 1, "join#1.1/step `b`", "join#1.1/step `x`");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_used_inside_of_a_step_stands_still_with_its_line() {
    let nested = Play::of(|ctx, stage, _| async move {
        for name in ["a", "b"] {
            ctx.step(name, async || Ok(stage.count(name))).await?;
        }
        ctx.event::<u32>("go").await?;
        let body = async || ctx.step("x", async || Ok(stage.count("x"))).await;
        ctx.step("end", body).await?;
        Ok(Value::Null)
    });
    let report = stands_late(nested).await;
    assert!(report.reason.contains("inside of a step"), "{report:?}");
    assert_eq!(report.found.as_deref(), Some("step `x`"));
    assert!(is_here(&report), "{report:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn awaiting_what_is_not_durable_stands_still() {
    let never = Arc::new(tokio::sync::Notify::new());
    let waits = Play::of(move |ctx, stage, _| {
        let never = never.clone();
        async move {
            for name in ["a", "b"] {
                ctx.step(name, async || Ok(stage.count(name))).await?;
            }
            ctx.event::<u32>("go").await?;
            never.notified().await;
            ctx.step("end", async || Ok(stage.count("end"))).await?;
            Ok(Value::Null)
        }
    });
    let report = stands_late(waits).await;
    assert!(report.reason.contains("not durable"), "{report:?}");
}

/// As above; but the event was taken before the pause.
async fn stands_late(changed: Play) -> Report {
    let first = steps(&["a", "b"]);
    let Lab { store, clock, .. } = Lab::memory().await;
    let theatre = Theatre::on(store, clock, &first).await;
    theatre.start("one").await;
    theatre.sleeps("one").await;
    let theatre = theatre.again(&changed.on(&first.stage), Duration::ZERO).await;
    theatre.send("one", "go", &json!(7)).await;
    let status = theatre.ends("one").await;
    let Status::Paused(Some(report)) = status else { panic!("{status:?}") };
    assert_eq!(ran(&theatre.stage), [1, 1, 0, 0]);
    let theatre = theatre.again(&first, Duration::ZERO).await;
    theatre.app.runs().resume("play", "one").await.unwrap();
    assert_eq!(theatre.completes("one").await, json!(7));
    assert_eq!(ran(&theatre.stage), [1, 1, 0, 1]);
    theatre.app.stop().await;
    report
}
