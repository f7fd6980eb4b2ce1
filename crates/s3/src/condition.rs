//! Conditions of requests.

use http::{HeaderMap, header};
use s3s::{
    S3Result,
    dto::{ETagCondition, Timestamp as S3Time},
    s3_error,
};
use steadfast_bucket::{Condition, Match};

use crate::convert::store_time;

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
pub(crate) fn read(
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
pub(crate) fn write(
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
pub(crate) fn write_by_headers(headers: &HeaderMap) -> S3Result<Condition> {
    let read = |name: header::HeaderName| match headers.get(&name) {
        None => Ok(None),
        Some(value) => ETagCondition::parse_http_header(value.as_bytes())
            .map(Some)
            .map_err(|_| s3_error!(InvalidArgument, "{name} must be a tag in quotes, or *")),
    };
    write(read(header::IF_MATCH)?, read(header::IF_NONE_MATCH)?)
}
