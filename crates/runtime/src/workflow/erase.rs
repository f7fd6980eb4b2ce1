//! The end of what is kept: runs that have ended are erased, whole, when their time is over or
//! somebody wants it.

use std::collections::HashSet;

use steadfast_store::{Address, Commit, Expect, Outcome, Rejection, SettledAs, StoreError, Write};

use super::{RunError, Runs, journal::Journal, runs::address};

/// Runs and messages looked at together.
const PAGE: usize = 200;

impl Runs {
    /// Erases a run that has ended, as if it had never been: its id is free.
    pub async fn delete(&self, workflow: &str, id: &str) -> Result<(), RunError> {
        let run = address(workflow, id)?;
        loop {
            let journal = self.load(&run).await?;
            let wrong = |why| {
                let (run, status) = (run.to_string(), journal.status.tag());
                RunError::WrongStatus { run, status, why }
            };
            if !journal.status.is_final() {
                return Err(wrong("terminate it first"));
            }
            match self.erase(&run, &journal).await? {
                Ok(()) => return Ok(()),
                Err(Rejection::RunHasWork { .. }) => {
                    return Err(wrong("messages that it sent are still to be delivered"));
                }
                // Somebody else has done something with it: look again.
                Err(_) => {}
            }
        }
    }

    /// Erases the runs whose time is over, and says how many: none while the clock cannot be
    /// trusted.
    pub async fn sweep(&self) -> Result<usize, StoreError> {
        let store = &self.shared.store;
        let Some(now) = self.shared.clock.deletion_time() else { return Ok(0) };
        let (mut erased, mut kept) = (0, HashSet::new());
        loop {
            let expired = store.expired_runs(now, PAGE + kept.len()).await?;
            let due: Vec<Address> =
                expired.into_iter().filter(|it| !kept.contains(&it.id())).collect();
            if due.is_empty() {
                return Ok(erased);
            }
            for run in due {
                let journal = Journal::load(&**store, &run).await?;
                let gone = match journal {
                    // Somebody may have let it begin anew.
                    Some(journal) if !journal.status.is_final() => false,
                    Some(journal) => self.erase(&run, &journal).await?.is_ok(),
                    None => false,
                };
                if gone {
                    erased += 1;
                } else {
                    // It has still work, or goes on: another time.
                    kept.insert(run.id());
                }
            }
        }
    }

    async fn erase(
        &self,
        run: &Address,
        journal: &Journal,
    ) -> Result<Result<(), Rejection>, StoreError> {
        let (store, stream, version) = (&self.shared.store, run.id(), journal.version);
        // Who drives it may not have heard of its end, and must not meet another run of this id.
        self.is_let_go(stream).await;
        let unchanged = || Commit::default().expect(Expect::Version { stream, version });
        // Wake-ups that nobody needs any more, unless it has just begun anew.
        for message in store.pending(Some(run.id()), 0, PAGE).await? {
            if message.action == "run" {
                let (position, lease) = (message.position, None);
                let (as_, error) = (SettledAs::Cancelled, None);
                let settle = Write::Settle { position, lease, as_, error };
                store.commit(unchanged().write(settle)).await?;
            }
        }
        let commit = unchanged().write(Write::EraseRun { run: stream });
        Ok(match store.commit(commit).await? {
            Outcome::Committed(_) | Outcome::Duplicate(_) => {
                self.shared.watchers.start_over(stream);
                Ok(())
            }
            Outcome::Rejected(rejection) => Err(rejection),
        })
    }
}
