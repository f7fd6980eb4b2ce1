//! Polls and webhooks during a call to the provider, and the end of the process right after an
//! answer.

use steadfast_core::test::TestApp;
use steadfast_generations::{GenerationStatus, TaskState};
use steadfast_world::World;

use crate::stage::{Fake, advance, create, kept, live, program, webhook};

laws!(hole_01_polls_and_webhooks_are_answered_during_a_slow_call_and_no_change_is_lost,);
laws!(also on postgres:
    hole_01_polls_and_webhooks_are_answered_during_a_slow_call_and_no_change_is_lost,
);

async fn hole_01_polls_and_webhooks_are_answered_during_a_slow_call_and_no_change_is_lost(
    app: &TestApp,
    fake: &Fake,
) {
    create(app, "held", 3).await;
    crate::stage::until(async || 3 <= fake.calls.receiver_count()).await;
    let now = live(app).await.unwrap();
    assert_eq!(now.status, GenerationStatus::Active);
    assert!(now.tasks.iter().all(|it| it.status == TaskState::Pending));
    webhook(app, 1).await.unwrap();
    let now = live(app).await.unwrap();
    assert_ne!(now.tasks[1].status, TaskState::Pending, "the webhook counts during the calls");
    assert_eq!(now.tasks[0].status, TaskState::Pending);
    fake.calls.send(1).unwrap();
    app.settle().await;
    let whole = kept(app).await.unwrap();
    assert_eq!((whole.status, whole.counts.ready), (GenerationStatus::Ready, 3));
    assert_eq!(whole.artifacts.len(), 3);
    fake.assert_fair();
}

/// The provider tells once, gets its answer, and the process ends at once.
fn hole_04(world: impl FnOnce(Box<dyn Fn() -> steadfast_core::App>) -> World) {
    let fake = Fake::new();
    let its = fake.clone();
    let mut world = world(Box::new(move || program(&its)));
    world.on(async |app| {
        create(app, "slow", 1).await;
        app.settle().await;
    });
    world.end_during(u64::MAX / 2, async |app| webhook(app, 0).await.unwrap());
    world.on(async |app| {
        // The webhook is not repeated, and polls say that the task is in progress.
        advance(app, 60).await;
        let whole = kept(app).await.unwrap();
        assert_eq!((whole.status, whole.artifacts.len()), (GenerationStatus::Ready, 1));
    });
    fake.assert_fair();
}

#[test]
fn hole_04_what_a_webhook_said_is_there_after_a_restart_in_memory() {
    hole_04(World::in_memory);
}

#[test]
fn hole_04_what_a_webhook_said_is_there_after_a_restart_on_sqlite() {
    hole_04(World::on_sqlite);
}

#[test]
fn hole_04_what_a_webhook_said_is_there_after_a_restart_on_postgres() {
    hole_04(World::on_postgres);
}
