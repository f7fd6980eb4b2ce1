//! Errors of calls, and the last failed turn of each object, for diagnosis. They are in
//! memory: a failed turn changes nothing.

use std::collections::HashMap;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use steadfast_store::{Address, AddressError, Code, EntityId, StoreError, Timestamp, limits};

use crate::{Error, KeyError, workflow::Time};

/// Why a call got no reply.
#[derive(Clone, Debug, thiserror::Error)]
pub enum CallError {
    /// No such class.
    #[error("class `{class}` is not registered")]
    UnknownClass {
        /// The requested name.
        class: String,
    },
    /// The class has no such message.
    #[error("class `{class}` has no message `{message}`")]
    UnknownMessage {
        /// The class.
        class: String,
        /// The requested name.
        message: String,
    },
    /// The name cannot be one of an object.
    #[error(transparent)]
    Name(#[from] AddressError),
    /// The message is not what the class takes.
    #[error("message `{message}` is malformed at `{path}`: {detail}")]
    Malformed {
        /// The message.
        message: String,
        /// The field, from the top; `.` is the whole.
        path: String,
        /// The problem with it.
        detail: String,
    },
    /// The handler returned an error; nothing changed.
    #[error("{0}")]
    Refused(Error),
    /// The handler panicked; nothing changed.
    #[error("handler of `{message}` panicked: {detail}; nothing was changed")]
    Panicked {
        /// The message.
        message: String,
        /// The message of the panic.
        detail: String,
    },
    /// The turn was stopped by a limit, or its transaction did not survive; nothing changed.
    #[error("turn of `{object}` was rolled back: {detail}")]
    RolledBack {
        /// The object.
        object: String,
        /// The limit, or the reason.
        detail: String,
    },
    /// The key is not acceptable.
    #[error("idempotency key has {len} bytes, it must have 1 to {max}", max = limits::KEY_BYTES_MAX)]
    Key {
        /// Its length.
        len: usize,
    },
    /// The key was used for another request.
    #[error("idempotency key `{key}` was used for another request; use a new key")]
    KeyReused {
        /// The key.
        key: String,
    },
    /// The mailbox is full.
    #[error("mailbox of `{object}` is full; try again in a moment")]
    Busy {
        /// The object.
        object: String,
    },
    /// A handler called an object. The call could be to the object that runs the handler, and would
    /// wait for ever.
    #[error("`{object}` was called from a handler, which cannot wait; send it a message instead")]
    Nested {
        /// The object.
        object: String,
    },
    /// The migrations of the class do not run on this object; nothing changed.
    #[error("`{object}` cannot be migrated: {detail}")]
    Migration {
        /// The object.
        object: String,
        /// The migration and its error.
        detail: String,
    },
    /// The stored data of this object is damaged. Others are not affected.
    #[error(
        "`{object}` is damaged and was taken out of service: {detail}; restore it from a backup"
    )]
    Corrupt {
        /// The object.
        object: String,
        /// The damage.
        detail: String,
    },
    /// Another commit was first: the turn was not committed.
    #[error("turn of `{object}` was not committed: {detail}; call again")]
    Lost {
        /// The object.
        object: String,
        /// The reason.
        detail: String,
    },
    /// The reply has an unexpected form.
    #[error("reply of `{message}` cannot be read: {detail}; the turn is committed")]
    Reply {
        /// The message.
        message: String,
        /// The problem with it.
        detail: String,
    },
    /// The class takes no connections.
    #[error("class `{class}` takes no connections")]
    NotLive {
        /// The class.
        class: String,
    },
    /// The object has too many connections.
    #[error("`{object}` has {max} connections, which is the limit; try again later")]
    TooManyConnections {
        /// The object.
        object: String,
        /// The maximum.
        max: usize,
    },
    /// The connection has ended.
    #[error("connection {connection} of `{object}` has ended; connect again")]
    NotConnected {
        /// The object.
        object: String,
        /// The connection.
        connection: i64,
    },
    /// The store could not be used.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<KeyError> for CallError {
    fn from(error: KeyError) -> Self {
        match error {
            KeyError::Reused { key } => Self::KeyReused { key },
            KeyError::Store(error) => Self::Store(error),
        }
    }
}

impl CallError {
    pub(super) fn rolled_back(object: &Address, detail: &(impl ToString + ?Sized)) -> Self {
        CallError::RolledBack { object: object.to_string(), detail: detail.to_string() }
    }

    /// The code of the platform.
    pub fn kind(&self) -> Code {
        match self {
            CallError::UnknownClass { .. } => Code::ClassNotFound,
            CallError::UnknownMessage { .. } => Code::MessageNotFound,
            CallError::Name(_) => Code::InvalidName,
            CallError::Malformed { .. } => Code::MalformedMessage,
            CallError::Refused(_) => Code::Refused,
            CallError::Panicked { .. } => Code::HandlerPanicked,
            CallError::RolledBack { .. } => Code::TurnRolledBack,
            CallError::Key { .. } => Code::InvalidKey,
            CallError::KeyReused { .. } => Code::KeyReused,
            CallError::Busy { .. } | CallError::TooManyConnections { .. } => Code::Busy,
            CallError::Migration { .. } => Code::MigrationFailed,
            CallError::Corrupt { .. } => Code::Corrupt,
            CallError::Lost { .. } => Code::TurnLost,
            CallError::Nested { .. } | CallError::Reply { .. } => Code::Internal,
            CallError::NotLive { .. } | CallError::NotConnected { .. } => Code::Conflict,
            CallError::Store(error) => error.kind(),
        }
    }

    /// The stable code as text: that of the object if it refused.
    pub fn code(&self) -> &str {
        if let CallError::Refused(error) = self {
            return error.code();
        }
        self.kind().tag()
    }

    /// Whether the same call may work in a moment.
    pub fn is_retryable(&self) -> bool {
        if let CallError::Refused(error) = self {
            return !error.is_terminal();
        }
        if let CallError::Store(error) = self {
            return error.is_retryable();
        }
        self.kind().is_retryable()
    }

    /// Whether the same message would fail every time, however often it is delivered.
    pub(super) fn is_final(&self) -> bool {
        if let CallError::Refused(error) = self {
            return error.is_terminal();
        }
        matches!(
            self,
            CallError::Malformed { .. }
                | CallError::UnknownMessage { .. }
                | CallError::Name(_)
                | CallError::Store(StoreError::Invalid(_))
        )
    }

    /// Whether it certainly changed nothing. The turn of a damaged object is rolled back, and a
    /// nested call is not made; other errors with these codes leave it open.
    pub fn surely_unapplied(&self) -> bool {
        matches!(self, CallError::Corrupt { .. } | CallError::Nested { .. })
            || self.kind().surely_unapplied()
    }
}

/// Maximum objects with a recorded failure; beyond it the oldest are dropped.
const OBJECTS_MAX: usize = 1_000;

/// The last failed turn of an object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "openapi", schema(as = FailureEntry))]
pub struct LastFailure {
    /// When.
    pub at: Time,
    /// The message.
    pub input: String,
    /// The stable code.
    pub code: String,
    /// The error.
    pub message: String,
}

/// The last failures. Successful turns never touch it.
#[derive(Debug, Default)]
pub(super) struct Failures {
    known: Mutex<FailureTable>,
}

#[derive(Debug, Default)]
struct FailureTable {
    count: u64,
    /// With their numbers.
    by_object: HashMap<EntityId, (u64, LastFailure)>,
}

impl Failures {
    pub(super) fn note(&self, object: EntityId, at: Timestamp, input: &str, error: &CallError) {
        let mut message = error.to_string();
        message.truncate(message.floor_char_boundary(limits::ERROR_BYTES_MAX));
        let (at, code) = (Time(at), error.code().into());
        let failure = LastFailure { at, input: input.into(), code, message };
        let mut known = self.known.lock();
        known.count += 1;
        let number = known.count;
        known.by_object.insert(object, (number, failure));
        if OBJECTS_MAX < known.by_object.len() {
            let oldest = known.by_object.iter().min_by_key(|it| it.1.0).map(|it| *it.0);
            oldest.map(|it| known.by_object.remove(&it));
        }
    }

    pub(super) fn of(&self, object: EntityId) -> Option<LastFailure> {
        self.known.lock().by_object.get(&object).map(|(_, failure)| failure.clone())
    }

    /// Removes the failure of a deleted object.
    pub(super) fn forget(&self, object: EntityId) {
        self.known.lock().by_object.remove(&object);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_failure_of_each_is_kept_and_the_oldest_of_all_goes() {
        let failures = Failures::default();
        let id = |number: usize| EntityId((number as u128).to_be_bytes());
        let busy = CallError::Busy { object: "x".repeat(5_000) };
        for number in 0..OBJECTS_MAX {
            failures.note(id(number), Timestamp(1), "add", &busy);
        }
        failures.note(id(0), Timestamp(2), "sub", &busy);
        failures.note(id(OBJECTS_MAX), Timestamp(3), "add", &busy);
        let first = failures.of(id(0)).unwrap();
        assert_eq!((first.at, &*first.input, &*first.code), (Time(Timestamp(2)), "sub", "busy"));
        assert_eq!(first.message.len(), limits::ERROR_BYTES_MAX);
        assert_eq!(failures.of(id(1)), None);
        assert!(failures.of(id(2)).is_some());
        failures.forget(id(2));
        assert_eq!(failures.of(id(2)), None);
        let known = failures.known.lock();
        assert_eq!(known.by_object.len(), OBJECTS_MAX - 1);
    }
}
