//! Streams the bytes of a blob into a response.

use futures_util::stream;
use s3s::{Body, StdError, dto::StreamingBlob};
use steadfast_bucket::BlobReader;

/// The bytes of a blob.
pub(crate) fn body(reading: BlobReader) -> StreamingBlob {
    let pieces = stream::unfold(Some(reading), |reading| async {
        let mut reading = reading?;
        match reading.next().await {
            Ok(Some(bytes)) => Some((Ok(http_body::Frame::data(bytes)), Some(reading))),
            Ok(None) => None,
            Err(error) => {
                // The status was sent already: the response can only be aborted.
                let key = &reading.blob.key;
                tracing::warn!(%error, %key, "a blob was not read to its end");
                Some((Err(StdError::from(error)), None))
            }
        }
    });
    StreamingBlob::from(Body::http_body_unsync(http_body_util::StreamBody::new(pieces)))
}
