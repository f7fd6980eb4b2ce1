//! Why something could not be done with a queue.

use steadfast_store::{AddressError, InvalidInput, Position, StoreError};

use crate::KeyError;

/// Why something could not be done with a queue.
#[derive(Clone, Debug, thiserror::Error)]
pub enum QueueError {
    /// Nothing was ever sent to it, and nobody declared it.
    #[error("there is no queue `{queue}`; send to it, or make it with PUT")]
    UnknownQueue {
        /// Its name.
        queue: String,
    },
    /// Not a name.
    #[error("`{queue}` cannot be the name of a queue: {reason}")]
    Name {
        /// What was given.
        queue: String,
        /// Why not.
        reason: String,
    },
    /// A setting that cannot be.
    #[error("queue `{queue}`: {field} {rule}")]
    Setting {
        /// Which queue.
        queue: String,
        /// The setting.
        field: &'static str,
        /// What it must be.
        rule: String,
    },
    /// Dead letters would go round for ever.
    #[error("queue `{queue}`: its dead letters would come back to it, by way of `{by}`")]
    Circle {
        /// Which queue.
        queue: String,
        /// The queue that leads back.
        by: String,
    },
    /// It holds as many messages as it may.
    #[error("queue `{queue}` is full: {max} messages wait; try again later, or raise maxMessages")]
    Full {
        /// Which queue.
        queue: String,
        /// How many may wait.
        max: u64,
    },
    /// A message is too large.
    #[error("message {index} has {len} bytes, queue `{queue}` takes {max}; put it into a bucket")]
    TooLarge {
        /// Which queue.
        queue: String,
        /// Which of the messages sent, from 0.
        index: usize,
        /// Its length.
        len: usize,
        /// What the queue takes.
        max: usize,
    },
    /// Too many messages at once, or none.
    #[error("{count} messages cannot be sent at once; send 1 to {max}")]
    BatchLength {
        /// How many were given.
        count: usize,
        /// How many can be.
        max: usize,
    },
    /// A number out of its range.
    #[error("{field} {rule}")]
    Argument {
        /// Which argument.
        field: &'static str,
        /// What it must be.
        rule: String,
    },
    /// It is not in this queue.
    #[error("message {id} is not in queue `{queue}`: it was consumed, moved, or is being handled")]
    UnknownMessage {
        /// Which queue.
        queue: String,
        /// Which message.
        id: Position,
    },
    /// The key stands for another request.
    #[error("idempotency key `{key}` was used for another request; use a new key")]
    KeyReused {
        /// Which key.
        key: String,
    },
    /// What was given cannot be kept.
    #[error(transparent)]
    Invalid(#[from] InvalidInput),
    /// The store could not do it.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<KeyError> for QueueError {
    fn from(error: KeyError) -> Self {
        match error {
            KeyError::Reused { key } => Self::KeyReused { key },
            KeyError::Store(error) => Self::Store(error),
        }
    }
}

impl QueueError {
    /// The stable code.
    pub fn code(&self) -> &str {
        match self {
            QueueError::UnknownQueue { .. } => "queue_not_found",
            QueueError::Name { .. } => "invalid_name",
            QueueError::Setting { .. } | QueueError::Circle { .. } => "invalid_input",
            QueueError::Full { .. } => "queue_full",
            QueueError::TooLarge { .. } => "too_large",
            QueueError::BatchLength { .. } => "invalid_input",
            QueueError::Argument { .. } | QueueError::Invalid(_) => "invalid_input",
            QueueError::UnknownMessage { .. } => "message_not_found",
            QueueError::KeyReused { .. } => "key_reused",
            QueueError::Store(error) => error.code(),
        }
    }

    pub(super) fn name(queue: &str, error: &AddressError) -> Self {
        QueueError::Name { queue: queue.into(), reason: error.to_string() }
    }
}
