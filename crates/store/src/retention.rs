//! Retention settings, and the lists of rows that the sweep must process again.

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
