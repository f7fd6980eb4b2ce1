//! Two URLs as one thing that has a history.

use std::fmt::Write;

use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};
use steadfast_egress::EgressError;
use url::Url;

use crate::probe::redacted_url;

/// How long a pair's key is, in hexadecimal digits.
pub const PAIR_KEY_LEN: usize = 40;

/// How long a uuid is, with its dashes.
const UUID_LEN: usize = 36;

/// Two different URLs, in one spelling each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pair {
    left: String,
    right: String,
    key: String,
}

/// Why two URLs are no pair.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PairError {
    /// One of them is no URL that is fetched.
    #[error(transparent)]
    Url(#[from] EgressError),
    /// Both are the same.
    #[error("both URLs are {url}; give two different ones")]
    Same {
        /// The URL, without secrets.
        url: String,
    },
}

impl PairError {
    /// The stable code.
    pub fn code(&self) -> &'static str {
        match self {
            PairError::Url(error) => error.code(),
            PairError::Same { .. } => "invalid_request",
        }
    }
}

impl Pair {
    /// A pair of two URLs that have been checked (see [`steadfast_egress::Gate::check`]).
    pub fn new(left: &Url, right: &Url) -> Result<Self, PairError> {
        let (left, right) = (normalized(left), normalized(right));
        if left == right {
            return Err(PairError::Same { url: redacted_url(&left) });
        }
        let key = pair_key(&left, &right);
        Ok(Self { left, right, key })
    }

    /// The left URL in its one spelling.
    pub fn left(&self) -> &str {
        &self.left
    }

    /// The right URL in its one spelling.
    pub fn right(&self) -> &str {
        &self.right
    }

    /// The key: the same for both directions.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Names both URLs in their order, and does not tell them: there may be secrets in them.
    pub fn direction(&self) -> String {
        HEXLOWER.encode(&Sha256::digest(format!("{}\n{}", self.left, self.right)))
    }

    /// The id of a comparison of this pair.
    pub fn comparison_id(&self, uuid: &str) -> String {
        format!("{}-{uuid}", self.key)
    }
}

/// The name of the object of a pair: the key, below the organization that compares.
pub fn object_of(organization: Option<&str>, key: &str) -> String {
    match organization {
        Some(it) => format!("{it}/{key}"),
        None => key.to_owned(),
    }
}

/// The organization and the key of the object of a pair.
pub fn organization_and_key(object: &str) -> (Option<&str>, &str) {
    match object.rsplit_once('/') {
        Some((organization, key)) => (Some(organization), key),
        None => (None, object),
    }
}

/// One spelling of a URL, for keys only: the probe asks for what was given. Letters of hosts, ports
/// that go without saying, dots and slashes at the end, needless encoding and fragments make no
/// other pair. The order of a query does.
pub fn normalized(url: &Url) -> String {
    let mut url = url.clone();
    url.set_fragment(None);
    if let Some(host) = url.host_str().and_then(|it| it.strip_suffix('.')) {
        let host = host.to_owned();
        // A host that was one stays one without its dot.
        let _ = url.set_host(Some(&host));
    }
    let path = plain(url.path());
    let bare = path.trim_end_matches('/');
    url.set_path(if bare.is_empty() { "/" } else { bare });
    let query = url.query().filter(|it| !it.is_empty()).map(plain);
    url.set_query(query.as_deref());
    url.into()
}

/// Percent-encoding in one spelling: none where none is needed, and digits in upper case.
fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('%') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let digits = rest.get(1..3).filter(|it| it.bytes().all(|it| it.is_ascii_hexdigit()));
        let byte = digits.and_then(|it| u8::from_str_radix(it, 16).ok());
        match byte {
            // A dot stays encoded: decoded, it might be read as a step upwards.
            Some(byte) if byte.is_ascii_alphanumeric() || b"-_~".contains(&byte) => {
                out.push(byte.into());
                rest = &rest[3..];
            }
            Some(byte) => {
                let _ = write!(out, "%{byte:02X}");
                rest = &rest[3..];
            }
            // It stands for itself. Left as it is, it could become an escape with what follows.
            None => {
                out.push_str("%25");
                rest = &rest[1..];
            }
        }
    }
    out.push_str(rest);
    out
}

/// The key of two normalized URLs, whichever comes first.
fn pair_key(left: &str, right: &str) -> String {
    let (first, second) = if left <= right { (left, right) } else { (right, left) };
    // No URL contains a line break, so nothing else hashes the same bytes.
    let mut key = HEXLOWER.encode(&Sha256::digest(format!("{first}\n{second}")));
    key.truncate(PAIR_KEY_LEN);
    key
}

/// The key of the pair that a comparison belongs to, if this can be such an id.
pub fn pair_key_of(comparison_id: &str) -> Option<&str> {
    let (key, rest) = comparison_id.split_at_checked(PAIR_KEY_LEN)?;
    let uuid = rest.strip_prefix('-')?;
    let is_hex = |it: u8| it.is_ascii_digit() || (b'a'..=b'f').contains(&it);
    let is_uuid = uuid.len() == UUID_LEN && uuid.bytes().all(|it| is_hex(it) || it == b'-');
    (is_uuid && key.bytes().all(is_hex)).then_some(key)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pair(left: &str, right: &str) -> Result<Pair, PairError> {
        Pair::new(&Url::parse(left).unwrap(), &Url::parse(right).unwrap())
    }

    #[test]
    fn spellings_of_one_url_make_one_pair_in_both_directions() {
        let expected = pair("http://a.example/x?y=%2Fz", "https://b.example/").unwrap();
        assert_eq!(expected.key().len(), PAIR_KEY_LEN);
        for left in [
            "HTTP://A.example/x?y=%2fz",
            "http://a.example:80/x/?y=%2fz",
            "http://a.example./x?y=%2Fz#part",
            "http://a.example/%78?y=%2Fz",
            "http://a.example/q/../x//?%79=%2Fz",
        ] {
            for right in ["https://b.example", "https://b.example:443/?", "https://B.example./#"] {
                assert_eq!(pair(left, right).unwrap().key(), expected.key(), "{left} {right}");
                assert_eq!(pair(right, left).unwrap().key(), expected.key(), "{left} {right}");
            }
        }
        let turned = pair("https://b.example/", "http://a.example/x?y=%2Fz").unwrap();
        assert_eq!(turned.left(), expected.right());
    }

    #[test]
    fn other_urls_make_other_pairs() {
        let base = pair("http://a.example/x?y=1&z=2", "http://b.example/").unwrap();
        for left in [
            "https://a.example/x?y=1&z=2",
            "http://a.example:81/x?y=1&z=2",
            "http://a.example/X?y=1&z=2",
            "http://a.example/x?z=2&y=1",
            "http://a.example/x%2F?y=1&z=2",
            "http://a.example/x",
        ] {
            assert_ne!(pair(left, "http://b.example/").unwrap().key(), base.key(), "{left}");
        }
    }

    #[test]
    fn equal_urls_are_no_pair() {
        let error = pair("http://a.example:80/x/", "HTTP://a.example/x").unwrap_err();
        assert_eq!(error.code(), "invalid_request");
        let secret = "http://a.example/?token=hush";
        let text = pair(secret, secret).unwrap_err().to_string();
        assert!(text.contains("token=[redacted]") && !text.contains("hush"), "{text}");
    }

    #[test]
    fn an_id_of_a_comparison_leads_back_to_its_pair() {
        let pair = pair("http://a.example/", "http://b.example/").unwrap();
        let id = pair.comparison_id("0191e4a0-1111-7222-8333-444455556666");
        assert_eq!(id.len(), 77);
        assert_eq!(pair_key_of(&id), Some(pair.key()));
        for bad in ["", "x", &id[1..], &id[..76], &id.to_uppercase(), &id.replace('-', ":")] {
            assert_eq!(pair_key_of(bad), None, "{bad}");
        }
        assert_eq!(pair_key_of(&"ü".repeat(40)), None);
    }

    #[test]
    fn a_percent_sign_that_begins_no_escape_does_not_become_one() {
        let url = Url::parse("http://a.example/%4%31").unwrap();
        assert_eq!(normalized(&url), "http://a.example/%2541");
    }

    proptest! {
        #[test]
        fn normalizing_twice_changes_nothing(path in "[a-z%/.0-9?#ü]{0,30}") {
            if let Ok(url) = Url::parse(&format!("http://a.example/{path}")) {
                let once = normalized(&url);
                prop_assert_eq!(normalized(&Url::parse(&once).unwrap()), once);
            }
        }
    }
}
