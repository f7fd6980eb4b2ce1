//! Blobs in responses: entity tags, ranges, and headers that keep a browser from running them.

use axum::{
    body::{Body, Bytes},
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use futures_util::stream::{Stream, try_unfold};
use steadfast_core::{
    BucketError, BucketHandle,
    bucket::{BlobReader, ByteRange, GetOptions},
};

/// One version of a file that a stranger may have made: a browser may show it, and do nothing else
/// with it.
#[derive(Clone, Copy, Debug)]
pub struct BlobFile<'a> {
    /// Names this version, without quotes.
    pub etag: &'a str,
    /// Whether its URL always has the same bytes, so that a browser need not ask again.
    pub is_immutable: bool,
}

impl BlobFile<'_> {
    /// The response to a client that has this version already.
    pub fn not_modified(&self, headers: &HeaderMap) -> Option<Response> {
        let tags = headers.get(header::IF_NONE_MATCH)?.to_str().ok()?;
        is_one_of(tags, self.etag).then(|| {
            let mut response = (StatusCode::NOT_MODIFIED, Body::empty()).into_response();
            self.add_headers(&mut response);
            response
        })
    }

    /// A response with these bytes.
    pub fn response(&self, content_type: &str, body: impl Into<Body>) -> Response {
        let mut response = body.into().into_response();
        let kind = content_type.parse().ok();
        response.headers_mut().extend(kind.map(|it| (header::CONTENT_TYPE, it)));
        self.add_headers(&mut response);
        response
    }

    /// Streams a blob, or the range of it that the client asks for.
    pub async fn stream(
        &self,
        bucket: &BucketHandle,
        key: &str,
        content_type: &str,
        headers: &HeaderMap,
    ) -> Result<Response, BucketError> {
        let range = headers.get(header::RANGE).and_then(|it| it.to_str().ok()).and_then(byte_range);
        let reading = match bucket.read(key, GetOptions { range, ..GetOptions::default() }).await {
            Ok(reading) => reading,
            Err(BucketError::Range { size }) => {
                let all = [(header::CONTENT_RANGE, format!("bytes */{size}"))];
                return Ok((StatusCode::RANGE_NOT_SATISFIABLE, all).into_response());
            }
            Err(error) => return Err(error),
        };
        let mut response = blob_response(reading, range.is_some());
        let kind = content_type.parse().ok();
        response.headers_mut().extend(kind.map(|it| (header::CONTENT_TYPE, it)));
        self.add_headers(&mut response);
        Ok(response)
    }

    fn add_headers(&self, response: &mut Response) {
        let cache = match self.is_immutable {
            true => "private, max-age=31536000, immutable",
            false => "private, no-cache",
        };
        let headers = response.headers_mut();
        headers.extend(format!("\"{}\"", self.etag).parse().ok().map(|it| (header::ETAG, it)));
        for (name, value) in [
            (header::CACHE_CONTROL, cache),
            (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
            (header::CONTENT_SECURITY_POLICY, "default-src 'none'; sandbox"),
        ] {
            headers.insert(name, HeaderValue::from_static(value));
        }
    }
}

/// Whether a list of tags has this one, in any spelling.
fn is_one_of(tags: &str, etag: &str) -> bool {
    let is_it = |it: &str| it.trim_start_matches("W/").trim_matches('"') == etag;
    tags.split(',').map(str::trim).any(|it| it == "*" || is_it(it))
}

/// The range that the header `Range` asks for. Unknown units and several ranges are ignored: then
/// the whole is sent.
pub fn byte_range(text: &str) -> Option<ByteRange> {
    let (first, last) = text.strip_prefix("bytes=")?.split_once('-')?;
    let number = |it: &str| {
        let digits = !it.is_empty() && it.bytes().all(|it| it.is_ascii_digit());
        digits.then(|| it.parse().unwrap_or(u64::MAX))
    };
    match (first.is_empty(), last.is_empty()) {
        (true, _) => number(last).map(ByteRange::Last),
        (false, true) => number(first).map(ByteRange::From),
        (false, false) => {
            let (first, last) = (number(first)?, number(last)?);
            (first <= last).then_some(ByteRange::Between(first, last))
        }
    }
}

/// Streams the bytes of a blob, or the part of it that a range has asked for.
pub fn blob_response(reading: BlobReader, is_part: bool) -> Response {
    let (at, size) = (reading.range.clone(), reading.blob.size);
    let mut response = Body::from_stream(pieces(reading)).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_LENGTH, (at.end - at.start).into());
    headers.insert(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    if is_part {
        let part = format!("bytes {}-{}/{size}", at.start, at.end.saturating_sub(1));
        headers.extend(part.parse().ok().map(|it| (header::CONTENT_RANGE, it)));
        *response.status_mut() = StatusCode::PARTIAL_CONTENT;
    }
    response
}

fn pieces(reading: BlobReader) -> impl Stream<Item = Result<Bytes, BucketError>> {
    try_unfold(reading, async |mut reading| {
        let next = reading.next().await.inspect_err(|error| {
            let key = reading.blob.key.as_str();
            tracing::error!(key, error = %error, "response of a blob is incomplete");
        })?;
        Ok(next.map(|it| (it, reading)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_is_known_in_every_spelling() {
        for tags in ["\"a\"", "W/\"a\"", "\"b\", \"a\"", "*"] {
            assert!(is_one_of(tags, "a"), "{tags}");
        }
        assert!(!is_one_of("\"ab\", W/\"b\"", "a"));
    }

    #[test]
    fn a_client_that_has_the_version_gets_no_bytes() {
        let file = BlobFile { etag: "7", is_immutable: true };
        let mut headers = HeaderMap::new();
        assert!(file.not_modified(&headers).is_none());
        headers.insert(header::IF_NONE_MATCH, HeaderValue::from_static("\"7\""));
        let response = file.not_modified(&headers).unwrap();
        assert_eq!(response.status(), StatusCode::NOT_MODIFIED);
        assert_eq!(response.headers()[header::ETAG], "\"7\"");
        assert!(!response.headers().contains_key(header::CONTENT_TYPE));
    }

    #[test]
    fn ranges_are_read_as_http_writes_them() {
        assert_eq!(byte_range("bytes=0-9"), Some(ByteRange::Between(0, 9)));
        assert_eq!(byte_range("bytes=5-"), Some(ByteRange::From(5)));
        assert_eq!(byte_range("bytes=-5"), Some(ByteRange::Last(5)));
        for bad in ["bytes=9-0", "bytes=a-b", "lines=0-1", "bytes=0-1,3-4", "bytes=-"] {
            assert_eq!(byte_range(bad), None, "{bad}");
        }
    }
}
