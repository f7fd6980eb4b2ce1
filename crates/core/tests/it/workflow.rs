//! Workflows on every store: the guarantees of a run.

use std::time::Duration;

use serde_json::{Value, json};
use steadfast_core::{
    App, Ctx, Object, Result, Runtime, Workflow,
    store::{Clock, DueCursor, Position, SeededEntropy},
    test::assert_survives_crashes,
    workflow::Status,
};

use crate::{
    lab::Lab,
    ledger::{Announce, Ledger, Order},
    play::{due, ends, results, until},
    trip::{Do, Trip},
};

laws!(
    steps_run_once_and_their_results_are_recorded,
    an_id_is_one_run_whoever_starts_it,
    a_step_is_retried_by_its_policy_and_then_fails,
    an_error_that_was_caught_is_the_same_in_a_replay,
    a_sleeping_run_holds_nothing_and_wakes_in_time,
    events_wait_are_taken_once_and_in_order,
    an_event_that_does_not_come_in_time_is_none,
    concurrent_branches_are_distinguished,
    a_pause_moves_timers_and_an_end_is_an_end,
    a_restart_keeps_the_results_before_the_step,
    a_run_that_a_turn_starts_is_made_once,
);
laws!(also on postgres:
    steps_run_once_and_their_results_are_recorded,
    an_id_is_one_run_whoever_starts_it,
    a_sleeping_run_holds_nothing_and_wakes_in_time,
    a_restart_keeps_the_results_before_the_step,
);

struct Bench {
    lab: Lab,
    app: Runtime,
    trip: Trip,
}

impl Bench {
    async fn on(lab: Lab) -> Self {
        let trip = Trip::default();
        let app = App::new("test")
            .workflow(trip.clone())
            .entropy(SeededEntropy::new(1))
            .start(lab.store.clone())
            .await
            .expect("runtime starts");
        Self { lab, app, trip }
    }

    async fn start(&self, id: &str, input: &[Do]) {
        let started = self.app.start(Trip::at(id), input.to_vec()).await.unwrap();
        assert!(started.created);
    }

    async fn ends(&self, id: &str) -> Status {
        ends(&self.app, "trip", id).await
    }

    async fn completes(&self, id: &str) -> Value {
        match self.ends(id).await {
            Status::Complete(output) => output,
            other => panic!("{other:?}"),
        }
    }

    /// Waits until all pending work is due later, and advances the clock to it; returns that time.
    async fn go_to_next(&self) -> Duration {
        let now = self.lab.clock.now();
        let mut far = None;
        until("only later work is left", async || {
            let later = DueCursor { due_at: now, position: Position::MAX };
            let pending = due(self.lab.store.as_ref(), DueCursor::START, 10).await;
            let next = due(self.lab.store.as_ref(), later, 1).await;
            // An active run holds its wake-up.
            let is_quiet = pending.iter().all(|it| now < it.due_at && it.claim.is_none());
            far = next.first().filter(|_| is_quiet).map(|it| it.due_at.since(now));
            far.is_some()
        })
        .await;
        let far = far.unwrap();
        self.lab.clock.advance(far);
        far
    }
}

fn step(name: &str) -> Do {
    Do::Step { name: name.into(), fails: 0 }
}

async fn steps_run_once_and_their_results_are_recorded(lab: Lab) {
    let bench = Bench::on(lab).await;
    let input = [step("a"), step("a"), step("b"), Do::Chance, Do::Panics { name: "p".into() }];
    bench.start("one", &input).await;
    let output = bench.completes("one").await;
    assert_eq!((&output[0], &output[1], &output[2]), (&json!("a"), &json!("a"), &json!("b")));
    assert_eq!(output[4], "step_panicked");
    assert_eq!((bench.trip.ran("a"), bench.trip.ran("b"), bench.trip.ran("p")), (2, 1, 1));
    let recorded = results(bench.app.runs(), "trip", "one").await.unwrap();
    assert_eq!(recorded[1], ("step `a` (2)".into(), Some(json!("a"))));
}

async fn an_id_is_one_run_whoever_starts_it(lab: Lab) {
    let bench = Bench::on(lab).await;
    bench.start("one", &[step("a")]).await;
    bench.completes("one").await;
    let again = bench.app.start(Trip::at("one"), vec![step("b")]).await.unwrap();
    assert_eq!((again.created, again.status.tag()), (false, "complete"));
    assert_eq!((bench.trip.ran("a"), bench.trip.ran("b")), (1, 0));
    for id in ["", "a b", "é", &"x".repeat(129)] {
        let refused = bench.app.start(Trip::at(id), Vec::new()).await.unwrap_err();
        assert_eq!(refused.code(), "invalid_name");
    }
    let runs = bench.app.runs();
    assert_eq!(runs.status("trip", "none").await.unwrap_err().code(), "run_not_found");
    let unknown = runs.start_json("none", "x", Value::Null).await.unwrap_err();
    assert_eq!(unknown.code(), "workflow_not_found");
    let malformed = runs.start_json("trip", "bad", json!("text")).await.unwrap();
    assert!(malformed.created);
    let Status::Errored(error) = bench.ends("bad").await else { panic!("it cannot be read") };
    assert_eq!(error.code(), "malformed_input");
}

async fn a_step_is_retried_by_its_policy_and_then_fails(lab: Lab) {
    let bench = Bench::on(lab).await;
    bench.start("late", &[Do::Step { name: "a".into(), fails: 2 }, step("b")]).await;
    let waits = [bench.go_to_next().await, bench.go_to_next().await];
    assert_eq!(bench.completes("late").await, json!(["a", "b"]));
    assert_eq!(bench.trip.ran("a"), 3);
    let (least, most) = (Duration::from_secs(10), Duration::from_millis(12_500));
    assert!(waits.iter().all(|it| least <= *it && *it <= most), "{waits:?}");
    bench.start("never", &[Do::Step { name: "x".into(), fails: 99 }]).await;
    for _ in 0..5 {
        bench.go_to_next().await;
    }
    let Status::Errored(error) = bench.ends("never").await else { panic!("it failed") };
    assert_eq!((error.to_string(), bench.trip.ran("x")), ("x is not ready".into(), 6));
}

async fn an_error_that_was_caught_is_the_same_in_a_replay(lab: Lab) {
    let bench = Bench::on(lab).await;
    let refused = || Do::Refused { name: "r".into() };
    bench.start("one", &[refused(), Do::Sleep { seconds: 60 }, refused()]).await;
    bench.go_to_next().await;
    let output = bench.completes("one").await;
    assert_eq!(output, json!(["refused_for_good", "slept", "refused_for_good"]));
    assert_eq!(bench.trip.ran("r"), 2, "the first one was not run again");
}

async fn a_sleeping_run_holds_nothing_and_wakes_in_time(mut lab: Lab) {
    let month = 30 * 24 * 60 * 60;
    let input = [step("a"), Do::Chance, Do::Sleep { seconds: month }, step("b"), Do::Chance];
    let bench = Bench::on(lab).await;
    bench.start("one", &input).await;
    until("the step runs", async || 0 < bench.trip.ran("a")).await;
    assert_eq!(bench.go_to_next().await, Duration::from_secs(month));
    let first = bench.completes("one").await;
    assert_eq!((bench.trip.ran("a"), bench.trip.ran("b")), (1, 1));
    assert_eq!(first[4][0].as_i64().unwrap() - first[1][0].as_i64().unwrap(), month as i64 * 1_000);
    let Bench { app, lab: back, .. } = bench;
    app.stop().await;
    lab = back;
    lab.assert_sound().await;
}

async fn events_wait_are_taken_once_and_in_order(lab: Lab) {
    let bench = Bench::on(lab).await;
    let event = || Do::Event { name: "e".into() };
    let runs = bench.app.runs();
    bench.start("one", &[Do::Sleep { seconds: 5 }, event(), event(), event()]).await;
    for number in 1..=2 {
        runs.send_event("trip", "one", "e", &number).await.unwrap();
    }
    runs.send_event("trip", "one", "other", &"not this").await.unwrap();
    bench.go_to_next().await;
    runs.send_event("trip", "one", "e", &3).await.unwrap();
    assert_eq!(bench.completes("one").await, json!(["slept", 1, 2, 3]));
    let late = runs.send_event("trip", "one", "e", &4).await.unwrap_err();
    assert_eq!(late.code(), "wrong_status");
}

async fn an_event_that_does_not_come_in_time_is_none(lab: Lab) {
    let bench = Bench::on(lab).await;
    let within = || Do::EventWithin { name: "pay".into(), seconds: 900 };
    bench.start("late", &[within(), step("a")]).await;
    bench.start("paid", &[within(), step("a")]).await;
    bench.app.runs().send_event("trip", "paid", "pay", &"yes").await.unwrap();
    assert_eq!(bench.completes("paid").await, json!(["yes", "a"]));
    bench.go_to_next().await;
    assert_eq!(bench.completes("late").await, json!([null, "a"]));
}

async fn concurrent_branches_are_distinguished(lab: Lab) {
    let bench = Bench::on(lab).await;
    let nap = |seconds| Do::Sleep { seconds };
    let input = [
        Do::Join { left: vec![step("s"), nap(9), step("s")], right: vec![step("s"), nap(5)] },
        Do::Map { items: (0..5).map(|it| step(&format!("m{it}"))).collect(), limit: 2 },
        Do::Select { left: vec![nap(9), step("slow")], right: vec![nap(5), step("fast")] },
        step("end"),
    ];
    bench.start("one", &input).await;
    for _ in 0..3 {
        bench.go_to_next().await;
    }
    let output = bench.completes("one").await;
    assert_eq!(output[0], json!([["s", "slept", "s"], ["s", "slept"]]));
    assert_eq!(output[1], json!(["m0", "m1", "m2", "m3", "m4"]));
    assert_eq!(output[2], json!({ "right": ["slept", "fast"] }));
    assert_eq!((bench.trip.ran("s"), bench.trip.ran("slow"), bench.trip.ran("end")), (3, 0, 1));
}

async fn a_pause_moves_timers_and_an_end_is_an_end(lab: Lab) {
    let bench = Bench::on(lab).await;
    let runs = bench.app.runs();
    bench.start("one", &[Do::Sleep { seconds: 100 }, step("a")]).await;
    let store = bench.lab.store.as_ref();
    until("it sleeps", async || !due(store, DueCursor::START, 9).await.is_empty()).await;
    runs.pause("trip", "one").await.unwrap();
    assert_eq!(bench.ends("one").await, Status::Paused(None));
    bench.lab.clock.advance(Duration::from_secs(1_000));
    runs.resume("trip", "one").await.unwrap();
    bench.go_to_next().await;
    assert_eq!(bench.completes("one").await, json!(["slept", "a"]));
    assert!(Duration::from_secs(1_090) < bench.lab.clock.now().since(crate::lab::START));
    for refused in [
        runs.pause("trip", "one").await,
        runs.terminate("trip", "one").await,
        runs.resume("trip", "one").await,
    ] {
        assert_eq!(refused.unwrap_err().code(), "wrong_status");
    }
    bench.start("two", &[Do::Event { name: "never".into() }]).await;
    assert_eq!(runs.restart("trip", "two", None).await.unwrap_err().code(), "wrong_status");
    runs.terminate("trip", "two").await.unwrap();
    assert_eq!(bench.ends("two").await, Status::Terminated);
}

async fn a_restart_keeps_the_results_before_the_step(lab: Lab) {
    let bench = Bench::on(lab).await;
    let runs = bench.app.runs();
    bench.start("one", &[step("a"), step("b"), step("c")]).await;
    bench.completes("one").await;
    runs.restart("trip", "one", Some("b")).await.unwrap();
    bench.completes("one").await;
    let ran = |name: &str| bench.trip.ran(name);
    assert_eq!((ran("a"), ran("b"), ran("c")), (1, 2, 2));
    let unknown = runs.restart("trip", "one", Some("z")).await.unwrap_err();
    assert_eq!(unknown.code(), "step_not_found");
    runs.restart("trip", "one", None).await.unwrap();
    bench.completes("one").await;
    assert_eq!((ran("a"), ran("b"), ran("c")), (2, 3, 3));
}

async fn a_run_that_a_turn_starts_is_made_once(lab: Lab) {
    let app = App::new("test")
        .object(Ledger::default())
        .workflow(Order)
        .start(lab.store.clone())
        .await
        .unwrap();
    for _ in 0..2 {
        app.call(Ledger::at("a"), Announce).await.unwrap();
    }
    // The message that starts it is being delivered.
    until("it is there", async || app.runs().status("order", "o-1").await.is_ok()).await;
    let status = app.runs().wait("order", "o-1").await.unwrap();
    assert_eq!(status, Status::Complete(Value::Null));
    assert_eq!(app.runs().look("order", "o-1").await.unwrap().input, "a book");
}

/// The same workflow in two versions of a program.
struct Changing {
    steps: &'static [&'static str],
}

impl Workflow for Changing {
    const NAME: &'static str = "changing";
    type Input = ();
    type Output = ();

    async fn run(&self, ctx: &Ctx, (): ()) -> Result<()> {
        for name in self.steps {
            ctx.step(name, async || Ok(())).await?;
        }
        ctx.event("go").await
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn code_that_does_not_match_the_record_pauses_the_run_and_matching_code_resumes_it() {
    let lab = Lab::memory().await;
    let program = async |steps| {
        App::new("test").workflow(Changing { steps }).start(lab.store.clone()).await.unwrap()
    };
    let app = program(&["a", "b"]).await;
    app.start(Changing::at("one"), ()).await.unwrap();
    let steps = async || results(app.runs(), "changing", "one").await.unwrap().len();
    until("both steps are recorded", async || 2 <= steps().await).await;
    app.stop().await;
    let app = program(&["a", "x", "b"]).await;
    app.runs().send_event("changing", "one", "go", &()).await.unwrap();
    let status = app.runs().wait("changing", "one").await.unwrap();
    let Status::Paused(Some(report)) = status else { panic!("{status:?}") };
    assert_eq!(report.expected.as_deref(), Some("step `b`"));
    assert_eq!(report.found.as_deref(), Some("step `x`"));
    app.stop().await;
    let app = program(&["a", "b"]).await;
    app.runs().resume("changing", "one").await.unwrap();
    let status = app.runs().wait("changing", "one").await.unwrap();
    assert_eq!(status, Status::Complete(Value::Null), "the event was not lost");
    app.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wherever_the_process_ends_the_outcome_is_the_same() {
    let nap = |seconds| Do::Sleep { seconds };
    let input = vec![
        step("a"),
        Do::Join { left: vec![step("b"), nap(3)], right: vec![step("c"), step("d")] },
        Do::EventWithin { name: "e".into(), seconds: 60 },
        // Only one of the two is due when the process was down for long.
        Do::Select { left: vec![nap(1_000)], right: vec![nap(2), step("f")] },
        Do::Map { items: vec![step("g"), step("h"), step("i")], limit: 2 },
    ];
    let survived = assert_survives_crashes(
        || App::new("test").workflow(Trip::default()),
        async |app| {
            app.start(Trip::at("one"), input.clone()).await?;
            let sent = app.runs().send_event("trip", "one", "e", &"came").await;
            // A repeated scenario may find the end.
            if let Err(error) = sent
                && error.code() != "wrong_status"
            {
                return Err(error.into());
            }
            app.advance(Duration::from_secs(200)).await;
            match app.runs().status("trip", "one").await? {
                Status::Complete(output) => Ok(output),
                other => Err(steadfast_core::Error::retryable(format!("{other:?}"))),
            }
        },
    )
    .await;
    assert!(20 <= survived, "{survived}");
}
