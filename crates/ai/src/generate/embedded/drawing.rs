//! What is drawn.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::{ART, CLIP, art, clip, noise::Rng, rules};
use crate::generate::error::{ErrorKind, GenerateError};

/// All that a picture follows from. The same drawing is always the same bytes, on every machine: it
/// uses no function whose last digit differs between them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Drawing {
    /// `embedded:art@1` or `embedded:clip@1`.
    pub model: String,
    /// What it is about.
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
    /// Draws it: a PNG, or a GIF that moves.
    pub(crate) fn draw(&self) -> Result<Vec<u8>, GenerateError> {
        let Some((_, edge_max, _, _)) = rules(&self.model) else {
            return Err(GenerateError::unknown_model(&self.model));
        };
        // It may come back from storage, so it is looked at again.
        for (field, edge) in [("width", self.width), ("height", self.height)] {
            if !(64..=edge_max).contains(&u64::from(edge)) {
                return Err(GenerateError::input(field, format!("is not from 64 to {edge_max}")));
            }
        }
        let encoded = match self.model.as_str() {
            ART => art::png(self),
            CLIP => clip::gif(self),
            _ => return Err(GenerateError::unknown_model(&self.model)),
        };
        encoded.map_err(|it| GenerateError::new(ErrorKind::Unavailable, format!("not drawn: {it}")))
    }

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
