//! The row of a run, in addition to its record, for lists, retention and deletion.

use crate::{Address, EntityId, Timestamp};

/// The status of a run. The tags are stored: they may never change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RunStatus {
    /// It is active or waits for capacity.
    Queued,
    /// It waits for a time or for an event.
    Waiting,
    /// It is paused.
    Paused,
    /// It completed.
    Complete,
    /// It failed for good.
    Errored,
    /// It was terminated.
    Terminated,
}

crate::texts! {
    RunStatus {
        Queued = "queued",
        Waiting = "waiting",
        Paused = "paused",
        Complete = "complete",
        Errored = "errored",
        Terminated = "terminated",
    }
}

impl RunStatus {
    /// The stored tag.
    pub fn tag(self) -> &'static str {
        self.into()
    }

    /// Whether it has ended.
    pub fn is_final(self) -> bool {
        match self {
            RunStatus::Complete | RunStatus::Errored | RunStatus::Terminated => true,
            RunStatus::Queued | RunStatus::Waiting | RunStatus::Paused => false,
        }
    }

    /// The status with this tag.
    pub fn from_tag(tag: &str) -> Option<Self> {
        tag.parse().ok()
    }
}

/// One run in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunSummary {
    /// Its address: the workflow and its id.
    pub run: Address,
    /// Its status.
    pub status: RunStatus,
    /// When it was first recorded.
    pub created_at: Timestamp,
    /// When it was last recorded.
    pub changed_at: Timestamp,
    /// When it may be deleted; `None` keeps it.
    pub expires_at: Option<Timestamp>,
}

/// A filter of runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunFilter<'a> {
    /// Those of this workflow.
    pub workflow: &'a str,
    /// Those with this status.
    pub status: Option<RunStatus>,
    /// Those whose ids begin with this.
    pub prefix: &'a str,
    /// Those that were created at this time or after it.
    pub since: Option<Timestamp>,
    /// Those that were created before this time.
    pub until: Option<Timestamp>,
}

impl<'a> RunFilter<'a> {
    /// All runs of a workflow.
    pub fn of(workflow: &'a str) -> Self {
        Self { workflow, status: None, prefix: "", since: None, until: None }
    }
}

/// A cursor in a list of runs, newest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunCursor {
    /// When the last run of the page was created.
    pub created_at: Timestamp,
    /// Its id.
    pub id: EntityId,
}

impl From<&RunSummary> for RunCursor {
    fn from(it: &RunSummary) -> Self {
        Self { created_at: it.created_at, id: it.run.id() }
    }
}

/// A page of a list of runs, as a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunPage {
    /// The workflow.
    pub workflow: String,
    /// Only this status.
    pub status: Option<RunStatus>,
    /// Only ids with this prefix.
    pub prefix: String,
    /// Created at this time or later.
    pub since: Option<Timestamp>,
    /// Created before this time.
    pub until: Option<Timestamp>,
    /// The run after which the page begins.
    pub after: Option<RunCursor>,
    /// All runs with the prefix are read and sorted, because they are few. It changes the cost, not
    /// the rows.
    pub by_name: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_survives_its_tag_and_fits_into_a_statement() {
        for status in RunStatus::ALL {
            assert_eq!(RunStatus::from_tag(status.tag()), Some(status));
            assert!(status.tag().bytes().all(|it| it.is_ascii_lowercase()));
        }
        assert_eq!(RunStatus::from_tag("Queued"), None);
    }

    #[test]
    fn the_tag_of_a_status_never_changes() {
        let tags = ["queued", "waiting", "paused", "complete", "errored", "terminated"];
        assert_eq!(RunStatus::ALL.map(RunStatus::tag), tags);
    }
}
