//! How far a run or a step of it is.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use strum::{EnumString, IntoStaticStr};

use super::record::Report;
use crate::Error;

/// How far a run is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Status {
    /// It is to go on as soon as there is room.
    Queued,
    /// It is going on right now.
    Running,
    /// It waits for a time or an event.
    Waiting,
    /// It stands still until somebody resumes it; the report says why if nobody has paused it.
    Paused(Option<Report>),
    /// It has ended well, with this.
    Complete(Value),
    /// It has failed, with this.
    Errored(Error),
    /// It was ended from outside.
    Terminated,
}

impl Status {
    /// Whether it will never go on.
    pub fn is_final(&self) -> bool {
        Phase::of(self).is_final()
    }

    /// Whether it stands still until somebody resumes it.
    pub fn is_paused(&self) -> bool {
        matches!(self, Status::Paused(_))
    }

    /// As it is written.
    pub fn tag(&self) -> &'static str {
        Phase::of(self).word()
    }
}

/// The result of starting a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Started {
    /// Whether this has made it; if not, it was there.
    pub created: bool,
    /// How far it is.
    pub status: Status,
}

/// How far a run is, in one word.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    EnumString,
    IntoStaticStr,
)]
#[strum(serialize_all = "lowercase")]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum Phase {
    /// It is to go on as soon as there is room.
    Queued,
    /// It is going on right now.
    Running,
    /// It waits for a time or an event.
    Waiting,
    /// It stands still until somebody resumes it.
    Paused,
    /// It has ended well.
    Complete,
    /// It has failed.
    Errored,
    /// It was ended from outside.
    Terminated,
}

impl Phase {
    /// All of them, in their order.
    pub const ALL: [Phase; 7] = [
        Phase::Queued,
        Phase::Running,
        Phase::Waiting,
        Phase::Paused,
        Phase::Complete,
        Phase::Errored,
        Phase::Terminated,
    ];

    /// Of a status.
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

    /// As it is written.
    pub fn word(self) -> &'static str {
        self.into()
    }

    /// Of a word.
    pub fn named(word: &str) -> Option<Self> {
        word.parse().ok()
    }

    /// Whether it will never go on.
    pub fn is_final(self) -> bool {
        matches!(self, Phase::Complete | Phase::Errored | Phase::Terminated)
    }
}

/// How far a step is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum StepStatus {
    /// It is over.
    Done,
    /// It failed for good.
    Failed,
    /// It waits for a time or an event.
    Waiting,
    /// It failed, and is tried again.
    Retrying,
    /// It is under way.
    Running,
    /// It was given up: another branch was first, or the run ended.
    Dropped,
}

impl StepStatus {
    /// As it is written.
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
