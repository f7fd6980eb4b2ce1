//! The hash of secrets and records.

use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};

/// The hash under which a secret is stored.
pub(super) fn hash(secret: &str) -> String {
    HEXLOWER.encode(&Sha256::digest(secret))
}
