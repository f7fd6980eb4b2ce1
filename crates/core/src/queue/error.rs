//! Errors of queues.

use steadfast_store::{AddressError, Code, InvalidInput, Position, StoreError};

use crate::KeyError;

/// Why an operation on a queue failed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum QueueError {
    /// The queue has no messages, and it was never declared.
    #[error("there is no queue `{queue}`; send to it, or create it with PUT")]
    UnknownQueue {
        /// Its name.
        queue: String,
    },
    /// The name is not valid.
    #[error("`{queue}` cannot be the name of a queue: {reason}")]
    Name {
        /// The text that was given.
        queue: String,
        /// The rule.
        reason: String,
    },
    /// A setting is not valid.
    #[error("queue `{queue}`: {field} {rule}")]
    Setting {
        /// The queue.
        queue: String,
        /// The setting.
        field: &'static str,
        /// The rule.
        rule: String,
    },
    /// The dead-letter queues form a cycle.
    #[error("queue `{queue}`: dead-letter cycle through `{by}`")]
    Cycle {
        /// The queue.
        queue: String,
        /// The queue that closes the cycle.
        by: String,
    },
    /// The queue is full.
    #[error("queue `{queue}` is full: {max} messages wait; try again later, or raise maxMessages")]
    Full {
        /// The queue.
        queue: String,
        /// The maximum.
        max: u64,
    },
    /// A message is too large.
    #[error("message {index} has {len} bytes, queue `{queue}` takes {max}; put it into a bucket")]
    TooLarge {
        /// The queue.
        queue: String,
        /// The index of the message, from 0.
        index: usize,
        /// Its length.
        len: usize,
        /// The maximum.
        max: usize,
    },
    /// Too many messages in one request, or none.
    #[error("{count} messages cannot be sent at once; send 1 to {max}")]
    BatchLength {
        /// The number of messages.
        count: usize,
        /// The maximum.
        max: usize,
    },
    /// A number out of its range.
    #[error("{field} {rule}")]
    Argument {
        /// The argument.
        field: &'static str,
        /// The rule.
        rule: String,
    },
    /// It is not in this queue.
    #[error("message {id} is not in queue `{queue}`: it was consumed, moved, or is being handled")]
    UnknownMessage {
        /// The queue.
        queue: String,
        /// The message.
        id: Position,
    },
    /// The key was used for another request.
    #[error("idempotency key `{key}` was used for another request; use a new key")]
    KeyReused {
        /// The key.
        key: String,
    },
    /// The store rejects the message.
    #[error(transparent)]
    Invalid(#[from] InvalidInput),
    /// The store could not be used.
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
    /// The code of the platform.
    pub fn kind(&self) -> Code {
        match self {
            QueueError::UnknownQueue { .. } => Code::QueueNotFound,
            QueueError::UnknownMessage { .. } => Code::MessageNotFound,
            QueueError::Name { .. } => Code::InvalidName,
            QueueError::Full { .. } => Code::QueueFull,
            QueueError::TooLarge { .. } => Code::TooLarge,
            QueueError::Setting { .. }
            | QueueError::Cycle { .. }
            | QueueError::BatchLength { .. }
            | QueueError::Argument { .. }
            | QueueError::Invalid(_) => Code::InvalidInput,
            QueueError::KeyReused { .. } => Code::KeyReused,
            QueueError::Store(error) => error.kind(),
        }
    }

    /// The stable code as text.
    pub fn code(&self) -> &'static str {
        self.kind().tag()
    }

    pub(super) fn name(queue: &str, error: &AddressError) -> Self {
        QueueError::Name { queue: queue.into(), reason: error.to_string() }
    }
}
