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
///
/// How many messages wait and how many are dead is kept with every commit. How many of those that
/// wait are ready is seen by looking at up to [`DEPTH_SEEN_MAX`] of those that are due and as many
/// of the others. It is exact unless there are more of both: then all that were not looked at count
/// as ready.
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
    /// When the oldest of those that are not dead, among those looked at, was sent.
    pub oldest: Option<Timestamp>,
}

/// Messages of a queue that are looked at to tell how full it is, of each sort.
pub const DEPTH_SEEN_MAX: usize = 1_000;

impl QueueDepth {
    /// Messages that are not dead.
    pub fn waiting(&self) -> u64 {
        self.ready + self.delayed + self.leased
    }

    /// Of those that wait, so many were seen that are due, that are not, and that are leased of
    /// these.
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
