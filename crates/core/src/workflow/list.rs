//! Lists of runs: newest first, from the table that each commit of a run updates.

use std::{cmp::Reverse, collections::BTreeMap};

use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};
use serde::{Deserialize, Serialize};
use steadfast_store::{RunCursor, RunFilter, RunStatus, RunSummary, Timestamp, sort::sort_by_key};

use super::{Phase, RunError, Runs, definition::address};
use crate::body::Time;

/// Maximum runs that are counted.
const COUNT_MAX: usize = 10_000;

/// A filter of runs.
#[derive(Clone, Debug, Default)]
pub struct RunQuery {
    /// The workflow.
    pub workflow: String,
    /// Filter by status.
    pub status: Option<Phase>,
    /// Filter by a prefix of the id.
    pub prefix: String,
    /// Filter by start time: this or later.
    pub since: Option<Time>,
    /// Filter by start time: earlier than this.
    pub until: Option<Time>,
    /// The `next` of the page before.
    pub after: Option<String>,
    /// Maximum runs of the page.
    pub limit: usize,
}

/// A page of a list of runs, newest first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "openapi", schema(as = RunPage))]
pub struct RunList {
    /// The runs.
    pub items: Vec<RunItem>,
    /// The cursor of the next page; null at the end.
    pub next: Option<String>,
}

/// A run in a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RunItem {
    /// Its id.
    pub id: String,
    /// Its workflow.
    pub workflow: String,
    /// Its status.
    pub status: Phase,
    /// When it was started.
    pub created_at: Time,
    /// The time of the last entry of its record.
    pub changed_at: Time,
}

/// The number of runs of a workflow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct WorkflowCounts {
    /// The workflow.
    pub name: String,
    /// Runs by status, counted up to 10,000; a status without runs is left out.
    #[cfg_attr(feature = "openapi", schema(value_type = Object))]
    pub runs: BTreeMap<Phase, u64>,
    /// The statuses that have more runs than were counted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub more: Vec<Phase>,
}

impl WorkflowCounts {
    /// The number of runs with a status as a text: `10000+` if there are more.
    pub fn shown(&self, phase: Phase) -> String {
        let count = self.runs.get(&phase).copied().unwrap_or(0);
        let more = if self.more.contains(&phase) { "+" } else { "" };
        format!("{count}{more}")
    }
}

impl Runs {
    /// Runs of a workflow, newest first.
    #[steadfast_store::boxed]
    pub async fn list(&self, query: &RunQuery) -> Result<RunList, RunError> {
        let RunQuery { workflow, status, after, .. } = query;
        let limit = query.limit.max(1);
        let mut after = match after {
            Some(text) => Some(read_cursor(workflow, text).ok_or_else(bad_cursor)?),
            None => None,
        };
        if *status == Some(Phase::Running) {
            return self.list_awake(query, after).await;
        }
        let mut items = Vec::new();
        loop {
            let page = self.shared.store.runs(filter(query), after, limit + 1).await?;
            for row in &page {
                let item = self.item(row);
                if status.is_none_or(|it| it == item.status) {
                    items.push(item);
                }
            }
            // The table has the previous status of active runs.
            if limit < items.len() || page.len() <= limit {
                break;
            }
            after = page.last().map(RunCursor::from);
        }
        if items.is_empty() && query.after.is_none() {
            self.is_known(workflow).await?;
        }
        Ok(cut(items, limit))
    }

    /// The status of a run. Reads one row, however long the record of the run is.
    #[steadfast_store::boxed]
    pub async fn phase(&self, workflow: &str, id: &str) -> Result<Phase, RunError> {
        let run = address(workflow, id)?;
        match self.shared.store.run(run.id()).await? {
            Some(row) => Ok(self.item(&row).status),
            None => Err(RunError::UnknownRun { run: run.to_string() }),
        }
    }

    /// The active runs: there are never many.
    async fn list_awake(
        &self,
        query: &RunQuery,
        after: Option<RunCursor>,
    ) -> Result<RunList, RunError> {
        self.is_known(&query.workflow).await?;
        let mut rows = Vec::new();
        for run in self.shared.active.of(&query.workflow) {
            rows.extend(self.shared.store.run(run).await?);
        }
        let key = |it: &RunSummary| (it.created_at, it.run.id());
        rows.retain(|it| {
            it.run.name().starts_with(&query.prefix)
                && query.since.is_none_or(|since| since.0 <= it.created_at)
                && query.until.is_none_or(|until| it.created_at < until.0)
                && after.is_none_or(|after| key(it) < (after.created_at, after.id))
        });
        sort_by_key(&mut rows, |it| Reverse(key(it)));
        let items = rows.iter().map(|it| self.item(it));
        let items = items.filter(|it| it.status == Phase::Running).collect();
        Ok(cut(items, query.limit.max(1)))
    }

    /// The number of runs of each workflow, counted up to 10,000.
    #[steadfast_store::boxed]
    pub async fn counts(&self) -> Result<Vec<WorkflowCounts>, RunError> {
        let mut all = Vec::new();
        for (name, _) in self.workflows() {
            let (mut runs, mut more) = (BTreeMap::new(), Vec::new());
            for status in RunStatus::ALL {
                let found = self.shared.store.count_runs(name, Some(status), COUNT_MAX + 1).await?;
                let count = found.min(COUNT_MAX);
                if 0 < count {
                    runs.insert(phase(status), count as u64);
                }
                if count < found {
                    more.push(phase(status));
                }
            }
            all.push(WorkflowCounts { name: name.into(), runs, more });
        }
        Ok(all)
    }

    /// A workflow is known if it is served here, or has runs.
    async fn is_known(&self, workflow: &str) -> Result<(), RunError> {
        match self.shared.store.count_runs(workflow, None, 1).await? {
            0 => self.check(workflow),
            _ => Ok(()),
        }
    }

    fn item(&self, row: &RunSummary) -> RunItem {
        let can_continue = matches!(row.status, RunStatus::Queued | RunStatus::Waiting);
        let is_awake = can_continue && self.shared.active.contains(row.run.id());
        RunItem {
            id: row.run.name().into(),
            workflow: row.run.class().into(),
            status: if is_awake { Phase::Running } else { phase(row.status) },
            created_at: Time(row.created_at),
            changed_at: Time(row.changed_at),
        }
    }
}

fn filter(query: &RunQuery) -> RunFilter<'_> {
    let RunQuery { workflow, status, prefix, since, until, .. } = query;
    RunFilter {
        workflow,
        status: status.and_then(|it| RunStatus::from_tag(it.word())),
        prefix,
        since: since.map(|it| it.0),
        until: until.map(|it| it.0),
    }
}

fn phase(status: RunStatus) -> Phase {
    match status {
        RunStatus::Queued => Phase::Queued,
        RunStatus::Waiting => Phase::Waiting,
        RunStatus::Paused => Phase::Paused,
        RunStatus::Complete => Phase::Complete,
        RunStatus::Errored => Phase::Errored,
        RunStatus::Terminated => Phase::Terminated,
    }
}

fn cut(mut items: Vec<RunItem>, limit: usize) -> RunList {
    let is_more = limit < items.len();
    items.truncate(limit);
    let next = items.last().filter(|_| is_more).map(write_cursor);
    RunList { items, next }
}

fn bad_cursor() -> RunError {
    RunError::Malformed { what: "the cursor", detail: "it is not the `next` of a page".into() }
}

fn write_cursor(last: &RunItem) -> String {
    let text = format!("{} {}", last.created_at.0.0, last.id);
    HEXLOWER.encode(text.as_bytes())
}

fn read_cursor(workflow: &str, text: &str) -> Option<RunCursor> {
    let text = String::from_utf8(HEXLOWER_PERMISSIVE.decode(text.as_bytes()).ok()?).ok()?;
    let (at, id) = text.split_once(' ')?;
    let (created_at, id) = (Timestamp(at.parse().ok()?), address(workflow, id).ok()?.id());
    Some(RunCursor { created_at, id })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_survives_its_text_and_a_broken_one_is_none() {
        let (status, at) = (Phase::Queued, Time(Timestamp(-7)));
        let (id, workflow) = ("o-1".to_owned(), "order".to_owned());
        let item = RunItem { id, workflow, status, created_at: at, changed_at: at };
        let cursor = read_cursor("order", &write_cursor(&item)).unwrap();
        let o_1 = address("order", "o-1").unwrap();
        assert_eq!((cursor.created_at.0, cursor.id), (-7, o_1.id()));
        let upper = write_cursor(&item).to_uppercase();
        assert_eq!(read_cursor("order", &upper), Some(cursor));
        for broken in ["", "7", "zz", "2d37", "+1+1", "7820"] {
            assert_eq!(read_cursor("order", broken), None, "{broken}");
        }
    }
}
