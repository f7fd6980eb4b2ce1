//! Edge cases of runs: panics, sizes, and conflicts.

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};
use steadfast_core::{
    Retry,
    store::{
        Address, Commit, Due, EntityKind, Json, ManualClock, MemoryStore, Message, Moment, Store,
        Task,
    },
    workflow::{RunOptions, Status},
};

use crate::{
    gated_store::GatedStore,
    lab::START,
    ledger::{AUDIT, Add},
    play::{Play, Theatre, until},
};

const S: Duration = Duration::from_secs(1);

fn memory() -> (ManualClock, Arc<MemoryStore>) {
    let clock = ManualClock::at(START);
    let store = Arc::new(MemoryStore::new(Arc::new(clock.clone())));
    (clock, store)
}

async fn theatre(play: &Play) -> Theatre {
    let (clock, store) = memory();
    Theatre::on(store, clock, play).await
}

async fn held(play: &Play) -> (Arc<GatedStore>, Theatre) {
    let clock = ManualClock::at(START);
    let held = GatedStore::new(MemoryStore::new(Arc::new(clock.clone())));
    let theatre = Theatre::on(held.clone(), clock, play).await;
    (held, theatre)
}

/// Yields to all other tasks, to check that something does not happen.
async fn yields() {
    for _ in 0..200 {
        tokio::task::yield_now().await;
    }
}

/// Waits, and advances the clock meanwhile.
async fn in_time(what: &str, clock: &ManualClock, mut holds: impl AsyncFnMut() -> bool) {
    until(what, async || {
        clock.advance(S / 10);
        holds().await
    })
    .await;
}

#[tokio::test]
async fn a_run_that_is_restarted_while_it_is_swept_stays() {
    let play = Play::of(|ctx, stage, input| async move {
        ctx.step("a", async || {
            if 1 < stage.count("a") {
                stage.pass("door").await;
            }
            Ok(())
        })
        .await?;
        Ok(input)
    });
    let (held, theatre) = held(&play).await;
    theatre.start("one").await;
    theatre.completes("one").await;
    theatre.clock.advance(S * 86_400 * 31);
    let runs = theatre.app.runs();
    // The sweep has read that the run is expired, and continues when it is not any more.
    let gate = held.expired.write().await;
    held.expired_asked.forget_permits(usize::MAX);
    let sweeper = runs.clone();
    let sweep = tokio::spawn(async move { sweeper.sweep(Duration::ZERO).await });
    held.expired_asked.acquire().await.unwrap().forget();
    runs.restart("play", "one", None).await.unwrap();
    theatre.stage.came("door").await;
    drop(gate);
    until("the sweep is over", async || sweep.is_finished()).await;
    assert_eq!(sweep.await.unwrap().unwrap(), 0, "a run that continues was erased");
    theatre.stage.open("door", 1);
    assert_eq!(theatre.completes("one").await, Value::Null);
}

struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        assert!(std::thread::panicking(), "as the test wanted");
    }
}

#[tokio::test]
async fn a_run_whose_code_panics_when_dropped_sleeps_wakes_and_can_be_stopped() {
    let play = Play::of(|ctx, _, input| async move {
        let mut bomb = Some(Bomb);
        ctx.sleep("nap", S * 100).await?;
        std::mem::forget(bomb.take());
        Ok(input)
    });
    let theatre = theatre(&play).await;
    for id in ["one", "two", "three"] {
        theatre.start(id).await;
        theatre.sleeps(id).await;
    }
    theatre.app.runs().terminate("play", "two").await.unwrap();
    assert_eq!(theatre.status("two").await, Status::Terminated);
    theatre.clock.advance(S * 100);
    until("it ends", async || theatre.status("one").await.is_final()).await;
    assert_eq!(theatre.status("one").await, Status::Complete(Value::Null));
    theatre.start("four").await;
    theatre.sleeps("four").await;
    // No run is active, so this need not wait for anything.
    theatre.app.stop().await;
}

#[tokio::test]
async fn progress_that_is_too_large_does_not_run_a_body_again() {
    let play = Play::of(|ctx, stage, input| async move {
        ctx.step("charge", async || Ok(stage.count("charge"))).retry(Retry::NEVER).await?;
        ctx.progress("x".repeat(1 << 20), None);
        Ok(input)
    });
    let theatre = theatre(&play).await;
    theatre.start("one").await;
    let ended = async || theatre.status("one").await.is_final();
    in_time("it ends", &theatre.clock, ended).await;
    assert_eq!(theatre.status("one").await, Status::Complete(Value::Null));
    assert_eq!(theatre.stage.ran("charge"), 1);
}

#[tokio::test]
async fn a_run_can_wait_for_very_many_things_at_once() {
    let play = Play::of(|ctx, stage, _| async move {
        stage.count("driven");
        ctx.map(0..12_000, 20_000, |_| ctx.sleep("until tomorrow", S * 86_400)).await?;
        Ok(Value::Null)
    });
    let theatre = theatre(&play).await;
    theatre.start("one").await;
    theatre.sleeps("one").await;
    for _ in 0..10 {
        theatre.clock.advance(S);
        yields().await;
    }
    assert_eq!(theatre.status("one").await, Status::Waiting);
    assert_eq!(theatre.stage.ran("driven"), 1);
}

#[tokio::test]
async fn a_float_is_the_same_in_a_replay() {
    // Careless reading of JSON would return neighbouring floats.
    let floats = [31.245_270_191_439_438, 121.487_919_511_619_45, 9_007_199_254_740_993e-20];
    let play = Play::of(move |ctx, stage, _| async move {
        let read: Vec<f64> = ctx.step("f", async || Ok(floats.to_vec())).await?;
        let bits = |all: &[f64]| all.iter().map(|it| it.to_bits()).collect::<Vec<_>>();
        stage.count(if bits(&read) == bits(&floats) { "same" } else { "other" });
        ctx.event::<()>("go").await?;
        Ok(Value::Null)
    });
    let theatre = theatre(&play).await;
    theatre.start("one").await;
    theatre.sleeps("one").await;
    theatre.send("one", "go", &Value::Null).await;
    theatre.completes("one").await;
    assert_eq!(["same", "other"].map(|it| theatre.stage.ran(it)), [2, 0]);
}

#[tokio::test]
async fn a_body_that_panics_before_it_is_a_future_is_tried_again() {
    let play = Play::of(|ctx, stage, _| async move {
        let step = ctx.step("a", || {
            assert!(3 <= stage.count("a"), "as the test wanted");
            async { Ok(1) }
        });
        Ok(json!(step.retry(Retry::constant(Duration::ZERO)).await?))
    });
    let theatre = theatre(&play).await;
    theatre.start("one").await;
    assert_eq!(theatre.completes("one").await, json!(1));
    assert_eq!(theatre.stage.ran("a"), 3);
}

#[tokio::test]
async fn a_run_that_continues_immediately_takes_a_permit() {
    let play = Play::of(|ctx, stage, _| async move {
        ctx.step("a", async || {
            stage.count("a");
            stage.pass("a").await;
            Ok(())
        })
        .await?;
        ctx.event::<()>("go").await?;
        ctx.step("b", async || {
            stage.pass("b").await;
            Ok(())
        })
        .await?;
        Ok(Value::Null)
    })
    .options(RunOptions { concurrency: 1, ..RunOptions::DEFAULT });
    let (held, theatre) = held(&play).await;
    theatre.start("one").await;
    theatre.stage.came("a").await;
    // The event arrives while the run is about to sleep.
    held.hold();
    theatre.stage.open("a", 1);
    held.came().await;
    held.release();
    held.let_go();
    theatre.send("one", "go", &Value::Null).await;
    theatre.stage.came("b").await;
    theatre.start("two").await;
    for _ in 0..10 {
        yields().await;
    }
    assert_eq!(theatre.stage.ran("a"), 1, "two runs are awake, one may be");
    theatre.stage.open("b", 1);
    theatre.completes("one").await;
    theatre.stage.came("a").await;
}

#[tokio::test]
async fn a_waiter_is_notified_of_the_next_run_of_an_id() {
    let play = Play::of(|ctx, stage, input| async move {
        for _ in 0..5 {
            ctx.step("a", async || {
                stage.pass("a").await;
                Ok(())
            })
            .await?;
        }
        Ok(input)
    });
    let theatre = theatre(&play).await;
    let runs = theatre.app.runs();
    theatre.start("one").await;
    theatre.stage.open("a", 5);
    // A watcher of the first run, whose history is longer, still exists.
    let watcher = runs.clone();
    let page = tokio::spawn(async move { watcher.grown("play", "one", 1_000).await });
    theatre.completes("one").await;
    yields().await;
    runs.delete("play", "one").await.unwrap();
    let starter = runs.clone();
    let waits = tokio::spawn(async move {
        starter.start_json_and_wait("play", "one", json!(2), std::future::pending()).await
    });
    yields().await;
    runs.terminate("play", "one").await.unwrap();
    until("the waiter is notified", async || waits.is_finished()).await;
    let started = waits.await.unwrap().unwrap();
    assert_eq!((started.created, started.status), (true, Status::Terminated));
    page.abort();
}

#[tokio::test]
async fn a_run_that_records_without_pause_can_be_paused() {
    let play = Play::of(|ctx, stage, _| async move {
        loop {
            ctx.step("x", async || Ok(stage.count("x"))).await?;
        }
    });
    let (held, theatre) = held(&play).await;
    let runs = theatre.app.runs();
    theatre.start("one").await;
    until("it records", async || 10 <= theatre.stage.ran("x")).await;
    // On a slow store, the run's next commit is always before that of a pause.
    held.hold();
    held.came().await;
    let pauser = runs.clone();
    let pause = tokio::spawn(async move { pauser.pause("play", "one").await });
    for _ in 0..100 {
        yields().await;
        if pause.is_finished() {
            break;
        }
        held.release();
    }
    assert!(pause.is_finished(), "it was in the way of a hundred commits");
    held.let_go();
    pause.await.unwrap().unwrap();
    until("it is paused", async || theatre.status("one").await.is_paused()).await;
}

#[tokio::test]
async fn code_that_does_not_fit_its_history_sends_nothing() {
    let old = Play::of(|ctx, _, _| async move {
        let first = async {
            ctx.step("x", async || Ok(1)).await?;
            ctx.event::<()>("go").await
        };
        ctx.join(first, ctx.event::<()>("go2")).await?;
        Ok(Value::Null)
    });
    let theatre = theatre(&old).await;
    theatre.start("one").await;
    theatre.sleeps("one").await;
    let new = Play::of(|ctx, _, _| async move {
        let sends = async {
            ctx.send(AUDIT, Add { by: 1 }).await?;
            ctx.event::<()>("go2").await
        };
        ctx.join(ctx.step("y", async || Ok(1)), sends).await?;
        Ok(Value::Null)
    });
    let theatre = theatre.again(&new, S).await;
    theatre.send("one", "nothing", &Value::Null).await;
    until("it is paused", async || theatre.status("one").await.is_paused()).await;
    let entries: Vec<_> = theatre.history("one").await.into_iter().map(|it| it.entry).collect();
    assert!(!entries.iter().any(|it| it == "sent"), "{entries:?}");
}

/// A message that starts a run of the play tomorrow.
async fn starts_another_tomorrow(store: &MemoryStore) -> Address {
    let target = Address::new(EntityKind::System, "x", "y").unwrap();
    let due = Due::After(S * 86_400);
    let message = Message::new("x", Json::of(&json!("other")).unwrap())
        .unwrap()
        .action("start")
        .metadata(Json::of(&json!({"to": "run/play/two"})).unwrap())
        .unwrap()
        .task(Task { target: target.clone(), ordered: false, due });
    store.commit(Commit::append(&target, 0, vec![message])).await.unwrap();
    target
}

#[tokio::test]
async fn a_run_that_is_driven_apart_does_not_hold_up_the_others() {
    let play = Play::of(|ctx, stage, input| async move {
        if input == json!("other") {
            stage.count("other");
            return Ok(input);
        }
        let step = ctx.step("long", async || {
            stage.pass("door").await;
            Ok(())
        });
        step.timeout(S * 86_400 * 900).await?;
        Ok(input)
    });
    let (clock, mut store) = memory();
    let target = starts_another_tomorrow(&store).await;
    let mut theatres = vec![Theatre::on(store.clone(), clock.clone(), &play).await];
    theatres[0].start("one").await;
    play.stage.came("door").await;
    // Enough processes crash in its step that it is a suspect.
    for _ in 0..5 {
        store.crash_at(1, Moment::Before);
        let _ = store.commit(Commit::append(&target, 9, vec![])).await;
        assert!(store.has_crashed());
        store = Arc::new(store.restart());
        theatres.push(Theatre::on(store.clone(), clock.clone(), &play).await);
        for _ in 0..600 {
            clock.advance(S);
            tokio::task::yield_now().await;
            tokio::task::yield_now().await;
        }
        play.stage.came("door").await;
    }
    clock.advance(S * 86_400);
    in_time("the other one runs", &clock, async || play.stage.ran("other") == 1).await;
    // The bodies of the crashed processes wait there too.
    play.stage.open("door", theatres.len());
    let last = theatres.last().unwrap();
    in_time("the long one ends", &clock, async || last.status("one").await.is_final()).await;
}
