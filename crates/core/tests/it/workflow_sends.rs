//! Outputs of a run: messages and progress; and randomness, which is the same in each replay.

use std::time::Duration;

use serde_json::{Value, json};
use steadfast_core::{
    App, Error, Object, Workflow, store::EntityKind, test::assert_survives_crashes,
    workflow::Status,
};

use crate::{
    lab::{Lab, address_of},
    ledger::{AUDIT, Add, Ledger, Read},
    play::{Play, Theatre},
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wherever_the_process_ends_a_message_is_sent_once() {
    let play = Play::of(|ctx, stage, _| async move {
        ctx.send(AUDIT, Add { by: 1 }).await?;
        ctx.step("a", async || Ok(stage.count("a"))).await?;
        ctx.send(Ledger::at("l"), Add { by: 2 }).await?;
        ctx.sleep("nap", Duration::from_secs(1)).await?;
        ctx.join(ctx.send(AUDIT, Add { by: 4 }), ctx.send(Ledger::at("l"), Add { by: 8 })).await?;
        ctx.call(Ledger::at("l"), Add { by: 16 }).await?;
        Ok(json!(null))
    });
    let program = || App::new("test").workflow(play.clone()).object(Ledger::default());
    let survived = assert_survives_crashes(program, async |app| {
        app.start(Play::at("one"), Value::Null).await?;
        app.advance(Duration::from_mins(10)).await;
        let status = app.runs().status("play", "one").await?;
        let Status::Complete(_) = status else {
            return Err(Error::retryable(format!("{status:?}")));
        };
        let queue = address_of(EntityKind::Queue, "audit", "0").id();
        let run = address_of(EntityKind::Run, "play", "one").id();
        let sent = app.store().pending(Some(run), 0, 100).await?;
        let sent: Vec<String> = sent
            .iter()
            .filter(|it| it.target == Some(queue))
            .map(|it| it.data.as_str().to_owned())
            .collect();
        Ok((sent, app.call(Ledger::at("l"), Read).await?))
    })
    .await;
    assert!(16 <= survived, "{survived}");
    // Equal values prove nothing about the values themselves.
    let app = program().test().await.unwrap();
    app.start(Play::at("one"), Value::Null).await.unwrap();
    app.advance(Duration::from_mins(1)).await;
    assert_eq!(app.call(Ledger::at("l"), Read).await.unwrap(), (26, 26));
    let left = app.store().pending(None, 0, 100).await.unwrap();
    let left: Vec<&str> = left.iter().map(|it| it.data.as_str()).collect();
    assert_eq!(left, [r#"{"by":1}"#, r#"{"by":4}"#]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn progress_is_seen_at_once_recorded_once_and_not_said_again_in_a_replay() {
    let play = Play::of(|ctx, stage, _| async move {
        ctx.progress("begins", 0.0);
        let body = async || {
            ctx.progress("in a step", 150.0);
            stage.pass("door").await;
            Ok(())
        };
        ctx.step("a", body).await?;
        // Each has a commit of its own, without new progress.
        for name in ["b", "b", "b"] {
            ctx.step(name, async || Ok(stage.count(name))).await?;
        }
        ctx.progress("passing", None);
        ctx.progress("waits", f64::NAN);
        ctx.event::<()>("go").await?;
        ctx.event::<()>("go").await?;
        ctx.step("c", async || Ok(stage.count("c"))).await?;
        ctx.progress("ends", 100.0);
        Ok(Value::Null)
    });
    let Lab { store, clock, .. } = Lab::memory().await;
    let mut theatre = Theatre::on(store, clock, &play).await;
    theatre.start("one").await;
    theatre.stage.came("door").await;
    let seen = async |theatre: &Theatre| {
        let it = theatre.app.runs().look("play", "one").await.unwrap().progress;
        (it.message.unwrap_or_default(), it.percent)
    };
    assert_eq!(seen(&theatre).await, ("in a step".to_owned(), Some(100.0)));
    theatre.stage.open("door", 1);
    for _ in 0..2 {
        theatre.sleeps("one").await;
        assert_eq!(seen(&theatre).await, ("waits".to_owned(), None));
        theatre = theatre.again(&play, Duration::ZERO).await;
        assert_eq!(seen(&theatre).await, ("waits".to_owned(), None));
        theatre.send("one", "go", &Value::Null).await;
    }
    theatre.completes("one").await;
    assert_eq!(seen(&theatre).await, ("ends".to_owned(), Some(100.0)));
    let said = theatre.history("one").await.into_iter().filter(|it| it.entry == "progress");
    let said: Vec<Value> = said.map(|it| it.fields["message"].clone()).collect();
    // Progress between two entries is not recorded.
    assert_eq!(said, ["in a step", "waits", "ends"]);
    theatre.app.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn time_and_randomness_are_the_same_in_each_replay_and_differ_between_calls() {
    let play = Play::of(|ctx, stage, _| async move {
        let first = json!([ctx.now().await?.0, ctx.random().await?, ctx.uuid().await?]);
        let second = json!([ctx.now().await?.0, ctx.random().await?, ctx.uuid().await?]);
        stage.count(&first.to_string());
        stage.count(&second.to_string());
        ctx.sleep("nap", Duration::from_secs(1)).await?;
        Ok(json!([first, second]))
    });
    let Lab { store, clock, .. } = Lab::memory().await;
    let theatre = Theatre::on(store, clock, &play).await;
    theatre.start("one").await;
    theatre.sleeps("one").await;
    let theatre = theatre.again(&play, Duration::from_secs(5)).await;
    let output = theatre.completes("one").await;
    for part in [&output[0], &output[1]] {
        assert_eq!(theatre.stage.ran(&part.to_string()), 2, "{part}");
    }
    assert_ne!(output[0][1], output[1][1]);
    assert_ne!(output[0][2], output[1][2]);
    let uuid = output[0][2].as_str().unwrap();
    assert_eq!((uuid.len(), &uuid[14..15]), (36, "4"));
    theatre.app.stop().await;
}
