//! One picture or clip of a request: how far it is, and what may become of it.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

/// How far a task is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TaskState {
    /// The provider does not know of it yet, or has not said so.
    Pending,
    /// The provider works on it.
    Submitted,
    /// It is done there, and on its way into the bucket.
    Streaming,
    /// Its artifact is in the library.
    Ready,
    /// It came to nothing, and says why.
    Failed,
    /// Somebody did not want it any more.
    Cancelled,
}

steadfast_core::store::texts! {
    TaskState {
        Pending = "pending",
        Submitted = "submitted",
        Streaming = "streaming",
        Ready = "ready",
        Failed = "failed",
        Cancelled = "cancelled",
    }
}

impl TaskState {
    /// As it is stored and shown.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// The state of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        name.parse().ok()
    }

    /// Whether nothing more will happen by itself.
    pub fn is_final(self) -> bool {
        matches!(self, TaskState::Ready | TaskState::Failed | TaskState::Cancelled)
    }
}

/// Why a task came to nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskError {
    /// The stable code.
    pub code: String,
    /// A description for people.
    pub message: String,
}

/// A task as everybody may see it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskView {
    /// Its place in the request, from 0.
    pub index: u32,
    /// How far it is.
    pub status: TaskState,
    /// Per cent, if the provider says so.
    pub progress: Option<u8>,
    /// The artifact that it becomes.
    pub artifact_id: String,
    /// Why it came to nothing.
    pub error: Option<TaskError>,
}

/// An output of a provider.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Made {
    /// Where it is, in the words of its provider.
    pub source: Value,
    /// The seed that it was made with.
    pub seed: Option<u64>,
    /// The cost in US dollars.
    pub cost: Option<f64>,
    /// The response of the provider, for the record.
    pub response: Value,
}

/// The maximum number of tasks of a request.
pub(crate) const COUNT_MAX: u32 = 16;

/// Names a task to its provider: the same one again after a crash, another one for a retry.
pub fn task_id(generation: &str, index: u32, round: u32) -> String {
    uuid(&format!("task:{generation}:{index}:{round}"))
}

/// Names the artifact of a task: whatever is tried, there is one for each place in a request.
pub fn artifact_id(generation: &str, index: u32) -> String {
    uuid(&format!("artifact:{generation}:{index}"))
}

/// A UUID of version 4 in form, made of a text.
fn uuid(text: &str) -> String {
    let mut bytes: [u8; 16] = [0; 16];
    bytes.copy_from_slice(&Sha256::digest(text)[..16]);
    uuid::Builder::from_random_bytes(bytes).into_uuid().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_the_same_again_and_tell_rounds_apart() {
        assert_eq!(task_id("g", 1, 0), task_id("g", 1, 0));
        assert_ne!(task_id("g", 1, 0), task_id("g", 1, 1));
        assert_ne!(task_id("g", 1, 0), artifact_id("g", 1));
        assert_eq!(&task_id("g", 1, 0)[14..15], "4");
        assert_eq!(task_id("g", 1, 0).len(), 36);
    }

    #[test]
    fn the_name_of_a_state_is_the_stored_one() {
        for (state, name) in [
            (TaskState::Pending, "pending"),
            (TaskState::Submitted, "submitted"),
            (TaskState::Streaming, "streaming"),
            (TaskState::Ready, "ready"),
            (TaskState::Failed, "failed"),
            (TaskState::Cancelled, "cancelled"),
        ] {
            assert_eq!((state.name(), TaskState::from_name(name)), (name, Some(state)));
        }
    }
}
