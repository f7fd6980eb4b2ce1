//! Conversions between values of S3 and of buckets: times and tags, conditions of requests, and the
//! attributes of a blob in headers.

use std::{
    collections::BTreeMap,
    time::{Duration, UNIX_EPOCH},
};

use http::{HeaderMap, HeaderName, HeaderValue, header};
use s3s::{
    S3Result,
    dto::{CopySource, ETag, ETagCondition, Timestamp as S3Time, TimestampFormat},
    s3_error,
};
use steadfast_bucket::{Attributes, BlobKey, BucketName, Condition, Match};
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
fn store_time(at: &S3Time) -> S3Result<Timestamp> {
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

/// Converts a size or count.
pub(crate) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// The match of If-Match: a weak tag never matches.
fn strong(condition: ETagCondition) -> Match {
    match condition {
        ETagCondition::Any => Match::Any,
        ETagCondition::ETag(tag) => Match::Etag(tag.into_strong().into_iter().collect()),
    }
}

/// The match of If-None-Match: weak tags match.
fn weak(condition: ETagCondition) -> Match {
    match condition {
        ETagCondition::Any => Match::Any,
        ETagCondition::ETag(tag) => Match::Etag(vec![tag.into_value()]),
    }
}

/// The conditions of a read, or of the source of a copy.
pub(crate) fn read_condition(
    if_match: Option<ETagCondition>,
    if_none_match: Option<ETagCondition>,
    if_modified_since: Option<&S3Time>,
    if_unmodified_since: Option<&S3Time>,
) -> S3Result<Condition> {
    Ok(Condition {
        if_match: if_match.map(strong),
        if_none_match: if_none_match.map(weak),
        if_modified_since: if_modified_since.map(store_time).transpose()?,
        if_unmodified_since: if_unmodified_since.map(store_time).transpose()?,
    })
}

/// The conditions of a write.
pub(crate) fn write_condition(
    if_match: Option<ETagCondition>,
    if_none_match: Option<ETagCondition>,
) -> S3Result<Condition> {
    if matches!(if_none_match, Some(ETagCondition::ETag(_))) {
        return Err(s3_error!(NotImplemented, "If-None-Match can only be * when writing"));
    }
    let (if_match, if_none_match) = (if_match.map(strong), if_none_match.map(weak));
    Ok(Condition { if_match, if_none_match, ..Condition::default() })
}

/// The conditions of a write whose input has them only as headers.
pub(crate) fn write_condition_by_headers(headers: &HeaderMap) -> S3Result<Condition> {
    let read = |name: header::HeaderName| match headers.get(&name) {
        None => Ok(None),
        Some(value) => ETagCondition::parse_http_header(value.as_bytes())
            .map(Some)
            .map_err(|_| s3_error!(InvalidArgument, "{name} must be a tag in quotes, or *")),
    };
    write_condition(read(header::IF_MATCH)?, read(header::IF_NONE_MATCH)?)
}

const METADATA: &str = "x-amz-meta-";

/// The type that S3 gives a blob without one.
const TYPE: &str = "binary/octet-stream";

/// Headers that are stored with a blob and returned with it.
const STORED_HEADERS: &[HeaderName] = &[
    header::CACHE_CONTROL,
    header::CONTENT_DISPOSITION,
    header::CONTENT_ENCODING,
    header::CONTENT_LANGUAGE,
    header::EXPIRES,
];

/// The attributes in the headers of a request.
pub(crate) fn request_attributes(headers: &HeaderMap) -> Attributes {
    let value = |name: &HeaderName| headers.get(name).map(text);
    let mut kept = BTreeMap::new();
    for name in STORED_HEADERS {
        let value = value(name).and_then(|it| match *name {
            header::CONTENT_ENCODING => without_chunks(&it),
            _ => Some(it),
        });
        kept.extend(value.map(|it| (name.as_str().to_owned(), it)));
    }
    let mut metadata: BTreeMap<String, String> = BTreeMap::new();
    for (name, value) in headers {
        let Some(name) = name.as_str().strip_prefix(METADATA) else { continue };
        let value = text(value);
        // HTTP joins repeated headers with commas.
        metadata
            .entry(name.to_owned())
            .and_modify(|it| {
                it.push(',');
                it.push_str(&value);
            })
            .or_insert(value);
    }
    Attributes { content_type: value(&header::CONTENT_TYPE), headers: kept, metadata }
}

/// The encoding without `aws-chunked`, which is only for the transfer.
fn without_chunks(text: &str) -> Option<String> {
    let is_chunked = |it: &&str| it.trim().eq_ignore_ascii_case("aws-chunked");
    let rest: Vec<&str> = text.split(',').filter(|it| !is_chunked(it)).collect();
    let rest = rest.join(",").trim().to_owned();
    (!rest.is_empty()).then_some(rest)
}

/// A header as UTF-8, or else as Latin-1.
fn text(value: &HeaderValue) -> String {
    match std::str::from_utf8(value.as_bytes()) {
        Ok(text) => text.to_owned(),
        Err(_) => value.as_bytes().iter().map(|it| char::from(*it)).collect(),
    }
}

/// Response headers of a blob. Overrides of the request replace stored ones.
pub(crate) fn response_headers(
    attributes: &Attributes,
    overrides: &[(HeaderName, Option<String>)],
) -> HeaderMap {
    let mut headers = HeaderMap::new();
    let mut put = |name: HeaderName, value: &str| {
        // Values stored through another API may not be valid headers.
        if let Ok(value) = HeaderValue::from_bytes(value.as_bytes()) {
            headers.insert(name, value);
        }
    };
    put(header::CONTENT_TYPE, attributes.content_type.as_deref().unwrap_or(TYPE));
    for name in STORED_HEADERS {
        if let Some(value) = attributes.headers.get(name.as_str()) {
            put(name.clone(), value);
        }
    }
    for (name, value) in &attributes.metadata {
        if let Ok(name) = HeaderName::from_bytes(format!("{METADATA}{name}").as_bytes()) {
            put(name, value);
        }
    }
    for (name, value) in overrides {
        if let Some(value) = value {
            put(name.clone(), value);
        }
    }
    headers
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
    fn attributes_round_trip_through_headers() {
        let sent: HeaderMap = [
            ("content-type", "text/x"),
            ("content-encoding", "aws-chunked,gzip"),
            ("cache-control", "max-age=1"),
            ("x-amz-meta-colour", "blue"),
            ("x-amz-acl", "private"),
            ("host", "h"),
        ]
        .into_iter()
        .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
        .collect();
        let kept = request_attributes(&sent);
        assert_eq!(kept.headers["content-encoding"], "gzip");
        assert_eq!(kept.metadata.len(), 1);
        let back = response_headers(&kept, &[(header::CONTENT_TYPE, Some("text/y".into()))]);
        assert_eq!(back["content-type"], "text/y");
        assert_eq!(back["cache-control"], "max-age=1");
        assert_eq!(back["x-amz-meta-colour"], "blue");
        assert_eq!(back.len(), 4);
    }

    #[test]
    fn aws_chunked_alone_is_no_encoding() {
        assert_eq!(without_chunks("aws-chunked"), None);
        for (sent, kept) in [
            ("gzip, AWS-Chunked, br", "gzip, br"),
            ("aws-chunked, gzip", "gzip"),
            ("gzip,aws-chunked", "gzip"),
            ("deflate,  gzip", "deflate,  gzip"),
        ] {
            assert_eq!(without_chunks(sent).as_deref(), Some(kept));
        }
    }
}
