//! Paths of URLs.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// Every character except the unreserved ones of RFC 3986.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// Escapes text as one segment of a URL path.
pub fn escaped(text: &str) -> String {
    utf8_percent_encode(text, RESERVED).to_string()
}

/// Fills the parameters of a path, each as one segment.
pub(crate) fn fill(pattern: &str, values: &[String]) -> String {
    let mut values = values.iter();
    let segments = pattern.split('/').map(|segment| match segment.starts_with('{') {
        true => escaped(values.next().map_or("", String::as_str)),
        false => segment.to_owned(),
    });
    segments.collect::<Vec<_>>().join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_one_segment_of_a_url() {
        assert_eq!(escaped("process/a/ü?#%&.."), "process%2Fa%2F%C3%BC%3F%23%25%26..");
        let filled = fill("/v1/queues/{queue}/messages/{id}", &["a b".into(), "7".into()]);
        assert_eq!(filled, "/v1/queues/a%20b/messages/7");
    }
}
