//! How a commit ended when the store did answer. None of these ends is an error.

use crate::{EntityId, EntryKey, Json, Position, Timestamp, Version};

/// How a commit ended when the store did answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is durable.
    Committed(Receipt),
    /// Its key was recorded before; nothing changed, this was the answer then.
    Duplicate(Remembered),
    /// An expectation did not hold; nothing changed.
    Rejected(Rejection),
}

impl Outcome {
    /// The receipt, or how else it ended.
    pub fn committed(self) -> Result<Receipt, Outcome> {
        match self {
            Outcome::Committed(receipt) => Ok(receipt),
            Outcome::Duplicate(_) | Outcome::Rejected(_) => Err(self),
        }
    }
}

/// What the store assigned.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Receipt {
    /// The time of the commit.
    pub at: Timestamp,
    /// Version and position of each appended message, in order.
    pub appended: Vec<(Version, Position)>,
    /// What was claimed, in order.
    pub claimed: Vec<Claimed>,
    /// How many messages were forgotten, or entries whose time was over.
    pub forgotten: usize,
    /// Whether a run or another entity is gone as a whole.
    pub erased: bool,
    /// The revision of each entry that was put, in order.
    pub revisions: Vec<i64>,
}

/// A claim that was granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claimed {
    /// Which message.
    pub position: Position,
    /// Which attempt this is, from 1, counted since it was last revived.
    pub attempt: u32,
    /// When the lease ends.
    pub until: Timestamp,
}

/// What a key was recorded with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remembered {
    /// The first message of the commit that recorded it; 0 if it had none.
    pub position: Position,
    /// The status that was recorded.
    pub status: i32,
    /// The answer that was recorded.
    pub reply: Option<Json>,
}

/// Which expectation did not hold.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Rejection {
    /// The stream has moved on.
    #[error(
        "stream {stream} is at version {actual}, expected was {expected}; read it and decide anew"
    )]
    Version {
        /// Which stream.
        stream: EntityId,
        /// What was expected.
        expected: Version,
        /// What it is.
        actual: Version,
    },
    /// The key stands for another request.
    #[error("idempotency key `{key}` was used for another request; use a new key")]
    KeyReused {
        /// Which key.
        key: String,
    },
    /// The message is not to be delivered (any more).
    #[error("message {position} is not pending: it was settled, or never was to be delivered")]
    NotPending {
        /// Which message.
        position: Position,
    },
    /// The message is not due yet, or somebody holds it.
    #[error("message {position} is not due before {due_at}")]
    NotDue {
        /// Which message.
        position: Position,
        /// When it is.
        due_at: Timestamp,
    },
    /// Somebody else claimed the message since.
    #[error("the lease on message {position} is over: somebody else claimed it")]
    LeaseLost {
        /// Which message.
        position: Position,
    },
    /// The object has moved on.
    #[error("object {entity} stands at turn {actual}, expected was {expected}; load it again")]
    Head {
        /// Which object.
        entity: EntityId,
        /// What was expected.
        expected: i64,
        /// What it is.
        actual: i64,
    },
    /// A part of a checkpoint came without the one before it.
    #[error("part {part} of the images of object {entity} is out of order")]
    Part {
        /// Which object.
        entity: EntityId,
        /// Which part.
        part: i64,
    },
    /// Something is to be done for the entity, or something of it was given up not long ago.
    #[error(
        "{entity} cannot be erased: message {position} is still to be delivered, or was given up"
    )]
    HasWork {
        /// Which entity.
        entity: EntityId,
        /// Such a message.
        position: Position,
    },
    /// The entity was written to at the same time.
    #[error("{entity} cannot be erased: it was written to just now; try again")]
    JustWritten {
        /// Which entity.
        entity: EntityId,
    },
    /// The entry has changed.
    #[error(
        "entry {entry:?} is at revision {actual}, expected was {expected}; read it and decide anew"
    )]
    Revision {
        /// Which entry.
        entry: EntryKey,
        /// What was expected.
        expected: i64,
        /// What it is.
        actual: i64,
    },
    /// There are entries in the list, or were just now.
    #[error("list `{space}` is not empty")]
    NotVacant {
        /// Which list.
        space: Box<str>,
    },
    /// Only what has ended, and as expected, can be revived.
    #[error("message {position} is not settled, or not in the way that was expected")]
    NotSettled {
        /// Which message.
        position: Position,
    },
}

impl Rejection {
    /// The stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Rejection::Version { .. } => "version_conflict",
            Rejection::KeyReused { .. } => "key_reused",
            Rejection::NotPending { .. } => "not_pending",
            Rejection::NotDue { .. } => "not_due",
            Rejection::LeaseLost { .. } => "lease_lost",
            Rejection::Head { .. } => "head_conflict",
            Rejection::Part { .. } => "part_out_of_order",
            Rejection::HasWork { .. } => "has_work",
            Rejection::JustWritten { .. } => "just_written",
            Rejection::Revision { .. } => "revision_conflict",
            Rejection::NotVacant { .. } => "not_vacant",
            Rejection::NotSettled { .. } => "not_settled",
        }
    }
}
