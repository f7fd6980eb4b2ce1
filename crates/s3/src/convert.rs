//! Conversions between values of S3 and of buckets.

use std::time::{Duration, UNIX_EPOCH};

use base64::{Engine, prelude::BASE64_STANDARD};
use s3s::{
    S3Result,
    dto::{CopySource, ETag, Timestamp as S3Time, TimestampFormat},
    s3_error,
};
use steadfast_bucket::{BlobKey, BucketName};
use steadfast_store::Timestamp;

use crate::errors::s3_error_of;

/// Parses a bucket name.
pub(crate) fn bucket(name: &str) -> S3Result<BucketName> {
    BucketName::new(name).map_err(s3_error_of)
}

/// Parses a bucket name and a key.
pub(crate) fn blob_path(name: &str, key: &str) -> S3Result<(BucketName, BlobKey)> {
    Ok((bucket(name)?, BlobKey::new(key).map_err(s3_error_of)?))
}

/// The source of a copy.
pub(crate) fn source(source: &CopySource) -> S3Result<(BucketName, BlobKey)> {
    match source {
        CopySource::Bucket { bucket, key, version_id }
            if version_id.as_deref().is_none_or(|it| it == "null") =>
        {
            blob_path(bucket, key)
        }
        CopySource::Bucket { .. } => {
            let text = "buckets keep one version of each key; leave versionId out";
            Err(s3_error!(InvalidArgument, "{text}"))
        }
        CopySource::AccessPoint { .. } | CopySource::Outpost { .. } => {
            Err(s3_error!(NotImplemented, "copy from bucket/key; access points do not exist"))
        }
    }
}

/// Converts an ETag.
pub(crate) fn etag(tag: &str) -> ETag {
    ETag::Strong(tag.into())
}

/// Converts a time for a response.
pub(crate) fn s3_time(at: Timestamp) -> S3Time {
    let millis = u64::try_from(at.0).unwrap_or_default();
    UNIX_EPOCH.checked_add(Duration::from_millis(millis)).unwrap_or(UNIX_EPOCH).into()
}

/// Converts a time of a request, which has whole seconds.
pub(crate) fn store_time(at: &S3Time) -> S3Result<Timestamp> {
    let mut text = Vec::new();
    let written = at.format(TimestampFormat::EpochSeconds, &mut text);
    let text = String::from_utf8_lossy(&text);
    let seconds = text.split('.').next().and_then(|it| it.parse::<i64>().ok());
    match (written, seconds.and_then(|it| it.checked_mul(1_000))) {
        (Ok(()), Some(millis)) => Ok(Timestamp(millis)),
        _ => Err(s3_error!(InvalidArgument, "a time in the request is out of range")),
    }
}

/// Formats a time for a header.
pub(crate) fn http_date(at: &S3Time) -> Option<String> {
    let mut text = Vec::new();
    at.format(TimestampFormat::HttpDate, &mut text).ok()?;
    String::from_utf8(text).ok()
}

/// Encodes a checksum in base64.
pub(crate) fn base64(bytes: &[u8]) -> String {
    BASE64_STANDARD.encode(bytes)
}

/// Decodes a checksum; `None` if its length is not `N`.
pub(crate) fn decode_base64<const N: usize>(text: &str) -> Option<[u8; N]> {
    BASE64_STANDARD.decode(text.trim()).ok()?.try_into().ok()
}

/// Converts a size or count.
pub(crate) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_round_trip_to_the_second() {
        let at = Timestamp(1_700_000_000_123);
        assert_eq!(store_time(&s3_time(at)).unwrap(), Timestamp(1_700_000_000_000));
        assert_eq!(http_date(&s3_time(at)).unwrap(), "Tue, 14 Nov 2023 22:13:20 GMT");
    }

    #[test]
    fn a_checksum_has_its_length() {
        assert_eq!(decode_base64::<4>("AAAAAQ=="), Some([0, 0, 0, 1]));
        assert_eq!(decode_base64::<4>("AAAA"), None);
        assert_eq!(decode_base64::<4>("not base64"), None);
        assert_eq!(base64(&[0, 0, 0, 1]), "AAAAAQ==");
    }
}
