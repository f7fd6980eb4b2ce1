//! How long things are kept, and the lists of those that the sweep must look at again.

use std::time::Duration;

use strum::{EnumString, IntoStaticStr};

use crate::{EntityId, Position, Timestamp};

/// How long messages are kept once nothing is to be done with them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// The age from which a message may go, and the time after which what has ended may: objects
    /// that were deleted and processes that are complete.
    pub keep: Duration,
    /// How long a message that was given up is kept.
    pub keep_dead: Duration,
}

impl Retention {
    /// A month, and three for what was given up.
    pub const DEFAULT: Retention =
        Retention { keep: Duration::from_hours(30 * 24), keep_dead: Duration::from_hours(90 * 24) };
}

/// Which list of what the sweep is to look at again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, EnumString, IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum ExpiryList {
    /// Messages that were given up.
    Dead,
    /// Entities that have ended, or that were only addressed so far.
    Ended,
    /// Messages that the sweep has passed and that are not needed since.
    Late,
}

impl ExpiryList {
    /// How it is stored.
    pub(crate) fn tag(self) -> &'static str {
        self.into()
    }

    pub(crate) fn from_tag(tag: &str) -> Option<Self> {
        tag.parse().ok()
    }
}

/// Something that the sweep is to look at again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Expiring {
    /// In which list.
    pub list: ExpiryList,
    /// Since when.
    pub since: Timestamp,
    /// Which message; 0: none.
    pub position: Position,
    /// Which entity; all zeros: none.
    pub entity: EntityId,
}

/// The name of a remembered key.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KeyName {
    /// Whose key.
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
            assert_eq!((list.tag(), ExpiryList::from_tag(tag)), (tag, Some(list)));
        }
    }
}
