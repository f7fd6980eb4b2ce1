//! Messages in queues, and the depth of queues.

use crate::{Address, AddressError, EntityId, EntityKind, Recorded, State, Timestamp};

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
