//! The trait that every provider of explanations implements.

use async_trait::async_trait;

use super::{explanation::Explanation, summary::DriftSummary};

/// Says why two environments may differ.
#[async_trait]
pub trait Explainer: Send + Sync + 'static {
    /// Explains a comparison.
    async fn explain(&self, summary: &DriftSummary) -> Result<Explanation, ExplainError>;

    /// Its name, for people: `rules (embedded)`.
    fn name(&self) -> String;
}

/// Why there is no explanation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExplainError {
    /// The provider could not be asked, or was too busy: try again.
    #[error("{message}")]
    Unavailable {
        /// A description for people.
        message: String,
    },
    /// The provider answered, but with no explanation. Models differ from call to call: try again.
    #[error("{message}")]
    Answer {
        /// The reason, for people.
        message: String,
    },
    /// The provider refuses, or its options cannot be right. The message says what to check.
    #[error("{message}")]
    Refused {
        /// The reason, and what to check.
        message: String,
    },
}

impl ExplainError {
    /// The stable code.
    pub fn code(&self) -> &'static str {
        match self {
            ExplainError::Unavailable { .. } => "explainer_unavailable",
            ExplainError::Answer { .. } => "explainer_answer_invalid",
            ExplainError::Refused { .. } => "explainer_refused",
        }
    }

    /// Whether the same call may succeed later.
    pub fn is_worth_a_retry(&self) -> bool {
        match self {
            ExplainError::Unavailable { .. } | ExplainError::Answer { .. } => true,
            ExplainError::Refused { .. } => false,
        }
    }
}
