//! Ids of requests.

use steadfast::store::{Entropy, Timestamp};

use crate::task::hyphenated;

/// A new id: a UUID of version 7, which begins with the time.
pub fn new_id(now: Timestamp, entropy: &dyn Entropy) -> String {
    let mut bytes = [0; 16];
    bytes[..6].copy_from_slice(&now.0.to_be_bytes()[2..]);
    bytes[6..14].copy_from_slice(&entropy.next().to_be_bytes());
    bytes[14..].copy_from_slice(&entropy.next().to_be_bytes()[..2]);
    bytes[6] = bytes[6] & 0x0f | 0x70;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    hyphenated(bytes)
}

#[cfg(test)]
mod tests {
    use steadfast::store::SeededEntropy;

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
