//! Names of buckets and keys of blobs.

use std::{fmt, net::Ipv4Addr, sync::Arc};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};
use steadfast_store::EntryKey;

use crate::{BucketError, KEY_BYTES_MAX};

/// The name of a bucket, by the rules of S3.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BucketName(Arc<str>);

impl BucketName {
    /// Checks a name.
    pub fn new(name: &str) -> Result<Self, BucketError> {
        let fits = |it: u8| it.is_ascii_lowercase() || it.is_ascii_digit() || b"-.".contains(&it);
        let is_edge = |it: Option<u8>| it.is_some_and(|it| it.is_ascii_alphanumeric());
        let is_good = (3..=63).contains(&name.len())
            && name.bytes().all(fits)
            && is_edge(name.bytes().next())
            && is_edge(name.bytes().next_back())
            && !name.contains("..")
            && name.parse::<Ipv4Addr>().is_err();
        if is_good { Ok(Self(name.into())) } else { Err(BucketError::Name { name: name.into() }) }
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The entry of its settings.
    pub(crate) fn entry(&self) -> Result<EntryKey, BucketError> {
        Ok(EntryKey::new(BUCKETS, self.0.as_bytes())?)
    }

    pub(crate) fn blobs(&self) -> String {
        format!("blob/{}", self.0)
    }

    pub(crate) fn uploads(&self) -> String {
        format!("upload/{}", self.0)
    }

    pub(crate) fn parts(&self) -> String {
        format!("part/{}", self.0)
    }
}

impl fmt::Display for BucketName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Serialize for BucketName {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for BucketName {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Self::new(&String::deserialize(from)?).map_err(D::Error::custom)
    }
}

/// The space of all buckets.
pub(crate) const BUCKETS: &str = "bucket";

/// The key of a blob: any text of 1 to 1,024 bytes. It never becomes a path.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BlobKey(Arc<str>);

impl BlobKey {
    /// Checks a key.
    pub fn new(key: &str) -> Result<Self, BucketError> {
        if key.is_empty() || KEY_BYTES_MAX < key.len() {
            return Err(BucketError::Key { len: key.len() });
        }
        Ok(Self(key.into()))
    }

    /// The key.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub(crate) fn entry(&self, bucket: &BucketName) -> Result<EntryKey, BucketError> {
        Ok(EntryKey::new(&bucket.blobs(), self.0.as_bytes())?)
    }
}

impl fmt::Display for BlobKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_buckets_follow_the_rules_of_s3() {
        for good in ["abc", "my-bucket", "a.b.c", "0a1", &"x".repeat(63)] {
            assert!(BucketName::new(good).is_ok(), "{good}");
        }
        let long = "x".repeat(64);
        let bad = ["", "ab", "Abc", "a_b", "-ab", "ab-", "a..b", ".ab", "10.0.0.1", "äbc", &long];
        for bad in bad {
            assert!(BucketName::new(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_key_is_any_text_up_to_its_limit() {
        for good in ["a", "../../etc/passwd", "/", "ü \0 \u{1F600}", &"k".repeat(1_024)] {
            assert!(BlobKey::new(good).is_ok(), "{good}");
        }
        assert!(BlobKey::new("").is_err());
        assert!(BlobKey::new(&"k".repeat(1_025)).is_err());
    }
}
