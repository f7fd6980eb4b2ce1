//! The status of a run or a step.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::record::Report;
use crate::Error;

/// The status of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Status {
    /// It waits for capacity.
    Queued,
    /// It is active.
    Running,
    /// It waits for a time or an event.
    Waiting,
    /// It is paused until it is resumed; the report is the reason, if it paused itself.
    Paused(Option<Report>),
    /// It completed with this output.
    Complete(Value),
    /// It failed with this error.
    Errored(Error),
    /// It was terminated.
    Terminated,
}

impl Status {
    /// Whether it has ended.
    pub fn is_final(&self) -> bool {
        Phase::of(self).is_final()
    }

    /// Whether it is paused.
    pub fn is_paused(&self) -> bool {
        matches!(self, Status::Paused(_))
    }

    /// The name of the status.
    pub fn tag(&self) -> &'static str {
        Phase::of(self).word()
    }
}

/// The result of starting a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartOutcome {
    /// Whether this start created it; otherwise it existed.
    pub created: bool,
    /// Its status.
    pub status: Status,
}

/// The status of a run, without its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum Phase {
    /// It waits for capacity.
    Queued,
    /// It is active.
    Running,
    /// It waits for a time or an event.
    Waiting,
    /// It is paused until it is resumed.
    Paused,
    /// It completed.
    Complete,
    /// It has failed.
    Errored,
    /// It was terminated.
    Terminated,
}

steadfast_store::texts! {
    Phase {
        Queued = "queued",
        Running = "running",
        Waiting = "waiting",
        Paused = "paused",
        Complete = "complete",
        Errored = "errored",
        Terminated = "terminated",
    }
}

impl Phase {
    /// The phase of a status.
    pub fn of(status: &Status) -> Self {
        match status {
            Status::Queued => Phase::Queued,
            Status::Running => Phase::Running,
            Status::Waiting => Phase::Waiting,
            Status::Paused(_) => Phase::Paused,
            Status::Complete(_) => Phase::Complete,
            Status::Errored(_) => Phase::Errored,
            Status::Terminated => Phase::Terminated,
        }
    }

    /// The name of the phase.
    pub fn word(self) -> &'static str {
        self.into()
    }

    /// The phase of a name.
    pub fn named(word: &str) -> Option<Self> {
        word.parse().ok()
    }

    /// Whether it has ended.
    pub fn is_final(self) -> bool {
        matches!(self, Phase::Complete | Phase::Errored | Phase::Terminated)
    }
}

/// The status of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum StepStatus {
    /// It has ended.
    Done,
    /// It failed for good.
    Failed,
    /// It waits for a time or an event.
    Waiting,
    /// An attempt failed, and is retried.
    Retrying,
    /// It is in progress.
    Running,
    /// It was dropped: another branch was first, or the run ended.
    Dropped,
}

steadfast_store::texts! {
    StepStatus {
        Done = "done",
        Failed = "failed",
        Waiting = "waiting",
        Retrying = "retrying",
        Running = "running",
        Dropped = "dropped",
    }
}

impl StepStatus {
    /// The name of the status.
    pub fn word(self) -> &'static str {
        self.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_those_of_json_and_never_change() {
        let words = ["queued", "running", "waiting", "paused", "complete", "errored", "terminated"];
        assert_eq!(Phase::ALL.map(Phase::word), words);
        assert_eq!(words.map(Phase::named), Phase::ALL.map(Some));
        assert_eq!(serde_json::to_value(Phase::ALL).unwrap(), serde_json::json!(words));
        for (status, word) in [
            (StepStatus::Done, "done"),
            (StepStatus::Failed, "failed"),
            (StepStatus::Waiting, "waiting"),
            (StepStatus::Retrying, "retrying"),
            (StepStatus::Running, "running"),
            (StepStatus::Dropped, "dropped"),
        ] {
            assert_eq!(status.word(), word);
            assert_eq!(serde_json::to_value(status).unwrap(), word);
        }
    }
}
