//! The status of a run or a step, and the head of a run: the part of its fold that pause,
//! terminate, events and waiters need.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use steadfast_store::{Position, Recorded, State, StoreError, Timestamp, Version};

use super::record::{Entry, OnEnd, Report};
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

#[derive(Clone, Debug)]
pub(super) struct RunHead {
    pub(super) version: Version,
    /// The position of its first message: no other run of this id has it.
    pub(super) first: Position,
    /// The position of its last message.
    pub(super) last: Position,
    pub(super) status: Status,
    pub(super) paused_at: Option<Timestamp>,
    /// The pending wake-up for the next timer.
    pub(super) timer: Option<Position>,
    /// The object that is notified of its end.
    pub(super) on_end: Option<OnEnd>,
    /// The number of events that it has not taken.
    pub(super) events: usize,
}

/// The head before anything was read.
impl Default for RunHead {
    fn default() -> Self {
        Self { version: 0, ..Self::begun(0, 0) }
    }
}

impl RunHead {
    /// The head of a run whose record consists of its first two messages.
    pub(super) fn begun(first: Position, last: Position) -> Self {
        let (status, paused_at, timer, on_end) = (Status::Queued, None, None, None);
        Self { version: 2, first, last, status, paused_at, timer, on_end, events: 0 }
    }

    /// Whether the run has neither ended nor been paused.
    pub(super) fn can_continue(&self) -> bool {
        !self.status.is_final() && !self.status.is_paused()
    }

    /// Folds one message of the record.
    pub(super) fn take(&mut self, message: &Recorded) -> Result<(), StoreError> {
        let entry = Entry::of(message)?;
        self.reach(message, entry.as_ref());
        if let Some(entry) = entry {
            self.fold(message.created_at, &entry);
        }
        Ok(())
    }

    /// Moves the head to a message, without folding its entry.
    pub(super) fn reach(&mut self, message: &Recorded, entry: Option<&Entry>) {
        (self.version, self.last) = (message.version, message.position);
        if message.version == 1 {
            self.first = message.position;
        }
        let is_timer = matches!(entry, Some(Entry::Wake { waits }) if !waits.is_empty());
        if is_timer && is_pending(message) {
            self.timer = Some(message.position);
        }
    }

    /// Folds one entry.
    pub(super) fn fold(&mut self, at: Timestamp, entry: &Entry) {
        match entry {
            Entry::Paused { report } => {
                self.paused_at.get_or_insert(at);
                self.status = Status::Paused(report.clone());
            }
            Entry::Resumed { .. } | Entry::Restarted { .. } => {
                self.paused_at = None;
                self.status = Status::Queued;
            }
            Entry::Started { on_end, .. } => self.on_end.clone_from(on_end),
            Entry::Terminated => self.status = Status::Terminated,
            Entry::Completed { output } => self.status = Status::Complete(output.clone()),
            Entry::Errored { error } => self.status = Status::Errored(error.clone()),
            Entry::Wake { waits } if waits.is_empty() => self.is_woken(),
            Entry::Wake { .. } | Entry::Waits { .. } => self.waits(),
            Entry::Event { .. } => self.events += 1,
            Entry::Took { .. } => self.events = self.events.saturating_sub(1),
            Entry::Done { .. }
            | Entry::Failed { .. }
            | Entry::Timer { .. }
            | Entry::Tried { .. }
            | Entry::Retried
            | Entry::Progress(_) => {}
        }
    }

    pub(super) fn waits(&mut self) {
        if let Status::Queued = self.status {
            self.status = Status::Waiting;
        }
    }

    fn is_woken(&mut self) {
        if let Status::Waiting = self.status {
            self.status = Status::Queued;
        }
    }

    /// The duration of the pause so far.
    pub(super) fn paused_for(&self, now: Timestamp) -> i64 {
        self.paused_at.map_or(0, |at| now.0.saturating_sub(at.0).max(0))
    }
}

/// Whether a message waits for its delivery.
pub(super) fn is_pending(message: &Recorded) -> bool {
    matches!(message.state, Some(State::Pending { .. }))
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
