//! Looking at runs from outside: at one of them, until it grows, and at many.

use std::{collections::BTreeMap, time::Duration};

use serde::{Deserialize, Serialize};
use steadfast_store::{Address, EntityKind, StoreError, StreamSummary, Version};

use super::{
    RunError, Runs,
    runs::address,
    view::{Around, Phase, RunView, Story, Time, UnderWay},
};

/// Entries or runs read at once.
const PAGE: usize = 500;

/// So often a record is looked at that grows.
const LOOK: Duration = Duration::from_millis(100);

/// Which runs are wanted.
#[derive(Clone, Debug, Default)]
pub struct RunQuery {
    /// Of which workflow.
    pub workflow: String,
    /// Only those that are so far.
    pub status: Option<Phase>,
    /// Only those whose ids begin with this.
    pub prefix: String,
    /// Only those that began then or later.
    pub since: Option<Time>,
    /// Only those that began before.
    pub until: Option<Time>,
    /// The `next` of the page before.
    pub after: Option<String>,
    /// How many at most.
    pub limit: usize,
}

/// A part of a list of runs, newest first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RunPage {
    /// The runs.
    pub items: Vec<RunItem>,
    /// Where the next part begins; null at the end.
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
    /// How far it is.
    pub status: Phase,
    /// When it was started.
    pub created_at: Time,
    /// When something was last recorded of it.
    pub changed_at: Time,
}

/// How many runs of a workflow there are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct WorkflowCounts {
    /// The workflow.
    pub name: String,
    /// Runs by their status; one that none has is left out.
    #[cfg_attr(feature = "openapi", schema(value_type = Object))]
    pub runs: BTreeMap<Phase, u64>,
}

impl Runs {
    /// What a run looks like.
    pub async fn look(&self, workflow: &str, id: &str) -> Result<RunView, RunError> {
        let run = address(workflow, id)?;
        let around = self.around(&run);
        match self.story(&run).await? {
            Some(story) => Ok(story.view(&run, &around)),
            None => {
                self.check(workflow)?;
                Err(RunError::UnknownRun { run: run.to_string() })
            }
        }
    }

    /// Waits until more is recorded of a run than `after` entries.
    pub async fn grown(&self, workflow: &str, id: &str, after: Version) -> Result<(), RunError> {
        let run = address(workflow, id)?;
        loop {
            let changed = self.shared.changed.notified();
            if after < self.shared.store.version(run.id()).await? {
                return Ok(());
            }
            let clock = &self.shared.clock;
            tokio::select! {
                () = changed => {}
                () = clock.sleep_until(clock.now().after(LOOK)) => {}
            }
        }
    }

    /// Runs of a workflow, newest first.
    pub async fn list(&self, query: &RunQuery) -> Result<RunPage, RunError> {
        let RunQuery { workflow, status, prefix, since, until, after, limit } = query;
        let mut found = self.streams(workflow).await?;
        if found.is_empty() {
            self.check(workflow)?;
        }
        let key = |it: &StreamSummary| (it.created_at.0, it.address.name().to_owned());
        found.sort_by_key(|it| std::cmp::Reverse(key(it)));
        let after =
            after.as_deref().map(|it| read_cursor(it).ok_or_else(bad_cursor)).transpose()?;
        found.retain(|it| {
            it.address.name().starts_with(prefix.as_str())
                && since.is_none_or(|since| since.0 <= it.created_at)
                && until.is_none_or(|until| it.created_at < until.0)
                && after.as_ref().is_none_or(|after| key(it) < *after)
        });
        let (mut items, mut next) = (Vec::new(), None);
        for it in &found {
            let Some(phase) = self.phase(&it.address).await? else { continue };
            if status.is_some_and(|wanted| wanted != phase) {
                continue;
            }
            if items.len() == (*limit).max(1) {
                next = items.last().map(write_cursor);
                break;
            }
            items.push(RunItem {
                id: it.address.name().into(),
                workflow: workflow.clone(),
                status: phase,
                created_at: Time(it.created_at),
                changed_at: Time(it.updated_at),
            });
        }
        Ok(RunPage { items, next })
    }

    /// How many runs of each workflow there are.
    pub async fn counts(&self) -> Result<Vec<WorkflowCounts>, RunError> {
        let mut all = Vec::new();
        for name in self.workflows() {
            let mut runs = BTreeMap::new();
            for it in self.streams(name).await? {
                if let Some(phase) = self.phase(&it.address).await? {
                    *runs.entry(phase).or_default() += 1;
                }
            }
            all.push(WorkflowCounts { name: name.into(), runs });
        }
        Ok(all)
    }

    // ---- inside --------------------------------------------------------------------------

    async fn phase(&self, run: &Address) -> Result<Option<Phase>, RunError> {
        let around = self.around(run);
        Ok(self.story(run).await?.map(|it| it.phase(&around)))
    }

    async fn streams(&self, workflow: &str) -> Result<Vec<StreamSummary>, StoreError> {
        let (mut all, mut after) = (Vec::new(), None);
        loop {
            let within = Some((EntityKind::Run, workflow));
            let page = self.shared.store.streams(within, after.as_ref(), PAGE).await?;
            let is_last = page.len() < PAGE;
            after = page.last().map(|it| it.address.clone());
            all.extend(page);
            if is_last {
                return Ok(all);
            }
        }
    }

    async fn story(&self, run: &Address) -> Result<Option<Story>, StoreError> {
        let mut story = Story::new();
        loop {
            let page = self.shared.store.read_stream(run.id(), story.version() + 1, PAGE).await?;
            for message in &page {
                story.take(message)?;
            }
            if page.len() < PAGE {
                return Ok((0 < story.version()).then_some(story));
            }
        }
    }

    fn around(&self, run: &Address) -> Around {
        Around {
            now: self.shared.clock.now(),
            under_way: self.under_way(run),
            running: self.active().len(),
            served: self.check(run.class()).is_ok(),
        }
    }

    /// What is under way in a run; `None` if it is not active.
    fn under_way(&self, run: &Address) -> Option<Vec<UnderWay>> {
        self.active().contains_key(&run.id()).then(Vec::new)
    }
}

fn bad_cursor() -> RunError {
    RunError::Malformed { what: "the cursor", detail: "it is not the `next` of a page".into() }
}

fn write_cursor(last: &RunItem) -> String {
    let text = format!("{} {}", last.created_at.0.0, last.id);
    text.bytes().map(|it| format!("{it:02x}")).collect()
}

fn read_cursor(text: &str) -> Option<(i64, String)> {
    let digits = text.as_bytes().chunks(2).map(|it| str::from_utf8(it).ok());
    let bytes = digits.map(|it| u8::from_str_radix(it?, 16).ok()).collect::<Option<Vec<u8>>>()?;
    let text = String::from_utf8(bytes).ok()?;
    let (at, id) = text.split_once(' ')?;
    Some((at.parse().ok()?, id.to_owned()))
}

#[cfg(test)]
mod tests {
    use steadfast_store::Timestamp;

    use super::*;

    #[test]
    fn a_cursor_survives_its_text_and_a_broken_one_is_none() {
        let (status, at) = (Phase::Queued, Time(Timestamp(-7)));
        let (id, workflow) = ("o-1".to_owned(), "order".to_owned());
        let item = RunItem { id, workflow, status, created_at: at, changed_at: at };
        assert_eq!(read_cursor(&write_cursor(&item)), Some((-7, "o-1".into())));
        for broken in ["", "7", "zz", "2d37", "+1+1", "7820"] {
            assert_eq!(read_cursor(broken), None, "{broken}");
        }
    }
}
