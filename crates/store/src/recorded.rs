//! Messages as the store keeps them, and how far their delivery has come.

use strum::{EnumString, IntoStaticStr};

use crate::{Direction, EntityId, Json, Lease, MessageKind, Position, Timestamp, Version};

/// How far the delivery of a message has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// To be delivered.
    Pending {
        /// Not before then.
        due_at: Timestamp,
        /// Attempts that failed so far, since it was last revived.
        attempts: u32,
    },
    /// Claimed by somebody who has not answered yet.
    InFlight {
        /// Who holds it.
        lease: Lease,
        /// When the lease ends.
        until: Timestamp,
        /// Attempts so far since it was last revived, this one included.
        attempts: u32,
    },
    /// Ended.
    Settled(Settled),
}

/// How the delivery of a message ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settled {
    /// In which way.
    pub as_: SettledAs,
    /// When.
    pub at: Timestamp,
    /// After how many attempts since it was written.
    pub attempts: u32,
    /// Why, for a dead one.
    pub error: Option<String>,
    /// The queue that it died in, if it did in one.
    pub queue: Option<EntityId>,
}

/// The ways in which a delivery ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumString, IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum SettledAs {
    /// It was handled.
    Done,
    /// It was given up.
    Dead,
    /// It was called back.
    Cancelled,
}

impl SettledAs {
    /// The stored tag.
    pub fn tag(self) -> &'static str {
        self.into()
    }

    pub(crate) fn from_tag(tag: &str) -> Option<Self> {
        tag.parse().ok()
    }
}

/// A message as the store keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// Its place in the store.
    pub position: Position,
    /// The stream it stands in.
    pub stream: EntityId,
    /// Its place in the stream.
    pub version: Version,
    /// Command or event.
    pub kind: MessageKind,
    /// Input or output.
    pub direction: Direction,
    /// Its action: send, publish, reply, …
    pub action: String,
    /// Its stable type tag.
    pub message_type: String,
    /// The version of its type.
    pub schema: i32,
    /// Its data.
    pub data: Json,
    /// Its metadata.
    pub metadata: Json,
    /// Who it is for, if it is to be delivered.
    pub target: Option<EntityId>,
    /// Whether it keeps its place among the ordered ones of its target.
    pub ordered: bool,
    /// The position of what caused it.
    pub cause: Option<Position>,
    /// When it was committed.
    pub created_at: Timestamp,
    /// How far its delivery is; `None` when there is nothing to deliver.
    pub state: Option<State>,
    /// Why the last failed attempt failed.
    pub last_error: Option<String>,
    /// The history it was written in. It is 0 unless acknowledged commits were lost before and
    /// that was accepted: what was written then may have had the same place.
    pub lineage: i64,
}

impl Recorded {
    /// The `processed` flag: unknown to messages that are not delivered, else whether it is done.
    pub fn processed(&self) -> Option<bool> {
        let state = self.state.as_ref()?;
        Some(matches!(state, State::Settled(it) if it.as_ == SettledAs::Done))
    }

    /// The id that handlers and receivers know it by, the same at every delivery.
    pub fn id(&self) -> String {
        match self.lineage {
            0 => format!("{}/{}", self.stream, self.version),
            lineage => format!("{lineage}~{}/{}", self.stream, self.version),
        }
    }
}

/// One failed attempt to deliver a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// Which message.
    pub position: Position,
    /// Which attempt, from 1.
    pub number: u32,
    /// When it was claimed.
    pub started_at: Timestamp,
    /// When it failed.
    pub ended_at: Timestamp,
    /// Why.
    pub error: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tag_of_an_end_never_changes() {
        for (end, tag) in [
            (SettledAs::Done, "done"),
            (SettledAs::Dead, "dead"),
            (SettledAs::Cancelled, "cancelled"),
        ] {
            assert_eq!((end.tag(), SettledAs::from_tag(tag)), (tag, Some(end)));
        }
    }
}
