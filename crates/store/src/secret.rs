//! Random secret texts.

use crate::StoreError;

/// Random letters from the system's source. The number of letters must divide 256, so that all are
/// equally likely.
pub fn secret_text(len: usize, letters: &[u8]) -> Result<String, StoreError> {
    debug_assert_eq!(256 % letters.len(), 0, "no letter may be more likely than another");
    let mut bytes = vec![0; len];
    let mut filled = 0;
    while filled < len {
        let flags = rustix::rand::GetRandomFlags::empty();
        let count = rustix::rand::getrandom(&mut bytes[filled..], flags);
        let count = count.map_err(|error| StoreError::Unavailable { reason: error.to_string() });
        filled += count?;
    }
    Ok(bytes.iter().map(|it| char::from(letters[usize::from(*it) % letters.len()])).collect())
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
}
