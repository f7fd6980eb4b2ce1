//! Known flaws of other engines: steps that fail, take too long, or return values that cannot be
//! recorded.

use std::{collections::HashMap, sync::Arc, time::Duration};

use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Value, json};
use steadfast_core::{
    App, Ctx, Error, Result, Retry, Workflow,
    store::{Clock, ManualClock, MemoryStore, Sleep, TimeLeft, Timestamp},
    test::TestApp,
    workflow::{AttemptView, Status},
};

use crate::{
    lab::Lab,
    play::{Play, Stage, Theatre, until},
};

async fn app(play: &Play) -> TestApp {
    let app = App::new("test").workflow(play.clone()).test().await.unwrap();
    app.start(Play::at("one"), Value::Null).await.unwrap();
    app
}

async fn status(app: &TestApp) -> Status {
    app.runs().status("play", "one").await.unwrap()
}

/// The attempts of the first step.
async fn attempts(app: &TestApp) -> Vec<AttemptView> {
    app.runs().look("play", "one").await.unwrap().steps[0].attempts.clone()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn there_is_one_attempt_more_than_retries_and_waits_between_them_grow_as_said() {
    let second = Duration::from_secs(1);
    let cases = [
        (Retry::constant(second), [1, 1, 1]),
        (Retry::linear(second), [1, 2, 3]),
        (Retry::exponential(second), [1, 2, 4]),
    ];
    for (retry, seconds) in cases {
        let play = Play::of(move |ctx, stage, _| async move {
            let body = async || Err::<(), _>(Error::retryable(stage.count("a")));
            ctx.step("a", body).retry(retry.limit(3)).await?;
            Ok(Value::Null)
        });
        let app = app(&play).await;
        app.advance(Duration::from_secs(60)).await;
        let Status::Errored(error) = status(&app).await else { panic!("it has failed") };
        assert_eq!((error.to_string().as_str(), play.stage.ran("a")), ("4", 4));
        let began: Vec<_> = attempts(&app).await.iter().map(|it| it.started_at.0).collect();
        for (pair, wanted) in began.windows(2).zip(seconds) {
            let (waited, wanted) = (pair[1].since(pair[0]), second * wanted);
            // Up to a quarter more, so that retries spread out.
            assert!(wanted <= waited && waited <= wanted * 5 / 4, "{retry:?}: {began:?}");
        }
        assert_eq!(began.len(), 4);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_attempt_that_takes_too_long_has_failed() {
    let play = Play::of(|ctx, stage, _| async move {
        let body = async || {
            stage.pass("door").await;
            Ok(json!("late"))
        };
        let retry = Retry::constant(Duration::from_secs(1)).limit(2);
        ctx.step("slow", body).timeout(Duration::from_secs(5)).retry(retry).await
    });
    let lab = Lab::memory().await;
    let theatre = Theatre::on(lab.store.clone(), lab.clock.clone(), &play).await;
    theatre.start("one").await;
    for _ in 0..2 {
        theatre.stage.came("door").await;
        theatre.clock.advance(Duration::from_secs(5));
        theatre.go_to_next().await;
    }
    theatre.stage.came("door").await;
    theatre.clock.advance(Duration::from_secs(5));
    let Status::Errored(error) = theatre.ends("one").await else { panic!("it has failed") };
    assert_eq!(error.code(), "timeout");
    let view = theatre.app.runs().look("play", "one").await.unwrap();
    assert_eq!(view.steps[0].attempts.len(), 3);
}

/// A clock that wakes no sleeper early, like that of the machine.
#[derive(Debug)]
struct Strict(ManualClock);

impl Clock for Strict {
    fn now(&self) -> Timestamp {
        self.0.now()
    }

    fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }

    fn wait<'a>(&'a self, left: TimeLeft<'a>) -> Sleep<'a> {
        Box::pin(async move {
            loop {
                let (clock, now, left) = (self.0.clone(), self.0.elapsed(), left());
                if left.is_zero() {
                    return;
                }
                let passed = move || (now + left).saturating_sub(clock.elapsed());
                let clock = self.0.clone();
                let waiting = async move { clock.wait(Box::new(passed)).await };
                tokio::spawn(waiting).await.unwrap();
            }
        })
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn timers_of_one_branch_fire_while_a_body_of_another_is_in_flight() {
    let play = Play::of(|ctx, stage, _| async move {
        let long = async || {
            stage.pass("long").await;
            Ok(json!("long"))
        };
        let short = async {
            ctx.sleep("nap", Duration::from_secs(7)).await?;
            ctx.step("short", async || passed(&stage, "short").await).await
        };
        let limit = Duration::from_secs(60);
        let long = ctx.timeout("limit", limit, ctx.step("long", long));
        let (long, ()) = ctx.join(long, short).await?;
        Ok(json!(long))
    });
    let clock = ManualClock::at(Timestamp(1_700_000_000_000));
    let store = Arc::new(MemoryStore::new(Arc::new(Strict(clock.clone()))));
    let app = App::new("test").workflow(play.clone()).start(store.clone()).await.unwrap();
    let theatre = Theatre { store, clock, app, stage: play.stage.clone() };
    theatre.start("one").await;
    theatre.stage.came("long").await;
    until("both timers are recorded", async || {
        theatre.history("one").await.iter().filter(|it| it.entry == "timer").count() == 2
    })
    .await;
    theatre.clock.advance(Duration::from_secs(7));
    theatre.stage.came("short").await;
    theatre.stage.open("short", 1);
    theatre.clock.advance(Duration::from_secs(53));
    assert_eq!(theatre.completes("one").await, Value::Null, "it took too long");
    theatre.app.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_script_lets_attempts_time_out_fail_and_give() {
    let play = Play::of(|ctx, stage, _| async move {
        ctx.step("a", async || Ok(json!(stage.count("a")))).await
    });
    let app = App::new("test").workflow(play.clone()).test().await.unwrap();
    let script = app.script::<Play>("a").times_out().fails(Error::retryable("no"));
    script.times_out().gives(&"scripted".to_owned());
    app.start(Play::at("one"), Value::Null).await.unwrap();
    app.advance(Duration::from_mins(1)).await;
    assert_eq!(status(&app).await, Status::Complete(json!("scripted")));
    let codes = attempts(&app).await;
    let codes: Vec<_> = codes.iter().map(|it| it.error.as_ref().map(|it| &*it.code)).collect();
    assert_eq!(codes, [Some("timeout"), Some("failed"), Some("timeout"), None]);
    assert_eq!(play.stage.ran("a"), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_panic_in_a_step_is_a_failed_attempt_and_one_in_the_run_is_its_end() {
    let play = Play::of(|ctx, stage, _| async move {
        let body = async || match stage.count("a") {
            1 => panic!("as the test wanted"),
            count => Ok(count),
        };
        ctx.step("a", body).await?;
        ctx.sleep("nap", Duration::from_secs(1)).await?;
        let right = async || -> Result<()> { panic!("and this") };
        ctx.join(ctx.sleep("other", Duration::ZERO), right()).await?;
        Ok(Value::Null)
    });
    let app = app(&play).await;
    app.advance(Duration::from_mins(1)).await;
    let Status::Errored(error) = status(&app).await else { panic!("it has failed") };
    assert_eq!(error.code(), "run_panicked");
    assert!(error.to_string().contains("and this"), "{error}");
    let attempts = attempts(&app).await;
    let first = attempts[0].error.as_ref().unwrap();
    assert_eq!((attempts.len(), first.code.as_str()), (2, "step_panicked"));
    assert_eq!(play.stage.ran("a"), 2);
}

/// Its Serialize fails.
#[derive(Deserialize)]
struct Shy;

impl Serialize for Shy {
    fn serialize<S: Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
        Err(serde::ser::Error::custom("not in public"))
    }
}

fn nested(levels: usize) -> Value {
    (0..levels).fold(Value::Null, |inner, _| json!([inner]))
}

/// The error code of a step, or `ok`.
async fn code<T: steadfast_core::Body>(
    ctx: &Ctx,
    name: &str,
    value: impl Fn() -> T + Send + Sync,
) -> String {
    let gave = ctx.step(name, async || Ok(value())).await;
    gave.map_or_else(|error| error.code().to_owned(), |_| "ok".to_owned())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_result_that_cannot_be_recorded_is_an_error_of_its_step_in_each_replay() {
    let play = Play::of(|ctx, stage, _| async move {
        let mut codes = vec![
            code(&ctx, "shy", || Shy).await,
            code(&ctx, "keys", || HashMap::from([((1, 2), 3)])).await,
            code(&ctx, "wide", || u128::MAX).await,
            code(&ctx, "large", || "x".repeat(1_000_000)).await,
            // JSON has no such number: it is null.
            code(&ctx, "none", || Some(f64::NAN)).await,
            code(&ctx, "number", || f64::NAN).await,
        ];
        for levels in 120..135 {
            codes.push(code(&ctx, "deep", || nested(levels)).await);
        }
        stage.count("ran");
        ctx.sleep("nap", Duration::from_secs(1)).await?;
        Ok(json!(codes))
    });
    let app = app(&play).await;
    app.advance(Duration::from_mins(1)).await;
    let Status::Complete(codes) = status(&app).await else { panic!("{:?}", status(&app).await) };
    let codes: Vec<String> = serde_json::from_value(codes).unwrap();
    assert_eq!(play.stage.ran("ran"), 2, "it was replayed");
    assert_eq!(codes[..3], ["unserializable_result"; 3]);
    assert_eq!(codes[3..6], ["result_too_large", "ok", "unserializable_result"]);
    let (kept, lost): (Vec<&String>, _) = codes[6..].iter().partition(|it| *it == "ok");
    assert!(!kept.is_empty() && !lost.is_empty(), "{codes:?}");
    assert!(lost.iter().all(|it| *it == "unserializable_result"), "{codes:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_whose_output_cannot_be_recorded_has_failed() {
    for (levels, bytes, wanted) in [
        (1, 1_000_001, "result_too_large"),
        (126, 1, "complete"),
        (127, 1, "unserializable_result"),
        (200, 1, "unserializable_result"),
    ] {
        let play =
            Play::of(
                move |_, _, _| async move { Ok(json!({ "x".repeat(bytes): nested(levels - 1) })) },
            );
        let app = app(&play).await;
        app.settle().await;
        let found = match status(&app).await {
            Status::Errored(error) => error.code().to_owned(),
            other => other.tag().to_owned(),
        };
        assert_eq!(found, wanted, "{levels} levels");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_error_of_a_large_result_names_the_step_and_uncaught_it_ends_the_run() {
    let play = Play::of(|ctx, stage, _| async move {
        let body = async || Ok(stage.count("a").to_string().repeat(1_000_000));
        Ok(json!(ctx.step("report", body).await?))
    });
    let app = app(&play).await;
    app.advance(Duration::from_mins(10)).await;
    let Status::Errored(error) = status(&app).await else { panic!("it has failed") };
    assert_eq!(error.code(), "result_too_large");
    assert!(error.to_string().contains("step `report`"), "{error}");
    assert_eq!(play.stage.ran("a"), 1, "trying again gives the same");
}

async fn passed(stage: &Stage, door: &str) -> Result<()> {
    stage.pass(door).await;
    Ok(())
}
