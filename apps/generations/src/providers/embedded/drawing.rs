//! The description that a picture is drawn from.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::noise::Rng;

/// All that a picture follows from. The same drawing is always the same bytes, on every machine: it
/// uses no function whose last digit differs between them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Drawing {
    /// `embedded:art@1` or `embedded:clip@1`.
    pub model: String,
    /// Its subject.
    pub prompt: String,
    /// Which one of all that are about it.
    pub seed: u64,
    /// Pixels from left to right.
    pub width: u32,
    /// Pixels from top to bottom.
    pub height: u32,
    /// How long it moves, if it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<u32>,
}

impl Drawing {
    /// Chance that follows from the prompt and the seed. The size is left out, so that a larger one
    /// is the same picture.
    pub(super) fn rng(&self) -> Rng {
        let mut digest = Sha256::new();
        digest.update(self.model.as_bytes());
        digest.update([0]);
        digest.update(self.prompt.trim().as_bytes());
        digest.update(self.seed.to_be_bytes());
        let digest = digest.finalize();
        Rng::new(digest.iter().take(8).fold(0, |all, it| all << 8 | u64::from(*it)))
    }

    /// Whether a word of the prompt begins with one of these: rice is no ice.
    pub(super) fn says(&self, beginnings: &[&str]) -> bool {
        let prompt = self.prompt.to_lowercase();
        let mut words = prompt.split(|it: char| !it.is_alphanumeric());
        words.any(|word| beginnings.iter().any(|it| word.starts_with(it)))
    }
}
