//! Secrets: a text that is not shown, and random ones.

use std::{convert::Infallible, fmt, str::FromStr};

use crate::StoreError;

/// A secret. `Debug` does not show it, and a comparison takes as long for a wrong text as for the
/// right one.
#[derive(Clone, Default)]
pub struct Secret(String);

impl PartialEq for Secret {
    fn eq(&self, other: &Self) -> bool {
        let (one, other) = (self.0.as_bytes(), other.0.as_bytes());
        // All bytes are read: the first difference must not end the comparison.
        let difference = one.iter().zip(other).fold(0, |all, (one, other)| all | (one ^ other));
        one.len() == other.len() && std::hint::black_box(difference) == 0
    }
}

impl Eq for Secret {}

impl Secret {
    /// The text, for its use.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl From<&str> for Secret {
    fn from(text: &str) -> Self {
        Self(text.into())
    }
}

impl FromStr for Secret {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(text.into())
    }
}

/// Random letters from the system's source. The number of letters must divide 256, so that all are
/// equally likely.
pub fn secret_text(len: usize, letters: &[u8]) -> Result<String, StoreError> {
    debug_assert_eq!(256 % letters.len(), 0, "no letter may be more likely than another");
    let mut bytes = vec![0; len];
    fill(&mut bytes)?;
    Ok(bytes.iter().map(|it| char::from(letters[usize::from(*it) % letters.len()])).collect())
}

/// Random bytes from the system's source.
pub(crate) fn random_bytes<const N: usize>() -> Result<[u8; N], StoreError> {
    let mut bytes = [0; N];
    fill(&mut bytes)?;
    Ok(bytes)
}

fn fill(bytes: &mut [u8]) -> Result<(), StoreError> {
    let mut filled = 0;
    while filled < bytes.len() {
        let flags = rustix::rand::GetRandomFlags::empty();
        let count = rustix::rand::getrandom(&mut bytes[filled..], flags);
        let count = count.map_err(|error| StoreError::Unavailable { reason: error.to_string() });
        filled += count?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_secrets_differ_and_have_the_length_that_was_asked_for() {
        let one = || secret_text(40, b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567").unwrap();
        assert_eq!(one().len(), 40);
        assert_ne!(one(), one());
    }

    #[test]
    fn secrets_are_equal_if_all_bytes_are() {
        assert_eq!(Secret::from("hush"), Secret::from("hush"));
        for other in ["", "hus", "husx", "xush", "hushh"] {
            assert_ne!(Secret::from("hush"), Secret::from(other), "{other}");
        }
    }

    #[test]
    fn debug_does_not_show_a_secret() {
        assert_eq!(format!("{:?}", Some(Secret::from("hush"))), "Some(***)");
    }
}
