//! Attributes of a blob in headers: type, standard headers, user metadata.

use std::collections::BTreeMap;

use http::{HeaderMap, HeaderName, HeaderValue, header};
use steadfast_bucket::Attributes;

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
pub(crate) fn of_request(headers: &HeaderMap) -> Attributes {
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
pub(crate) fn to_response(
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
        let kept = of_request(&sent);
        assert_eq!(kept.headers["content-encoding"], "gzip");
        assert_eq!(kept.metadata.len(), 1);
        let back = to_response(&kept, &[(header::CONTENT_TYPE, Some("text/y".into()))]);
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
