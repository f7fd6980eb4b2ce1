//! What is deleted from a bucket when it is old.

use std::sync::Arc;

use axum::{
    Json,
    body::Bytes,
    extract::{Path, State},
};
use steadfast_bucket::{BucketError, BucketName, LifecycleRule};

use crate::{
    api::{
        body::body_of,
        problem::{Problem, ProblemBody},
        wire::{Deleted, LifecycleBody, LifecycleEntry, List},
    },
    node::Node,
};

/// Lists the lifecycle rules of a bucket by id; there are 100 at most.
#[utoipa::path(get, path = "/v1/buckets/{b}/lifecycle", tag = "buckets",
    params(("b" = String, Path, description = "The bucket")),
    responses(
        (status = 200, body = List<LifecycleEntry>),
        (status = 404, body = ProblemBody, content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn list(
    State(node): State<Arc<Node>>,
    Path(bucket): Path<String>,
) -> Result<Json<List<LifecycleEntry>>, Problem> {
    let rules = node.buckets()?.bucket(&BucketName::new(&bucket)?).await?.settings.lifecycle;
    Ok(Json(List { items: rules.into_iter().map(LifecycleEntry::of).collect(), next: None }))
}

/// Shows a lifecycle rule.
#[utoipa::path(get, path = "/v1/buckets/{b}/lifecycle/{id}", tag = "buckets",
    params(
        ("b" = String, Path, description = "The bucket"),
        ("id" = String, Path, description = "The rule"),
    ),
    responses(
        (status = 200, body = LifecycleEntry),
        (status = 404, body = ProblemBody, content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn show(
    State(node): State<Arc<Node>>,
    Path((bucket, id)): Path<(String, String)>,
) -> Result<Json<LifecycleEntry>, Problem> {
    let rules = node.buckets()?.bucket(&BucketName::new(&bucket)?).await?.settings.lifecycle;
    let found = rules.into_iter().find(|it| it.id == id);
    let found = found.ok_or(BucketError::UnknownRule { bucket, rule: id })?;
    Ok(Json(LifecycleEntry::of(found)))
}

/// Deletes what is old from now on; a rule of the same id is replaced. The server looks once an
/// hour.
#[utoipa::path(put, path = "/v1/buckets/{b}/lifecycle/{id}", tag = "buckets",
    params(
        ("b" = String, Path, description = "The bucket"),
        ("id" = String, Path, description = "1 to 64 letters, digits, `-`, `_` or `.`"),
    ),
    request_body = LifecycleBody,
    responses(
        (status = 200, body = LifecycleEntry, description = "It is in force, durably"),
        (status = 400, body = ProblemBody, content_type = "application/problem+json",
            description = "`bad_request`, `invalid_argument`"),
        (status = 404, body = ProblemBody, content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn put(
    State(node): State<Arc<Node>>,
    Path((bucket, id)): Path<(String, String)>,
    body: Bytes,
) -> Result<Json<LifecycleEntry>, Problem> {
    let form = "{\"prefix\"?, \"deleteAfterMs\"?, \"abortUploadsAfterMs\"?}";
    let LifecycleBody { prefix, delete_after_ms, abort_uploads_after_ms } = body_of(&body, form)?;
    let rule = LifecycleRule { id, prefix, delete_after_ms, abort_uploads_after_ms };
    node.buckets()?.put_lifecycle(&BucketName::new(&bucket)?, rule.clone()).await?;
    Ok(Json(LifecycleEntry::of(rule)))
}

/// Removes a lifecycle rule.
#[utoipa::path(delete, path = "/v1/buckets/{b}/lifecycle/{id}", tag = "buckets",
    params(
        ("b" = String, Path, description = "The bucket"),
        ("id" = String, Path, description = "The rule"),
    ),
    responses(
        (status = 200, body = Deleted),
        (status = 404, body = ProblemBody, content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn delete(
    State(node): State<Arc<Node>>,
    Path((bucket, id)): Path<(String, String)>,
) -> Result<Json<Deleted>, Problem> {
    node.buckets()?.delete_lifecycle(&BucketName::new(&bucket)?, &id).await?;
    Ok(Json(Deleted { deleted: true }))
}
