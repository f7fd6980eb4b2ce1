//! Names and ids.

use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};

/// Names one write of an image: the same bytes written again are another one.
pub fn event_id(key: &str, version: &str) -> String {
    HEXLOWER.encode(&Sha256::digest(format!("{key}:{version}")))
}

/// Names the run that classifies it; the n-th retry has a name of its own.
pub fn workflow_id(event_id: &str, retry: u32) -> String {
    match retry {
        0 => format!("imgcls_{event_id}"),
        retry => format!("imgcls_{event_id}-r{retry}"),
    }
}

/// Whether a text can be an organization or the name of an image.
pub fn is_name(text: &str) -> bool {
    let inner = |it: char| it.is_ascii_alphanumeric() || "._-".contains(it);
    (1..=100).contains(&text.len()) && !text.starts_with('.') && text.chars().all(inner)
}

/// The organization and the name in a key of the bucket.
pub fn split_key(key: &str) -> Option<(&str, &str)> {
    let (organization, name) = key.split_once('/')?;
    (is_name(organization) && is_name(name)).then_some((organization, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_bytes_written_again_are_another_event() {
        assert_ne!(event_id("a/b", "1"), event_id("a/b", "2"));
        assert_ne!(event_id("a/b", "1"), event_id("a/c", "1"));
        assert_eq!(event_id("a/b", "1").len(), 64);
    }

    #[test]
    fn a_retry_is_a_run_of_its_own() {
        assert_eq!(workflow_id("e", 0), "imgcls_e");
        assert_eq!(workflow_id("e", 2), "imgcls_e-r2");
        let longest = workflow_id(&event_id("a/b", "1"), 9_999);
        assert!(longest.len() <= 128, "ids of runs have 128 characters at most");
    }

    #[test]
    fn only_plain_names_are_names() {
        for good in ["a", "cat.png", "_x", "-", &"n".repeat(100)] {
            assert!(is_name(good), "{good}");
        }
        for bad in ["", ".", "..", ".png", "a/b", "a b", "ü", &"n".repeat(101)] {
            assert!(!is_name(bad), "{bad}");
        }
        assert_eq!(split_key("acme/cat.png"), Some(("acme", "cat.png")));
        for bad in ["acme", "acme/", "/cat.png", "acme/a/b", "acme/../x"] {
            assert_eq!(split_key(bad), None, "{bad}");
        }
    }
}
