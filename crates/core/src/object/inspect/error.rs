//! Errors of inspection.

use steadfast_store::{AddressError, Code, StoreError};

use super::super::{CallError, storage::HistoryError};

/// Why an object cannot be inspected.
#[derive(Clone, Debug, thiserror::Error)]
pub enum InspectError {
    /// No object of the class exists, and it is not served here.
    #[error("class `{class}` is neither registered here nor has it objects in this store")]
    UnknownClass {
        /// The requested name.
        class: String,
    },
    /// It does not exist.
    #[error("`{object}` does not exist; the first call that changes it creates it")]
    UnknownObject {
        /// The requested address.
        object: String,
    },
    /// The name cannot be one of an object.
    #[error(transparent)]
    Name(#[from] AddressError),
    /// That state cannot be restored.
    #[error(transparent)]
    History(#[from] HistoryError),
    /// The statement is not read-only.
    #[error("statement refused: {detail}; only statements that read are run here")]
    Refused {
        /// The denied action.
        detail: String,
    },
    /// SQLite rejected the statement.
    #[error("statement failed: {detail}")]
    Failed {
        /// The message of SQLite.
        detail: String,
    },
    /// The statement took too long.
    #[error("statement was stopped after {seconds} s; query less, or export the object")]
    TooLong {
        /// The limit.
        seconds: u64,
    },
    /// Too many statements or exports are in progress.
    #[error("{places} statements or exports are in progress, which is the limit; try again")]
    Busy {
        /// The maximum.
        places: usize,
    },
    /// The store could not be used.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl InspectError {
    /// The code of the platform.
    pub fn kind(&self) -> Code {
        match self {
            InspectError::UnknownClass { .. } => Code::ClassNotFound,
            InspectError::UnknownObject { .. } => Code::ObjectNotFound,
            InspectError::Name(_) => Code::InvalidName,
            InspectError::History(HistoryError::NoTurn { .. } | HistoryError::Forgotten { .. }) => {
                Code::TurnNotFound
            }
            InspectError::History(HistoryError::Call(error)) => error.kind(),
            InspectError::Refused { .. }
            | InspectError::Failed { .. }
            | InspectError::TooLong { .. } => Code::SqlFailed,
            InspectError::Busy { .. } => Code::Busy,
            InspectError::Store(error) => error.kind(),
        }
    }

    /// The stable code as text.
    pub fn code(&self) -> &'static str {
        self.kind().tag()
    }
}

impl From<CallError> for InspectError {
    fn from(error: CallError) -> Self {
        InspectError::History(error.into())
    }
}
