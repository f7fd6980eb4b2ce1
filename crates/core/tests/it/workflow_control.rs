//! Operations on runs from outside: pause, terminate, restart.

use std::time::Duration;

use serde_json::{Value, json};
use steadfast_core::{
    App, Error, Object, Result, Retry,
    store::{Clock, EntityKind},
    workflow::{RunOptions, Status},
};

use crate::{
    lab::{Lab, address_of},
    ledger::{AUDIT, Add, Ledger, Read},
    play::{Play, Stage, Theatre, results, until},
};

laws!(
    a_pause_lets_the_attempt_in_flight_end_and_begins_nothing_new,
    events_survive_a_pause_and_pausing_twice_is_pausing_once,
    a_retry_ends_the_wait_for_the_next_attempt_and_leaves_sleeps_alone,
    the_end_of_a_run_is_final,
    a_run_that_is_terminated_gives_up_its_attempt_and_records_nothing_of_it,
    no_wake_up_is_left_of_a_run_that_has_ended,
    a_restart_from_a_step_keeps_earlier_results,
    an_id_is_free_when_its_run_was_deleted_and_the_next_one_calls_anew,
    runs_are_kept_as_long_as_their_end_says,
);
laws!(also on postgres:
    no_wake_up_is_left_of_a_run_that_has_ended,
    an_id_is_free_when_its_run_was_deleted_and_the_next_one_calls_anew,
    runs_are_kept_as_long_as_their_end_says,
);

const SECOND: Duration = Duration::from_secs(1);

async fn theatre(lab: &Lab, play: &Play) -> Theatre {
    Theatre::on(lab.store.clone(), lab.clock.clone(), play).await
}

async fn at_the_door(stage: &Stage) -> Result<u32> {
    let count = stage.count("a");
    stage.pass("door").await;
    Ok(count)
}

async fn a_pause_lets_the_attempt_in_flight_end_and_begins_nothing_new(lab: Lab) {
    let play = Play::of(|ctx, stage, _| async move {
        ctx.step("a", async || at_the_door(&stage).await).await?;
        ctx.send(AUDIT, Add { by: 1 }).await?;
        ctx.sleep("nap", SECOND * 100).await?;
        ctx.step("b", async || Ok(stage.count("b"))).await?;
        Ok(Value::Null)
    });
    let theatre = theatre(&lab, &play).await;
    let runs = theatre.app.runs();
    let pending = async || theatre.store.pending(None, 0, 9).await.unwrap().len();
    theatre.start("one").await;
    theatre.stage.came("door").await;
    runs.pause("play", "one").await.unwrap();
    theatre.clock.advance(SECOND * 50);
    theatre.stage.open("door", 1);
    until("a is recorded and its place is free", async || {
        results(runs, "play", "one").await.unwrap().len() == 1 && pending().await == 0
    })
    .await;
    assert_eq!(theatre.status("one").await, Status::Paused(None));
    theatre.clock.advance(SECOND * 30);
    runs.resume("play", "one").await.unwrap();
    theatre.sleeps("one").await;
    assert_eq!(pending().await, 2, "one message, and one wake-up");
    assert_eq!(theatre.stage.ran("b"), 0);
    theatre.clock.advance(SECOND * 100);
    theatre.completes("one").await;
    assert_eq!((theatre.stage.ran("a"), theatre.stage.ran("b")), (1, 1));
    theatre.app.stop().await;
    lab.assert_sound().await;
}

async fn events_survive_a_pause_and_pausing_twice_is_pausing_once(lab: Lab) {
    let play = Play::of(|ctx, _, _| async move {
        let limit = ctx.timeout("limit", SECOND * 100, ctx.event::<u32>("e")).await?;
        Ok(json!([limit, ctx.event::<u32>("e").await?]))
    });
    let theatre = theatre(&lab, &play).await;
    let runs = theatre.app.runs();
    theatre.start("one").await;
    theatre.sleeps("one").await;
    runs.resume("play", "one").await.unwrap();
    assert_eq!(theatre.status("one").await, Status::Waiting, "it was not paused");
    for _ in 0..2 {
        runs.pause("play", "one").await.unwrap();
        theatre.clock.advance(SECOND * 90);
    }
    let length = theatre.history("one").await.len();
    theatre.send("one", "e", &json!(1)).await;
    theatre.send("one", "e", &json!(2)).await;
    assert_eq!(theatre.history("one").await.len(), length + 2, "nothing wakes it");
    runs.resume("play", "one").await.unwrap();
    assert_eq!(theatre.completes("one").await, json!([1, 2]));
    let paused = theatre.history("one").await;
    assert_eq!(paused.iter().filter(|it| it.entry == "paused").count(), 1);
    theatre.app.stop().await;
}

async fn a_retry_ends_the_wait_for_the_next_attempt_and_leaves_sleeps_alone(lab: Lab) {
    let play = Play::of(|ctx, stage, _| async move {
        let charge = ctx.step("a", async || match stage.count("a") {
            count @ 0..3 => Err(Error::retryable(format!("declined {count}"))),
            count => Ok(count),
        });
        let attempts = charge.retry(Retry::constant(SECOND * 1_000)).await?;
        ctx.sleep("nap", SECOND * 100).await?;
        Ok(json!(attempts))
    });
    let theatre = theatre(&lab, &play).await;
    theatre.start("one").await;
    theatre.sleeps("one").await;
    assert_eq!(theatre.stage.ran("a"), 1);
    theatre.app.runs().retry("play", "one").await.unwrap();
    until("it is tried again", async || theatre.stage.ran("a") == 2).await;
    theatre.sleeps("one").await;
    // The request is recorded: the next process performs it.
    theatre.app.runs().retry("play", "one").await.unwrap();
    let theatre = theatre.again(&play, Duration::ZERO).await;
    until("the nap begins", async || theatre.stage.ran("a") == 3).await;
    theatre.sleeps("one").await;
    let refused = theatre.app.runs().retry("play", "one").await.unwrap_err();
    assert_eq!(refused.code(), "wrong_status", "{refused}");
    theatre.clock.advance(SECOND * 100);
    assert_eq!(theatre.completes("one").await, json!(3));
    let retries = theatre.history("one").await;
    assert_eq!(retries.iter().filter(|it| it.entry == "retried").count(), 2);
    let refused = theatre.app.runs().retry("play", "one").await.unwrap_err();
    assert_eq!(refused.code(), "wrong_status", "{refused}");
    theatre.app.stop().await;
    lab.assert_sound().await;
}

async fn the_end_of_a_run_is_final(lab: Lab) {
    let play = Play::of(|ctx, _, _| async move { ctx.event("go").await });
    let theatre = theatre(&lab, &play).await;
    let runs = theatre.app.runs();
    for id in ["complete", "errored", "terminated"] {
        theatre.start(id).await;
    }
    theatre.sleeps("errored").await;
    let failing = Play::of(|ctx, _, _| async move {
        ctx.event::<()>("go").await?;
        Err(steadfast_core::Error::terminal("as the test wanted"))
    });
    theatre.send("complete", "go", &Value::Null).await;
    theatre.completes("complete").await;
    runs.terminate("play", "terminated").await.unwrap();
    for refused in ["errored", "queued"] {
        let refused = runs.restart("play", refused, None).await.unwrap_err();
        assert!(["wrong_status", "run_not_found"].contains(&refused.code()));
    }
    let theatre = theatre.again(&failing, Duration::ZERO).await;
    theatre.send("errored", "go", &Value::Null).await;
    assert!(matches!(theatre.ends("errored").await, Status::Errored(_)));
    let runs = theatre.app.runs();
    for id in ["complete", "errored", "terminated"] {
        let before = theatre.status(id).await;
        assert_eq!(before.tag(), id);
        for refused in [
            runs.pause("play", id).await,
            runs.resume("play", id).await,
            runs.terminate("play", id).await,
            runs.send_event("play", id, "go", &1).await,
        ] {
            assert_eq!(refused.unwrap_err().code(), "wrong_status");
        }
        assert_eq!(theatre.status(id).await, before);
    }
    theatre.app.stop().await;
}

async fn a_run_that_is_terminated_gives_up_its_attempt_and_records_nothing_of_it(lab: Lab) {
    let play = Play::of(|ctx, stage, _| async move {
        ctx.step("a", async || at_the_door(&stage).await).await?;
        ctx.step("b", async || Ok(stage.count("b"))).await?;
        Ok(Value::Null)
    });
    let theatre = theatre(&lab, &play).await;
    theatre.start("one").await;
    theatre.stage.came("door").await;
    theatre.app.runs().terminate("play", "one").await.unwrap();
    theatre.stage.open("door", 1);
    until("its wake-up has ended", async || theatre.works().await.is_empty()).await;
    assert_eq!(theatre.status("one").await, Status::Terminated);
    let history = theatre.history("one").await;
    assert_eq!(history.last().unwrap().entry, "terminated");
    assert!(history.iter().all(|it| it.entry != "done"), "{history:?}");
    assert_eq!(theatre.stage.ran("b"), 0);
    theatre.app.stop().await;
}

async fn no_wake_up_is_left_of_a_run_that_has_ended(lab: Lab) {
    let play = Play::of(|ctx, stage, _| async move {
        let within = ctx.timeout("limit", SECOND * 1_000, ctx.event::<u32>("go")).await?;
        if within == Some(2) {
            ctx.step("a", async || at_the_door(&stage).await).await?;
        }
        Ok(json!(within))
    });
    let theatre = theatre(&lab, &play).await;
    let runs = theatre.app.runs();
    for id in ["complete", "terminated", "paused", "under-way"] {
        theatre.start(id).await;
        theatre.sleeps(id).await;
    }
    theatre.send("complete", "go", &json!(1)).await;
    theatre.completes("complete").await;
    theatre.send("under-way", "go", &json!(2)).await;
    theatre.stage.came("door").await;
    runs.pause("play", "paused").await.unwrap();
    for id in ["terminated", "paused", "under-way"] {
        runs.terminate("play", id).await.unwrap();
    }
    until("nothing is left to be done", async || theatre.works().await.is_empty()).await;
    for id in ["complete", "terminated", "paused", "under-way"] {
        let run = address_of(EntityKind::Run, "play", id).id();
        assert_eq!(theatre.store.pending(Some(run), 0, 9).await.unwrap().len(), 0, "{id}");
    }
    theatre.app.stop().await;
    lab.assert_sound().await;
}

async fn a_restart_from_a_step_keeps_earlier_results(lab: Lab) {
    let play = Play::of(|ctx, stage, _| async move {
        let first = ctx.step("a", async || Ok(stage.count("a"))).await?;
        let step = async |name| ctx.step(name, async || Ok(stage.count(name))).await;
        let both = ctx.join(step("left"), step("right")).await?;
        let last = ctx.step("b", async || Ok(stage.count("b"))).await?;
        let event = ctx.event::<u32>("e").await?;
        Ok(json!([first, both, last, event]))
    });
    let theatre = theatre(&lab, &play).await;
    theatre.start("one").await;
    theatre.send("one", "e", &json!(7)).await;
    assert_eq!(theatre.completes("one").await, json!([1, [1, 1], 1, 7]));
    theatre.app.runs().restart("play", "one", Some("b")).await.unwrap();
    theatre.sleeps("one").await;
    theatre.send("one", "e", &json!(8)).await;
    assert_eq!(theatre.completes("one").await, json!([1, [1, 1], 2, 8]));
    theatre.app.stop().await;
}

async fn an_id_is_free_when_its_run_was_deleted_and_the_next_one_calls_anew(lab: Lab) {
    let play = Play::of(|ctx, _, _| async move {
        ctx.call(Ledger::at("l"), Add { by: 1 }).await?;
        ctx.event::<()>("go").await?;
        Ok(json!(ctx.call(Ledger::at("l"), Add { by: 1 }).await?))
    });
    let builder = App::new("test").workflow(play.clone()).object(Ledger::default());
    let app = builder.start(lab.store.clone()).await.unwrap();
    let (store, clock, stage) = (lab.store.clone(), lab.clock.clone(), play.stage.clone());
    let theatre = Theatre { store, clock, app, stage };
    let runs = theatre.app.runs();
    for times in 1..=3 {
        theatre.start("one").await;
        let refused = runs.delete("play", "one").await.unwrap_err();
        assert_eq!(refused.code(), "wrong_status");
        theatre.send("one", "go", &Value::Null).await;
        assert_eq!(theatre.completes("one").await, json!(2 * times));
        runs.delete("play", "one").await.unwrap();
        assert_eq!(runs.status("play", "one").await.unwrap_err().code(), "run_not_found");
    }
    assert_eq!(theatre.app.call(Ledger::at("l"), Read).await.unwrap().0, 6);
    theatre.app.stop().await;
    lab.assert_sound().await;
}

async fn runs_are_kept_as_long_as_their_end_says(lab: Lab) {
    let play = Play::of(|ctx, _, input| async move {
        match input.as_str() {
            Some("fails") => return Err(steadfast_core::Error::terminal("as the test wanted")),
            Some("sends") => ctx.send(AUDIT, Add { by: 1 }).await?,
            Some("waits") => ctx.event("never").await?,
            _ => {}
        }
        Ok(Value::Null)
    });
    let (keep_complete, keep_errored, keep_terminated) = (SECOND * 10, SECOND * 30, SECOND * 20);
    let options =
        RunOptions { keep_complete, keep_errored, keep_terminated, ..RunOptions::DEFAULT };
    let theatre = theatre(&lab, &play.options(options)).await;
    let runs = theatre.app.runs();
    for id in ["plain", "fails", "sends", "waits", "ended"] {
        let input = if id == "ended" { "waits" } else { id };
        runs.start_json("play", id, json!(input)).await.unwrap();
        if input == "waits" {
            theatre.sleeps(id).await;
        } else {
            theatre.ends(id).await;
        }
    }
    runs.terminate("play", "ended").await.unwrap();
    let left = async || {
        let mut left = Vec::new();
        for id in ["plain", "fails", "sends", "waits", "ended"] {
            left.extend(runs.status("play", id).await.is_ok().then_some(id));
        }
        left
    };
    let began = theatre.clock.now();
    for (after, erased, kept) in [
        (9, 0, vec!["plain", "fails", "sends", "waits", "ended"]),
        (11, 1, vec!["fails", "sends", "waits", "ended"]),
        (21, 1, vec!["fails", "sends", "waits"]),
        (31, 1, vec!["sends", "waits"]),
        (100_000, 0, vec!["sends", "waits"]),
    ] {
        theatre.clock.set(began.after(SECOND * after));
        assert_eq!(runs.sweep(Duration::ZERO).await.unwrap(), erased, "after {after} s");
        assert_eq!(left().await, kept, "after {after} s");
    }
    theatre.app.stop().await;
    lab.assert_sound().await;
}
