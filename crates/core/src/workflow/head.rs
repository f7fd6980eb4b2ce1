//! The head of a run: the part of its fold that pause, terminate, events and waiters need. Its
//! size does not depend on the length of the record.

use steadfast_store::{Position, Recorded, State, StoreError, Timestamp, Version};

use super::{OnEnd, Status, record::Entry};

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

impl RunHead {
    /// The head of a run whose record consists of its first two messages.
    pub(super) fn begun(first: Position, last: Position) -> Self {
        let (status, paused_at, timer, on_end) = (Status::Queued, None, None, None);
        Self { version: 2, first, last, status, paused_at, timer, on_end, events: 0 }
    }

    /// The head before anything was read.
    pub(super) fn empty() -> Self {
        Self { version: 0, ..Self::begun(0, 0) }
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
