//! Errors of inputs.

use steadfast_store::{AddressError, Code, StoreError};

use super::{CodecError, Refused};

/// Why an input was not accepted. Nothing was recorded, unless the store does not know the outcome.
#[derive(Clone, Debug, thiserror::Error)]
pub enum InputError {
    /// It is not a message of this process.
    #[error(transparent)]
    Codec(#[from] CodecError),
    /// There is no such process.
    #[error("there is no process `{name}`")]
    Process {
        /// The requested name.
        name: String,
    },
    /// It belongs to another instance or to none.
    #[error("the input belongs to {belongs}, not to `{given}`")]
    Instance {
        /// The instance that it belongs to.
        belongs: String,
        /// The instance that it was sent to.
        given: String,
    },
    /// The process refuses it in its present state.
    #[error("the process refuses the input: {0}")]
    Refused(#[from] Refused),
    /// The key was used for another input.
    #[error("idempotency key `{key}` was used for another input; use a new key")]
    KeyReused {
        /// The key.
        key: String,
    },
    /// Concurrent decisions kept winning.
    #[error("instance `{instance}` was changed concurrently {attempts} times in a row; try again")]
    Contended {
        /// The instance.
        instance: String,
        /// The number of attempts.
        attempts: u32,
    },
    /// The name is not valid.
    #[error(transparent)]
    Name(#[from] AddressError),
    /// The store could not be used.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl InputError {
    /// The code of the platform.
    pub fn kind(&self) -> Code {
        match self {
            InputError::Codec(_) => Code::MalformedMessage,
            InputError::Process { .. } => Code::ProcessNotFound,
            InputError::Refused(_) => Code::Refused,
            InputError::KeyReused { .. } => Code::KeyReused,
            InputError::Contended { .. } => Code::Contended,
            InputError::Instance { .. } | InputError::Name(_) => Code::InvalidInput,
            InputError::Store(error) => error.kind(),
        }
    }

    /// The stable code as text.
    pub fn code(&self) -> &'static str {
        self.kind().tag()
    }

    /// Whether the same input may be sent again.
    pub fn is_retryable(&self) -> bool {
        if let InputError::Store(error) = self {
            return error.is_retryable();
        }
        self.kind().is_retryable()
    }
}
