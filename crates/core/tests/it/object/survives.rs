//! A program crashes at every commit, and the next process reaches the same result.

use std::time::Duration;

use steadfast_core::{
    App, Error, Object, Result,
    test::{TestApp, assert_survives_crashes},
};

use crate::ledger::{AddBoth, Clockwork, Downloader, Fetch, Ledger, Read, Rung};

/// The operations of a client, each under a key, so that they can be repeated.
async fn scenario(app: &TestApp) -> Result<(i64, i64, Vec<String>)> {
    let failed = |error: steadfast_core::CallError| Error::retryable(error);
    let objects = app.objects();
    let both = AddBoth { other: "b".into(), by: 5 };
    objects.call(Ledger::at("a"), both).key("both").await.map_err(failed)?;
    let alarm = Clockwork::Set { name: "x".into(), after: Duration::from_secs(10) };
    objects.call(Ledger::at("a"), alarm).key("alarm").await.map_err(failed)?;
    let alarm = Clockwork::Set { name: "twice".into(), after: Duration::from_secs(5) };
    objects.call(Ledger::at("b"), alarm).key("alarm").await.map_err(failed)?;
    objects.call(Ledger::at("a"), Fetch { failures: 0 }).key("fetch").await.map_err(failed)?;
    app.advance(Duration::from_mins(1)).await;
    let (a, _) = objects.call(Ledger::at("a"), Read).await.map_err(failed)?;
    let (b, _) = objects.call(Ledger::at("b"), Read).await.map_err(failed)?;
    let mut rung = objects.call(Ledger::at("a"), Rung).await.map_err(failed)?;
    rung.extend(objects.call(Ledger::at("b"), Rung).await.map_err(failed)?);
    Ok((a, b, rung.into_iter().map(|it| it.0).collect()))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_sends_alarms_and_effects_end_the_same_whenever_the_process_ends() {
    let program = || App::new("test").object(Ledger::default()).perform(Downloader::default());
    let app = program().test().await.unwrap();
    let wanted = (12, 5, vec!["x".to_owned(), "twice".to_owned()]);
    assert_eq!(scenario(&app).await.unwrap(), wanted);
    let survived = assert_survives_crashes(program, scenario).await;
    assert!(20 < survived, "{survived}");
}
