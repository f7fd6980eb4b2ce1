//! Runs on a store that is busy, full, or does not return the outcome of a commit.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use serde_json::{Value, json};
use steadfast_core::{
    Retry,
    store::{ManualClock, MemoryStore},
    workflow::{RunOptions, Status},
};

use crate::{
    gated_store::GatedStore,
    lab::START,
    play::{Play, Theatre, until},
};

const S: Duration = Duration::from_secs(1);

async fn troubled(play: &Play) -> (Arc<GatedStore>, Theatre) {
    let clock = ManualClock::at(START);
    let held = GatedStore::new(MemoryStore::new(Arc::new(clock.clone())));
    let theatre = Theatre::on(held.clone(), clock, play).await;
    (held, theatre)
}

async fn yields(many: u64) {
    for _ in 0..many {
        tokio::task::yield_now().await;
    }
}

/// A minute in which all due work can be done.
async fn a_minute(clock: &ManualClock) {
    for _ in 0..60 {
        clock.advance(S);
        yields(100).await;
    }
}

/// Advances the clock until the run has ended.
async fn ends_in_time(theatre: &Theatre, id: &str) -> Status {
    until("it ends", async || {
        theatre.clock.advance(S);
        yields(20).await;
        theatre.status(id).await.is_final()
    })
    .await;
    theatre.status(id).await
}

#[tokio::test]
async fn a_body_is_not_run_again_because_the_disk_is_full() {
    let play = Play::of(|ctx, stage, input| async move {
        ctx.event::<()>("go").await?;
        ctx.step("charge", async || Ok(stage.count("charge"))).retry(Retry::NEVER).await?;
        Ok(input)
    });
    let (held, theatre) = troubled(&play).await;
    theatre.start("one").await;
    theatre.sleeps("one").await;
    // The event and its entry find space, and the result of the body does not.
    held.room_left.store(2, Ordering::SeqCst);
    theatre.send("one", "go", &Value::Null).await;
    a_minute(&theatre.clock).await;
    assert_eq!(held.room_left.load(Ordering::SeqCst), 0, "something else was refused");
    assert_eq!(theatre.stage.ran("charge"), 1);
    held.room_left.store(usize::MAX, Ordering::SeqCst);
    assert_eq!(ends_in_time(&theatre, "one").await, Status::Complete(Value::Null));
    assert_eq!(theatre.stage.ran("charge"), 1, "the body's outcome was thrown away");
}

#[tokio::test]
async fn a_waiter_is_notified_of_an_end_whose_commit_was_not_answered() {
    let play = Play::of(|ctx, stage, input| async move {
        ctx.step("a", async || {
            stage.pass("door").await;
            Ok(())
        })
        .await?;
        Ok(input)
    });
    let (held, theatre) = troubled(&play).await;
    theatre.start("one").await;
    theatre.stage.came("door").await;
    let runs = theatre.app.runs().clone();
    let waits = tokio::spawn(async move { runs.wait("play", "one").await });
    yields(100).await;
    held.hold();
    theatre.stage.open("door", 1);
    held.came().await;
    held.lose();
    held.let_go();
    assert_eq!(ends_in_time(&theatre, "one").await, Status::Complete(Value::Null));
    until("the waiter is notified", async || {
        theatre.clock.advance(S);
        waits.is_finished()
    })
    .await;
    assert_eq!(waits.await.unwrap().unwrap(), Status::Complete(Value::Null));
}

#[tokio::test]
async fn a_busy_store_is_not_blamed_on_the_step() {
    let play = Play::of(|ctx, stage, _| async move {
        let step = ctx.step("a", async || {
            if stage.count("a") == 1 {
                stage.pass("a").await;
            }
            Ok(())
        });
        Ok(json!(step.await.err().map(|it| it.code().to_owned())))
    });
    let (first, theatre) = troubled(&play).await;
    theatre.start("one").await;
    theatre.stage.came("a").await;
    // The process crashes once. More refusals than the maximum of crashes of a step must not add to
    // that.
    let held = GatedStore::new(first.inner.restart());
    held.busy_when_done.store(12, Ordering::SeqCst);
    let next = Theatre::on(held.clone(), theatre.clock.clone(), &play).await;
    assert_eq!(ends_in_time(&next, "one").await, Status::Complete(Value::Null));
    assert_eq!(held.busy_when_done.load(Ordering::SeqCst), 0);
    assert_eq!(next.stage.ran("a"), 2, "once for each process");
}

#[tokio::test]
async fn a_refused_record_does_not_run_concurrent_bodies_again() {
    let play = Play::of(|ctx, stage, _| async move {
        let body = async |name| {
            stage.count(name);
            stage.pass(name).await;
            Ok(())
        };
        let long = ctx.step("long", || body("long"));
        let short = ctx.step("short", || body("short"));
        ctx.join(long, short).await?;
        Ok(Value::Null)
    });
    let (held, theatre) = troubled(&play).await;
    theatre.start("one").await;
    theatre.stage.came("long").await;
    theatre.stage.came("short").await;
    held.busy_when_done.store(1, Ordering::SeqCst);
    theatre.stage.open("short", 1);
    a_minute(&theatre.clock).await;
    assert_eq!(held.busy_when_done.load(Ordering::SeqCst), 0);
    assert_eq!(["long", "short"].map(|it| theatre.stage.ran(it)), [1, 1]);
    theatre.stage.open("long", 1);
    assert_eq!(ends_in_time(&theatre, "one").await, Status::Complete(Value::Null));
    assert_eq!(["long", "short"].map(|it| theatre.stage.ran(it)), [1, 1]);
}

#[tokio::test]
async fn a_run_whose_start_was_not_answered_is_driven() {
    let play = Play::of(|_, _, _| async move { Ok(Value::Null) });
    let (held, theatre) = troubled(&play).await;
    held.hold();
    let runs = theatre.app.runs().clone();
    let start = tokio::spawn(async move { runs.start_json("play", "one", Value::Null).await });
    held.came().await;
    held.lose();
    held.let_go();
    assert!(start.await.unwrap().is_err(), "the outcome is unknown, and the error is returned");
    assert_eq!(ends_in_time(&theatre, "one").await, Status::Complete(Value::Null));
}

fn everything() -> Play {
    Play::of(|ctx, _, input| async move {
        ctx.step("a", async || Ok(())).await?;
        let sleeps = async {
            ctx.sleep("s", S * 3).await?;
            ctx.step("b", async || Ok(())).await
        };
        let listens = async {
            let event = ctx.event::<u32>("e").await?;
            ctx.step("c", async || {
                tokio::task::yield_now().await;
                Ok(event)
            })
            .await
        };
        ctx.join(sleeps, listens).await?;
        let late = ctx.timeout("t", S * 5, ctx.event::<u32>("f")).await?;
        ctx.step("d", async || Ok(late)).await?;
        Ok(input)
    })
    .options(RunOptions { concurrency: 2, ..RunOptions::DEFAULT })
}

/// Starts a run, sends it events of which some get lost, and at last one that resumes it.
async fn bother(theatre: &Theatre, id: &str, seed: u64) {
    let runs = theatre.app.runs();
    while runs.start_json("play", id, json!(1)).await.is_err() {
        yields(1).await;
    }
    yields(seed % 5).await;
    let _ = runs.send_event("play", id, "e", &7).await;
    let _ = runs.pause("play", id).await;
    yields(seed % 3).await;
    let _ = runs.send_event("play", id, "e", &7).await;
    let _ = runs.resume("play", id).await;
    yields(seed % 7).await;
    while runs.send_event("play", id, "e", &7).await.is_err() {
        yields(1).await;
    }
    while runs.resume("play", id).await.is_err() {
        yields(1).await;
    }
}

#[tokio::test]
async fn no_run_is_lost_on_a_store_that_fails_randomly() {
    for seed in 1..=40 {
        eprintln!("seed {seed}");
        let (held, theatre) = troubled(&everything()).await;
        held.make_trouble(seed * 7_919 + 1);
        for id in ["1", "2", "3", "4"] {
            bother(&theatre, id, seed).await;
        }
        for _ in 0..50 {
            theatre.clock.advance(S / 2);
            yields(60).await;
        }
        held.make_trouble(0);
        for id in ["1", "2", "3", "4"] {
            assert_eq!(ends_in_time(&theatre, id).await, Status::Complete(json!(1)), "{seed}");
        }
    }
}
