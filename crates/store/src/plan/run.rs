//! Runs: their status and their retention.

use std::time::Duration;

use super::decide::Batch;
use crate::{Address, EntityId, RunStatus, RunSummary};

impl Batch {
    pub(super) fn run(&mut self, run: &Address, status: RunStatus, expires: Option<Duration>) {
        self.introduce(run);
        let at = self.draft.at;
        let expires_at = expires.map(|it| at.after(it));
        let row =
            RunSummary { run: run.clone(), status, created_at: at, changed_at: at, expires_at };
        self.facts.runs.set(run.id(), Some(row));
    }

    /// The row of a run is found by the origin of its stream. A run without a message reserves a
    /// position for it, after the messages of the commit have theirs.
    pub(super) fn number_run(&mut self, run: EntityId) {
        if self.facts.runs.get(&run).is_some() && self.facts.origins.get(&run).is_none() {
            self.draft.position += 1;
            self.facts.origins.set(run, Some(self.draft.position));
        }
    }

    pub(super) fn keep_run(&mut self, run: EntityId, keep: Duration) {
        self.draft.runs_kept.push((run, self.draft.at.after(keep)));
    }
}
