//! Reads and writes the bytes of a blob in pieces, never as a whole in memory.

use std::{sync::Arc, time::Duration};

use axum::{
    Json,
    body::Body,
    extract::{Path, State},
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
};
use futures_util::{Stream, StreamExt};
use serde::Deserialize;
use steadfast_api::{
    Code,
    buckets::{Blob, DeletedBlob},
};
use steadfast_bucket::{BlobKey, BucketError, BucketName, ExpectedContent, GetOptions, PutOptions};
use steadfast_web::{Params, Problem, blob_response};
use utoipa::IntoParams;

use crate::{nouns::buckets::headers, server::Server};

/// More errors of a write.
pub(crate) const ERRORS_OF_WRITES: [Code; 4] =
    [Code::TooLarge, Code::QuotaTooLarge, Code::QuotaBytes, Code::QuotaObjects];

/// Errors of every operation on the bytes of a blob.
pub(crate) const ERRORS: [Code; 5] = [
    Code::InvalidName,
    Code::InvalidKey,
    Code::BucketNotFound,
    Code::BlobNotFound,
    Code::PreconditionFailed,
];

/// Timeout for a client that sends no bytes.
const IDLE_TIMEOUT: Duration = Duration::from_mins(1);

/// The query of a blob.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct BlobView {
    /// Show the blob in the browser instead of saving it as a file. Scripts in it do not run.
    pub(crate) inline: Option<String>,
}

/// Parses the two names in a path.
pub(crate) fn names(bucket: &str, key: &str) -> Result<(BucketName, BlobKey), BucketError> {
    Ok((BucketName::new(bucket)?, BlobKey::new(key)?))
}

/// Write a blob. It and its event are durable when the response arrives; an incomplete body stores
/// nothing.
///
/// Headers that begin with `x-blob-meta-` are user metadata.
#[utoipa::path(put, path = "/v1/buckets/{bucket}/objects/{*key}", tag = "buckets",
    params(
        ("bucket" = String, Path, description = "The bucket"),
        ("key" = String, Path, description = "1 to 1,024 bytes; slashes need no escape"),
        ("Content-Type" = Option<String>, Header, description = "Media type, returned on reads"),
        ("If-Match" = Option<String>, Header, description = "Replace only the blob with this ETag"),
        ("If-None-Match" = Option<String>, Header, description = "`*`: only if no blob exists"),
    ),
    request_body(content = Vec<u8>, content_type = "application/octet-stream"),
    responses(
        (status = 200, body = Blob),
    ),
)]
pub(crate) async fn put(
    State(server): State<Arc<Server>>,
    Path((bucket, key)): Path<(String, String)>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<Blob>, Problem> {
    let (bucket, key) = names(&bucket, &key)?;
    let size = headers::length(&headers);
    let max = server.buckets()?.bucket(&bucket).await?.max_blob_bytes.unwrap_or(u64::MAX);
    if size.is_some_and(|it| max < it) {
        return Err(BucketError::TooLarge { max }.into());
    }
    let put = PutOptions {
        attributes: headers::attributes(&headers),
        expected: ExpectedContent { size, ..ExpectedContent::default() },
        condition: headers::condition(&headers),
        once: None,
    };
    Ok(Json(write(&server, (&bucket, &key), body.into_data_stream(), put).await?))
}

/// Writes the pieces of a body as they arrive.
pub(crate) async fn write<E: std::fmt::Display>(
    server: &Server,
    (bucket, key): (&BucketName, &BlobKey),
    pieces: impl Stream<Item = Result<axum::body::Bytes, E>> + Send,
    put: PutOptions,
) -> Result<Blob, Problem> {
    let mut writer = server.buckets()?.writer(bucket, key).await?;
    if let Some(size) = put.expected.size {
        writer.expect_size(size).await?;
    }
    let mut pieces = std::pin::pin!(pieces);
    loop {
        let broken = |reason: String| BucketError::Body { reason };
        let next = tokio::time::timeout(IDLE_TIMEOUT, pieces.next()).await;
        let next = next.map_err(|_| broken("no bytes arrived for a minute".into()))?;
        let Some(piece) = next else { break };
        writer.write(&piece.map_err(|error| broken(error.to_string()))?).await?;
    }
    Ok(writer.finish(put).await?)
}

/// Read a blob, or a range of its bytes. A blob that is replaced or deleted meanwhile is still read
/// to its end.
#[utoipa::path(get, path = "/v1/buckets/{bucket}/objects/{*key}", tag = "buckets",
    params(
        ("bucket" = String, Path, description = "The bucket"),
        ("key" = String, Path, description = "The key"),
        ("Range" = Option<String>, Header, description = "`bytes=0-9`, `bytes=10-` or `bytes=-10`"),
        ("If-Match" = Option<String>, Header, description = "Read only the blob with this ETag"),
        ("If-None-Match" = Option<String>, Header, description = "Read unless it has this ETag"),
        BlobView,
    ),
    responses(
        (status = 200, body = Vec<u8>, content_type = "application/octet-stream"),
        (status = 206, body = Vec<u8>, content_type = "application/octet-stream"),
        (status = 304, description = "Not changed"),
    ),
)]
pub(crate) async fn get(
    State(server): State<Arc<Server>>,
    Path((bucket, key)): Path<(String, String)>,
    Params(view): Params<BlobView>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let (bucket, key) = names(&bucket, &key)?;
    let range = headers::range(&headers);
    let options = GetOptions { range, condition: headers::condition(&headers) };
    let reading = match server.buckets()?.get(&bucket, &key, options).await {
        Ok(reading) => reading,
        Err(BucketError::NotModified { etag, .. }) => return Ok(not_modified(&etag)),
        Err(BucketError::Range { size }) => {
            let problem = Problem::from(BucketError::Range { size });
            let range = [(header::CONTENT_RANGE, format!("bytes */{size}"))];
            return Ok((range, problem).into_response());
        }
        Err(error) => return Err(error.into()),
    };
    let headers = headers::of_blob(&reading.blob, view.inline.is_some())?;
    let mut response = blob_response(reading, range.is_some());
    response.headers_mut().extend(headers);
    Ok(response)
}

fn not_modified(etag: &str) -> Response {
    (StatusCode::NOT_MODIFIED, [(header::ETAG, format!("\"{etag}\""))]).into_response()
}

/// Read the headers of a blob.
#[utoipa::path(head, path = "/v1/buckets/{bucket}/objects/{*key}", tag = "buckets",
    params(
        ("bucket" = String, Path, description = "The bucket"),
        ("key" = String, Path, description = "The key"),
        BlobView,
    ),
    responses(
        (status = 200, description = "The headers of the blob"),
        (status = 304, description = "Not changed"),
    ),
)]
pub(crate) async fn head(
    State(server): State<Arc<Server>>,
    Path((bucket, key)): Path<(String, String)>,
    Params(view): Params<BlobView>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let (bucket, key) = names(&bucket, &key)?;
    let blob = server.buckets()?.head(&bucket, &key).await?;
    match headers::condition(&headers).check_read(&blob) {
        Ok(()) => {}
        Err(BucketError::NotModified { etag, .. }) => return Ok(not_modified(&etag)),
        Err(error) => return Err(error.into()),
    }
    let mut headers = headers::of_blob(&blob, view.inline.is_some())?;
    headers.insert(header::CONTENT_LENGTH, blob.size.into());
    Ok(headers.into_response())
}

/// Delete a blob. The deletion has the next number in the sequence of its key.
#[utoipa::path(delete, path = "/v1/buckets/{bucket}/objects/{*key}", tag = "buckets",
    params(
        ("bucket" = String, Path, description = "The bucket"),
        ("key" = String, Path, description = "The key"),
        ("If-Match" = Option<String>, Header, description = "Delete only the blob with this ETag"),
    ),
    responses(
        (status = 200, body = DeletedBlob),
    ),
)]
pub(crate) async fn delete(
    State(server): State<Arc<Server>>,
    Path((bucket, key)): Path<(String, String)>,
    headers: HeaderMap,
) -> Result<Json<DeletedBlob>, Problem> {
    let (bucket, key) = names(&bucket, &key)?;
    let gone = server.buckets()?.delete(&bucket, &key, headers::condition(&headers)).await?;
    let missing = || BucketError::UnknownBlob { bucket: bucket.to_string(), key: key.to_string() };
    Ok(Json(DeletedBlob { key: key.to_string(), sequence: gone.ok_or_else(missing)? }))
}
