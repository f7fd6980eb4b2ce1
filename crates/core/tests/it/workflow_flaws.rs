//! Known flaws of other engines: starts, waits and events.

use std::time::Duration;

use serde_json::{Value, json};
use steadfast_core::{
    App, RunError, Workflow,
    store::{ManualClock, MemoryStore, Moment, StoreError},
    workflow::Status,
};

use crate::{
    lab::{Lab, START},
    play::{Play, Theatre, results, until},
};

laws!(
    a_repeated_start_finds_the_first_run_active_or_ended,
    a_sleep_ends_when_it_was_to_whoever_runs_it_then,
    events_are_taken_once_and_in_order_also_by_the_next_process,
    one_event_is_for_one_waiter,
    a_wait_that_timed_out_stays_so_and_the_event_is_for_the_next,
);
laws!(also on postgres:
    a_sleep_ends_when_it_was_to_whoever_runs_it_then,
    events_are_taken_once_and_in_order_also_by_the_next_process,
);

async fn theatre(lab: &Lab, play: &Play) -> Theatre {
    Theatre::on(lab.store.clone(), lab.clock.clone(), play).await
}

async fn a_repeated_start_finds_the_first_run_active_or_ended(lab: Lab) {
    let play = Play::of(|ctx, stage, input| async move {
        ctx.step("body", async || Ok(stage.count("body"))).await?;
        ctx.event::<()>("go").await?;
        Ok(input)
    });
    let theatre = theatre(&lab, &play).await;
    let runs = theatre.app.runs();
    let start = |number: u32| {
        let runs = runs.clone();
        tokio::spawn(async move {
            let started = runs.start_json("play", "one", json!(number)).await.unwrap();
            started.created.then_some(number)
        })
    };
    let mut makers = Vec::new();
    for task in (0..20).map(start).collect::<Vec<_>>() {
        makers.extend(task.await.unwrap());
    }
    assert_eq!(makers.len(), 1, "{makers:?} have made it");
    theatre.send("one", "go", &Value::Null).await;
    assert_eq!(theatre.completes("one").await, json!(makers[0]));
    let again = runs.start_json("play", "one", json!("another")).await.unwrap();
    assert_eq!((again.created, again.status), (false, Status::Complete(json!(makers[0]))));
    assert_eq!(theatre.stage.ran("body"), 1);
    assert_eq!(runs.look("play", "one").await.unwrap().input, json!(makers[0]));
    theatre.app.stop().await;
    lab.assert_sound().await;
}

async fn a_sleep_ends_when_it_was_to_whoever_runs_it_then(lab: Lab) {
    let play = Play::of(|ctx, _, _| async move {
        let began = ctx.now().await?;
        ctx.sleep_until("over long ago", began.after(Duration::ZERO)).await?;
        ctx.sleep("long", Duration::from_secs(100)).await?;
        ctx.sleep_until("over meanwhile", began.after(Duration::from_secs(7))).await?;
        ctx.event::<()>("go").await?;
        Ok(json!(ctx.now().await?.since(began).as_secs()))
    });
    let theatre = theatre(&lab, &play).await;
    for id in ["seen", "missed"] {
        theatre.start(id).await;
        theatre.sleeps(id).await;
    }
    let theatre = theatre.again(&play, Duration::from_secs(60)).await;
    assert_eq!(theatre.go_to_next().await, Duration::from_secs(40));
    // One more replay, after all of it.
    theatre.send("seen", "go", &Value::Null).await;
    assert_eq!(theatre.completes("seen").await, json!(100));
    let theatre = theatre.again(&play, Duration::from_secs(400)).await;
    theatre.send("missed", "go", &Value::Null).await;
    assert_eq!(theatre.completes("missed").await, json!(500));
    theatre.app.stop().await;
}

async fn events_are_taken_once_and_in_order_also_by_the_next_process(lab: Lab) {
    let play = Play::of(|ctx, _, _| async move {
        let mut all = Vec::new();
        ctx.event::<()>("go").await?;
        for _ in 0..12 {
            all.push(ctx.event::<u32>("e").await?);
        }
        ctx.event::<()>("go").await?;
        for _ in 0..18 {
            all.push(ctx.event::<u32>("e").await?);
        }
        Ok(json!(all))
    });
    let mut theatre = theatre(&lab, &play).await;
    theatre.start("one").await;
    for number in 0..30 {
        theatre.send("one", "e", &json!(number)).await;
    }
    for _ in 0..2 {
        theatre.sleeps("one").await;
        theatre = theatre.again(&play, Duration::ZERO).await;
        theatre.send("one", "go", &Value::Null).await;
    }
    assert_eq!(theatre.completes("one").await, json!((0..30).collect::<Vec<u32>>()));
    theatre.app.stop().await;
}

async fn one_event_is_for_one_waiter(lab: Lab) {
    let play = Play::of(|ctx, _, _| async move {
        let both = ctx.join(ctx.event::<u32>("e"), ctx.event::<u32>("e")).await?;
        ctx.event::<()>("go").await?;
        Ok(json!(both))
    });
    let theatre = theatre(&lab, &play).await;
    theatre.start("one").await;
    for number in 1..=2 {
        theatre.sleeps("one").await;
        theatre.send("one", "e", &json!(number)).await;
    }
    theatre.sleeps("one").await;
    let theatre = theatre.again(&play, Duration::ZERO).await;
    theatre.send("one", "go", &Value::Null).await;
    assert_eq!(theatre.completes("one").await, json!([1, 2]));
    theatre.app.stop().await;
}

async fn a_wait_that_timed_out_stays_so_and_the_event_is_for_the_next(lab: Lab) {
    let play = Play::of(|ctx, _, _| async move {
        let limit = Duration::from_secs(10);
        let first = ctx.timeout("limit", limit, ctx.event::<u32>("e")).await?;
        ctx.event::<()>("go").await?;
        let second = ctx.timeout("limit", limit, ctx.event::<u32>("e")).await?;
        Ok(json!([first, second]))
    });
    let theatre = theatre(&lab, &play).await;
    theatre.start("one").await;
    theatre.go_to_next().await;
    until("its time is over", async || {
        results(theatre.app.runs(), "play", "one").await.unwrap().len() == 1
    })
    .await;
    theatre.send("one", "e", &json!(7)).await;
    let theatre = theatre.again(&play, Duration::from_secs(1)).await;
    theatre.send("one", "go", &Value::Null).await;
    assert_eq!(theatre.completes("one").await, json!([null, 7]));
    theatre.app.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_missing_run_is_distinguished_from_an_unavailable_store() {
    let clock = ManualClock::at(START);
    let store = std::sync::Arc::new(MemoryStore::new(std::sync::Arc::new(clock.clone())));
    let play = Play::of(|ctx, _, _| async move { ctx.event("never").await });
    let builder = App::new("test").workflow(play);
    let app = builder.start(store.clone()).await.unwrap();
    app.start(Play::at("one"), Value::Null).await.unwrap();
    let all = async || -> Vec<RunError> {
        let runs = app.runs();
        vec![
            runs.status("play", "none").await.unwrap_err(),
            runs.look("play", "none").await.unwrap_err(),
            runs.wait("play", "none").await.unwrap_err(),
            runs.history("play", "none", 0, 9).await.unwrap_err(),
            runs.send_event("play", "none", "e", &1).await.unwrap_err(),
            runs.pause("play", "none").await.unwrap_err(),
            runs.restart("play", "none", None).await.unwrap_err(),
            runs.delete("play", "none").await.unwrap_err(),
        ]
    };
    for error in all().await {
        assert!(matches!(&error, RunError::UnknownRun { .. }), "{error:?}");
        assert_eq!(error.code(), "run_not_found");
    }
    store.crash_at(1, Moment::Before);
    let lost = app.start(Play::at("two"), Value::Null).await.unwrap_err();
    assert!(matches!(lost, RunError::Store(StoreError::Closed)), "{lost:?}");
    for error in all().await {
        assert!(matches!(error, RunError::Store(StoreError::Closed)), "{error:?}");
    }
}
