//! The messages of a library.

use serde::{Deserialize, Serialize};

use crate::{Generation, GenerationStatus};

/// Reserves the id of a generation. Called with the idempotency key of a request, it gives the
/// same id to each repetition, and refuses another request.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ReserveId {
    /// The idempotency key.
    pub key: String,
    /// A hash of the request.
    pub digest: String,
}

/// How a generation stands, with all that came of it so far. Words may come in any order; the
/// number says which is the last.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct GenerationChanged {
    /// The generation.
    pub generation: Generation,
    /// The number of the word.
    pub version: i64,
}

/// A generation goes, with all that came of it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DeleteGeneration {
    /// Which one.
    pub id: String,
}

/// An artifact goes. Nothing is changed if there is none.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DeleteArtifact {
    /// Which one.
    pub id: String,
}

/// The target of a tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TagTarget {
    /// A generation.
    Generation,
    /// An artifact.
    Artifact,
}

steadfast_core::store::texts! {
    TagTarget { Generation = "generation", Artifact = "artifact" }
}

impl TagTarget {
    pub(super) fn name(self) -> &'static str {
        self.into()
    }
}

/// Tags something, or removes a tag. Nothing is changed if there is nothing to tag.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SetTag {
    /// The kind of target.
    pub target: TagTarget,
    /// Which one.
    pub id: String,
    /// The tag.
    pub tag: String,
    /// Whether it has it afterwards.
    pub is_on: bool,
}

/// One generation, with its artifacts.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct GetGeneration {
    /// Which one.
    pub id: String,
}

/// Generations, newest first.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ListGenerations {
    /// Only those that are so far.
    pub status: Option<GenerationStatus>,
    /// The filters of all lists.
    pub narrow: Narrow,
}

/// The filters of lists.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Narrow {
    /// Only those made with this.
    pub model: Option<String>,
    /// Only those with this tag.
    pub tag: Option<String>,
    /// Only those from then on, in milliseconds.
    pub since: Option<i64>,
    /// Only those before then.
    pub until: Option<i64>,
    /// Only those behind this one: when it was created, and its id.
    pub after: Option<(i64, String)>,
    /// The maximum number of rows.
    pub limit: u32,
}

/// One artifact.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct GetArtifact {
    /// Which one.
    pub id: String,
}

/// Which of these artifacts are not in the library.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Unreferred {
    /// The artifacts.
    pub ids: Vec<String>,
}

/// Artifacts, newest first.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ListArtifacts {
    /// Only those of this generation.
    pub generation: Option<String>,
    /// The filters of all lists.
    pub narrow: Narrow,
}

/// All tags.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ListTags;

/// A tag, and how much has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TagCount {
    /// The tag.
    pub tag: String,
    /// The number of generations.
    pub generations: u64,
    /// The number of artifacts, by their own tags and those of their generations.
    pub artifacts: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_target_is_the_stored_one() {
        assert_eq!(TagTarget::Generation.name(), "generation");
        assert_eq!(TagTarget::Artifact.name(), "artifact");
    }
}
