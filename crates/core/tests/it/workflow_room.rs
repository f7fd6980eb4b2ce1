//! Concurrency of runs: the limit, resumed runs before new ones, and other work not affected.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use serde_json::{Value, json};
use steadfast_core::{
    App, Ctx, DispatcherOptions, Object, Result, Unknown,
    workflow::{RunOptions, Status},
};

use crate::{
    lab::Lab,
    ledger::{AddBoth, Ledger, Read},
    play::{Other, Play, Stage, Theatre, until},
};

laws!(
    no_more_runs_are_awake_than_there_is_room_for_and_all_complete,
    resumed_runs_are_admitted_before_new_ones,
    a_workflow_without_room_holds_up_neither_others_nor_messages,
    many_events_for_a_run_that_is_busy_take_no_room,
);

const SECOND: Duration = Duration::from_secs(1);

fn room(concurrency: usize) -> RunOptions {
    RunOptions { concurrency, ..RunOptions::DEFAULT }
}

async fn no_more_runs_are_awake_than_there_is_room_for_and_all_complete(lab: Lab) {
    let (awake, most) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let counts = (awake.clone(), most.clone());
    let play = Play::of(move |ctx, _, _| {
        let (awake, most) = counts.clone();
        async move {
            let body = async || {
                most.fetch_max(awake.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                for _ in 0..20 {
                    tokio::task::yield_now().await;
                }
                awake.fetch_sub(1, Ordering::SeqCst);
                Ok(())
            };
            ctx.step("a", body).await?;
            ctx.sleep("nap", SECOND).await?;
            ctx.step("b", body).await?;
            Ok(Value::Null)
        }
    });
    let play = play.options(room(2));
    let theatre = Theatre::on(lab.store.clone(), lab.clock.clone(), &play).await;
    let ids: Vec<String> = (0..20).map(|it| format!("r{it}")).collect();
    for id in &ids {
        theatre.start(id).await;
    }
    for id in &ids {
        theatre.sleeps(id).await;
    }
    // All are due when the next process starts: they do not all become active.
    let theatre = theatre.again(&play, SECOND).await;
    for id in &ids {
        theatre.completes(id).await;
    }
    assert!((1..=2).contains(&most.load(Ordering::SeqCst)), "{most:?}");
    theatre.app.stop().await;
    lab.assert_sound().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn map_has_no_more_bodies_under_way_than_it_may_and_begins_the_next_when_one_ends() {
    let lab = Lab::memory().await;
    let play = Play::of(|ctx, stage, _| async move {
        let item = async |it: u32| {
            let body = async || {
                stage.count("began");
                stage.pass("door").await;
                Ok(it)
            };
            ctx.step("item", body).await
        };
        Ok(json!(ctx.map(0..5, 2, item).await?))
    });
    let theatre = Theatre::on(lab.store.clone(), lab.clock.clone(), &play).await;
    theatre.start("one").await;
    for ended in 0..5 {
        let began = (ended + 2).min(5);
        until("two are active", async || play.stage.ran("began") == began).await;
        for _ in 0..1_000 {
            tokio::task::yield_now().await;
        }
        assert_eq!(play.stage.ran("began"), began);
        play.stage.open("door", 1);
    }
    assert_eq!(theatre.completes("one").await, json!([0, 1, 2, 3, 4]));
    theatre.app.stop().await;
}

async fn resumed_runs_are_admitted_before_new_ones(lab: Lab) {
    let order = Arc::new(Mutex::new(Vec::new()));
    let list = order.clone();
    let play = Play::of(move |ctx, stage, _| {
        let list = list.clone();
        async move {
            if ctx.id().starts_with("sleeper") {
                ctx.sleep("nap", SECOND).await?;
            }
            let body = async || {
                list.lock().unwrap().push(ctx.id().to_owned());
                stage.pass("door").await;
                Ok(())
            };
            ctx.step("a", body).await?;
            Ok(Value::Null)
        }
    });
    let theatre = theatre(&lab, play.options(room(1)), |it| it.object(Ledger::default())).await;
    for id in ["sleeper-1", "sleeper-2", "sleeper-3"] {
        theatre.start(id).await;
        theatre.sleeps(id).await;
    }
    theatre.start("first").await;
    theatre.stage.came("door").await;
    for id in ["new-1", "new-2", "new-3"] {
        theatre.start(id).await;
    }
    theatre.clock.advance(SECOND);
    for _ in 0..6 {
        // A later message has gone through the dispatcher: they wait for a permit.
        messages_go_through(&theatre, 10).await;
        theatre.stage.open("door", 1);
        theatre.stage.came("door").await;
    }
    theatre.stage.open("door", 1);
    for id in ["first", "sleeper-1", "sleeper-2", "sleeper-3", "new-1", "new-2", "new-3"] {
        theatre.completes(id).await;
    }
    let order = order.lock().unwrap().clone();
    assert_eq!(order[0], "first");
    assert!(order[1..4].iter().all(|it| it.starts_with("sleeper")), "{order:?}");
    theatre.app.stop().await;
}

/// A program with plays, and additions of the test.
async fn theatre(lab: &Lab, play: Play, add: impl FnOnce(App) -> App) -> Theatre {
    let (store, clock, stage) = (lab.store.clone(), lab.clock.clone(), play.stage.clone());
    let builder = add(App::new("test").workflow(play));
    let app = builder.start(store.clone()).await.unwrap();
    Theatre { store, clock, app, stage }
}

/// Messages from one object to another, one after the other.
async fn messages_go_through(theatre: &Theatre, many: i64) {
    let before = theatre.app.call(Ledger::at("there"), Read).await.unwrap().0;
    for number in 1..=many {
        let both = AddBoth { other: "there".into(), by: 1 };
        theatre.app.call(Ledger::at("here"), both).await.unwrap();
        until("the message is there", async || {
            theatre.app.call(Ledger::at("there"), Read).await.unwrap().0 == before + number
        })
        .await;
    }
}

async fn a_workflow_without_room_holds_up_neither_others_nor_messages(lab: Lab) {
    let blocks = |name: &'static str| {
        move |ctx: Ctx, stage: Stage, _: Value| async move {
            ctx.event::<()>("go").await?;
            ctx.step("a", async || passed(&stage, name).await).await?;
            Ok(Value::Null)
        }
    };
    let play = Play::of(blocks("door")).options(room(6));
    let other = Other::of(blocks("other")).on(&play.stage);
    // Fewer than the runs that are blocked.
    let options = DispatcherOptions {
        concurrency: 2,
        concurrency_per_target: 1,
        unknown: Unknown::Waits,
        ..DispatcherOptions::default()
    };
    let add = |it: App| it.object(Ledger::default()).workflow(other).dispatcher_options(options);
    let theatre = theatre(&lab, play, add).await;
    let ids: Vec<String> = (0..10).map(|it| format!("r{it}")).collect();
    for id in &ids {
        theatre.start(id).await;
        theatre.send(id, "go", &Value::Null).await;
    }
    for _ in 0..6 {
        theatre.stage.came("door").await;
    }
    messages_go_through(&theatre, 3).await;
    let runs = theatre.app.runs();
    runs.start_json("other", "one", Value::Null).await.unwrap();
    runs.send_event("other", "one", "go", &()).await.unwrap();
    theatre.stage.came("other").await;
    theatre.stage.open("other", 1);
    assert_eq!(runs.wait("other", "one").await.unwrap(), Status::Complete(Value::Null));
    theatre.stage.open("door", 10);
    for id in &ids {
        theatre.completes(id).await;
    }
    theatre.app.stop().await;
    lab.assert_sound().await;
}

async fn many_events_for_a_run_that_is_busy_take_no_room(lab: Lab) {
    let play = Play::of(|ctx, stage, _| async move {
        if ctx.id() == "busy" {
            ctx.step("a", async || passed(&stage, "door").await).await?;
        }
        let mut sum = 0;
        for _ in 0..50 {
            sum += ctx.event::<u32>("e").await?;
        }
        Ok(json!(sum))
    });
    let theatre = theatre(&lab, play.options(room(2)), |it| it).await;
    theatre.start("busy").await;
    theatre.stage.came("door").await;
    theatre.start("quick").await;
    for _ in 0..50 {
        theatre.send("busy", "e", &json!(1)).await;
    }
    until("only the run itself is active", async || theatre.works().await.len() == 1).await;
    for _ in 0..50 {
        theatre.send("quick", "e", &json!(2)).await;
    }
    assert_eq!(theatre.completes("quick").await, json!(100));
    theatre.stage.open("door", 1);
    assert_eq!(theatre.completes("busy").await, json!(50));
    theatre.app.stop().await;
    lab.assert_sound().await;
}

async fn passed(stage: &Stage, door: &str) -> Result<()> {
    stage.pass(door).await;
    Ok(())
}
