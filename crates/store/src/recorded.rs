//! Stored messages, the state of their delivery, and queues.

use crate::{
    Address, AddressError, Direction, EntityId, EntityKind, Json, Lease, MessageKind, Position,
    Timestamp, Version,
};

/// The delivery state of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// It is to be delivered.
    Pending {
        /// Its due time.
        due_at: Timestamp,
        /// Failed attempts since it was last revived.
        attempts: u32,
    },
    /// It is claimed.
    InFlight {
        /// The lease.
        lease: Lease,
        /// When the lease ends.
        until: Timestamp,
        /// Attempts since it was last revived, including this one.
        attempts: u32,
    },
    /// It is settled.
    Settled(Settlement),
}

/// The end of the delivery of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settlement {
    /// The outcome.
    pub as_: SettledAs,
    /// The time.
    pub at: Timestamp,
    /// Attempts since it was written.
    pub attempts: u32,
    /// The error of a dead message.
    pub error: Option<String>,
    /// The queue of a dead message, if it was in one.
    pub queue: Option<EntityId>,
}

/// The outcomes of a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettledAs {
    /// It was handled.
    Done,
    /// It failed for good.
    Dead,
    /// It was cancelled.
    Cancelled,
}

crate::texts! {
    SettledAs { Done = "done", Dead = "dead", Cancelled = "cancelled" }
}

impl SettledAs {
    /// The stored tag.
    pub fn tag(self) -> &'static str {
        self.into()
    }
}

/// A stored message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// Its position in the store.
    pub position: Position,
    /// Its stream.
    pub stream: EntityId,
    /// Its version in the stream.
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
    /// The target, if it is to be delivered.
    pub target: Option<EntityId>,
    /// Whether it is ordered among those of its target.
    pub ordered: bool,
    /// The position of its cause.
    pub cause: Option<Position>,
    /// When it was committed.
    pub created_at: Timestamp,
    /// Its delivery state; `None` if it is not delivered.
    pub state: Option<State>,
    /// The error of the last failed attempt.
    pub last_error: Option<String>,
    /// The history it was written in. It is 0 unless an operator accepted a loss of acknowledged
    /// commits before: a lost message may have had the same position.
    pub lineage: i64,
}

impl Recorded {
    /// The `processed` flag: `None` for messages that are not delivered, else whether it is done.
    pub fn processed(&self) -> Option<bool> {
        let state = self.state.as_ref()?;
        Some(matches!(state, State::Settled(it) if it.as_ == SettledAs::Done))
    }

    /// The id for handlers and receivers, the same at every delivery.
    pub fn id(&self) -> String {
        match self.lineage {
            0 => format!("{}/{}", self.stream, self.version),
            lineage => format!("{lineage}~{}/{}", self.stream, self.version),
        }
    }

    /// The id of the stream in an id of a message.
    pub fn stream_of(id: &str) -> &str {
        let stream = id.split_once('/').map_or(id, |(stream, _)| stream);
        stream.split_once('~').map_or(stream, |(_, stream)| stream)
    }
}

/// One failed attempt to deliver a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// The message.
    pub position: Position,
    /// The number of the attempt, from 1.
    pub number: u32,
    /// When it was claimed.
    pub started_at: Timestamp,
    /// When it failed.
    pub ended_at: Timestamp,
    /// The error.
    pub error: String,
}

/// The action of a message that is sent to a queue.
pub const ENQUEUE: &str = "enqueue";

/// The address of the messages of a queue.
pub fn queue_address(name: &str) -> Result<Address, AddressError> {
    Address::new(EntityKind::Queue, name, "0")
}

/// A message in a queue, pending or claimed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueuedMessage {
    /// The message. It may have been sent to another queue and been moved since.
    pub message: Recorded,
    /// The queue.
    pub queue: EntityId,
    /// Attempts in all, including those before it was moved.
    pub attempts: u32,
}

impl QueuedMessage {
    /// When it may be delivered; while it is claimed, when the lease ends.
    pub fn due_at(&self) -> Timestamp {
        match self.message.state {
            Some(State::Pending { due_at, .. }) => due_at,
            Some(State::InFlight { until, .. }) => until,
            Some(State::Settled(_)) | None => Timestamp::MAX,
        }
    }

    /// Attempts since it was moved to this queue or revived.
    pub fn tries(&self) -> u32 {
        match self.message.state {
            Some(State::Pending { attempts, .. } | State::InFlight { attempts, .. }) => attempts,
            Some(State::Settled(_)) | None => 0,
        }
    }
}

/// The depth of a queue.
///
/// Every commit maintains the number of pending and of dead messages. The number of ready ones
/// comes from up to [`DEPTH_SEEN_MAX`] due messages and as many others. It is exact unless there
/// are more of both: then all others count as ready.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueDepth {
    /// Messages that may be delivered now.
    pub ready: u64,
    /// Messages that may be delivered later.
    pub delayed: u64,
    /// Messages that are claimed.
    pub leased: u64,
    /// Dead messages.
    pub dead: u64,
    /// When the oldest message that was read and is not dead was sent.
    pub oldest: Option<Timestamp>,
}

/// Maximum messages of each sort that are read to compute the depth.
pub const DEPTH_SEEN_MAX: usize = 1_000;

impl QueueDepth {
    /// Messages that are not dead.
    pub fn waiting(&self) -> u64 {
        self.ready + self.delayed + self.leased
    }

    /// The depth from the numbers of messages that were read: due, not due, and claimed among the
    /// latter.
    pub(crate) fn seen(
        waiting: u64,
        dead: u64,
        [due, later, leased]: [u64; 3],
        oldest: Option<Timestamp>,
    ) -> Self {
        let is_all = |seen: u64| seen < DEPTH_SEEN_MAX as u64;
        let delayed = if is_all(due) && !is_all(later) {
            waiting.saturating_sub(due + leased)
        } else {
            later - leased
        };
        let ready = waiting.saturating_sub(delayed + leased);
        Self { ready, delayed, leased, dead, oldest }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_of_a_message_names_its_stream_in_every_lineage() {
        for id in ["60b5/7", "1~60b5/7"] {
            assert_eq!(Recorded::stream_of(id), "60b5");
        }
    }

    #[test]
    fn the_tag_of_an_end_never_changes() {
        for (end, tag) in [
            (SettledAs::Done, "done"),
            (SettledAs::Dead, "dead"),
            (SettledAs::Cancelled, "cancelled"),
        ] {
            assert_eq!((end.tag(), tag.parse()), (tag, Ok(end)));
        }
    }
}
