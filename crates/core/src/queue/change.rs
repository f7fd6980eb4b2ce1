//! Changes by operators to messages that are not in flight: many in one commit.

use serde::{Serialize, de::DeserializeOwned};
use steadfast_store::{Commit, Outcome, Rejection};

use super::{
    QueueError, Queues,
    redrive::Candidate,
    state::{HeldMessages, QueueState},
};
use crate::{commit_each::commit_each, dispatch::window::End, idempotency::read};

/// Messages changed in one commit.
pub(super) const TOGETHER: usize = 100;

impl Queues {
    /// Commits changes of messages that no consumer holds, and returns how many succeeded. The last
    /// 1 to 100 changes stay, for [`Self::change_last`].
    pub(super) async fn change_first(
        &self,
        queue: &QueueState,
        changes: &mut Vec<(Candidate, Commit)>,
    ) -> Result<u64, QueueError> {
        let mut changed = 0;
        while TOGETHER < changes.len() {
            let some: Vec<_> = changes.drain(..TOGETHER).collect();
            changed += self.change_some(queue, &some).await?;
        }
        Ok(changed)
    }

    /// Commits the last changes, and records the answer with them under the key of this handle. The
    /// answer is made from the number of changes that succeeded.
    pub(super) async fn change_last<T: Serialize + DeserializeOwned>(
        &self,
        queue: &QueueState,
        changes: &[(Candidate, Commit)],
        answer: impl Fn(u64) -> T,
    ) -> Result<T, QueueError> {
        let Some(key) = &self.key else {
            return Ok(answer(self.change_some(queue, changes).await?));
        };
        let mut held = HeldMessages::new(queue, Vec::new());
        let ours: Vec<_> = changes.iter().filter(|it| take(&mut held, &it.0)).collect();
        let all = answer(ours.len() as u64);
        let mut together = Commit::of(key.write_answer(&all)?);
        for (_, commit) in &ours {
            together.expects.extend_from_slice(&commit.expects);
            together.writes.extend_from_slice(&commit.writes);
        }
        match self.shared.store.commit(together).await? {
            Outcome::Committed(_) => {
                ours.iter().for_each(|it| held.finish(it.0.message.position, End::Gone));
                queue.wake();
                return Ok(all);
            }
            Outcome::Duplicate(before) => return Ok(read(&before)?),
            Outcome::Rejected(Rejection::KeyReused { key }) => {
                return Err(QueueError::KeyReused { key });
            }
            // Another commit has changed one of them: commit one by one.
            Outcome::Rejected(_) => drop(held),
        }
        let done = answer(self.change_some(queue, changes).await?);
        match self.shared.store.commit(Commit::of(key.write_answer(&done)?)).await? {
            Outcome::Committed(_) => Ok(done),
            Outcome::Duplicate(before) => Ok(read(&before)?),
            Outcome::Rejected(Rejection::KeyReused { key }) => Err(QueueError::KeyReused { key }),
            // Nothing else is expected.
            Outcome::Rejected(_) => Ok(done),
        }
    }

    /// Commits changes together, and returns how many succeeded.
    pub(super) async fn change_some(
        &self,
        queue: &QueueState,
        changes: &[(Candidate, Commit)],
    ) -> Result<u64, QueueError> {
        let mut held = HeldMessages::new(queue, Vec::new());
        let ours: Vec<_> = changes.iter().filter(|it| take(&mut held, &it.0)).collect();
        let commits: Vec<Commit> = ours.iter().map(|it| it.1.clone()).collect();
        let outcomes = commit_each(&*self.shared.store, &commits).await?;
        let mut changed = 0;
        for ((candidate, _), outcome) in ours.into_iter().zip(outcomes) {
            if let Outcome::Committed(_) = outcome {
                held.finish(candidate.message.position, End::Gone);
                changed += 1;
            }
        }
        queue.wake();
        Ok(changed)
    }
}

/// Whether no consumer holds it. A dead message is in no window.
fn take(held: &mut HeldMessages<&QueueState>, candidate: &Candidate) -> bool {
    candidate.queued.as_ref().is_none_or(|it| held.hold(it))
}
