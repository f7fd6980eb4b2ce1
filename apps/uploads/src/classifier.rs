//! Classifiers: one trait, and three implementations that the settings choose from.

mod choice;
mod embedded;
mod local;
mod network;
mod onnx;
mod recipe;
mod workers_ai;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use steadfast_images::ImageError;

pub(crate) use self::choice::{models_folder, parts};
#[doc(hidden)]
pub use self::workers_ai::fuzz;
pub use self::{
    embedded::{Embedded, ModelState},
    onnx::{Onnx, OnnxOptions},
    recipe::Recipe,
    workers_ai::{WorkersAi, WorkersAiOptions},
};

/// The maximum number of labels in an answer.
pub const LABELS_MAX: usize = 5;

/// A guess at the content of an image.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Label {
    /// The name of the class, in upper case: `LABRADOR RETRIEVER`.
    pub label: String,
    /// How sure the model is, from 0 to 1.
    pub score: f64,
}

/// Names what is on an image.
#[async_trait]
pub trait Classifier: Send + Sync + 'static {
    /// The five likeliest labels, the likeliest first; fewer if the model knows fewer, never none.
    ///
    /// The same image and the same model give the same answer. A call waits for its turn: start as
    /// many as there are images.
    async fn classify(&self, image: &[u8]) -> Result<Vec<Label>, ClassifyError>;

    /// Whether it can be asked now. Call it when [`classify`](Classifier::classify) said that it is
    /// not ready or not available: a classifier that is there did not take that one image.
    async fn ready(&self) -> Result<(), ClassifyError>;

    /// Its name, for people: `resnet-50 (embedded)`.
    fn name(&self) -> String;
}

/// Why there is no label.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ClassifyError {
    /// The image is at fault: trying again never helps.
    #[error(transparent)]
    Image(#[from] ImageError),
    /// The model is missing or being fetched. The message says what to do.
    #[error("{message}")]
    NotReady {
        /// The missing part, with the next step.
        message: String,
    },
    /// The provider could not be asked, or was too busy: try again.
    #[error("{message}")]
    Unavailable {
        /// A description for people.
        message: String,
    },
    /// The provider answered, but not with labels and scores.
    #[error("{message}")]
    Answer {
        /// The reason, for people.
        message: String,
    },
}

impl ClassifyError {
    /// The stable code.
    pub fn code(&self) -> &'static str {
        match self {
            ClassifyError::Image(error) => error.code(),
            ClassifyError::NotReady { .. } => "model_not_ready",
            ClassifyError::Unavailable { .. } => "classifier_unavailable",
            ClassifyError::Answer { .. } => "classifier_answer_invalid",
        }
    }

    /// Whether the same call may succeed later.
    pub fn is_worth_a_retry(&self) -> bool {
        match self {
            ClassifyError::Image(_) => false,
            ClassifyError::NotReady { .. }
            | ClassifyError::Unavailable { .. }
            | ClassifyError::Answer { .. } => true,
        }
    }
}
