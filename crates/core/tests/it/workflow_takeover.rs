//! A process that crashes in the middle of a step: every result is recorded once, and a step that
//! crashes each process fails.

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};
use steadfast_core::{
    App, Error, Result, Retry, Workflow,
    store::{ManualClock, MemoryStore, Moment},
    test::assert_survives_crashes,
    workflow::Status,
};

use crate::{
    lab::START,
    play::{Play, Theatre},
};

/// Processes on one store in memory, each of which crashes on request.
struct Processes {
    store: Arc<MemoryStore>,
    clock: ManualClock,
    play: Play,
}

impl Processes {
    fn of(play: Play) -> Self {
        let clock = ManualClock::at(START);
        let store = Arc::new(MemoryStore::new(Arc::new(clock.clone())));
        Self { store, clock, play }
    }

    async fn next(&mut self) -> Theatre {
        self.store = Arc::new(self.store.restart());
        Theatre::on(self.store.clone(), self.clock.clone(), &self.play).await
    }

    /// Crashes the process. Its memory is lost.
    async fn end(&self, theatre: Theatre) {
        self.store.crash_at(1, Moment::Before);
        let refused = theatre.app.start(Play::at("nobody"), Value::Null).await;
        assert!(refused.is_err());
        theatre.app.runs().stop(Duration::ZERO).await;
        self.clock.advance(Duration::from_secs(1));
    }

    /// Whether a body arrives at its door before the run ends. Takeovers are delayed more and more,
    /// so time passes.
    async fn comes_to(&self, door: &str, theatre: &Theatre) -> bool {
        let ended = theatre.app.runs().wait("play", "one");
        let time = async {
            // Real time passes as well, so that due work runs in between.
            let mut pause = tokio::time::interval(Duration::from_millis(1));
            loop {
                pause.tick().await;
                self.clock.advance(Duration::from_secs(1));
            }
        };
        tokio::select! {
            () = self.play.stage.came(door) => true,
            _ = ended => false,
            () = time => false,
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_step_that_crashes_each_process_fails_for_good_and_the_run_may_continue() {
    let mut processes = Processes::of(Play::of(|ctx, stage, _| async move {
        ctx.step("first", async || Ok(stage.count("first"))).await?;
        let body = async || -> Result<()> {
            stage.count("fatal");
            stage.pass("door").await;
            Ok(())
        };
        let failed = ctx.step("fatal", body).retry(Retry::NEVER).await.unwrap_err();
        ctx.sleep("nap", Duration::from_secs(1)).await?;
        Ok(json!(failed.code()))
    }));
    let theatre = processes.next().await;
    theatre.start("one").await;
    processes.play.stage.came("door").await;
    processes.end(theatre).await;
    for process in 2.. {
        let theatre = processes.next().await;
        if !processes.comes_to("door", &theatre).await {
            assert_eq!(theatre.completes("one").await, json!("process_ended"));
            break;
        }
        assert!(process < 20, "it is never given up");
        processes.end(theatre).await;
    }
    // A step without retries is repeated as well. There may be one more attempt, because the first
    // takeover may blame no step.
    let fatal = processes.play.stage.ran("fatal");
    assert!((8..=9).contains(&fatal), "{fatal}");
    assert_eq!(processes.play.stage.ran("first"), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_step_is_not_blamed_for_processes_that_ended_before_it_began() {
    let mut processes = Processes::of(Play::of(|ctx, stage, _| async move {
        for name in ["a", "b", "c", "d"] {
            let body = async || {
                stage.count(name);
                stage.pass("door").await;
                Ok(())
            };
            let retry = Retry::constant(Duration::from_secs(1)).limit(1);
            ctx.step(name, body).retry(retry).await?;
        }
        Ok(json!("all"))
    }));
    let theatre = processes.next().await;
    theatre.start("one").await;
    processes.play.stage.came("door").await;
    processes.end(theatre).await;
    for _ in ["b", "c", "d"] {
        // The previous step runs again; the process crashes in the next one.
        let theatre = processes.next().await;
        assert!(processes.comes_to("door", &theatre).await, "{:?}", theatre.status("one").await);
        processes.play.stage.open("door", 1);
        assert!(processes.comes_to("door", &theatre).await, "{:?}", theatre.status("one").await);
        processes.end(theatre).await;
    }
    let theatre = processes.next().await;
    assert!(processes.comes_to("door", &theatre).await, "{:?}", theatre.status("one").await);
    processes.play.stage.open("door", 1);
    assert_eq!(theatre.completes("one").await, json!("all"));
    let ran = ["a", "b", "c", "d"].map(|it| processes.play.stage.ran(it));
    assert_eq!(ran, [2; 4]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wherever_the_process_ends_a_step_is_recorded_once_and_runs_once_in_each_process() {
    let play = Play::of(|ctx, stage, _| async move {
        for name in ["a", "b", "c"] {
            ctx.step(name, async || Ok(stage.count(name))).await?;
        }
        Ok(json!("done"))
    });
    let stage = play.stage.clone();
    let program = || {
        stage.count("processes");
        App::new("test").workflow(play.clone())
    };
    let survived = assert_survives_crashes(program, async |app| {
        app.start(Play::at("one"), Value::Null).await?;
        app.settle().await;
        let history = app.runs().history("play", "one", 0, 100).await?;
        let status = app.runs().status("play", "one").await?;
        let Status::Complete(output) = status else {
            return Err(Error::retryable(format!("{status:?}")));
        };
        let done = history.iter().filter(|it| it.entry == "done");
        let done: Vec<Value> = done.map(|it| it.fields["key"]["name"].clone()).collect();
        assert_eq!(app.store().violations().await?, Vec::<String>::new());
        Ok((output, done))
    })
    .await;
    assert!(6 <= survived, "{survived}");
    for name in ["a", "b", "c"] {
        let (ran, processes) = (stage.ran(name), stage.ran("processes"));
        assert!(survived < ran as usize && ran <= processes, "{name}: {ran} of {processes}");
    }
}
