//! Outcomes of commits that the store has answered. None of them is an error.

use crate::{Code, EntityId, EntryKey, Json, Position, Timestamp, Version};

/// The outcome of a commit that the store has answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is durable.
    Committed(Receipt),
    /// Its key was recorded before; nothing changed. This is the recorded answer.
    Duplicate(RecordedKey),
    /// An expectation did not hold; nothing changed.
    Rejected(Rejection),
}

impl Outcome {
    /// The receipt, or the other outcome.
    pub fn committed(self) -> Result<Receipt, Outcome> {
        match self {
            Outcome::Committed(receipt) => Ok(receipt),
            Outcome::Duplicate(_) | Outcome::Rejected(_) => Err(self),
        }
    }
}

/// The values that the store assigned.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Receipt {
    /// The time of the commit.
    pub at: Timestamp,
    /// Version and position of each appended message, in order.
    pub appended: Vec<(Version, Position)>,
    /// The granted claims, in order.
    pub claimed: Vec<GrantedClaim>,
    /// The number of deleted messages or expired entries.
    pub forgotten: usize,
    /// Whether a sweep may find more rows in the next step.
    pub more: bool,
    /// The revision of each entry that was put, in order.
    pub revisions: Vec<i64>,
}

/// A claim that was granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GrantedClaim {
    /// The message.
    pub position: Position,
    /// The number of the attempt, from 1, counted since it was last revived.
    pub attempt: u32,
    /// When the lease ends.
    pub until: Timestamp,
}

/// The recorded values of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedKey {
    /// The first message of the commit that recorded it; 0 if it had none.
    pub position: Position,
    /// The recorded status.
    pub status: i32,
    /// The recorded answer.
    pub reply: Option<Json>,
}

/// The expectation that did not hold.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Rejection {
    /// The stream has another version.
    #[error(
        "stream {stream} is at version {actual}, expected {expected}; read it and decide again"
    )]
    Version {
        /// The stream.
        stream: EntityId,
        /// The expected version.
        expected: Version,
        /// The actual version.
        actual: Version,
    },
    /// The key was used for another request.
    #[error("idempotency key `{key}` was used for another request; use a new key")]
    KeyReused {
        /// The key.
        key: String,
    },
    /// The message is not pending.
    #[error("message {position} is not pending: it was settled, or was never to be delivered")]
    NotPending {
        /// The message.
        position: Position,
    },
    /// The message is not due yet, or it is claimed.
    #[error("message {position} is not due before {due_at}")]
    NotDue {
        /// The message.
        position: Position,
        /// When it is due.
        due_at: Timestamp,
    },
    /// Another consumer has claimed the message since.
    #[error("the lease on message {position} is over: another consumer claimed it")]
    LeaseLost {
        /// The message.
        position: Position,
    },
    /// The object has another head.
    #[error("object {entity} is at turn {actual}, expected {expected}; load it again")]
    Head {
        /// The object.
        entity: EntityId,
        /// The expected turn.
        expected: i64,
        /// The actual turn.
        actual: i64,
    },
    /// A part of a checkpoint arrived without the previous one.
    #[error("part {part} of the images of object {entity} is out of order")]
    Part {
        /// The object.
        entity: EntityId,
        /// The part.
        part: i64,
    },
    /// The entity has pending work, or a message of it died recently.
    #[error("{entity} cannot be erased: message {position} is pending, or died recently")]
    HasWork {
        /// The entity.
        entity: EntityId,
        /// The message.
        position: Position,
    },
    /// The same batch has written to the entity.
    #[error("{entity} cannot be erased: it was written to just now; try again")]
    JustWritten {
        /// The entity.
        entity: EntityId,
    },
    /// The entry has changed.
    #[error(
        "entry {entry:?} is at revision {actual}, expected {expected}; read it and decide again"
    )]
    Revision {
        /// The entry.
        entry: EntryKey,
        /// The expected revision.
        expected: i64,
        /// The actual revision.
        actual: i64,
    },
    /// The counter would pass its limit.
    #[error("counter {entry:?} is at {count}, and may not be above {max}")]
    Limit {
        /// The counter.
        entry: EntryKey,
        /// Its value.
        count: i64,
        /// The limit.
        max: i64,
    },
    /// The entry is no counter.
    #[error("entry {entry:?} is not a number, and cannot be counted")]
    NotANumber {
        /// The entry.
        entry: EntryKey,
    },
    /// The queue has not enough room.
    #[error("queue {queue} has {waiting} messages of at most {max}; send again later")]
    Full {
        /// The queue.
        queue: EntityId,
        /// The number of its pending messages.
        waiting: u64,
        /// The limit.
        max: u64,
    },
    /// The list has entries, or had some in the same batch.
    #[error("list `{space}` is not empty")]
    NotVacant {
        /// The list.
        space: Box<str>,
    },
    /// Only a message that is settled in the expected way can be revived.
    #[error("message {position} is not settled, or has another outcome")]
    NotSettled {
        /// The message.
        position: Position,
    },
}

impl Rejection {
    /// The code of the platform.
    pub fn kind(&self) -> Code {
        match self {
            Rejection::KeyReused { .. } => Code::KeyReused,
            Rejection::NotSettled { .. } => Code::WrongStatus,
            Rejection::NotANumber { .. } => Code::Corrupt,
            Rejection::Full { .. } => Code::QueueFull,
            Rejection::Version { .. }
            | Rejection::NotPending { .. }
            | Rejection::NotDue { .. }
            | Rejection::LeaseLost { .. }
            | Rejection::Head { .. }
            | Rejection::Part { .. }
            | Rejection::HasWork { .. }
            | Rejection::JustWritten { .. }
            | Rejection::Revision { .. }
            | Rejection::Limit { .. }
            | Rejection::NotVacant { .. } => Code::Contended,
        }
    }
}
