//! Conditions of a request on the current blob.

use steadfast_store::Timestamp;

use crate::{Blob, BlobKey, BucketError, BucketName};

/// Matches a blob.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Match {
    /// Any blob.
    Any,
    /// A blob with one of these ETags, without quotes.
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

/// Conditions of a request on the current blob, as in HTTP.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Condition {
    /// The blob must match.
    pub if_match: Option<Match>,
    /// The blob must not match.
    pub if_none_match: Option<Match>,
    /// The blob was written after this time.
    pub if_modified_since: Option<Timestamp>,
    /// The blob was not written after this time.
    pub if_unmodified_since: Option<Timestamp>,
}

impl Condition {
    /// No blob exists under the key.
    pub fn absent() -> Self {
        Self { if_none_match: Some(Match::Any), ..Self::default() }
    }

    /// The current blob is exactly this write of the key.
    pub fn version(version: &str) -> Self {
        Self { if_match: Some(Match::Version(version.into())), ..Self::default() }
    }

    /// Checks the condition of a read.
    pub fn check_read(&self, blob: &Blob) -> Result<(), BucketError> {
        let failed = |reason| Err(BucketError::Condition { key: blob.key.to_string(), reason });
        match (&self.if_match, self.if_unmodified_since) {
            (Some(it), _) if !it.fits(blob) => return failed("its ETag or version differs"),
            // Times in HTTP headers have whole seconds.
            (None, Some(at)) if seconds(at) < seconds(blob.modified_at) => {
                return failed("it was modified after that time");
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

    /// Checks the condition of a write or delete.
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
                failed("its ETag or version differs")
            }
            Some(blob) if self.if_none_match.as_ref().is_some_and(|it| it.fits(blob)) => {
                failed("it exists")
            }
            Some(_) => Ok(()),
        }
    }
}

fn seconds(at: Timestamp) -> i64 {
    at.0.div_euclid(1_000)
}
