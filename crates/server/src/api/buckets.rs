//! Buckets: made, set and deleted; what is in them; which changes are told, and to whom.

pub(crate) mod blobs;
pub(crate) mod events;
mod headers;
pub(crate) mod lifecycle;
pub(crate) mod list;
pub(crate) mod presign;
pub(crate) mod rules;

use std::sync::Arc;

use axum::{
    Json,
    body::Bytes,
    extract::{Path, State},
    http::StatusCode,
};
use steadfast_bucket::{BucketError, BucketName};

use super::{
    body::body_or,
    page::{CURSOR, Cursor, Page, PageParams, Params, bad_cursor},
    problem::{Problem, ProblemBody},
    wire::{BucketBody, BucketEntry, Deleted, List},
};
use crate::node::Node;

/// Lists the buckets by name.
#[utoipa::path(get, path = "/v1/buckets", tag = "buckets",
    params(PageParams),
    responses(
        (status = 200, body = List<BucketEntry>),
        (status = 400, body = ProblemBody, content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn list(
    State(node): State<Arc<Node>>,
    Params(params): Params<PageParams>,
) -> Result<Json<List<BucketEntry>>, Problem> {
    Ok(Json(read_buckets(&node, &params.page()?).await?))
}

/// Reads a part of the list of buckets.
pub(crate) async fn read_buckets(node: &Node, page: &Page) -> Result<List<BucketEntry>, Problem> {
    let after = page.after_name()?.map(BucketName::new).transpose();
    let after = after.map_err(|_| bad_cursor(CURSOR))?;
    let mut found = node.buckets()?.buckets(after.as_ref(), page.limit + 1).await?;
    let more = page.limit < found.len();
    found.truncate(page.limit);
    let last = found.last().filter(|_| more).map(|it| it.name.to_string());
    let next = last.map(|it| Cursor::Name(it).encode());
    Ok(List { items: found.into_iter().map(BucketEntry::of).collect(), next })
}

/// Shows a bucket with its rules.
#[utoipa::path(get, path = "/v1/buckets/{b}", tag = "buckets",
    params(("b" = String, Path, description = "The bucket")),
    responses(
        (status = 200, body = BucketEntry),
        (status = 400, body = ProblemBody, content_type = "application/problem+json"),
        (status = 404, body = ProblemBody, content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn show(
    State(node): State<Arc<Node>>,
    Path(bucket): Path<String>,
) -> Result<Json<BucketEntry>, Problem> {
    Ok(Json(read_bucket(&node, &BucketName::new(&bucket)?).await?))
}

/// Reads one bucket.
pub(crate) async fn read_bucket(node: &Node, bucket: &BucketName) -> Result<BucketEntry, Problem> {
    Ok(BucketEntry::of(node.buckets()?.bucket(bucket).await?))
}

/// Makes a bucket, or sets it otherwise. What is left out stays as it is.
#[utoipa::path(put, path = "/v1/buckets/{b}", tag = "buckets",
    params(("b" = String, Path, description =
        "3 to 63 lowercase letters, digits, `-` or `.`, with a letter or digit at both ends")),
    request_body = Option<BucketBody>,
    responses(
        (status = 200, body = BucketEntry, description = "It was there; it is set, durably"),
        (status = 201, body = BucketEntry, description = "It is made, durably"),
        (status = 400, body = ProblemBody, content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn put(
    State(node): State<Arc<Node>>,
    Path(bucket): Path<String>,
    body: Bytes,
) -> Result<(StatusCode, Json<BucketEntry>), Problem> {
    let bucket = BucketName::new(&bucket)?;
    let BucketBody { max_blob_bytes } = body_or(&body, "{\"maxBlobBytes\"?}")?;
    let settings = steadfast_bucket::BucketSettings {
        max_blob_bytes: max_blob_bytes.flatten(),
        ..Default::default()
    };
    // What cannot be set must not leave a bucket behind.
    settings.check()?;
    let status = match node.buckets()?.create(&bucket).await {
        Ok(_) => StatusCode::CREATED,
        Err(BucketError::BucketExists { .. }) => StatusCode::OK,
        Err(error) => return Err(error.into()),
    };
    if let Some(max) = max_blob_bytes {
        node.buckets()?
            .configure(&bucket, |it| {
                it.max_blob_bytes = max;
                Ok(())
            })
            .await?;
    }
    Ok((status, Json(read_bucket(&node, &bucket).await?)))
}

/// Deletes an empty bucket with its rules. Uploads in parts that are under way are aborted.
#[utoipa::path(delete, path = "/v1/buckets/{b}", tag = "buckets",
    params(("b" = String, Path, description = "The bucket")),
    responses(
        (status = 200, body = Deleted),
        (status = 400, body = ProblemBody, content_type = "application/problem+json"),
        (status = 404, body = ProblemBody, content_type = "application/problem+json"),
        (status = 409, body = ProblemBody, content_type = "application/problem+json",
            description = "`bucket_not_empty`"),
    ),
)]
pub(crate) async fn delete(
    State(node): State<Arc<Node>>,
    Path(bucket): Path<String>,
) -> Result<Json<Deleted>, Problem> {
    node.buckets()?.delete_bucket(&BucketName::new(&bucket)?).await?;
    Ok(Json(Deleted { deleted: true }))
}
