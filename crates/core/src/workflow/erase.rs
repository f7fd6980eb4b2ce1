//! The end of what is kept: runs that have ended are erased, whole, when their time is over or
//! somebody wants it.

use std::time::Duration;

use futures_util::future::try_join_all;
use steadfast_store::{
    Address, Commit, Expect, Outcome, Rejection, RunStatus, StoreError, Timestamp, Version, Write,
};

use super::{RunError, Runs, runs::address, wake};
use crate::object::sweep_run_replies;

/// Runs and messages looked at together.
const PAGE: usize = 8;

/// When a run that cannot be erased yet is looked at again.
const AGAIN: Duration = Duration::from_hours(24);

impl Runs {
    /// Erases a run that has ended, as if it had never been: its id is free. What it sent and was
    /// given up goes with it.
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
            match self.erase(&run, version, Timestamp::MAX).await? {
                Ok(()) => return Ok(()),
                Err(Rejection::HasWork { .. }) => {
                    return Err(wrong("messages that it sent are still to be delivered"));
                }
                // Somebody else has done something with it: look again.
                Err(_) => {}
            }
        }
    }

    /// Erases the runs whose time is over, and says how many: none while the clock cannot be
    /// trusted. One that sent a message that was given up is kept for as long as that message. Also
    /// removes the stored replies to calls of ended runs.
    pub async fn sweep(&self, keep_dead: Duration) -> Result<usize, StoreError> {
        sweep_run_replies(&*self.shared.store).await?;
        let Some(now) = self.shared.clock.deletion_time() else { return Ok(0) };
        let (mut erased, mut before) = (0, Vec::new());
        loop {
            let due = self.shared.store.expired_runs(now, PAGE).await?;
            // Those that stay are not met again, unless their rows are damaged.
            if due.is_empty() || due == before {
                return Ok(erased);
            }
            let gone = due.iter().map(|run| self.erase_old(run, now.before(keep_dead)));
            erased += try_join_all(gone).await?.into_iter().filter(|it| *it).count();
            before = due;
        }
    }

    async fn erase_old(&self, run: &Address, dead_until: Timestamp) -> Result<bool, StoreError> {
        // Somebody may have let it begin anew.
        let Some((version, _)) = self.row(run).await?.filter(|(_, it)| it.is_final()) else {
            return Ok(false);
        };
        if self.erase(run, version, dead_until).await?.is_ok() {
            return Ok(true);
        }
        // It has still work: another time, so that others come before it until then. If it has
        // begun anew meanwhile, it has a time of its own.
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

    async fn erase(
        &self,
        run: &Address,
        version: Version,
        dead_until: Timestamp,
    ) -> Result<Result<(), Rejection>, StoreError> {
        let (store, stream) = (&self.shared.store, run.id());
        // Who drives it may not have heard of its end, and must not meet another run of this id.
        self.shared.active.until_asleep(Some(stream)).await;
        let unchanged = || Commit::default().expect(Expect::Version { stream, version });
        // Wake-ups that nobody needs any more, unless it has just begun anew.
        for message in store.pending(Some(run.id()), 0, 200).await? {
            if message.action == "run" {
                store.commit(unchanged().write(wake::cancel(message.position))).await?;
            }
        }
        let erase = Write::EraseRun { run: stream, dead_until };
        Ok(match store.commit(unchanged().write(erase)).await? {
            Outcome::Committed(_) | Outcome::Duplicate(_) => {
                self.shared.folds.remove(stream);
                self.shared.watchers.start_over(stream);
                Ok(())
            }
            Outcome::Rejected(rejection) => Err(rejection),
        })
    }
}
