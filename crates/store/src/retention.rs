//! Retention settings, the lists of rows that the sweep must process again, and its steps.

use std::time::Duration;

use crate::{EntityId, Position, Timestamp};

/// The retention of settled messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// Minimum age of a deleted message, and retention of deleted objects and completed processes.
    pub keep: Duration,
    /// Retention of dead messages.
    pub keep_dead: Duration,
}

impl Retention {
    /// A month, and three for dead messages.
    pub const DEFAULT: Retention =
        Retention { keep: Duration::from_hours(30 * 24), keep_dead: Duration::from_hours(90 * 24) };
}

/// A list of rows that the sweep must process again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ExpiryList {
    /// Dead messages.
    Dead,
    /// Entities that have ended, or that were only addressed.
    Ended,
    /// Messages that the sweep has passed and that are not needed since.
    Late,
}

crate::texts! {
    ExpiryList { Dead = "dead", Ended = "ended", Late = "late" }
}

impl ExpiryList {
    /// The stored tag.
    pub(crate) fn tag(self) -> &'static str {
        self.into()
    }
}

/// A row that the sweep must process again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ExpiryRow {
    /// The list.
    pub list: ExpiryList,
    /// The time at which it was added.
    pub since: Timestamp,
    /// The message; 0 for none.
    pub position: Position,
    /// The entity; all zeros for none.
    pub entity: EntityId,
}

/// One step of retention. It finds a page of old rows and deletes those that nothing needs, in a
/// transaction of its own: nobody changes them between the decision and the deletion.
///
/// Nothing is deleted while the clock of the store is not reliable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sweep {
    /// Where it finds rows.
    pub list: SweepList,
    /// It finds rows from before this time.
    pub until: Timestamp,
    /// An entity whose messages died later than this is kept.
    pub dead_until: Timestamp,
}

impl Sweep {
    /// The same step, without rows that are younger than this.
    pub(crate) fn at_most(self, until: Timestamp) -> Self {
        let dead_until = self.dead_until.min(until);
        Self { until: self.until.min(until), dead_until, ..self }
    }
}

/// Where a step of retention finds rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SweepList {
    /// The messages behind a durable cursor, in order. The step moves the cursor past all that it
    /// finds. Pending and dead messages stay, as do the last of a stream and those of a process or
    /// run.
    Messages,
    /// A list of rows that must be processed again.
    ///
    /// Of dead messages, the last of a stream, which has its version, counts as cancelled from then
    /// on; those of a process or run stay with it.
    ///
    /// Entities that have ended are deleted as a whole: deleted objects, completed processes,
    /// entities that were only addressed, and detached records of runs, in parts if they are long.
    /// One with pending work, or with younger messages, is processed again later.
    Listed(ExpiryList),
    /// Keys that have expired.
    Keys,
}

impl SweepList {
    /// Maximum rows of one step: it must not block others for long.
    pub(crate) fn page(self) -> usize {
        match self {
            // Each may have many messages.
            SweepList::Listed(ExpiryList::Ended) => 8,
            SweepList::Messages | SweepList::Listed(_) | SweepList::Keys => 500,
        }
    }
}

/// The name of a recorded key.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KeyName {
    /// The scope.
    pub scope: EntityId,
    /// The key.
    pub key: Box<str>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tag_of_a_list_never_changes() {
        for (list, tag) in
            [(ExpiryList::Dead, "dead"), (ExpiryList::Ended, "ended"), (ExpiryList::Late, "late")]
        {
            assert_eq!((list.tag(), tag.parse()), (tag, Ok(list)));
        }
    }
}
