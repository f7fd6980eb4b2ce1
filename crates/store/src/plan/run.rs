//! Runs: how far they are, and their end as if they had never been.

use std::time::Duration;

use super::decide::Batch;
use crate::{Address, EntityId, Position, Rejection, RunStatus, RunSummary};

impl Batch {
    pub(super) fn run(&mut self, run: &Address, status: RunStatus, expires: Option<Duration>) {
        self.introduce(run);
        let at = self.draft.at;
        let expires_at = expires.map(|it| at.after(it));
        let row =
            RunSummary { run: run.clone(), status, created_at: at, changed_at: at, expires_at };
        self.facts.runs.set(run.id(), Some(row));
    }

    /// The row of a run is found by the origin of its stream. One that has no message yet takes a
    /// position for it, once the commit has given its messages theirs.
    pub(super) fn number_run(&mut self, run: EntityId) {
        if self.facts.runs.get(&run).is_some() && self.facts.origins.get(&run).is_none() {
            self.draft.position += 1;
            self.facts.origins.set(run, Some(self.draft.position));
        }
    }

    pub(super) fn erase_run(&mut self, run: EntityId) -> Result<(), Rejection> {
        if self.has_moved(run) {
            return Err(Rejection::RunMoved { run });
        }
        match self.facts.erasures.get(&run) {
            // It is not there.
            None => return Ok(()),
            Some(Some(position)) => {
                return Err(Rejection::RunHasWork { run, position: *position });
            }
            Some(None) => {}
        }
        let known = self.facts.messages.iter().filter(|(_, brief)| brief.stream == run);
        let known: Vec<Position> = known.map(|(position, _)| *position).collect();
        for position in known {
            self.facts.messages.set(position, None);
            self.facts.settled.set(position, None);
        }
        let before = self.version(run);
        self.moved.entry(run).or_insert(before);
        self.facts.versions.insert(run, 0);
        self.facts.origins.set(run, None);
        self.facts.entities.remove(&run);
        self.facts.erasures.set(run, None);
        self.facts.closed.set(run, None);
        self.facts.snapshots.set(run, None);
        self.facts.runs.set(run, None);
        self.draft.runs_erased.push(run);
        Ok(())
    }

    /// Whether this batch has done something with a run that the rows read from the store do not
    /// tell. What is settled here was pending there, so that need not be looked for.
    fn has_moved(&self, run: EntityId) -> bool {
        let is_for = |target: Option<EntityId>| target == Some(run);
        self.draft.entities.iter().any(|it| it.address.id() == run)
            || self.draft.messages.iter().any(|it| it.stream == run || is_for(it.target))
            || self.facts.messages.iter().any(|(position, it)| {
                (it.stream == run || is_for(it.target)) && self.facts.works.has_changed(position)
            })
    }
}
