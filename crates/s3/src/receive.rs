//! Receives a body in pieces, checks its length and reads its trailer.

use bytes::Bytes;
use futures_util::StreamExt;
use http::HeaderMap;
use s3s::{S3Request, S3Result, TrailingHeaders, dto::StreamingBlob, s3_error};
use steadfast_bucket::{BucketError, ExpectedContent, Hashes};

use crate::{
    checksum::DeclaredChecksums,
    errors::{body_error, s3_error_of},
    guard::{DECODED_LENGTH, digits},
};

/// The body of a request, before it is read.
pub(crate) struct Incoming {
    body: StreamingBlob,
    pub(crate) length: u64,
    received: u64,
    declared: DeclaredChecksums,
    trailers: Option<TrailingHeaders>,
}

impl Incoming {
    /// The body as the headers describe it. Its length is required.
    pub(crate) fn of<T>(
        req: &mut S3Request<T>,
        body: Option<StreamingBlob>,
        length: Option<i64>,
    ) -> S3Result<Self> {
        let length = declared(&req.headers, length)?;
        let declared = DeclaredChecksums::of(&req.headers)?;
        let body = body.unwrap_or_else(|| StreamingBlob::from(s3s::Body::empty()));
        let trailers = req.trailing_headers.take();
        Ok(Self { body, length, received: 0, declared, trailers })
    }

    /// The hashes to compute.
    pub(crate) fn hashes(&self) -> Hashes {
        self.declared.hashes()
    }

    /// The next bytes; `None` at the end. Refuses a body of another length than it declares.
    pub(crate) async fn next(&mut self) -> S3Result<Option<Bytes>> {
        let bytes = self.body.next().await.transpose().map_err(|error| body_error(&error))?;
        self.received += bytes.as_ref().map_or(0, |it| it.len() as u64);
        let (expected, actual) = (self.length, self.received);
        if expected < actual || (bytes.is_none() && actual < expected) {
            return Err(s3_error_of(BucketError::Length { expected, actual }));
        }
        Ok(bytes)
    }

    /// The declared size and checksums, after the body: one may be in its trailer.
    pub(crate) fn expected(self) -> S3Result<ExpectedContent> {
        let trailers = self.trailers.and_then(|it| it.take());
        let declared = self.declared.with_trailer(trailers.as_ref())?;
        Ok(ExpectedContent { size: Some(self.length), ..declared })
    }
}

/// Length of a body without its chunk headers. Chunked bodies over TLS declare only that.
fn declared(headers: &HeaderMap, length: Option<i64>) -> S3Result<u64> {
    let decoded = || headers.get(DECODED_LENGTH).and_then(digits);
    let length = length.map(u64::try_from);
    match length {
        Some(Ok(length)) => Ok(length),
        Some(Err(_)) => Err(s3_error!(InvalidRequest, "Content-Length must be a number")),
        None => decoded().ok_or_else(|| {
            s3_error!(MissingContentLength, "say how long the body is, in Content-Length")
        }),
    }
}
