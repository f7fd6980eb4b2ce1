//! The table of runs, in memory.

use std::cmp::Reverse;

use super::map::Map;
use crate::{EntityId, RunPage, RunStatus, RunSummary, Timestamp, plan::Plan, sort::sort_by_key};

#[derive(Debug, Default)]
pub(super) struct Runs {
    rows: Map<EntityId, RunSummary>,
}

impl Runs {
    pub(super) fn apply(&mut self, plan: &Plan) {
        for (_, row) in &plan.runs {
            let before = self.rows.get(&row.run.id());
            let created_at = before.map_or(row.created_at, |it| it.created_at);
            self.rows.insert(row.run.id(), RunSummary { created_at, ..row.clone() });
        }
        for (run, at) in &plan.runs_kept {
            let kept = self.rows.get_mut(run).and_then(|it| it.expires_at.as_mut());
            if let Some(expires_at) = kept {
                *expires_at = *at;
            }
        }
    }

    pub(super) fn erase(&mut self, run: EntityId) {
        self.rows.remove(&run);
    }

    pub(super) fn get(&self, run: EntityId) -> Option<RunSummary> {
        self.rows.get(&run).cloned()
    }

    pub(super) fn list(&self, page: &RunPage, limit: usize) -> Vec<RunSummary> {
        let is_meant = |it: &&RunSummary| {
            it.run.class() == page.workflow
                && page.status.is_none_or(|status| status == it.status)
                && it.run.name().starts_with(&page.prefix)
                && page.since.is_none_or(|since| since <= it.created_at)
                && page.until.is_none_or(|until| it.created_at < until)
                && page.after.is_none_or(|at| (it.created_at, it.run.id()) < (at.created_at, at.id))
        };
        let mut found: Vec<&RunSummary> = self.rows.values().filter(is_meant).collect();
        sort_by_key(&mut found, |it| Reverse((it.created_at, it.run.id())));
        found.into_iter().take(limit).cloned().collect()
    }

    pub(super) fn count(&self, workflow: &str, status: Option<RunStatus>, max: usize) -> i64 {
        let of = |it: &&RunSummary| {
            it.run.class() == workflow && status.is_none_or(|status| status == it.status)
        };
        self.rows.values().filter(of).take(max).count() as i64
    }

    pub(super) fn expired(&self, at: Timestamp, limit: usize) -> Vec<RunSummary> {
        let timed = self.rows.values().filter_map(|it| Some((it.expires_at?, it)));
        let mut found: Vec<_> = timed.filter(|(expires_at, _)| *expires_at <= at).collect();
        sort_by_key(&mut found, |(expires_at, it)| (*expires_at, it.run.id()));
        found.into_iter().take(limit).map(|(_, it)| it.clone()).collect()
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &RunSummary> {
        self.rows.values()
    }
}
