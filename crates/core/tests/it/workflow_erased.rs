//! A run that is deleted while it is driven.

use std::time::Duration;

use serde_json::{Value, json};
use steadfast_core::{
    App, Ctx, Result, RunError, Workflow,
    workflow::{RunQuery, Status},
};

use crate::{
    lab::Lab,
    ledger::Gate,
    play::{Play, Theatre, until},
};

/// A run with many steps.
struct Long;

impl Workflow for Long {
    const NAME: &'static str = "long";
    type Input = ();
    type Output = ();

    async fn run(&self, ctx: &Ctx, _: ()) -> Result<()> {
        for _ in 0..200 {
            let body = async || {
                tokio::task::yield_now().await;
                Ok(())
            };
            ctx.step("s", body).await?;
        }
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_is_erased_while_it_is_driven_is_let_go() {
    let app = App::new("test").workflow(Long).test().await.unwrap();
    for number in 0..200 {
        let id = format!("r{number}");
        app.start(Long::at(&id), ()).await.unwrap();
        let (runs, name) = (app.runs().clone(), id.clone());
        let ends = tokio::spawn(async move { runs.terminate("long", &name).await });
        let is_deleted = async || app.runs().delete("long", &id).await.is_ok();
        until("it is deleted", is_deleted).await;
        // It may have ended by itself.
        let _ = ends.await.unwrap();
    }
    app.settle().await;
    let all = RunQuery { workflow: "long".into(), limit: 9, ..RunQuery::default() };
    assert_eq!(app.runs().list(&all).await.unwrap().items, []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn code_that_blocks_after_the_end_of_its_run_holds_up_neither_sweeps_nor_callers() {
    let (lab, gate) = (Lab::memory().await, Gate::default());
    let of_code = gate.clone();
    let play = Play::of(move |_, _, input: Value| {
        let gate = of_code.clone();
        async move {
            if input == json!("blocks") {
                gate.pass();
            }
            Ok(input)
        }
    });
    let theatre = Theatre::on(lab.store.clone(), lab.clock.clone(), &play).await;
    let runs = theatre.app.runs().clone();
    let closed = gate.close_for_now();
    theatre.app.start(Play::at("stuck"), json!("blocks")).await.unwrap();
    gate.reached().await;
    runs.terminate("play", "stuck").await.unwrap();
    theatre.start("other").await;
    theatre.completes("other").await;
    theatre.clock.advance(Duration::from_hours(400 * 24));
    let sweeps = runs.clone();
    let sweep = tokio::spawn(async move { sweeps.sweep(Duration::ZERO).await });
    until("the sweep ends", async || {
        theatre.clock.advance(Duration::from_secs(1));
        sweep.is_finished()
    })
    .await;
    sweep.await.unwrap().unwrap();
    // The sweep of the program may have been first, and wait now.
    until("the other run is deleted", async || {
        theatre.clock.advance(Duration::from_secs(1));
        matches!(runs.status("play", "other").await, Err(RunError::UnknownRun { .. }))
    })
    .await;
    let deletes = runs.clone();
    let delete = tokio::spawn(async move { deletes.delete("play", "stuck").await });
    until("the caller is answered", async || {
        theatre.clock.advance(Duration::from_secs(1));
        delete.is_finished()
    })
    .await;
    let refused = delete.await.unwrap().unwrap_err();
    assert!(matches!(refused, RunError::WrongStatus { .. }), "{refused}");
    assert_eq!(theatre.status("stuck").await, Status::Terminated);
    drop(closed);
    runs.delete("play", "stuck").await.unwrap();
    theatre.app.stop().await;
}
