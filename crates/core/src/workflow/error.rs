//! Why something could not be done with a run.

use steadfast_store::{AddressError, StoreError};

use crate::{Body, Error, KeyError};

/// Why something could not be done with a run.
#[derive(Clone, Debug, thiserror::Error)]
pub enum RunError {
    /// No such workflow.
    #[error("workflow `{workflow}` is not served by this program; declare it with `App::workflow`")]
    UnknownWorkflow {
        /// The name that was asked for.
        workflow: String,
    },
    /// No such run.
    #[error("there is no run `{run}`")]
    UnknownRun {
        /// The name that was asked for.
        run: String,
    },
    /// The id cannot be one. Ids of runs are stricter than names of objects: steps pass them to
    /// other systems, for example as idempotency keys.
    #[error("`{id}` cannot be the id of a run: 1 to 128 of letters, digits, `_`, `-`, `.` and `:`")]
    InvalidId {
        /// The text that was given.
        id: String,
    },
    /// Something is not JSON of the right kind.
    #[error("{what} cannot be taken: {detail}")]
    Malformed {
        /// The thing that was given.
        what: &'static str,
        /// The problem with it.
        detail: String,
    },
    /// It has failed.
    #[error("run `{run}` failed: {error}")]
    Failed {
        /// Which run.
        run: String,
        /// The error that it failed with.
        error: Error,
    },
    /// It is not in a state in which that could be done.
    #[error("run `{run}` is {status}; {why}")]
    WrongStatus {
        /// Which run.
        run: String,
        /// How far it is.
        status: &'static str,
        /// Why that does not fit.
        why: &'static str,
    },
    /// The run has no such step.
    #[error("run `{run}` has not recorded a step `{step}`")]
    UnknownStep {
        /// Which run.
        run: String,
        /// The name that was asked for.
        step: String,
    },
    /// The key stands for another request.
    #[error("idempotency key `{key}` was used for another request; use a new key")]
    KeyReused {
        /// Which key.
        key: String,
    },
    /// The name cannot be one.
    #[error(transparent)]
    Name(#[from] AddressError),
    /// The store gave no answer.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<KeyError> for RunError {
    fn from(error: KeyError) -> Self {
        match error {
            KeyError::Reused { key } => Self::KeyReused { key },
            KeyError::Store(error) => Self::Store(error),
        }
    }
}

impl RunError {
    /// Writes what is given to a run as JSON.
    pub(crate) fn json(what: &'static str, value: &impl Body) -> Result<String, Self> {
        let malformed =
            |error: serde_json::Error| RunError::Malformed { what, detail: error.to_string() };
        serde_json::to_string(value).map_err(malformed)
    }

    /// The stable code.
    pub fn code(&self) -> &str {
        match self {
            RunError::UnknownWorkflow { .. } => "workflow_not_found",
            RunError::UnknownRun { .. } => "run_not_found",
            RunError::InvalidId { .. } => "invalid_name",
            RunError::Malformed { .. } => "malformed_message",
            RunError::Failed { error, .. } => error.code(),
            RunError::WrongStatus { .. } => "wrong_status",
            RunError::UnknownStep { .. } => "step_not_found",
            RunError::KeyReused { .. } => "key_reused",
            RunError::Name(_) => "invalid_name",
            RunError::Store(error) => error.code(),
        }
    }
}
