//! How long a provider wants to be left alone.

use std::time::Duration;

use steadfast_core::{Object, test::TestApp};
use steadfast_generations::{GenerationManager, GenerationStatus, GetState};

use crate::stage::{Fake, ID, advance, create, kept, live, request};

laws!(
    the_wait_that_a_provider_asks_for_after_an_outage_is_not_its_time,
    a_provider_that_is_down_is_left_alone_as_long_as_it_says,
    a_busy_provider_that_does_not_say_how_long_is_asked_more_and_more_seldom,
    what_a_provider_says_to_one_task_holds_for_all,
);

/// How often it was asked to begin, and how far something is.
fn asked(fake: &Fake) -> (u32, u32) {
    let books = fake.books();
    (books.submitted, books.polled)
}

async fn the_wait_that_a_provider_asks_for_after_an_outage_is_not_its_time(
    app: &TestApp,
    fake: &Fake,
) {
    fake.books().is_down = true;
    create(app, "now", 1).await;
    app.settle().await;
    // The next attempt polls first, and has to wait for longer than a task may take.
    fake.books().is_down = false;
    fake.books().busy = Some(Duration::from_secs(400));
    advance(app, 390).await;
    assert_eq!(live(app).await.unwrap().status, GenerationStatus::Active);
    assert_eq!(asked(fake), (1, 1));
    fake.books().busy = None;
    advance(app, 60).await;
    assert_eq!(kept(app).await.unwrap().counts.ready, 1);
    fake.assert_fair();
}

async fn a_provider_that_is_down_is_left_alone_as_long_as_it_says(app: &TestApp, fake: &Fake) {
    fake.books().is_down = true;
    fake.books().down_for = Some(Duration::from_secs(400));
    create(app, "lost", 1).await;
    advance(app, 390).await;
    assert_eq!(asked(fake), (1, 0));
    assert_eq!(live(app).await.unwrap().status, GenerationStatus::Active);
    fake.books().is_down = false;
    advance(app, 300).await;
    assert_eq!(kept(app).await.unwrap().counts.ready, 1);
    assert_eq!(fake.books().submitted, 2, "the task was not taken, and then taken once");
    fake.assert_fair();
}

async fn a_busy_provider_that_does_not_say_how_long_is_asked_more_and_more_seldom(
    app: &TestApp,
    fake: &Fake,
) {
    fake.books().busy = Some(Duration::ZERO);
    create(app, "now", 16).await;
    app.settle().await;
    let first = fake.books().submitted;
    app.advance(Duration::from_millis(990)).await;
    assert_eq!(fake.books().submitted, first);
    // The waits of each task are 1, 2, 4, 8, 16 and 32 seconds at least.
    advance(app, 60).await;
    assert!(fake.books().submitted <= 16 * 6, "{}", fake.books().submitted);
    fake.books().busy = None;
    advance(app, 300).await;
    assert_eq!(kept(app).await.unwrap().counts.ready, 16);
    fake.assert_fair();
}

async fn what_a_provider_says_to_one_task_holds_for_all(app: &TestApp, fake: &Fake) {
    fake.books().busy = Some(Duration::from_secs(400));
    create(app, "now", 1).await;
    app.settle().await;
    assert_eq!(fake.books().submitted, 1);
    let other = || GenerationManager::at("0190b0a0-0000-7000-8000-000000000002");
    app.call(other(), request("now", 4)).await.unwrap();
    advance(app, 399).await;
    assert_eq!(fake.books().submitted, 1, "nobody asks before the time");
    fake.books().busy = None;
    advance(app, 60).await;
    let now = app.call(other(), GetState).await.unwrap().unwrap();
    assert_eq!((now.status, now.counts.ready), (GenerationStatus::Ready, 4));
    assert_eq!(kept(app).await.unwrap().counts.ready, 1);
    assert_eq!(fake.books().submitted, 6, "what only waited was not turned away");
    assert_eq!(live(app).await.unwrap().id, ID);
    fake.assert_fair();
}
