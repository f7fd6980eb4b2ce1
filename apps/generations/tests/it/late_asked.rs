//! A success that comes late, and that nobody tells of: it is asked for.

use steadfast_core::{Object, test::TestApp};
use steadfast_generations::providers::ErrorKind;
use steadfast_generations::{
    Create, GenerationManager, GenerationStatus, Retry, TaskState, task_id,
};

use crate::stage::{Fake, ID, advance, kept, live, request, start};

/// One task whose time is over, at a provider that cannot reach us. It is done there.
async fn over(fake: &Fake) -> TestApp {
    let app = start(fake).await;
    let create = Create { webhooks: None, ..request("slow", 1) };
    app.call(GenerationManager::at(ID), create).await.unwrap();
    app.settle().await;
    fake.books().is_down = true;
    advance(&app, 300).await;
    assert_eq!(kept(&app).await.unwrap().status, GenerationStatus::Failed);
    fake.finish();
    fake.books().is_down = false;
    app
}

#[tokio::test]
async fn it_is_found_when_the_time_is_over_and_for_a_day_after() {
    for hours in [0, 5] {
        let fake = Fake::new();
        let app = over(&fake).await;
        fake.books().is_down = 0 < hours;
        advance(&app, hours * 3_600).await;
        fake.books().is_down = false;
        advance(&app, if hours == 0 { 1 } else { 3_600 }).await;
        let late = kept(&app).await.unwrap();
        assert_eq!((late.status, late.counts.ready), (GenerationStatus::Ready, 1));
        assert_eq!(fake.books().submitted, 1);
        let polled = fake.books().polled;
        advance(&app, 25 * 3_600).await;
        assert_eq!(fake.books().polled, polled, "what is here is not asked for");
        assert_eq!(live(&app).await, None);
    }
}

#[tokio::test]
async fn nobody_asks_for_what_the_provider_has_refused() {
    let fake = Fake::new();
    let app = start(&fake).await;
    app.call(GenerationManager::at(ID), request("refused", 1)).await.unwrap();
    advance(&app, 25 * 3_600).await;
    assert_eq!(fake.books().polled, 0);
    assert_eq!(live(&app).await, None);
}

#[tokio::test]
async fn a_retry_takes_it_instead_of_paying_again() {
    let fake = Fake::new();
    let app = over(&fake).await;
    app.call(GenerationManager::at(ID), Retry).await.unwrap();
    app.settle().await;
    let late = kept(&app).await.unwrap();
    assert_eq!((late.status, late.counts.ready), (GenerationStatus::Ready, 1));
    assert_eq!(late.artifacts[0].response["taskUUID"], task_id(ID, 0, 0));
    assert_eq!(fake.books().submitted, 1);
}

#[tokio::test]
async fn a_retry_that_finds_it_lost_has_it_made_again() {
    let fake = Fake::new();
    let app = over(&fake).await;
    fake.books().withheld = Some(ErrorKind::OutputGone);
    app.call(GenerationManager::at(ID), Retry).await.unwrap();
    app.settle().await;
    assert_eq!(live(&app).await.unwrap().tasks[0].status, TaskState::Submitted);
    fake.books().withheld = None;
    fake.finish();
    advance(&app, 60).await;
    let whole = kept(&app).await.unwrap();
    assert_eq!(whole.artifacts[0].response["taskUUID"], task_id(ID, 0, 1));
    assert_eq!(fake.books().submitted, 2);
    fake.assert_fair();
}
