//! The manager sends a change again until the library confirms it, and notifies subscribers then.

use std::time::Duration;

use steadfast_core::{Object, store::Timestamp, test::TestApp};
use steadfast_generations::{Delete, GenerationManager, GenerationStatus, TaskState};
use steadfast_world::World;

use crate::stage::{Fake, ID, advance, blobs, create, kept, live, program, webhook, webhook_with};

laws!(
    a_hard_delete_is_done_when_the_bucket_is_back_after_days,
    one_alarm_is_enough_for_all_that_the_library_has_to_confirm,
);
laws!(also on postgres: a_hard_delete_is_done_when_the_bucket_is_back_after_days);

/// When the alarm rings that asks the library again.
async fn alarm(app: &TestApp) -> Option<Timestamp> {
    let view = app.objects().look_at(None, GenerationManager::CLASS, ID).await.unwrap();
    view.alarms.iter().find(|it| it.name == "confirm").map(|it| it.due_at)
}

async fn one_alarm_is_enough_for_all_that_the_library_has_to_confirm(app: &TestApp, fake: &Fake) {
    create(app, "slow", 4).await;
    app.settle().await;
    assert_eq!(alarm(app).await, None, "there is nothing to confirm yet");
    webhook(app, 0).await.unwrap();
    app.settle().await;
    let first = alarm(app).await;
    assert_eq!(first, Some(app.now().after(Duration::from_secs(30))));
    advance(app, 5).await;
    webhook(app, 1).await.unwrap();
    app.settle().await;
    assert_eq!(alarm(app).await, first, "it is set once");
    advance(app, 60).await;
    assert_eq!(alarm(app).await, None, "everything is confirmed");
    // A word with nothing new for the library: a task has failed.
    webhook_with(app, 2, 0, "no").await.unwrap();
    app.settle().await;
    assert_eq!((alarm(app).await, live(app).await.unwrap().counts.failed), (None, 1));
    webhook(app, 3).await.unwrap();
    app.settle().await;
    assert_eq!(alarm(app).await, None, "the end is confirmed");
    fake.assert_fair();
}

/// The same claims over two processes: in the first one the library takes nothing.
macro_rules! with_a_full_library {
    ($($claim:ident),+ $(,)?) => {
        with_a_full_library!(@on full_in_memory, in_memory: $($claim),+);
        with_a_full_library!(@on full_on_sqlite, on_sqlite: $($claim),+);
        with_a_full_library!(@on full_on_postgres, on_postgres: $($claim),+);
    };
    (@on $store:ident, $world:ident: $($claim:ident),+) => {
        mod $store {
            $(#[test]
            fn $claim() {
                let fake = super::Fake::new();
                fake.books().is_library_full = true;
                let its = fake.clone();
                let world = super::World::$world(move || super::program(&its));
                super::$claim(world, &fake);
            })+
        }
    };
}

with_a_full_library!(
    hole_12_what_a_full_library_refuses_is_seen_and_is_there_when_it_takes_it,
    hole_14_a_deleted_manager_stays_until_the_library_has_confirmed,
);

fn hole_12_what_a_full_library_refuses_is_seen_and_is_there_when_it_takes_it(
    mut world: World,
    fake: &Fake,
) {
    world.on(async |app| {
        create(app, "now", 2).await;
        app.settle().await;
        let now = live(app).await.unwrap();
        let states: Vec<_> = now.tasks.iter().map(|it| it.status).collect();
        assert_eq!(states, [TaskState::Streaming; 2], "it is not ready before it is there");
        assert_eq!((now.status, now.artifacts.len()), (GenerationStatus::Active, 0));
        advance(app, 120).await;
        let now = live(app).await.unwrap();
        assert_eq!(now.library_error.unwrap().code, "library_full");
        advance(app, 25 * 3_600).await;
        assert!(live(app).await.is_some(), "hole 14: what is not confirmed is not forgotten");
    });
    fake.books().is_library_full = false;
    world.end_during(0, async |_| {});
    world.on(async |app| {
        advance(app, 2 * 3_600).await;
        let whole = kept(app).await.unwrap();
        assert_eq!((whole.status, whole.artifacts.len()), (GenerationStatus::Ready, 2));
        assert_eq!(blobs(app).await.len(), 2);
        advance(app, 25 * 3_600).await;
        assert_eq!(live(app).await, None, "then it is");
    });
    fake.assert_fair();
}

fn hole_14_a_deleted_manager_stays_until_the_library_has_confirmed(mut world: World, fake: &Fake) {
    world.on(async |app| {
        create(app, "now", 2).await;
        app.settle().await;
        assert_eq!(blobs(app).await.len(), 2);
        app.call(GenerationManager::at(ID), Delete).await.unwrap();
        advance(app, 25 * 3_600).await;
        assert_eq!(blobs(app).await, Vec::<String>::new(), "no orphans");
    });
    fake.books().is_library_full = false;
    world.end_during(0, async |_| {});
    world.on(async |app| {
        // A message that was given up before must not bring it back.
        advance(app, 2 * 3_600).await;
        assert_eq!((live(app).await, kept(app).await), (None, None));
        create(app, "now", 1).await;
        app.settle().await;
        assert_eq!(kept(app).await, None, "the library knows that it was deleted");
    });
}

async fn a_hard_delete_is_done_when_the_bucket_is_back_after_days(app: &TestApp, fake: &Fake) {
    create(app, "now", 3).await;
    app.settle().await;
    assert_eq!(blobs(app).await.len(), 3);
    fake.books().is_bucket_away = true;
    app.call(GenerationManager::at(ID), Delete).await.unwrap();
    advance(app, 2 * 24 * 3_600).await;
    assert_eq!((live(app).await, kept(app).await), (None, None));
    assert_eq!(blobs(app).await.len(), 3);
    fake.books().is_bucket_away = false;
    advance(app, 2 * 3_600).await;
    assert_eq!(blobs(app).await, Vec::<String>::new());
}
