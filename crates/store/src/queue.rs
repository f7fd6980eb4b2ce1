//! What waits in queues, as the store tells it.

use crate::{Address, AddressError, EntityId, EntityKind, Recorded, State, Timestamp};

/// What is done with a message that is sent to a queue.
pub const ENQUEUE: &str = "enqueue";

/// The address under which the messages of a queue wait.
pub fn queue_address(name: &str) -> Result<Address, AddressError> {
    Address::new(EntityKind::Queue, name, "0")
}

/// A message that waits in a queue, or that a consumer holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Letter {
    /// The message. It may have been sent to another queue and been moved since.
    pub message: Recorded,
    /// The queue that it is in.
    pub queue: EntityId,
    /// Attempts in all, those before it was moved included.
    pub attempts: u32,
}

impl Letter {
    /// When it may be delivered; while it is held, when the lease ends.
    pub fn due_at(&self) -> Timestamp {
        match self.message.state {
            Some(State::Pending { due_at, .. }) => due_at,
            Some(State::InFlight { until, .. }) => until,
            Some(State::Settled(_)) | None => Timestamp::MAX,
        }
    }

    /// Attempts since it came into this queue or was revived.
    pub fn tries(&self) -> u32 {
        match self.message.state {
            Some(State::Pending { attempts, .. } | State::InFlight { attempts, .. }) => attempts,
            Some(State::Settled(_)) | None => 0,
        }
    }
}

/// How full a queue is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueDepth {
    /// Messages that may be delivered now.
    pub ready: u64,
    /// Messages that may be delivered later.
    pub delayed: u64,
    /// Messages that a consumer holds under a lease.
    pub leased: u64,
    /// Messages that were given up here.
    pub dead: u64,
    /// When the oldest of those that are not dead was sent.
    pub oldest: Option<Timestamp>,
}
