//! Calls of runs: one turn each, however long the process is down, and nothing is left behind.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use serde_json::{Value, json};
use steadfast_core::{
    App, Object, Objects, Runtime, Workflow,
    store::{EntryRange, SeededEntropy, Store},
    workflow::{RunView, Runs, Status, StepInput},
};

use crate::{
    lab::Lab,
    ledger::{AUDIT, Add, Forget, Ledger, Query, Read},
    play::{Play, until},
    watched::Watched,
};

laws!(
    a_call_is_one_turn_however_long_the_process_is_away,
    a_call_that_deletes_its_object_is_one_turn_as_well,
    replies_that_were_recorded_are_not_kept,
    the_reply_to_a_run_that_has_ended_goes,
    a_run_shows_its_calls_and_sends,
);
laws!(also on postgres:
    a_call_is_one_turn_however_long_the_process_is_away,
    replies_that_were_recorded_are_not_kept,
    the_reply_to_a_run_that_has_ended_goes,
);

const AWAY: Duration = Duration::from_hours(24 * 40);

fn caller() -> Play {
    Play::of(|ctx, _, _| async move {
        let reply = ctx.call(Ledger::at("l"), Add { by: 1 }).await?;
        Ok(json!(reply))
    })
}

async fn program(store: Arc<dyn Store>, play: &Play, ledger: &Ledger) -> Runtime {
    let builder = App::new("test").workflow(play.clone()).object(ledger.clone());
    builder.entropy(SeededEntropy::new(1)).start(store).await.unwrap()
}

/// Objects and runs of a process that delivers nothing.
fn parts(lab: &Lab, play: &Play, ledger: &Ledger) -> (Objects, Runs) {
    let builder = Objects::builder(lab.store.clone()).entropy(SeededEntropy::new(2));
    let objects = builder.class(ledger.clone()).start().unwrap();
    let entropy = Arc::new(SeededEntropy::new(3));
    let runs = Runs::new(lab.store.clone(), entropy, objects.clone()).with(play.clone());
    (objects, runs)
}

/// The process crashes after a turn for a run is durable, and before the run has recorded the
/// reply.
async fn end_in_a_call(lab: &mut Lab, play: &Play, ledger: &Ledger) {
    let watched = Watched::new(lab.store.clone());
    watched.end_before_done();
    let app = program(watched.clone(), play, ledger).await;
    app.start(Play::at("one"), Value::Null).await.unwrap();
    until("the process has ended", async || watched.has_ended()).await;
    app.runs().stop(Duration::ZERO).await;
    drop(app);
    lab.kill().await;
    lab.clock.advance(AWAY);
}

/// The number of stored replies for runs.
async fn kept(lab: &Lab) -> usize {
    lab.store.entries("run-call", EntryRange::prefix(b""), 1_000).await.unwrap().len()
}

async fn a_call_is_one_turn_however_long_the_process_is_away(mut lab: Lab) {
    let (play, ledger) = (caller(), Ledger::default());
    end_in_a_call(&mut lab, &play, &ledger).await;
    assert_eq!(ledger.handled.load(Ordering::SeqCst), 1);
    // Other calls come first, and so does a sweep.
    let (objects, runs) = parts(&lab, &play, &ledger);
    for number in 0..20 {
        let call = objects.call(Ledger::at("l"), Add { by: 100 }).key(format!("key {number}"));
        call.await.unwrap();
    }
    runs.sweep(std::time::Duration::ZERO).await.unwrap();
    drop((objects, runs));
    let app = program(lab.store.clone(), &play, &ledger).await;
    let status = app.runs().wait("play", "one").await.unwrap();
    assert_eq!(status, Status::Complete(json!(1)), "the first reply");
    assert_eq!(app.call(Ledger::at("l"), Read).await.unwrap(), (2_001, 2_001));
    assert_eq!(ledger.handled.load(Ordering::SeqCst), 21);
    assert_eq!(kept(&lab).await, 0);
    app.stop().await;
    lab.assert_sound().await;
}

async fn a_call_that_deletes_its_object_is_one_turn_as_well(mut lab: Lab) {
    let play = Play::of(|ctx, _, _| async move {
        ctx.call(Ledger::at("l"), Forget).await?;
        Ok(Value::Null)
    });
    let ledger = Ledger::default();
    let (objects, _) = parts(&lab, &play, &ledger);
    objects.call(Ledger::at("l"), Add { by: 1 }).await.unwrap();
    end_in_a_call(&mut lab, &play, &ledger).await;
    // The old call does not delete another object of this name.
    let (objects, _) = parts(&lab, &play, &ledger);
    objects.call(Ledger::at("l"), Add { by: 5 }).await.unwrap();
    drop(objects);
    let app = program(lab.store.clone(), &play, &ledger).await;
    assert_eq!(app.runs().wait("play", "one").await.unwrap(), Status::Complete(Value::Null));
    assert_eq!(app.call(Ledger::at("l"), Read).await.unwrap(), (5, 5));
    app.stop().await;
    lab.assert_sound().await;
}

async fn replies_that_were_recorded_are_not_kept(lab: Lab) {
    let play = Play::of(|ctx, _, _| async move {
        for _ in 0..200 {
            ctx.call(Ledger::at("l"), Add { by: 1 }).await?;
        }
        Ok(json!(ctx.call(Ledger::at("l"), Read).await?))
    });
    let app = program(lab.store.clone(), &play, &Ledger::default()).await;
    app.start(Play::at("one"), Value::Null).await.unwrap();
    let status = app.runs().wait("play", "one").await.unwrap();
    assert_eq!(status, Status::Complete(json!([200, 200])));
    assert_eq!(kept(&lab).await, 0);
    let rows = lab.store.dump().await.unwrap().rows;
    let left: Vec<&String> = rows.iter().filter(|it| it.contains("run-call")).collect();
    assert_eq!(left, Vec::<&String>::new(), "not even that they were there");
    // Nor does the object keep them.
    let sql = "SELECT name FROM sqlite_schema WHERE name = '_steadfast_key'".to_owned();
    let tables = app.call(Ledger::at("l"), Query { sql }).await.unwrap();
    assert_eq!(tables, Vec::<String>::new());
    app.stop().await;
    lab.assert_sound().await;
}

async fn the_reply_to_a_run_that_has_ended_goes(mut lab: Lab) {
    for is_deleted in [false, true] {
        let (play, ledger) = (caller(), Ledger::default());
        end_in_a_call(&mut lab, &play, &ledger).await;
        let (_, runs) = parts(&lab, &play, &ledger);
        runs.sweep(std::time::Duration::ZERO).await.unwrap();
        assert_eq!(kept(&lab).await, 1, "it may still ask");
        runs.terminate("play", "one").await.unwrap();
        if is_deleted {
            runs.delete("play", "one").await.unwrap();
        }
        runs.sweep(std::time::Duration::ZERO).await.unwrap();
        assert_eq!(kept(&lab).await, 0);
        if !is_deleted {
            runs.delete("play", "one").await.unwrap();
        }
    }
    lab.assert_sound().await;
}

async fn a_run_shows_its_calls_and_sends(lab: Lab) {
    let play = Play::of(|ctx, _, _| async move {
        ctx.send(AUDIT, Add { by: 2 }).await?;
        ctx.step("a", async || Ok(1)).await?;
        ctx.send(Ledger::at("x/y"), Add { by: 3 }).await?;
        Ok(json!(ctx.call(Ledger::at("l"), Add { by: 1 }).await?))
    });
    let app = program(lab.store.clone(), &play, &Ledger::default()).await;
    app.start(Play::at("one"), Value::Null).await.unwrap();
    app.runs().wait("play", "one").await.unwrap();
    let of = |input: &StepInput| (input.to.clone(), input.message.clone(), input.bytes);
    let inputs = |view: &RunView| -> Vec<_> {
        view.steps.iter().map(|it| (it.kind.clone(), it.input.as_ref().map(of))).collect()
    };
    let input = |to: &str, by: i64| Some((to.to_owned(), Some(json!({ "by": by })), 8));
    let expected = [
        ("send".to_owned(), input("queue/audit/0", 2)),
        ("step".to_owned(), None),
        ("send".to_owned(), input("object/ledger/x/y", 3)),
        ("call".to_owned(), input("object/ledger/l", 1)),
    ];
    assert_eq!(inputs(&app.runs().look("play", "one").await.unwrap()), expected);
    let bounded = app.runs().look_within("play", "one", 100, 100_000).await.unwrap();
    assert_eq!(inputs(&bounded.expect("a short record")), expected);
    let history = app.runs().history("play", "one", 0, 100).await.unwrap();
    let call = history.iter().find(|it| it.fields.contains_key("input") && it.entry == "done");
    let call = &call.expect("a call").fields["input"];
    assert_eq!(*call, json!({ "to": "object/ledger/l", "message": { "by": 1 }, "bytes": 8 }));
    // A restart removes the steps from one on, and their inputs.
    app.runs().restart("play", "one", Some("a")).await.unwrap();
    app.runs().wait("play", "one").await.unwrap();
    assert_eq!(inputs(&app.runs().look("play", "one").await.unwrap()), expected);
    app.stop().await;
    lab.assert_sound().await;
}
