//! Text inside of a URL.

/// Makes a text fit to stand in a URL, as one piece.
pub(crate) fn escaped(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~') {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_stands_in_a_url_as_one_piece() {
        assert_eq!(escaped("process/a/ü?#%&.."), "process%2Fa%2F%C3%BC%3F%23%25%26..");
    }
}
