//! Receives a body in pieces, checks its length and reads its trailer.

use futures_util::StreamExt;
use http::HeaderMap;
use s3s::{S3Request, S3Result, TrailingHeaders, dto::StreamingBlob, s3_error};
use steadfast_bucket::{
    BlobWriter, BucketError, BucketName, Buckets, ExpectedContent, Hashes, PartWriter,
};

use crate::{
    checksum::DeclaredChecksums,
    errors::{body_error, s3_error_of},
    guard::{DECODED_LENGTH, digits},
};

/// The body of a request, before it is read.
pub(crate) struct Incoming {
    body: StreamingBlob,
    length: u64,
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
        Ok(Self { body, length, declared, trailers: req.trailing_headers.take() })
    }

    /// Refuses a body that is too large before it is read.
    pub(crate) async fn check_size(
        &self,
        buckets: &Buckets,
        bucket: &BucketName,
        max: u64,
    ) -> S3Result<()> {
        let found = buckets.bucket(bucket).await.map_err(s3_error_of)?;
        let max = found.max_blob_bytes.unwrap_or(max).min(max);
        if max < self.length {
            return Err(s3_error_of(BucketError::TooLarge { max }));
        }
        Ok(())
    }

    /// The hashes to compute.
    pub(crate) fn hashes(&self) -> Hashes {
        self.declared.hashes()
    }

    /// Writes the body, and returns its declared checksums.
    pub(crate) async fn write_to(mut self, sink: &mut impl Sink) -> S3Result<ExpectedContent> {
        let mut actual = 0;
        let expected = self.length;
        sink.expect(expected).await.map_err(s3_error_of)?;
        while let Some(bytes) = self.body.next().await {
            let bytes = bytes.map_err(|error| body_error(&error))?;
            actual += bytes.len() as u64;
            if expected < actual {
                return Err(s3_error_of(BucketError::Length { expected, actual }));
            }
            sink.take(&bytes).await.map_err(s3_error_of)?;
        }
        if actual != expected {
            return Err(s3_error_of(BucketError::Length { expected, actual }));
        }
        let trailers = self.trailers.and_then(|it| it.take());
        let promised = self.declared.with_trailer(trailers.as_ref())?;
        Ok(ExpectedContent { size: Some(expected), ..promised })
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

/// A writer of bytes.
pub(crate) trait Sink {
    /// Refuses a body of this size before it is read, if there is no space for it.
    fn expect(&mut self, size: u64) -> impl Future<Output = Result<(), BucketError>> + Send;

    fn take(&mut self, bytes: &[u8]) -> impl Future<Output = Result<(), BucketError>> + Send;
}

impl Sink for BlobWriter {
    fn expect(&mut self, size: u64) -> impl Future<Output = Result<(), BucketError>> + Send {
        self.expect_size(size)
    }

    async fn take(&mut self, bytes: &[u8]) -> Result<(), BucketError> {
        self.write(bytes).await
    }
}

impl Sink for PartWriter {
    fn expect(&mut self, size: u64) -> impl Future<Output = Result<(), BucketError>> + Send {
        self.expect_size(size)
    }

    async fn take(&mut self, bytes: &[u8]) -> Result<(), BucketError> {
        self.write(bytes).await
    }
}
