//! Memory of sleeping runs: rows in the store, no task and next to no memory.

use std::{sync::Arc, time::Duration};

use steadfast_core::{
    App, Ctx, Result, Workflow,
    store::{ManualClock, RunStatus, SqliteOptions, SqliteStore, Store, Timestamp},
};
use tokio::runtime::Handle;

use super::{is_alone, mib};

const MANY: usize = 10_000;
const DAY: Duration = Duration::from_hours(24);

/// Far above the size of the store's caches and the dispatcher's timers.
const GROWTH_MIB_MAX: usize = 100;

/// The store and the dispatcher have tasks; none is for a run.
const TASKS_MAX: usize = 50;

struct Nap;

impl Workflow for Nap {
    const NAME: &'static str = "nap";
    type Input = ();
    type Output = ();

    async fn run(&self, ctx: &Ctx, (): ()) -> Result<()> {
        ctx.step("before", async || Ok("x".repeat(1_000))).await?;
        ctx.sleep("nap", DAY).await?;
        ctx.step("after", async || Ok(())).await
    }
}

/// Waits until all runs have this status.
async fn all_are(store: &dyn Store, status: RunStatus) {
    for _ in 0..200_000 {
        if store.count_runs(Nap::NAME, Some(status), MANY).await.unwrap() == MANY {
            return;
        }
        tokio::task::yield_now().await;
    }
    panic!("not all are {status:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn runs_that_sleep_take_no_task_and_no_memory_and_all_wake() {
    if !is_alone("memory::runs::runs_that_sleep_take_no_task_and_no_memory_and_all_wake") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let clock = ManualClock::at(Timestamp(1_000_000_000));
    let options = SqliteOptions::new(folder.path(), Arc::new(clock.clone()));
    let store: Arc<dyn Store> = Arc::new(SqliteStore::open(options).unwrap());
    let builder = App::new("test").workflow(Nap);
    let app = Arc::new(builder.start(store.clone()).await.unwrap());
    let before = mib("VmRSS:");
    let callers = (0..64).map(|caller| {
        let app = app.clone();
        tokio::spawn(async move {
            for number in (caller..MANY).step_by(64) {
                app.start(Nap::at(format!("r{number}")), ()).await.unwrap();
            }
        })
    });
    for caller in callers.collect::<Vec<_>>() {
        caller.await.unwrap();
    }
    all_are(&*store, RunStatus::Waiting).await;
    let asleep = mib("VmRSS:");
    assert!(asleep < before + GROWTH_MIB_MAX, "{before} MiB before, {asleep} with all asleep");
    // The last ones may be about to end.
    for round in 0.. {
        let tasks = Handle::current().metrics().num_alive_tasks();
        if tasks < TASKS_MAX {
            break;
        }
        assert!(round < 200_000, "{tasks} tasks");
        tokio::task::yield_now().await;
    }
    clock.advance(DAY);
    all_are(&*store, RunStatus::Complete).await;
    assert_eq!(store.pending(None, 0, 9).await.unwrap().len(), 0);
    store.close().await;
}
