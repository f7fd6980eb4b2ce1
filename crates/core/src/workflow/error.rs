//! Errors of runs.

use steadfast_store::{AddressError, Code, StoreError};

use crate::{Body, Error, KeyError};

/// Why an operation on a run failed.
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
    /// A value is not JSON of the right kind.
    #[error("{what} is not valid: {detail}")]
    Malformed {
        /// The thing that was given.
        what: &'static str,
        /// The problem with it.
        detail: String,
    },
    /// It has failed.
    #[error("run `{run}` failed: {error}")]
    Failed {
        /// The run.
        run: String,
        /// The error that it failed with.
        error: Error,
    },
    /// The operation is not possible in the status of the run.
    #[error("run `{run}` is {status}; {why}")]
    WrongStatus {
        /// The run.
        run: String,
        /// Its status.
        status: &'static str,
        /// The reason.
        why: &'static str,
    },
    /// The run has no such step.
    #[error("run `{run}` has not recorded a step `{step}`")]
    UnknownStep {
        /// The run.
        run: String,
        /// The name that was asked for.
        step: String,
    },
    /// The key was used for another request.
    #[error("idempotency key `{key}` was used for another request; use a new key")]
    KeyReused {
        /// The key.
        key: String,
    },
    /// The name cannot be one.
    #[error(transparent)]
    Name(#[from] AddressError),
    /// The store could not be used.
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
    /// Serializes a value for a run.
    pub(crate) fn json(what: &'static str, value: &impl Body) -> Result<String, Self> {
        let malformed =
            |error: serde_json::Error| RunError::Malformed { what, detail: error.to_string() };
        serde_json::to_string(value).map_err(malformed)
    }

    /// The code of the platform.
    pub fn kind(&self) -> Code {
        match self {
            RunError::UnknownWorkflow { .. } => Code::WorkflowNotFound,
            RunError::UnknownRun { .. } => Code::RunNotFound,
            RunError::UnknownStep { .. } => Code::StepNotFound,
            RunError::InvalidId { .. } | RunError::Name(_) => Code::InvalidName,
            RunError::Malformed { .. } => Code::MalformedMessage,
            RunError::Failed { .. } => Code::Refused,
            RunError::WrongStatus { .. } => Code::WrongStatus,
            RunError::KeyReused { .. } => Code::KeyReused,
            RunError::Store(error) => error.kind(),
        }
    }

    /// The stable code as text: that of the run's error if it failed.
    pub fn code(&self) -> &str {
        if let RunError::Failed { error, .. } = self {
            return error.code();
        }
        self.kind().tag()
    }
}
