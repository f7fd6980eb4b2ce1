//! Headers that describe a blob.

use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use steadfast_bucket::{Attributes, Blob, ByteRange, Condition, Match};
use steadfast_store::Timestamp;
use steadfast_web::{Problem, byte_range, escaped};

/// Prefix of the headers with user metadata.
const METADATA: &str = "x-blob-meta-";

/// Headers that are stored with a blob and returned with it.
const KEPT: [HeaderName; 4] =
    [header::CACHE_CONTROL, header::CONTENT_ENCODING, header::CONTENT_LANGUAGE, header::EXPIRES];

/// Stored content may be shown, but runs no script and loads nothing from this server.
const SANDBOX: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; style-src 'unsafe-inline'; img-src 'self'; sandbox; \
     frame-ancestors 'self'",
);

fn text(headers: &HeaderMap, name: &HeaderName) -> Option<String> {
    headers.get(name)?.to_str().ok().map(str::to_owned)
}

/// The attributes in the headers of a request.
pub(crate) fn attributes(headers: &HeaderMap) -> Attributes {
    let kept = KEPT.iter().filter_map(|it| Some((it.to_string(), text(headers, it)?)));
    let metadata = headers.iter().filter_map(|(name, value)| {
        let name = name.as_str().strip_prefix(METADATA).filter(|it| !it.is_empty())?;
        Some((name.to_owned(), value.to_str().ok()?.to_owned()))
    });
    Attributes {
        content_type: text(headers, &header::CONTENT_TYPE),
        headers: kept.collect(),
        metadata: metadata.collect(),
    }
}

/// The condition of a request.
pub(crate) fn condition(headers: &HeaderMap) -> Condition {
    let tags = |name| text(headers, &name).map(|it| tags(&it));
    let time = |name| text(headers, &name).and_then(|it| time(&it));
    Condition {
        if_match: tags(header::IF_MATCH),
        if_none_match: tags(header::IF_NONE_MATCH),
        if_modified_since: time(header::IF_MODIFIED_SINCE),
        if_unmodified_since: time(header::IF_UNMODIFIED_SINCE),
    }
}

fn tags(text: &str) -> Match {
    if text.trim() == "*" {
        return Match::Any;
    }
    let bare = |it: &str| it.trim().trim_start_matches("W/").trim_matches('"').to_owned();
    Match::Etag(text.split(',').map(bare).collect())
}

/// Parses a time in HTTP format. An invalid time is ignored.
fn time(text: &str) -> Option<Timestamp> {
    Timestamp::from_http_date(text)
}

/// The requested range. A range with `If-Range` is ignored.
pub(crate) fn range(headers: &HeaderMap) -> Option<ByteRange> {
    if headers.contains_key(header::IF_RANGE) {
        return None;
    }
    byte_range(&text(headers, &header::RANGE)?)
}

/// The declared length in bytes.
pub(crate) fn length(headers: &HeaderMap) -> Option<u64> {
    text(headers, &header::CONTENT_LENGTH)?.parse().ok()
}

/// The headers of a blob: an attachment, unless it is shown inline.
pub(crate) fn of_blob(blob: &Blob, inline: bool) -> Result<HeaderMap, Problem> {
    let mut headers = HeaderMap::new();
    let mut set = |name: HeaderName, value: &str| {
        // Values that were stored through the S3 API may be invalid headers.
        if let Ok(value) = HeaderValue::from_str(value) {
            headers.insert(name, value);
        }
    };
    for name in KEPT {
        if let Some(value) = blob.attributes.headers.get(name.as_str()) {
            set(name, value);
        }
    }
    for (name, value) in &blob.attributes.metadata {
        if let Ok(name) = HeaderName::try_from(format!("{METADATA}{name}")) {
            set(name, value);
        }
    }
    let content_type = blob.attributes.content_type.as_deref();
    set(header::CONTENT_TYPE, "application/octet-stream");
    set(header::CONTENT_TYPE, content_type.unwrap_or("application/octet-stream"));
    if !inline {
        set(header::CONTENT_DISPOSITION, &disposition(blob.key.as_str()));
    }
    set(header::ETAG, &format!("\"{}\"", blob.etag));
    set(header::ACCEPT_RANGES, "bytes");
    set(HeaderName::from_static("x-blob-sequence"), &blob.sequence.to_string());
    set(HeaderName::from_static("x-blob-version"), &blob.version());
    if let Some(at) = blob.modified_at.http_date() {
        set(header::LAST_MODIFIED, &at);
    }
    headers.insert(header::CONTENT_SECURITY_POLICY, SANDBOX);
    Ok(headers)
}

/// The file name for a browser: in ASCII for all, and in full for those that support it.
fn disposition(key: &str) -> String {
    let name = key.rsplit('/').find(|it| !it.is_empty()).unwrap_or("blob");
    let fits = |it: char| it.is_ascii_alphanumeric() || matches!(it, '-' | '_' | '.');
    let plain: String = name.chars().take(64).map(|it| if fits(it) { it } else { '_' }).collect();
    format!("attachment; filename=\"{plain}\"; filename*=UTF-8''{}", escaped(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(name: HeaderName, value: &str) -> HeaderMap {
        HeaderMap::from_iter([(name, value.parse().unwrap())])
    }

    #[test]
    fn a_range_follows_http_or_is_ignored() {
        let range = |text: &str| range(&with(header::RANGE, text));
        assert_eq!(range("bytes=0-4"), Some(ByteRange::Between(0, 4)));
        assert_eq!(range("bytes=5-"), Some(ByteRange::From(5)));
        assert_eq!(range("bytes=-5"), Some(ByteRange::Last(5)));
        assert_eq!(range("bytes=0-99999999999999999999"), Some(ByteRange::Between(0, u64::MAX)));
        for none in ["bytes=4-0", "bytes=-", "bytes=a-b", "bytes=0-1,3-4", "lines=0-4", "bytes=+1-"]
        {
            assert_eq!(range(none), None, "{none}");
        }
        let mut both = with(header::RANGE, "bytes=0-4");
        both.insert(header::IF_RANGE, "\"x\"".parse().unwrap());
        assert_eq!(super::range(&both), None);
    }

    #[test]
    fn tags_are_compared_without_their_quotes() {
        let tags = |text: &str| condition(&with(header::IF_MATCH, text)).if_match;
        assert_eq!(tags(" * "), Some(Match::Any));
        assert_eq!(tags("\"a\", W/\"b\""), Some(Match::Etag(vec!["a".into(), "b".into()])));
    }

    #[test]
    fn times_are_parsed_in_http_format() {
        let since = |text: &str| condition(&with(header::IF_MODIFIED_SINCE, text));
        let read = since("Sun, 15 Nov 2026 12:00:00 GMT").if_modified_since;
        assert_eq!(read, Some(Timestamp(1_794_744_000_000)));
        assert_eq!(since("yesterday").if_modified_since, None);
    }

    #[test]
    fn a_file_has_an_ascii_name_and_its_full_name() {
        assert_eq!(
            disposition("a/ü\"\r\n.txt"),
            "attachment; filename=\"____.txt\"; filename*=UTF-8''%C3%BC%22%0D%0A.txt"
        );
        assert!(disposition("a/b/").contains("filename=\"b\""));
        assert!(disposition("///").contains("filename=\"blob\""));
    }
}
