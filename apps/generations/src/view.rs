//! Views of generations and artifacts: one shape for all responses.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{TaskError, TaskView, providers::OutputKind};

/// How far a generation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum GenerationStatus {
    /// Something is still to come.
    Active,
    /// It is over, and there is an artifact at least.
    Ready,
    /// It is over, and there is none.
    Failed,
    /// It was given up before there was one.
    Cancelled,
}

steadfast_core::store::texts! {
    GenerationStatus {
        Active = "active",
        Ready = "ready",
        Failed = "failed",
        Cancelled = "cancelled",
    }
}

impl GenerationStatus {
    /// As it is stored and shown.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// The status of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        name.parse().ok()
    }
}

/// A request for images or clips.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Request {
    /// The provider.
    pub provider: String,
    /// With what.
    pub model: String,
    /// Image or video: it decides the timeout.
    pub kind: OutputKind,
    /// From what, in the words of Runware.
    pub input: Map<String, Value>,
    /// How many.
    pub count: u32,
    /// The tags of the generation.
    pub tags: Vec<String>,
}

/// How many tasks ended how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// With an artifact.
    pub ready: u32,
    /// With an error.
    pub failed: u32,
    /// Not at all, because nobody wanted them any more.
    pub cancelled: u32,
}

/// A generation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Generation {
    /// Its id.
    pub id: String,
    /// The workspace whose library has it.
    pub workspace: String,
    /// How far it is.
    pub status: GenerationStatus,
    /// The request.
    #[serde(flatten)]
    pub request: Request,
    /// How its tasks ended.
    #[serde(flatten)]
    pub counts: Counts,
    /// Its tasks, in order.
    pub tasks: Vec<TaskView>,
    /// The artifacts.
    pub artifacts: Vec<Artifact>,
    /// When it was asked for, in milliseconds.
    pub created_at: i64,
    /// When the last task ended.
    pub completed_at: Option<i64>,
    /// Why the library refuses the artifacts. The manager sends them again until it takes them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub library_error: Option<TaskError>,
}

/// An artifact: what is kept for ever.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Artifact {
    /// Its id; its blob is `artifacts/{id}`.
    pub id: String,
    /// The generation that it came from.
    pub generation_id: String,
    /// Its place there.
    pub index: u32,
    /// The input of its task.
    pub model: String,
    /// By whom.
    pub provider: String,
    /// Its media type.
    pub content_type: String,
    /// The extension of its file.
    pub extension: String,
    /// Its size in bytes.
    pub size: u64,
    /// Pixels from left to right, if they are known.
    pub width: Option<u32>,
    /// Pixels from top to bottom.
    pub height: Option<u32>,
    /// The seed that it was made with.
    pub seed: Option<u64>,
    /// The cost in US dollars.
    pub cost: Option<f64>,
    /// The response of its provider.
    pub response: Value,
    /// When the provider was asked, in milliseconds.
    pub submitted_at: Option<i64>,
    /// When it was stored.
    pub created_at: i64,
    /// Its tags.
    #[serde(default)]
    pub tags: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_status_is_the_stored_one() {
        for (status, name) in [
            (GenerationStatus::Active, "active"),
            (GenerationStatus::Ready, "ready"),
            (GenerationStatus::Failed, "failed"),
            (GenerationStatus::Cancelled, "cancelled"),
        ] {
            assert_eq!((status.name(), GenerationStatus::from_name(name)), (name, Some(status)));
        }
    }
}
