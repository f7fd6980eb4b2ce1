//! Deletes data whose retention is over, once an hour, in every program.

use std::{sync::Arc, time::Duration};

use steadfast_bucket::{Buckets, SweepCounts};
use steadfast_store::{Retention, Store};

use crate::{
    Queues, Runs,
    object::{HistoryRetention, sweep_history},
};

/// Delay of the first sweep: a program that starts has more urgent work.
const FIRST: Duration = Duration::from_mins(1);

/// Interval between sweeps.
const PERIOD: Duration = Duration::from_hours(1);

/// The default retention. Workflows, queues and buckets have settings of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetentionSettings {
    /// Messages, and the remains of deleted objects and of completed processes.
    pub messages: Retention,
    /// Turns of objects, for reading past states.
    pub turns: HistoryRetention,
}

impl Default for RetentionSettings {
    fn default() -> Self {
        Self { messages: Retention::DEFAULT, turns: HistoryRetention::DEFAULT }
    }
}

/// Deletes the expired data of a program.
#[derive(Clone)]
pub struct Sweeper {
    /// The store.
    pub store: Arc<dyn Store>,
    /// The runs of workflows.
    pub runs: Runs,
    /// The queues.
    pub queues: Queues,
    /// The buckets, if there are any.
    pub buckets: Option<Buckets>,
    /// The default retention.
    pub retention: RetentionSettings,
}

impl Sweeper {
    /// Sweeps once an hour, for as long as it is polled. A sweep that finds nothing writes nothing.
    #[steadfast_store::boxed]
    pub async fn run(self) {
        let mut pause = FIRST;
        loop {
            self.store.clock().sleep(pause).await;
            pause = PERIOD;
            self.sweep().await;
        }
    }

    /// Sweeps once. A failure is logged; the next sweep tries again.
    #[steadfast_store::boxed]
    pub async fn sweep(&self) {
        let Self { store, runs, queues, buckets, retention } = self;
        let store = store.as_ref();
        log_result("runs", runs.sweep(retention.messages.keep_dead).await);
        log_result("messages of queues", queues.sweep().await);
        if let Some(buckets) = buckets {
            match buckets.sweep().await {
                Ok(swept) if swept == SweepCounts::default() => {}
                Ok(SweepCounts { blobs, uploads, rows, files }) => {
                    tracing::info!(blobs, uploads, rows, files, "blobs, uploads and files removed");
                }
                Err(error) => tracing::warn!(error = %error, "blobs and files not removed"),
            }
        }
        log_result("messages", steadfast_store::sweep(store, retention.messages).await);
        log_result("turns", sweep_history(store, retention.turns).await);
    }
}

fn log_result<N: TryInto<u64>>(what: &str, swept: Result<N, impl std::fmt::Display>) {
    match swept.map(|it| it.try_into().unwrap_or(u64::MAX)) {
        Ok(0) => {}
        Ok(count) => tracing::info!(count, "deleted expired {what}"),
        Err(error) => tracing::warn!(error = %error, "expired {what} were not deleted"),
    }
}
