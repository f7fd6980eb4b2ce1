//! Time in our own line is not the provider's time, and what a provider turns away comes back when
//! the provider wants to be asked again.

use std::{sync::Arc, time::Duration};

use steadfast_core::{
    Object,
    bucket::MemoryBlobs,
    store::{ManualClock, MemoryStore, Timestamp},
    test::TestApp,
};
use steadfast_generations::{
    Cancel, Delete, GenerationManager, GenerationStatus, GetState, TaskState,
};

use crate::stage::{Fake, ID, advance, create, kept, live, program, request};

laws!(
    a_task_that_waits_for_a_place_does_not_time_out,
    the_time_of_a_provider_ends_while_others_wait,
    what_is_cancelled_while_the_provider_is_busy_is_never_submitted,
    what_is_deleted_while_the_provider_is_busy_is_never_submitted,
    a_busy_provider_is_left_alone_as_long_as_it_says,
    a_busy_provider_is_not_polled_before_it_says,
);

/// Waits until all places of the provider are taken.
async fn is_full(fake: &Fake) {
    crate::stage::until(async || 16 <= fake.calls.receiver_count()).await;
}

/// Answers the calls in flight.
async fn answer(fake: &Fake, answered: u32) {
    fake.calls.send(answered).unwrap();
    crate::stage::until(async || answered <= fake.books().submitted).await;
}

#[tokio::test]
async fn of_640_tasks_of_8_s_with_16_places_none_times_out() {
    let (fake, clock) = (Fake::new(), ManualClock::at(Timestamp(1_700_000_000_000)));
    let store = Arc::new(MemoryStore::new(Arc::new(clock.clone())));
    let program = program(&fake).blobs(Arc::new(MemoryBlobs::default()));
    let app = program.test_on(store, clock.clone()).await.unwrap();
    for number in 0..40 {
        app.call(GenerationManager::at(id(number)), request("held", 16)).await.unwrap();
    }
    // The time for one task is 300 s, and the last ones are submitted after 312 s.
    for wave in 1..=40 {
        is_full(&fake).await;
        clock.advance(Duration::from_secs(8));
        answer(&fake, wave * 16).await;
    }
    app.settle().await;
    for number in 0..40 {
        let shown = app.call(GenerationManager::at(id(number)), GetState).await.unwrap().unwrap();
        assert_eq!((shown.status, shown.counts.ready), (GenerationStatus::Ready, 16));
    }
    fake.assert_fair();
}

fn id(number: u32) -> String {
    format!("0190b0a0-0000-7000-8000-{number:012}")
}

/// 17 tasks, and an hour in which the first 16 have all places.
async fn a_task_that_waits_for_a_place_does_not_time_out(app: &TestApp, fake: &Fake) {
    app.call(GenerationManager::at(id(8)), request("held", 16)).await.unwrap();
    is_full(fake).await;
    create(app, "now", 1).await;
    // The alarm of the one that waits would ring now.
    app.call(GenerationManager::at(ID), steadfast_generations::TimeOut).await.unwrap();
    assert_eq!(live(app).await.unwrap().tasks[0].status, TaskState::Pending);
    answer(fake, 16).await;
    app.settle().await;
    assert_eq!(kept(app).await.unwrap().status, GenerationStatus::Ready);
}

async fn the_time_of_a_provider_ends_while_others_wait(app: &TestApp, fake: &Fake) {
    create(app, "slow", 2).await;
    app.settle().await;
    advance(app, 299).await;
    assert_eq!(live(app).await.unwrap().status, GenerationStatus::Active);
    fake.books().is_down = true;
    advance(app, 1).await;
    let over = live(app).await.unwrap();
    assert_eq!((over.status, over.counts.failed), (GenerationStatus::Failed, 2));
    assert_eq!(over.tasks[0].error.as_ref().unwrap().code, "timeout");
}

async fn what_is_cancelled_while_the_provider_is_busy_is_never_submitted(
    app: &TestApp,
    fake: &Fake,
) {
    fake.books().busy = Some(Duration::from_secs(7));
    create(app, "now", 3).await;
    app.settle().await;
    let submitted = fake.books().submitted;
    assert!((1..=3).contains(&submitted), "those that began before the first was turned away");
    app.call(GenerationManager::at(ID), Cancel).await.unwrap();
    fake.books().busy = None;
    advance(app, 3_600).await;
    assert_eq!(fake.books().submitted, submitted);
    assert_eq!(fake.books().paid.len(), 0);
    assert_eq!(kept(app).await.unwrap().status, GenerationStatus::Cancelled);
}

async fn what_is_deleted_while_the_provider_is_busy_is_never_submitted(app: &TestApp, fake: &Fake) {
    fake.books().busy = Some(Duration::from_secs(7));
    create(app, "now", 3).await;
    app.settle().await;
    let submitted = fake.books().submitted;
    app.call(GenerationManager::at(ID), Delete).await.unwrap();
    fake.books().busy = None;
    advance(app, 3_600).await;
    assert_eq!(fake.books().submitted, submitted);
    assert_eq!(fake.books().paid.len(), 0);
}

async fn a_busy_provider_is_left_alone_as_long_as_it_says(app: &TestApp, fake: &Fake) {
    fake.books().busy = Some(Duration::from_secs(400));
    create(app, "now", 2).await;
    app.settle().await;
    let submitted = fake.books().submitted;
    advance(app, 399).await;
    assert_eq!(fake.books().submitted, submitted, "nobody asks before the time");
    fake.books().busy = None;
    advance(app, 60).await;
    assert_eq!(kept(app).await.unwrap().counts.ready, 2, "that time is not the provider's");
    assert_eq!(fake.books().submitted, submitted + 2);
    assert_eq!(fake.books().polled, 0);
    fake.assert_fair();
}

async fn a_busy_provider_is_not_polled_before_it_says(app: &TestApp, fake: &Fake) {
    create(app, "slow", 1).await;
    app.settle().await;
    fake.books().busy = Some(Duration::from_secs(120));
    advance(app, 31).await;
    assert_eq!(fake.books().polled, 1);
    advance(app, 110).await;
    assert_eq!(fake.books().polled, 1, "nobody asks before the time");
    fake.books().busy = None;
    fake.finish();
    advance(app, 20).await;
    assert_eq!(kept(app).await.unwrap().counts.ready, 1);
}
