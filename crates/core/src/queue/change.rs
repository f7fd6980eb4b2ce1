//! What operators change about messages that nobody handles: many in one commit.

use steadfast_store::{Commit, Letter, Position};

use super::{QueueError, Queues, desk::Desk, redrive::Candidate, shelf::PutDown};
use crate::commit_each::commit_each;

/// Messages changed in one commit.
const TOGETHER: usize = 100;

impl Queues {
    /// Commits changes of messages while nobody else has them, and says of each whether it
    /// happened.
    pub(super) async fn change_all(
        &self,
        desk: &Desk,
        changes: &[(Candidate, Commit)],
    ) -> Result<Vec<bool>, QueueError> {
        let mut changed = Vec::new();
        for some in changes.chunks(TOGETHER) {
            changed.extend(self.change_some(desk, some).await?);
        }
        Ok(changed)
    }

    async fn change_some(
        &self,
        desk: &Desk,
        changes: &[(Candidate, Commit)],
    ) -> Result<Vec<bool>, QueueError> {
        let mut held = Held { queues: self, desk, positions: Vec::new() };
        // A dead one stands on no shelf.
        let is_ours: Vec<bool> = changes
            .iter()
            .map(|(it, _)| it.letter.as_ref().is_none_or(|it| held.hold(it)))
            .collect();
        let ours = changes.iter().zip(&is_ours).filter(|it| *it.1);
        let commits: Vec<Commit> = ours.map(|it| it.0.1.clone()).collect();
        let mut receipts = commit_each(&*self.shared.store, &commits).await?.into_iter();
        let mut changed = Vec::new();
        for ((candidate, _), is_ours) in changes.iter().zip(is_ours) {
            let is_changed = is_ours && receipts.next().flatten().is_some();
            if is_changed {
                held.gone(candidate.message.position);
            }
            changed.push(is_changed);
        }
        Ok(changed)
    }
}

/// Letters in the hand of an operator. Those that are still here when it is dropped are looked for
/// again.
struct Held<'a> {
    queues: &'a Queues,
    desk: &'a Desk,
    positions: Vec<Position>,
}

impl Held<'_> {
    fn hold(&mut self, letter: &Letter) -> bool {
        let is_held = self.desk.shelf().hold(letter);
        if is_held {
            self.positions.push(letter.message.position);
        }
        is_held
    }

    /// It is where it was sent. One that was dead was not held: whoever has it now keeps it.
    fn gone(&mut self, position: Position) {
        let held = self.positions.len();
        self.positions.retain(|it| *it != position);
        if self.positions.len() < held {
            self.desk.shelf().put_down(position, PutDown::Gone, self.queues.shared.clock.now());
        }
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        let now = self.queues.shared.clock.now();
        let mut shelf = self.desk.shelf();
        self.positions.iter().for_each(|it| shelf.put_down(*it, PutDown::Unknown, now));
        drop(shelf);
        self.desk.wake();
    }
}
