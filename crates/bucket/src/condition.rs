//! What a request expects of the blob that is there.

use steadfast_store::Timestamp;

use crate::{Blob, BlobKey, BucketError, BucketName};

/// Which content is meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Match {
    /// Any.
    Any,
    /// With one of these tags, without quotes.
    Etag(Vec<String>),
    /// Exactly this write of the key.
    Version(String),
}

impl Match {
    fn fits(&self, blob: &Blob) -> bool {
        match self {
            Match::Any => true,
            Match::Etag(etags) => etags.contains(&blob.etag),
            Match::Version(version) => *version == blob.version(),
        }
    }
}

/// What a request expects of the blob that is there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Condition {
    /// It is one of these.
    pub if_match: Option<Match>,
    /// It is none of these.
    pub if_none_match: Option<Match>,
    /// It was written after this.
    pub if_modified_since: Option<Timestamp>,
    /// It was not written after this.
    pub if_unmodified_since: Option<Timestamp>,
}

impl Condition {
    /// There is no blob under the key.
    pub fn absent() -> Self {
        Self { if_none_match: Some(Match::Any), ..Self::default() }
    }

    /// The blob is exactly this write of its key.
    pub fn version(version: &str) -> Self {
        Self { if_match: Some(Match::Version(version.into())), ..Self::default() }
    }

    /// Whether a blob may be read.
    pub fn check_read(&self, blob: &Blob) -> Result<(), BucketError> {
        let failed = |reason| Err(BucketError::Condition { key: blob.key.to_string(), reason });
        match (&self.if_match, self.if_unmodified_since) {
            (Some(it), _) if !it.fits(blob) => return failed("it does not match"),
            // A time has whole seconds in a request.
            (None, Some(at)) if seconds(at) < seconds(blob.modified_at) => {
                return failed("it was modified since");
            }
            _ => {}
        }
        let is_same = match (&self.if_none_match, self.if_modified_since) {
            (Some(it), _) => it.fits(blob),
            (None, Some(at)) => seconds(blob.modified_at) <= seconds(at),
            (None, None) => false,
        };
        if is_same {
            let (key, etag) = (blob.key.to_string(), blob.etag.clone());
            return Err(BucketError::NotModified { key, etag });
        }
        Ok(())
    }

    /// Whether what is there may be replaced or deleted.
    pub(crate) fn check_write(
        &self,
        bucket: &BucketName,
        key: &BlobKey,
        found: Option<&Blob>,
    ) -> Result<(), BucketError> {
        let failed = |reason| Err(BucketError::Condition { key: key.to_string(), reason });
        match found {
            None if self.if_match.is_some() => {
                Err(BucketError::UnknownBlob { bucket: bucket.to_string(), key: key.to_string() })
            }
            None => Ok(()),
            Some(blob) if self.if_match.as_ref().is_some_and(|it| !it.fits(blob)) => {
                failed("it does not match")
            }
            Some(blob) if self.if_none_match.as_ref().is_some_and(|it| it.fits(blob)) => {
                failed("it is there")
            }
            Some(_) => Ok(()),
        }
    }
}

fn seconds(at: Timestamp) -> i64 {
    at.0.div_euclid(1_000)
}
