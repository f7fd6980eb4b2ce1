//! Errors of S3: the code that clients know, its status, and a text with the next step.

use std::borrow::Cow;

use bytes::Bytes;
use futures_util::StreamExt;
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use s3s::{
    Body, S3Error, S3ErrorCode, StdError,
    dto::{ETag, StreamingBlob},
};
use steadfast_bucket::{BucketError, PartError, QuotaError};
use steadfast_store::{SealError, StoreError};

use crate::presign::REGION;

/// The S3 error for an error of the buckets.
pub(crate) fn s3_error_of(error: BucketError) -> S3Error {
    let (code, status) = code_of(&error);
    // The text of a seal error names files of the server, and the caller is not known yet.
    let text = if let BucketError::Seal(seal) = &error {
        format!(
            "the server cannot read the secret of this access key ({}); its operator finds the \
             cause with `steadfast doctor`",
            seal.kind().tag()
        )
    } else {
        error.to_string()
    };
    let mut answer = S3Error::with_message(code, text);
    if let Some(status) = status {
        answer.set_status_code(status);
    }
    let more = if let BucketError::NotModified { etag, .. } = &error {
        ETag::Strong(etag.clone()).to_http_header().ok().map(|it| (header::ETAG, it))
    } else if let BucketError::Range { size } = &error {
        let value = HeaderValue::from_str(&format!("bytes */{size}"));
        value.ok().map(|it| (header::CONTENT_RANGE, it))
    } else {
        None
    };
    if let Some(more) = more {
        let xml = HeaderValue::from_static("application/xml");
        answer.set_headers(HeaderMap::from_iter([(header::CONTENT_TYPE, xml), more]));
    }
    if answer.status_code().is_some_and(|it| it.is_server_error()) {
        tracing::warn!(error = %error, "an S3 request failed");
    }
    answer
}

fn code_of(error: &BucketError) -> (S3ErrorCode, Option<StatusCode>) {
    use S3ErrorCode as Code;
    let code = match error {
        BucketError::Name { .. } => Code::InvalidBucketName,
        BucketError::Key { len: 0 } => Code::InvalidArgument,
        BucketError::Key { .. } => Code::KeyTooLongError,
        BucketError::UnknownBucket { .. } => Code::NoSuchBucket,
        BucketError::BucketExists { .. } => Code::BucketAlreadyOwnedByYou,
        BucketError::NotEmpty { .. } => Code::BucketNotEmpty,
        BucketError::UnknownBlob { .. } => Code::NoSuchKey,
        BucketError::UnknownUpload { .. } => Code::NoSuchUpload,
        BucketError::Condition { .. } => Code::PreconditionFailed,
        BucketError::NotModified { .. } => Code::NotModified,
        BucketError::Range { .. } => Code::InvalidRange,
        BucketError::Length { .. } | BucketError::Body { .. } => Code::IncompleteBody,
        BucketError::Checksum { .. } => Code::BadDigest,
        BucketError::TooLarge { .. } | BucketError::Quota(QuotaError::TooLarge { .. }) => {
            Code::EntityTooLarge
        }
        BucketError::Metadata { .. } => Code::MetadataTooLarge,
        BucketError::Part { reason, .. } => match reason {
            PartError::Unknown => Code::InvalidPart,
            PartError::Order => Code::InvalidPartOrder,
            PartError::Small => Code::EntityTooSmall,
            PartError::Number => Code::InvalidArgument,
            PartError::None => Code::MalformedXML,
        },
        BucketError::UnknownRule { .. }
        | BucketError::Argument { .. }
        | BucketError::Overlap { .. }
        | BucketError::Replaced { .. }
        | BucketError::Repeated { .. }
        | BucketError::KeyReused { .. }
        | BucketError::Store(StoreError::Invalid(_)) => Code::InvalidArgument,
        // botocore retries 429, 500, 502, 503, 504 and 509, and codes such as SlowDown. It does not
        // retry 507: waiting frees no space.
        BucketError::Quota(
            QuotaError::Bytes { .. } | QuotaError::Objects { .. } | QuotaError::Spend { .. },
        ) => Code::Custom("QuotaExceeded".into()),
        BucketError::DiskFull | BucketError::Store(StoreError::DiskFull) => {
            Code::Custom("InsufficientStorage".into())
        }
        BucketError::Store(StoreError::Busy { .. }) => Code::SlowDown,
        BucketError::Store(StoreError::Unavailable { .. } | StoreError::Closed) => {
            Code::ServiceUnavailable
        }
        BucketError::Seal(SealError::KeyMissing { .. } | SealError::Failed { .. }) => {
            Code::ServiceUnavailable
        }
        BucketError::Files { .. }
        | BucketError::Damaged { .. }
        | BucketError::Missing { .. }
        | BucketError::Store(_)
        | BucketError::Seal(SealError::Changed { .. }) => Code::InternalError,
    };
    // S3 has statuses for its own codes, and none for a quota.
    let ours = StatusCode::from_u16(error.kind().status()).ok();
    let of_s3 = code.status_code().filter(|_| !matches!(error, BucketError::Quota(_)));
    let status = of_s3.or(ours);
    (code, status)
}

/// An error with a code and a status that the library may not know.
pub(crate) fn coded(
    code: &'static str,
    status: StatusCode,
    text: impl Into<Cow<'static, str>>,
) -> S3Error {
    let known = S3ErrorCode::from_bytes(code.as_bytes());
    let code = known.unwrap_or_else(|| S3ErrorCode::Custom(code.into()));
    let mut error = S3Error::with_message(code, text);
    error.set_status_code(status);
    error
}

/// The error of an incomplete or wrong body. The types of the library are private, so their text
/// distinguishes them.
pub(crate) fn body_error(error: &StdError) -> S3Error {
    let text = error.to_string();
    if text.contains("Sha256Mismatch") {
        let text = "the body differs from x-amz-content-sha256; nothing was stored, send it again";
        return coded("XAmzContentSHA256Mismatch", StatusCode::BAD_REQUEST, text);
    }
    if text.contains("SignatureMismatch") {
        let text = "the signature of a chunk of the body is wrong; nothing was stored";
        return S3Error::with_message(S3ErrorCode::SignatureDoesNotMatch, text);
    }
    if text.contains(crate::chunks::TOO_LARGE) {
        let text = "a signed chunk may have 16 MiB at most; send smaller ones";
        return S3Error::with_message(S3ErrorCode::EntityTooLarge, text);
    }
    let text =
        "the body is incomplete, or its chunks are malformed; nothing was stored, send it again";
    S3Error::with_message(S3ErrorCode::IncompleteBody, text)
}

/// An error as a response.
pub(crate) fn response(error: S3Error) -> Response<Body> {
    error.to_http_response().unwrap_or_else(|_| {
        let mut answer = Response::new(Body::empty());
        *answer.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
        answer
    })
}

/// The code of an error, in the extensions of its response.
#[derive(Clone)]
pub(crate) struct ErrorCode(pub(crate) String);

/// Adds a text and the request id to errors of the library.
pub(crate) async fn explained(answer: Response<Body>, id: &str) -> Response<Body> {
    const BYTES_MAX: usize = 64 << 10;
    let status = answer.status();
    if !(status.is_client_error() || status.is_server_error()) {
        return answer;
    }
    let (mut parts, body) = answer.into_parts();
    let mut body = StreamingBlob::from(body);
    let mut xml = Vec::new();
    while let Some(Ok(bytes)) = body.next().await {
        xml.extend_from_slice(&bytes);
        if BYTES_MAX < xml.len() {
            break;
        }
    }
    let mut xml = String::from_utf8(xml).unwrap_or_default();
    // The library's text for a request without an operation does not help.
    xml = xml.replace("<Message>Unknown operation</Message>", "");
    let code = between(&xml, "<Code>", "</Code>").unwrap_or_default().to_owned();
    let is_region =
        ["AuthorizationHeaderMalformed", "AuthorizationQueryParametersError"].contains(&&*code);
    if let Some(end) = xml.rfind("</Error>") {
        let message = match xml.contains("<Message>") {
            true => String::new(),
            false => format!("<Message>{}</Message>", text_of(&code)),
        };
        let region = if is_region { format!("<Region>{REGION}</Region>") } else { String::new() };
        xml.insert_str(end, &format!("{message}{region}<RequestId>{id}</RequestId>"));
    }
    if is_region {
        // The response to HEAD has no body, so a header has the region.
        let region = HeaderValue::from_static(REGION);
        parts.headers.insert("x-amz-bucket-region", region);
    }
    parts.headers.remove(header::CONTENT_LENGTH);
    if !code.is_empty() {
        parts.extensions.insert(ErrorCode(code));
    }
    Response::from_parts(parts, Body::from(Bytes::from(xml)))
}

fn between<'a>(text: &'a str, begin: &str, end: &str) -> Option<&'a str> {
    let rest = &text[text.find(begin)? + begin.len()..];
    Some(&rest[..rest.find(end)?])
}

/// Text for an error of the library that has none.
fn text_of(code: &str) -> &'static str {
    match code {
        "SignatureDoesNotMatch" => {
            "the signature is not that of this request and key; check the secret access key, and \
             that nothing between changes the request"
        }
        "RequestTimeTooSkewed" => "the clocks of client and server differ by more than 15 minutes",
        "KeyTooLongError" => "a key may have 1,024 bytes at most",
        "InvalidBucketName" => {
            "the name of a bucket has 3 to 63 lowercase letters, digits, `-` or `.`, with a \
             letter or digit at both ends"
        }
        "InvalidURI" => "the path of the request is not UTF-8",
        "NotImplemented" => {
            "no operation of S3 has the method, path and query of the request; the first segment \
             of the path is the bucket"
        }
        "MethodNotAllowed" => "a blob does not take the method of the request; PUT writes it",
        "MalformedXML" => "the body is not the XML that this request needs",
        "MissingContentLength" => "say how long the body is, in Content-Length",
        "MaxMessageLengthExceeded" => "the body is too long; split the request",
        "AccessDenied" => "this access key may not do that",
        "InternalError" => "something failed; the log of the server says what",
        _ => "the request is not right; see the code",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_have_the_codes_that_clients_know() {
        let bucket = || "b".to_owned();
        for (error, code, status) in [
            (BucketError::UnknownBucket { bucket: bucket() }, "NoSuchBucket", 404),
            (BucketError::NotEmpty { bucket: bucket() }, "BucketNotEmpty", 409),
            (BucketError::BucketExists { bucket: bucket() }, "BucketAlreadyOwnedByYou", 409),
            (BucketError::Key { len: 2_000 }, "KeyTooLongError", 400),
            (BucketError::Range { size: 3 }, "InvalidRange", 416),
            (BucketError::DiskFull, "InsufficientStorage", 507),
            (
                QuotaError::Bytes { organization: bucket(), used: 9, added: 2, limit: 10 }.into(),
                "QuotaExceeded",
                507,
            ),
            (
                QuotaError::TooLarge { organization: bucket(), size: 11, limit: 10 }.into(),
                "EntityTooLarge",
                413,
            ),
            (BucketError::Store(StoreError::Busy { waiting: 9 }), "SlowDown", 503),
            (BucketError::Length { expected: 1, actual: 2 }, "IncompleteBody", 400),
            (BucketError::Checksum { algorithm: "MD5" }, "BadDigest", 400),
            (BucketError::NotModified { key: bucket(), etag: "x".into() }, "NotModified", 304),
            (BucketError::TooLarge { max: 1 }, "EntityTooLarge", 400),
        ] {
            let answer = s3_error_of(error);
            assert_eq!(answer.code().as_str(), code);
            assert!(answer.message().is_some_and(|it| !it.is_empty()));
            assert_eq!(response(answer).status().as_u16(), status, "{code}");
        }
    }

    #[tokio::test]
    async fn an_error_without_text_gets_one_and_the_id_of_its_request() {
        let answer = response(S3Error::new(S3ErrorCode::SignatureDoesNotMatch));
        let mut body = StreamingBlob::from(explained(answer, "R-1").await.into_body());
        let xml = body.next().await.unwrap().unwrap();
        let xml = String::from_utf8_lossy(&xml);
        assert!(xml.contains("<Message>the signature is not"), "{xml}");
        assert!(xml.ends_with("<RequestId>R-1</RequestId></Error>"), "{xml}");
    }
}
