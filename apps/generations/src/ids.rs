//! Ids of requests, and names of workspaces.

use sha2::{Digest, Sha256};
use steadfast_core::store::{Entropy, Timestamp};

/// A new id: a UUID of version 7, which begins with the time.
pub fn new_id(now: Timestamp, entropy: &dyn Entropy) -> String {
    let mut chance = [0; 10];
    chance[..8].copy_from_slice(&entropy.next().to_be_bytes());
    chance[8..].copy_from_slice(&entropy.next().to_be_bytes()[..2]);
    let millis = u64::try_from(now.0).unwrap_or_default();
    uuid::Builder::from_unix_timestamp_millis(millis, &chance).into_uuid().to_string()
}

/// The id of a generation that begins now, made from a text instead of chance.
pub(crate) fn id_of(now: Timestamp, text: &str) -> String {
    let mut chance = [0; 10];
    chance.copy_from_slice(&Sha256::digest(text)[..10]);
    let millis = u64::try_from(now.0).unwrap_or_default();
    uuid::Builder::from_unix_timestamp_millis(millis, &chance).into_uuid().to_string()
}

/// Whether a text can be the id of something: nothing else is looked for.
pub(crate) fn is_id(text: &str) -> bool {
    text.len() == 36 && text.bytes().all(|it| it.is_ascii_hexdigit() || it == b'-')
}

/// The workspace of everybody who names none.
pub const DEFAULT_WORKSPACE: &str = "default";

/// Characters of the name of a workspace.
pub const WORKSPACE_MAX: usize = 64;

/// Whether a text can be the name of a workspace.
pub fn is_workspace(text: &str) -> bool {
    let is_plain = |it: u8| it.is_ascii_alphanumeric() || b"._-".contains(&it);
    (1..=WORKSPACE_MAX).contains(&text.len()) && text.bytes().all(is_plain)
}

#[cfg(test)]
mod tests {
    use steadfast_core::store::SeededEntropy;

    use super::*;

    #[test]
    fn ids_begin_with_the_time_and_differ() {
        let entropy = SeededEntropy::new(1);
        let (one, two) = (new_id(Timestamp(1_000), &entropy), new_id(Timestamp(1_000), &entropy));
        assert_ne!(one, two);
        assert!(one < new_id(Timestamp(2_000), &entropy));
        assert_eq!((one.len(), &one[14..15]), (36, "7"));
    }
}
