//! Polls find out whether a provider has a task, also during a cancel and after it lost the task.

use steadfast_core::{Object, test::TestApp};
use steadfast_generations::{
    Cancel, GenerationManager, GenerationStatus, Retry, TaskState, task_id,
};

use crate::stage::{
    Fake, GONE, ID, State, advance, create, kept, live, until, webhook, webhook_with,
};

laws!(
    a_task_that_is_turned_away_while_it_counts_as_submitted_is_submitted_again,
    what_is_cancelled_between_the_polls_and_the_submission_is_not_paid,
    a_task_that_the_provider_acknowledged_and_does_not_know_fails_before_its_time_is_over,
    a_task_that_the_provider_finds_again_is_waited_for,
);

/// One task whose first round is over, and whose second round asks for the first one: that poll is
/// open.
async fn retried(app: &TestApp, fake: &Fake) {
    fake.books().is_down = true;
    create(app, "now", 1).await;
    advance(app, 301).await;
    assert_eq!(kept(app).await.unwrap().status, GenerationStatus::Failed);
    fake.books().is_down = false;
    fake.books().is_poll_held = true;
    app.call(GenerationManager::at(ID), Retry).await.unwrap();
    until(async || fake.calls.receiver_count() == 1).await;
    fake.books().is_poll_held = false;
}

async fn a_task_that_is_turned_away_while_it_counts_as_submitted_is_submitted_again(
    app: &TestApp,
    fake: &Fake,
) {
    retried(app, fake).await;
    // The first round was made after all, and is lost: the second one is waited for again.
    webhook_with(app, 0, 0, GONE).await.unwrap();
    until(async || live(app).await.unwrap().tasks[0].status == TaskState::Submitted).await;
    fake.books().busy = Some(std::time::Duration::from_secs(7));
    fake.calls.send(1).unwrap();
    app.settle().await;
    assert_eq!(live(app).await.unwrap().tasks[0].status, TaskState::Pending);
    fake.books().busy = None;
    advance(app, 60).await;
    assert_eq!(kept(app).await.unwrap().counts.ready, 1);
    let paid: Vec<String> = fake.books().paid.keys().cloned().collect();
    assert_eq!(paid, [task_id(ID, 0, 1)]);
    fake.assert_fair();
}

async fn what_is_cancelled_between_the_polls_and_the_submission_is_not_paid(
    app: &TestApp,
    fake: &Fake,
) {
    retried(app, fake).await;
    let submitted = fake.books().submitted;
    app.call(GenerationManager::at(ID), Cancel).await.unwrap();
    fake.calls.send(1).unwrap();
    advance(app, 3_600).await;
    assert_eq!(fake.books().submitted, submitted);
    assert_eq!(fake.books().paid.len(), 0);
    assert_eq!(kept(app).await.unwrap().status, GenerationStatus::Cancelled);
}

async fn a_task_that_the_provider_acknowledged_and_does_not_know_fails_before_its_time_is_over(
    app: &TestApp,
    fake: &Fake,
) {
    create(app, "slow", 2).await;
    app.settle().await;
    fake.books().known.remove(&task_id(ID, 0, 0));
    advance(app, 200).await;
    let now = live(app).await.unwrap();
    let code = now.tasks[0].error.as_ref().map(|it| it.code.as_str());
    assert_eq!((now.tasks[0].status, code), (TaskState::Failed, Some("provider_lost_task")));
    assert_eq!(now.tasks[1].status, TaskState::Submitted, "the other one is known");
    // It was made after all: that is right, and nothing was paid twice.
    webhook(app, 0).await.unwrap();
    app.settle().await;
    assert_eq!(live(app).await.unwrap().tasks[0].status, TaskState::Ready);
    fake.assert_fair();
}

async fn a_task_that_the_provider_finds_again_is_waited_for(app: &TestApp, fake: &Fake) {
    create(app, "slow", 1).await;
    app.settle().await;
    let task = task_id(ID, 0, 0);
    // Polls come after 30, 75 and 135 seconds, then each minute: two in vain, then one.
    for (seconds, found) in [(80, State::Working(20)), (60, State::Done)] {
        fake.books().known.remove(&task);
        advance(app, seconds).await;
        assert_eq!(live(app).await.unwrap().tasks[0].status, TaskState::Submitted);
        fake.books().known.insert(task.clone(), found);
        advance(app, 60).await;
    }
    assert_eq!(kept(app).await.unwrap().status, GenerationStatus::Ready);
}
