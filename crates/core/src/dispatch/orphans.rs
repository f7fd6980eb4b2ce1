//! Takes over the deliveries of processes that ended.

use std::{sync::Arc, time::Duration};

use steadfast_store::{Commit, Outcome, Recorded, SettledAs, StoreError, Work, Write, failed};

use super::{deliver::Courier, handler::Handler};
use crate::commit_each::commit_each;

impl Courier {
    /// Counts the attempts that ended with their process, and has those messages delivered again.
    /// Returns those that are to be delivered apart from all others.
    pub(super) async fn take_over_orphans(&self) -> Result<Vec<Work>, StoreError> {
        let mut blamed = Vec::new();
        loop {
            let epoch = self.store.owner().epoch;
            let orphans = self.store.orphans(epoch, false, 500).await?;
            if orphans.is_empty() {
                return Ok(blamed);
            }
            let mut commits = Vec::new();
            for orphan in &orphans {
                let message = self.store.message(orphan.position).await?;
                let handler = message.as_ref().and_then(|it| self.handler(it));
                let apart_after = handler.as_ref().map_or(0, |it| it.apart_after());
                // An ordered one keeps its place in its order.
                let is_blamed = apart_after <= orphan.attempts && !orphan.ordered;
                if is_blamed {
                    blamed.push(*orphan);
                }
                commits.extend(self.take_over(orphan, message.zip(handler), is_blamed).await?);
            }
            commit_each(&*self.store, &commits).await?;
        }
    }

    /// The commit for a message whose process ended, if it is not made yet.
    async fn take_over(
        &self,
        orphan: &Work,
        handled: Option<(Recorded, Arc<dyn Handler>)>,
        is_blamed: bool,
    ) -> Result<Option<Commit>, StoreError> {
        let (position, tries) = (orphan.position, orphan.tries());
        let lease = orphan.claim.map(|(lease, _)| lease);
        let error = format!("the process ended during attempt {tries}");
        let mut wait = self.options.retry.wait(tries, &*self.entropy);
        if wait.is_none()
            && let Some((message, handler)) = handled
        {
            // Its handler may have more patience.
            wait = handler.retry().and_then(|it| it.wait(tries, &*self.entropy));
            // If not, somebody may wait for how it ends.
            if wait.is_none()
                && let Some(commit) = handler.give_up(&message, &error)
            {
                let (as_, error) = (SettledAs::Done, None);
                let commit = commit.write(Write::Settle { position, lease, as_, error });
                match self.store.commit(commit).await {
                    Ok(Outcome::Committed(_)) => return Ok(None),
                    Ok(_) | Err(StoreError::Invalid(_)) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        // Most were only near when another one ended the process: first time at once. One that is
        // delivered apart from all others need not wait at all.
        let wait = if is_blamed || tries < 2 { wait.map(|_| Duration::ZERO) } else { wait };
        Ok(Some(Commit::of(failed(position, lease, &error, wait))))
    }
}
