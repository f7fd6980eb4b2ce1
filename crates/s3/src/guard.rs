//! Refuses requests that the library would accept although they are not safe. For that it reads the
//! claims of a signature before the library verifies it.

use std::borrow::Cow;

use http::{HeaderMap, HeaderName, HeaderValue, Method, Uri, header, request::Parts};
use s3s::{S3Error, S3Result, dto::Range, s3_error};
use steadfast_bucket::BLOB_BYTES_MAX;
use steadfast_store::Timestamp;

use crate::{
    chunks::Chunks,
    presign::{PRESIGN_MAX, REGION, amz_date},
};

/// The claims of a signature, in the Authorization header or in the query.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Signature<'a> {
    /// No signature.
    Missing,
    /// Signature Version 2, or an unknown version.
    Unsupported,
    /// Both in the header and in the query.
    Duplicate,
    /// In the Authorization header.
    Header(Claims<'a>),
    /// In the query.
    Query {
        /// The claims.
        claims: Claims<'a>,
        /// Lifetime in seconds; `None` if it is not a number.
        expires: Option<u64>,
    },
}

/// Claims of a signature.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Claims<'a> {
    /// Credential: key, day, region, service.
    pub(crate) credential: Cow<'a, str>,
    /// Signed headers, separated by `;`.
    pub(crate) headers: Cow<'a, str>,
}

impl Claims<'_> {
    /// Whether the signature covers a header. The library looks for exactly these names: a name in
    /// upper case covers nothing.
    pub(crate) fn covers(&self, name: &str) -> bool {
        self.headers.split(';').any(|it| it == name)
    }

    /// The region.
    pub(crate) fn region(&self) -> Option<&str> {
        self.credential.rsplit('/').nth(2)
    }

    /// The service.
    pub(crate) fn service(&self) -> Option<&str> {
        self.credential.rsplit('/').nth(1)
    }
}

impl<'a> Signature<'a> {
    pub(crate) fn of(parts: &'a Parts) -> Self {
        match (in_header(&parts.headers), in_query(&parts.uri)) {
            (Signature::Missing, it) | (it, Signature::Missing) => it,
            (Signature::Unsupported, _) | (_, Signature::Unsupported) => Signature::Unsupported,
            _ => Signature::Duplicate,
        }
    }
}

fn in_header(headers: &HeaderMap) -> Signature<'_> {
    let Some(value) = headers.get(header::AUTHORIZATION) else { return Signature::Missing };
    let text = value.to_str().unwrap_or_default();
    let Some(rest) = text.strip_prefix("AWS4-HMAC-SHA256") else { return Signature::Unsupported };
    let mut claims = Claims::default();
    for part in rest.split(',') {
        match part.trim().split_once('=') {
            Some(("Credential", value)) => claims.credential = value.trim().into(),
            Some(("SignedHeaders", value)) => claims.headers = value.trim().into(),
            Some(_) | None => {}
        }
    }
    Signature::Header(claims)
}

fn in_query(uri: &Uri) -> Signature<'_> {
    let mut claims = Claims::default();
    let (mut is_old, mut is_signed, mut expires) = (false, false, None);
    for (name, value) in form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes()) {
        match name.as_ref() {
            "AWSAccessKeyId" | "Signature" => is_old = true,
            "X-Amz-Signature" => is_signed = true,
            "X-Amz-Credential" => claims.credential = value,
            "X-Amz-SignedHeaders" => claims.headers = value,
            "X-Amz-Expires" => expires = value.parse().ok(),
            _ => {}
        }
    }
    match (is_old, is_signed) {
        (true, _) => Signature::Unsupported,
        (false, true) => Signature::Query { claims, expires },
        (false, false) => Signature::Missing,
    }
}

/// Length of the body without its chunk headers.
pub(crate) const DECODED_LENGTH: HeaderName =
    HeaderName::from_static("x-amz-decoded-content-length");
const CONTENT_SHA256: &str = "x-amz-content-sha256";
const AMZ_DATE: HeaderName = HeaderName::from_static("x-amz-date");

/// Maximum size of an XML body in bytes: 10,000 parts with checksums, or 1,000 escaped keys of
/// 1,024 bytes.
pub(crate) const XML_BYTES_MAX: usize = 8 << 20;

/// Refuses unsafe requests. Returns the chunking of the body.
pub(crate) fn check(parts: &mut Parts) -> S3Result<Chunks> {
    match Signature::of(parts) {
        Signature::Missing => {}
        Signature::Unsupported => {
            return Err(s3_error!(
                InvalidRequest,
                "Signature Version 2 is not supported; use AWS4-HMAC-SHA256: in boto3 \
                 Config(signature_version=\"s3v4\"), for awscli `aws configure set \
                 default.s3.signature_version s3v4`, in s3cmd signature_v2 = False. A presigned \
                 URL must be made anew"
            ));
        }
        Signature::Duplicate => {
            let text = "sign either in the Authorization header or in the query, not in both";
            return Err(s3_error!(InvalidArgument, "{text}"));
        }
        Signature::Header(claims) => check_claims(parts, &claims, false)?,
        Signature::Query { claims, expires } => {
            if !expires.is_some_and(|it| (1..=PRESIGN_MAX.as_secs()).contains(&it)) {
                return Err(s3_error!(
                    AuthorizationQueryParametersError,
                    "X-Amz-Expires must be 1 to 604800 seconds (7 days)"
                ));
            }
            check_claims(parts, &claims, true)?;
        }
    }
    if is_form(parts) {
        return Err(no_forms());
    }
    check_lengths(parts)?;
    if 1 < parts.headers.get_all(CONTENT_SHA256).iter().count() {
        return Err(s3_error!(InvalidRequest, "{CONTENT_SHA256} may be sent once"));
    }
    set_amz_date(parts);
    drop_invalid_range(parts);
    Ok(chunks_of(parts))
}

/// Checks that every header that controls the request is signed. Otherwise the holder of a
/// presigned URL could add one, such as the source of a copy.
fn check_claims(parts: &Parts, claims: &Claims<'_>, in_query: bool) -> S3Result<()> {
    if claims.service() != Some("s3") {
        return Err(s3_error!(InvalidRequest, "sign for the service s3, not for another one"));
    }
    let is_region = |it: &str| {
        let fits = |it: u8| it.is_ascii_lowercase() || it.is_ascii_digit() || it == b'-';
        !it.is_empty() && it.bytes().all(fits)
    };
    if !claims.region().is_some_and(is_region) {
        // Clients read the region from the error and repeat the request.
        let region = claims.region().unwrap_or_default();
        let text = format!("the region '{region}' is wrong; expecting '{REGION}'");
        return Err(match in_query {
            true => s3_error!(AuthorizationQueryParametersError, "{text}"),
            false => s3_error!(AuthorizationHeaderMalformed, "{text}"),
        });
    }
    let must = |name: &str| {
        name == "host" || (name.starts_with("x-amz-") && !(in_query && name == CONTENT_SHA256))
    };
    let mut present = parts.headers.keys().map(HeaderName::as_str);
    match present.find(|it| must(it) && !claims.covers(it)) {
        Some(name) => Err(s3_error!(
            AccessDenied,
            "header {name} is in the request and not signed; sign it or leave it out"
        )),
        None if !claims.covers("host") => {
            Err(s3_error!(AccessDenied, "the signature must cover the header host"))
        }
        None => Ok(()),
    }
}

/// A signature may take its time from `Date`; the library reads only `X-Amz-Date`. The time is
/// signed, so it cannot be forged.
fn set_amz_date(parts: &mut Parts) {
    let is_signed = parts.headers.contains_key(header::AUTHORIZATION);
    if !is_signed || parts.headers.contains_key(AMZ_DATE) {
        return;
    }
    let Some(date) = parts.headers.get(header::DATE).and_then(|it| it.to_str().ok()) else {
        return;
    };
    // Some clients send the format of the other header.
    let time = Timestamp::from_http_date(date).and_then(amz_date);
    let time = time.unwrap_or_else(|| date.to_owned());
    if let Ok(time) = HeaderValue::from_str(&time) {
        parts.headers.insert(AMZ_DATE, time);
    }
}

/// Whether a request posts an HTML form.
pub(crate) fn is_form(parts: &Parts) -> bool {
    let mut types = parts.headers.get_all(header::CONTENT_TYPE).into_iter();
    let is_form = |it: &HeaderValue| {
        it.as_bytes().to_ascii_lowercase().trim_ascii_start().starts_with(b"multipart/form-data")
    };
    parts.method == Method::POST && types.any(is_form)
}

pub(crate) fn no_forms() -> S3Error {
    s3_error!(NotImplemented, "forms are not supported; PUT the blob, or use a presigned URL")
}

fn check_lengths(parts: &Parts) -> S3Result<()> {
    for name in [header::CONTENT_LENGTH, DECODED_LENGTH] {
        for value in parts.headers.get_all(&name) {
            let Some(len) = digits(value) else {
                return Err(s3_error!(InvalidRequest, "{name} must be a number"));
            };
            // Chunk headers add to the size of the largest blob.
            if BLOB_BYTES_MAX + BLOB_BYTES_MAX / 8 < len {
                return Err(s3_error!(EntityTooLarge, "a blob may have 5 TiB at most"));
            }
            // The library would report an error of the server.
            if is_document(parts) && (XML_BYTES_MAX as u64) < len {
                let text = "an XML body may have 8 MiB at most";
                return Err(s3_error!(MaxMessageLengthExceeded, "{text}"));
            }
        }
    }
    Ok(())
}

/// Whether the body is a document and not the content of a blob.
fn is_document(parts: &Parts) -> bool {
    let path = parts.uri.path().trim_start_matches('/');
    parts.method == Method::POST || !path.contains('/')
}

/// Parses a header of digits only.
pub(crate) fn digits(value: &HeaderValue) -> Option<u64> {
    let text = value.to_str().ok()?;
    let fits = !text.is_empty() && text.bytes().all(|it| it.is_ascii_digit());
    if fits { text.parse().ok() } else { None }
}

/// By the rules of HTTP an invalid range, or several, is ignored.
fn drop_invalid_range(parts: &mut Parts) {
    let mut found = parts.headers.get_all(header::RANGE).into_iter();
    let Some(first) = found.next() else { return };
    let is_one = found.next().is_none();
    if !is_one || first.to_str().ok().is_none_or(|it| Range::parse(it).is_err()) {
        parts.headers.remove(header::RANGE);
    }
}

fn chunks_of(parts: &Parts) -> Chunks {
    let kind = parts.headers.get(CONTENT_SHA256).map(|it| it.as_bytes());
    match kind {
        Some(b"STREAMING-UNSIGNED-PAYLOAD-TRAILER") => Chunks::Unsigned,
        Some(kind) if kind.starts_with(b"STREAMING-") => Chunks::Signed,
        Some(_) | None => Chunks::None,
    }
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    const SIGNED: &str = "AWS4-HMAC-SHA256 Credential=K/20260101/us-east-1/s3/aws4_request, \
                          SignedHeaders=host;x-amz-content-sha256;x-amz-date, Signature=0";
    const QUERY: &str = "X-Amz-Signature=0&X-Amz-SignedHeaders=host\
                         &X-Amz-Credential=K%2F20260101%2Fus-east-1%2Fs3%2Faws4_request";

    fn parts(method: &str, uri: &str, headers: &[(&'static str, &str)]) -> Parts {
        let mut request = Request::builder().method(method).uri(uri).header("host", "h");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(()).unwrap().into_parts().0
    }

    #[track_caller]
    fn refused(code: &str, method: &str, uri: &str, headers: &[(&'static str, &str)]) {
        let error = check(&mut parts(method, uri, headers)).err();
        let error = error.unwrap_or_else(|| panic!("accepted, though {code} was due"));
        assert_eq!(error.code().as_str(), code, "{error}");
        assert!(error.message().is_some());
    }

    #[test]
    fn signature_version_2_is_refused_with_advice() {
        refused("InvalidRequest", "GET", "/b", &[("authorization", "AWS key:signature")]);
        let query = "/b/k?AWSAccessKeyId=K&Signature=x&Expires=1";
        refused("InvalidRequest", "GET", query, &[]);
        let text = check(&mut parts("GET", query, &[])).unwrap_err();
        assert!(text.message().unwrap().contains("AWS4-HMAC-SHA256"));
    }

    #[test]
    fn a_presigned_url_is_valid_for_at_most_seven_days() {
        for bad in ["", "0", "604801", "-1", "x", "99999999999999999999"] {
            let uri = format!("/b/k?{QUERY}&X-Amz-Expires={bad}");
            refused("AuthorizationQueryParametersError", "GET", &uri, &[]);
        }
        refused("AuthorizationQueryParametersError", "GET", &format!("/b/k?{QUERY}"), &[]);
        let good = format!("/b/k?{QUERY}&X-Amz-Expires=604800");
        assert!(check(&mut parts("GET", &good, &[])).is_ok());
        refused("InvalidArgument", "GET", &good, &[("authorization", SIGNED)]);
    }

    #[test]
    fn a_header_that_controls_the_request_must_be_signed() {
        let uri = format!("/b/k?{QUERY}&X-Amz-Expires=60");
        for name in ["x-amz-copy-source", "x-amz-meta-a", "x-amz-acl"] {
            refused("AccessDenied", "PUT", &uri, &[(name, "x")]);
            refused("AccessDenied", "PUT", "/b/k", &[("authorization", SIGNED), (name, "x")]);
        }
        assert!(check(&mut parts("PUT", &uri, &[("x-amz-content-sha256", "x")])).is_ok());
        let date = ("x-amz-date", "20260101T000000Z");
        assert!(check(&mut parts("GET", "/b", &[("authorization", SIGNED), date])).is_ok());
        let bare = SIGNED.replace("host;", "");
        refused("AccessDenied", "GET", "/b", &[("authorization", &bare)]);
        // The library finds no header by such a name, so its value is not in the signature.
        let upper = SIGNED.replace("x-amz-date", "X-Amz-Acl;x-amz-date");
        let acl = ("x-amz-acl", "public-read");
        refused("AccessDenied", "PUT", "/b/k", &[("authorization", &upper), acl]);
        let sts = SIGNED.replace("/s3/", "/sts/");
        refused("InvalidRequest", "GET", "/b", &[("authorization", &sts)]);
    }

    #[test]
    fn forms_and_wrong_lengths_are_refused() {
        let form = ("content-type", "Multipart/Form-Data; boundary=x");
        refused("NotImplemented", "POST", "/b", &[form]);
        refused("InvalidRequest", "PUT", "/b/k", &[("x-amz-decoded-content-length", "12abc")]);
        refused("EntityTooLarge", "PUT", "/b/k", &[("content-length", "9999999999999999")]);
        // The library reads neither of two values: the body would be stored with its chunk headers.
        let kind = ("x-amz-content-sha256", "STREAMING-UNSIGNED-PAYLOAD-TRAILER");
        refused("InvalidRequest", "PUT", "/b/k", &[kind, (kind.0, "x")]);
    }

    #[test]
    fn an_invalid_range_is_ignored() {
        for (range, stays) in [
            ("bytes=0-1", true),
            ("bytes=0-1,3-4", false),
            ("bytes=x", false),
            ("lines=1-2", false),
        ] {
            let mut parts = parts("GET", "/b/k", &[("range", range)]);
            check(&mut parts).unwrap();
            assert_eq!(parts.headers.contains_key("range"), stays, "{range}");
        }
    }
}
