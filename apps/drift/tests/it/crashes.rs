//! An end of the process after every commit of a comparison, on every store.

use std::sync::atomic::Ordering;

use steadfast_core::{App, Object, Workflow, store::RunStatus};
use steadfast_drift::{CompareEnvironments, EnvPair, Shown, Status};
use steadfast_world::World;

use crate::stage::{Environment, Moody, ROUNDS, all, create, ended, find, program};

/// More commits than a comparison has.
const COMMITS_MAX: u64 = 60;

/// Differences between the two environments.
const FOUND: [&str; 3] = ["BodyHashDrift", "CacheHeaderDrift", "FinalUrlMismatch"];

fn wherever_the_process_ends_the_comparison_completes_once(
    world: impl Fn(Box<dyn Fn() -> App>) -> World,
) {
    let (left, right) = (Environment::start("one"), Environment::start("two"));
    let (pair, create) = create(&left.url, &right.url, 1);
    let id = &create.comparison_id;
    for commits in 0..COMMITS_MAX {
        let moody = Moody::default();
        let mut world = world(Box::new(move || program(&moody)));
        let (mut has_ended, begins) = (false, left.asked.load(Ordering::SeqCst));
        world.end_during(commits, async |app| {
            app.call(EnvPair::at(&pair), create.clone()).await.unwrap();
            ended(app, &pair, id).await;
            app.settle().await;
            has_ended = true;
        });
        let shown = world.on(async |app| {
            // A client without an answer repeats its request with the same id.
            app.call(EnvPair::at(&pair), create.clone()).await.unwrap();
            let shown = ended(app, &pair, id).await;
            app.settle().await;
            assert_eq!(all(app, &pair).await.len(), 1, "one comparison");
            let statuses = [RunStatus::Queued, RunStatus::Waiting, RunStatus::Paused];
            for status in statuses {
                let count = app.store().count_runs(CompareEnvironments::NAME, Some(status), 9);
                assert_eq!(count.await.unwrap(), 0, "a run is {status:?} for ever");
            }
            shown
        });
        assert_complete(&shown, commits);
        // A probe or the look again is taken again only if its end was not durable.
        let asked = left.asked.load(Ordering::SeqCst) - begins;
        assert!(asked <= 1 + 2 * ROUNDS, "{asked} after {commits} commits");
        assert_eq!(findings(&shown), FOUND, "after {commits} commits");
        if has_ended {
            assert!(5 < commits, "only {commits} commits");
            return;
        }
    }
    panic!("a comparison has more than {COMMITS_MAX} commits");
}

fn assert_complete(shown: &Shown, commits: u64) {
    assert_eq!(shown.status, Status::Completed, "after {commits} commits: {:?}", shown.error);
    let result = shown.result.as_ref().unwrap();
    for side in [&result.left, &result.right] {
        let failure = side.as_ref().unwrap().result.failure();
        assert_eq!(failure, None, "after {commits} commits");
    }
    assert!(result.diff.is_some() && result.explanation.is_some(), "after {commits} commits");
}

fn findings(shown: &Shown) -> Vec<String> {
    let diff = shown.result.as_ref().unwrap().diff.as_ref().unwrap();
    let codes = diff.findings.iter().map(|it| format!("{:?}", it.code));
    // How long they took is chance.
    codes.filter(|it| it != "TimingDrift").collect()
}

fn hole_9_wherever_the_process_ends_a_comparison_that_fails_does_so_once(
    world: impl Fn(Box<dyn Fn() -> App>) -> World,
) {
    let (left, right) = (Environment::start("one"), Environment::start("two"));
    let (pair, mut create) = create(&left.url, &right.url, 1);
    // Nobody can decrypt it: the step that would probe fails.
    create.sealed = Some("nonsense".into());
    let id = &create.comparison_id;
    for commits in 0..COMMITS_MAX {
        let moody = Moody::default();
        let mut world = world(Box::new(move || program(&moody)));
        let mut has_ended = false;
        world.end_during(commits, async |app| {
            app.call(EnvPair::at(&pair), create.clone()).await.unwrap();
            ended(app, &pair, id).await;
            app.settle().await;
            has_ended = true;
        });
        world.on(async |app| {
            app.call(EnvPair::at(&pair), create.clone()).await.unwrap();
            let shown = ended(app, &pair, id).await;
            let code = shown.error.as_ref().map(|it| it.code.as_str());
            assert_eq!((shown.status, code), (Status::Failed, Some("urls_unreadable")));
            app.settle().await;
            // Not even the alarm says something else.
            app.advance(std::time::Duration::from_mins(10)).await;
            assert_eq!(find(app, &pair, id).await, Some(shown), "after {commits} commits");
            assert_eq!(all(app, &pair).await.len(), 1, "one comparison");
            let store = app.store();
            let count = |status| store.count_runs(CompareEnvironments::NAME, Some(status), 9);
            assert_eq!(count(RunStatus::Complete).await.unwrap(), 1, "the run has ended");
        });
        assert_eq!(left.asked.load(Ordering::SeqCst), 0);
        if has_ended {
            assert!(3 < commits, "only {commits} commits");
            return;
        }
    }
    panic!("a comparison that fails has more than {COMMITS_MAX} commits");
}

#[test]
fn hole_9_wherever_the_process_ends_a_comparison_that_fails_does_so_once_in_memory() {
    hole_9_wherever_the_process_ends_a_comparison_that_fails_does_so_once(World::in_memory);
}

#[test]
fn hole_9_wherever_the_process_ends_a_comparison_that_fails_does_so_once_on_sqlite() {
    hole_9_wherever_the_process_ends_a_comparison_that_fails_does_so_once(World::on_sqlite);
}

#[test]
fn hole_9_wherever_the_process_ends_a_comparison_that_fails_does_so_once_on_postgres() {
    hole_9_wherever_the_process_ends_a_comparison_that_fails_does_so_once(World::on_postgres);
}

#[test]
fn wherever_the_process_ends_the_comparison_completes_once_in_memory() {
    wherever_the_process_ends_the_comparison_completes_once(World::in_memory);
}

#[test]
fn wherever_the_process_ends_the_comparison_completes_once_on_sqlite() {
    wherever_the_process_ends_the_comparison_completes_once(World::on_sqlite);
}

#[test]
fn wherever_the_process_ends_the_comparison_completes_once_on_postgres() {
    wherever_the_process_ends_the_comparison_completes_once(World::on_postgres);
}
