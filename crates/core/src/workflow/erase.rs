//! Deletes runs that have ended: when their retention is over, or on request.

use std::time::Duration;

use steadfast_store::{
    Address, Commit, Expect, Outcome, Rejection, RunStatus, StoreError, Timestamp, Version, Write,
    futures::try_join_all,
};

use super::{RunError, Runs, runs::address, wake};
use crate::{object::sweep_run_replies, to_end::to_end};

/// Runs and messages read together.
const PAGE: usize = 8;

/// Maximum wait for the code of a run that has ended. Code that blocks its thread may never return.
const CODE_WAIT: Duration = Duration::from_secs(10);

/// When a run that cannot be deleted yet is checked again.
const AGAIN: Duration = Duration::from_hours(24);

impl Runs {
    /// Deletes a run that has ended; its id can be used again. Dead letters of the run are deleted
    /// with it.
    #[steadfast_store::boxed]
    pub async fn delete(&self, workflow: &str, id: &str) -> Result<(), RunError> {
        let run = address(workflow, id)?;
        loop {
            let Some((version, status)) = self.row(&run).await? else {
                return Err(RunError::UnknownRun { run: run.to_string() });
            };
            let wrong = |why| {
                let (run, status) = (run.to_string(), status.tag());
                RunError::WrongStatus { run, status, why }
            };
            if !status.is_final() {
                return Err(wrong("terminate it first"));
            }
            if !self.falls_asleep(&run).await {
                return Err(wrong("its code is still running; wait until it returns"));
            }
            match self.erase(&run, version, Timestamp::MAX).await? {
                Ok(()) => return Ok(()),
                Err(Rejection::HasWork { .. }) => {
                    return Err(wrong("messages that it sent are still to be delivered"));
                }
                // Another commit has changed it: read again.
                Err(_) => {}
            }
        }
    }

    /// Deletes the runs whose retention is over, and returns their number: none while the clock is
    /// not reliable. A run with a dead letter is kept for as long as that message. Also deletes the
    /// stored replies to calls of ended runs.
    #[steadfast_store::boxed]
    pub async fn sweep(&self, keep_dead: Duration) -> Result<usize, StoreError> {
        sweep_run_replies(&*self.shared.store).await?;
        let Some(now) = self.shared.clock.deletion_time() else { return Ok(0) };
        let (mut erased, mut before) = (0, Vec::new());
        loop {
            let due = self.shared.store.expired_runs(now, PAGE).await?;
            // Runs that stay are not read again, unless their rows are damaged.
            if due.is_empty() || due == before {
                return Ok(erased);
            }
            let gone = due.iter().map(|run| self.erase_old(run, now.before(keep_dead)));
            erased += try_join_all(gone).await?.into_iter().filter(|it| *it).count();
            before = due;
        }
    }

    async fn erase_old(&self, run: &Address, dead_until: Timestamp) -> Result<bool, StoreError> {
        // It may have been restarted.
        let Some((version, _)) = self.row(run).await?.filter(|(_, it)| it.is_final()) else {
            return Ok(false);
        };
        if self.falls_asleep(run).await && self.erase(run, version, dead_until).await?.is_ok() {
            return Ok(true);
        }
        // It still has pending work, or its code is still running: check later, so that others come
        // first. A run that was restarted meanwhile has a retention of its own.
        let later = Commit::of(Write::KeepRun { run: run.id(), keep: AGAIN });
        let unchanged = Expect::Version { stream: run.id(), version };
        self.shared.store.commit(later.expect(unchanged)).await?;
        Ok(false)
    }

    /// Version and status of a run. The version is read first: if the status changes after that,
    /// so does the version, and a commit at this version is rejected.
    async fn row(&self, run: &Address) -> Result<Option<(Version, RunStatus)>, StoreError> {
        let version = self.shared.store.version(run.id()).await?;
        Ok(self.shared.store.run(run.id()).await?.map(|it| (version, it.status)))
    }

    /// Waits for the driver of a run that has ended: it may not have processed the end yet, and
    /// must not drive another run of this id. `false` if it takes too long.
    async fn falls_asleep(&self, run: &Address) -> bool {
        tokio::select! {
            biased;
            () = self.shared.active.until_asleep(Some(run.id())) => true,
            () = self.shared.clock.sleep(CODE_WAIT) => false,
        }
    }

    /// Deletes a run that nothing drives.
    async fn erase(
        &self,
        run: &Address,
        version: Version,
        dead_until: Timestamp,
    ) -> Result<Result<(), Rejection>, StoreError> {
        let (store, stream) = (&self.shared.store, run.id());
        let unchanged = || Commit::default().expect(Expect::Version { stream, version });
        // Wake-ups that are not needed any more, unless it has just been restarted.
        for message in store.pending(Some(run.id()), 0, 200).await? {
            if message.action == "run" {
                store.commit(unchanged().write(wake::cancel(message.position))).await?;
            }
        }
        let erase = unchanged().write(Write::EraseRun { run: stream, dead_until });
        let shared = self.shared.clone();
        to_end(async move {
            Ok(match shared.store.commit(erase).await? {
                Outcome::Committed(_) | Outcome::Duplicate(_) => {
                    shared.folds.remove(stream);
                    shared.watchers.start_over(stream);
                    Ok(())
                }
                Outcome::Rejected(rejection) => Err(rejection),
            })
        })
        .await
    }
}
