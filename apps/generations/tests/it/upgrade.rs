//! A version that had images delivered with the answer, and the next one, which does not.

use std::sync::{Arc, Mutex};

use steadfast_core::Object;
use steadfast_fake_runware::FakeRunware;
use steadfast_generations::{
    Create, GenerationManager, GenerationStatus, Request, Retry, TaskState,
    providers::{Delivery, OutputKind, Reconcile, Runware, RunwareOptions},
    task_id,
};
use steadfast_world::World;

use crate::stage::{ID, advance, kept, live, program_with, request};

/// An image of Runware.
fn image(prompt: &str) -> Create {
    let mut input = serde_json::Map::new();
    input.insert("positivePrompt".into(), prompt.into());
    let asked = Request {
        provider: "runware".into(),
        model: "runware:101@1".into(),
        kind: OutputKind::Image,
        input,
        count: 1,
        tags: Vec::new(),
    };
    Create { request: asked, webhooks: None, ..request("", 1) }
}

/// One image whose answer is lost, and the process ends; the next one has other options.
fn upgraded(
    world: impl FnOnce(Box<dyn Fn() -> steadfast_core::App>) -> World,
    fake: &FakeRunware,
    next: RunwareOptions,
) -> World {
    let options = Arc::new(Mutex::new(fake.options()));
    assert_eq!(fake.options().image_delivery, Delivery::Sync);
    let its = options.clone();
    let mut world = world(Box::new(move || {
        let runware = Runware::new(its.lock().unwrap().clone()).unwrap();
        program_with(vec![Arc::new(runware)])
    }));
    world.on(async |app| {
        app.call(GenerationManager::at(ID), image("drop-answer")).await.unwrap();
        app.settle().await;
        assert_eq!(live(app).await.unwrap().tasks[0].status, TaskState::Pending);
    });
    assert_eq!(fake.billings(&task_id(ID, 0, 0)), 1);
    *options.lock().unwrap() = next;
    world.end_during(0, async |_| {});
    world.on(async |app| advance(app, 60).await);
    world
}

fn what_may_be_paid_is_not_paid_again(
    world: impl FnOnce(Box<dyn Fn() -> steadfast_core::App>) -> World,
) {
    let fake = FakeRunware::start().unwrap();
    let (image_delivery, reconcile) = (Delivery::Async, Reconcile::Response);
    let options = RunwareOptions { image_delivery, reconcile, ..fake.options() };
    let world = upgraded(world, &fake, options);
    world.on(async |app| {
        assert_eq!(fake.billings(&task_id(ID, 0, 0)), 1);
        let kept = kept(app).await.unwrap();
        assert_eq!(kept.status, GenerationStatus::Failed);
        assert_eq!(kept.tasks[0].error.as_ref().unwrap().code, "provider_answer_lost");
        // A user that wants it all the same retries it.
        app.call(GenerationManager::at(ID), Retry).await.unwrap();
        advance(app, 60).await;
        assert_eq!(live(app).await.unwrap().status, GenerationStatus::Ready);
        assert_eq!(fake.billings_max(), 1);
        assert_eq!(fake.tasks().len(), 2);
    });
}

#[test]
fn an_image_whose_answer_was_lost_before_the_upgrade_is_not_paid_again_on_sqlite() {
    what_may_be_paid_is_not_paid_again(World::on_sqlite);
}

#[test]
fn an_image_whose_answer_was_lost_before_the_upgrade_is_not_paid_again_on_postgres() {
    what_may_be_paid_is_not_paid_again(World::on_postgres);
}

#[test]
fn an_image_whose_answer_was_lost_is_found_where_the_provider_can_tell() {
    let fake = FakeRunware::start().unwrap();
    let world = upgraded(World::in_memory, &fake, fake.options());
    world.on(async |app| assert_eq!(kept(app).await.unwrap().counts.ready, 1));
    assert_eq!((fake.billings_max(), fake.tasks().len()), (1, 1));
}
