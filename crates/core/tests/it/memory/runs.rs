//! Memory of sleeping runs: rows in the store, no task and next to no memory.

use std::{sync::Arc, time::Duration};

use steadfast_core::{
    App, Ctx, Result, Workflow,
    store::{ManualClock, RunStatus, SqliteOptions, SqliteStore, Store, Timestamp},
};
use tokio::runtime::Handle;

use super::{is_alone, mib};
use crate::play::until;

const MANY: usize = 4_000;
const DAY: Duration = Duration::from_hours(24);

/// Far above the size of the store's caches and the dispatcher's timers.
const GROWTH_MIB_MAX: usize = 60;

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
    let are = async || store.count_runs(Nap::NAME, Some(status), MANY).await.unwrap() == MANY;
    until(&format!("all are {status:?}"), are).await;
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
    let tasks = || Handle::current().metrics().num_alive_tasks();
    until("the tasks of runs have ended", async || tasks() < TASKS_MAX).await;
    clock.advance(DAY);
    all_are(&*store, RunStatus::Complete).await;
    assert_eq!(store.pending(None, 0, 9).await.unwrap().len(), 0);
    store.close().await;
}
