//! Forgets what is older than it needs to be, now and then, in every program.

use std::{sync::Arc, time::Duration};

use steadfast_bucket::{Buckets, SweepCounts};
use steadfast_store::{Retention, Store};

use crate::{
    Queues, Runs,
    object::{HistoryRetention, sweep_history},
};

/// A program that has just started has better things to do.
const FIRST: Duration = Duration::from_mins(1);

/// How often afterwards.
const PERIOD: Duration = Duration::from_hours(1);

/// How long things are kept that nobody said it of. Each workflow, queue and bucket says it of its
/// own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keep {
    /// Messages, and what is left of deleted objects and of processes that are complete.
    pub messages: Retention,
    /// Turns of objects, for going back.
    pub turns: HistoryRetention,
}

impl Default for Keep {
    fn default() -> Self {
        Self { messages: Retention::DEFAULT, turns: HistoryRetention::DEFAULT }
    }
}

/// What a program sweeps.
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
    /// For how long things are kept.
    pub keep: Keep,
}

impl Sweeper {
    /// Sweeps now and then, for as long as it is polled. Nothing is written where nothing is to be
    /// forgotten.
    pub async fn run(self) {
        let mut pause = FIRST;
        loop {
            self.store.clock().sleep(pause).await;
            pause = PERIOD;
            self.sweep().await;
        }
    }

    /// Sweeps once. What fails is logged, and tried again the next time.
    pub async fn sweep(&self) {
        let Self { store, runs, queues, buckets, keep } = self;
        let store = store.as_ref();
        said("runs erased", runs.sweep(keep.messages.keep_dead).await);
        said("messages in queues expired", queues.sweep().await);
        if let Some(buckets) = buckets {
            match buckets.sweep().await {
                Ok(swept) if swept == SweepCounts::default() => {}
                Ok(SweepCounts { blobs, uploads, rows, files }) => {
                    tracing::info!(blobs, uploads, rows, files, "blobs, uploads and files removed");
                }
                Err(error) => tracing::warn!(error = %error, "blobs and files not removed"),
            }
        }
        said("messages forgotten", steadfast_store::sweep(store, keep.messages).await);
        said("turns forgotten", sweep_history(store, keep.turns).await);
    }
}

fn said<N: TryInto<u64>>(what: &str, swept: Result<N, impl std::fmt::Display>) {
    match swept.map(|it| it.try_into().unwrap_or(u64::MAX)) {
        Ok(0) => {}
        Ok(count) => tracing::info!(count, "old {what}"),
        Err(error) => tracing::warn!(error = %error, "no old {what}"),
    }
}
