//! Runs of workflows.

use serde_json::Value;
use steadfast_core::{App, Error, Retry, Runtime, Workflow, workflow::Status};

use super::{Area, agree, dropped, each};
use crate::{
    lab::Lab,
    play::{Play, ends, until},
    post::HOUR,
};

pub(super) const AREAS: &[Area] = &[
    Area {
        file: "workflow/control.rs",
        tried: &[
            "delete",
            "pause",
            "restart",
            "resume",
            "retry",
            "send_event",
            "sweep",
            "terminate",
        ],
        others: &[],
    },
    Area {
        file: "workflow/runs.rs",
        tried: &["start", "start_json", "start_json_and_wait"],
        others: &["status", "wait"],
    },
    Area {
        file: "runtime/run_handle.rs",
        tried: &[],
        others: &["pause", "resume", "send", "status", "terminate", "wait"],
    },
];

laws!(on sqlite, postgres:
    a_run_that_was_started_ends,
    a_change_of_a_run_takes_effect_if_the_store_says_so,
    a_run_that_was_deleted_can_be_started_again,
);

/// Waits for an event, which is its output; before that, a step fails once if the input says so.
fn play() -> Play {
    Play::of(|ctx, stage, input| async move {
        let name = input.as_str().unwrap_or_default().to_owned();
        let step = async || match stage.count(&name) {
            1 if name.starts_with("retry") => Err(Error::retryable("as the test wanted")),
            count => Ok(count),
        };
        ctx.step("a", step).retry(Retry::constant(HOUR)).await?;
        ctx.event::<Value>("go").await
    })
}

fn program() -> App {
    App::new("test").workflow(play())
}

async fn start(lab: &Lab) -> Runtime {
    program().start(lab.store.clone()).await.unwrap()
}

/// The status of a run. A program that drives it also says which of the live ones it is.
async fn status(app: &Runtime, id: &str) -> Vec<String> {
    vec![match app.runs().status(Play::NAME, id).await {
        Ok(Status::Queued | Status::Running | Status::Waiting) => "live".into(),
        status => format!("{:?}", status.map_err(|it| it.to_string())),
    }]
}

async fn go(app: &Runtime, id: &str) -> Status {
    app.runs().send_event(Play::NAME, id, "go", &1).await.unwrap();
    ends(app, Play::NAME, id).await
}

async fn a_run_that_was_started_ends(lab: Lab) {
    let app = start(&lab).await;
    let one = Value::from(1);
    for how in ["start", "json", "wait"] {
        each(async |polls| {
            let id = format!("{how}-{polls}");
            let runs = app.runs();
            let at_once = std::future::ready(());
            let started = match how {
                "start" => dropped(polls, runs.start(Play::at(&*id), one.clone())).await,
                "json" => dropped(polls, runs.start_json(Play::NAME, &id, one.clone())).await,
                _ => {
                    let start = runs.start_json_and_wait(Play::NAME, &id, one.clone(), at_once);
                    dropped(polls, start).await
                }
            };
            agree(&app, program, async |app| status(app, &id).await).await;
            runs.start_json(Play::NAME, &id, one.clone()).await.unwrap();
            assert!(matches!(go(&app, &id).await, Status::Complete(_)));
            started
        })
        .await;
    }
    app.stop().await;
}

async fn a_change_of_a_run_takes_effect_if_the_store_says_so(lab: Lab) {
    let app = start(&lab).await;
    let runs = app.runs();
    let changes = ["pause", "resume", "event", "retry", "terminate", "restart"];
    for change in changes {
        each(async |polls| {
            let id = format!("{change}-{polls}");
            runs.start_json(Play::NAME, &id, id.clone().into()).await.unwrap();
            let waits = async || runs.status(Play::NAME, &id).await.unwrap();
            until("it waits", async || waits().await == Status::Waiting).await;
            match change {
                "resume" => runs.pause(Play::NAME, &id).await.unwrap(),
                "restart" => runs.terminate(Play::NAME, &id).await.unwrap(),
                _ => {}
            }
            let done = match change {
                "pause" => dropped(polls, runs.pause(Play::NAME, &id)).await,
                "resume" => dropped(polls, runs.resume(Play::NAME, &id)).await,
                "event" => dropped(polls, runs.send_event(Play::NAME, &id, "go", &1)).await,
                "retry" => dropped(polls, runs.retry(Play::NAME, &id)).await,
                "terminate" => dropped(polls, runs.terminate(Play::NAME, &id)).await,
                _ => dropped(polls, runs.restart(Play::NAME, &id, None)).await,
            };
            agree(&app, program, async |app| status(app, &id).await).await;
            // A wait for the next attempt is up to a quarter longer than it says.
            lab.clock.advance(2 * HOUR);
            end(&app, &id).await;
            done
        })
        .await;
    }
    app.stop().await;
}

/// Ends a run, whatever its state; the change of the dropped caller may still come.
async fn end(app: &Runtime, id: &str) {
    let runs = app.runs();
    until("the run is complete", async || {
        // Refused if the run has changed since.
        _ = match runs.status(Play::NAME, id).await.unwrap() {
            Status::Complete(_) => return true,
            Status::Paused(_) => runs.resume(Play::NAME, id).await,
            Status::Terminated => runs.restart(Play::NAME, id, None).await,
            _ => runs.send_event(Play::NAME, id, "go", &1).await,
        };
        false
    })
    .await;
}

async fn a_run_that_was_deleted_can_be_started_again(lab: Lab) {
    let app = start(&lab).await;
    let runs = app.runs();
    each(async |polls| {
        let id = format!("gone-{polls}");
        runs.start_json(Play::NAME, &id, Value::Null).await.unwrap();
        // It stays while the run is deleted, and the next one of this id has fewer entries.
        let (reader, read) = (runs.clone(), id.clone());
        let reader = tokio::spawn(async move { reader.grown(Play::NAME, &read, 1_000).await });
        for _ in 0..10 {
            runs.send_event(Play::NAME, &id, "other", &1).await.unwrap();
        }
        go(&app, &id).await;
        let deleted = dropped(polls, runs.delete(Play::NAME, &id)).await;
        agree(&app, program, async |app| status(app, &id).await).await;
        // Unknown if it was deleted.
        let _ = runs.delete(Play::NAME, &id).await;
        runs.start_json(Play::NAME, &id, Value::Null).await.unwrap();
        assert!(matches!(go(&app, &id).await, Status::Complete(_)));
        reader.abort();
        deleted
    })
    .await;
    let keep = std::time::Duration::ZERO;
    lab.clock.advance(std::time::Duration::from_hours(1_000 * 24));
    each(async |polls| dropped(polls, runs.sweep(keep)).await).await;
    let swept = async |app: &Runtime| status(app, "gone-1").await;
    agree(&app, program, swept).await;
    app.stop().await;
}
