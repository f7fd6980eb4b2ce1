//! What is in a bucket.

use std::sync::Arc;

use axum::{
    Json,
    extract::{Path, State},
};
use serde::Deserialize;
use steadfast_bucket::{BucketName, ListOptions};
use utoipa::IntoParams;

use crate::{
    api::{
        page::{Cursor, Page, Params},
        problem::{Problem, ProblemBody},
        wire::{BlobEntry, BlobList},
    },
    node::Node,
};

/// The query of the list of a bucket's blobs.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct BlobParams {
    /// Only keys that begin with this.
    #[serde(default)]
    pub(crate) prefix: String,
    /// Keys that go on with this behind the prefix are shown as one, up to it: `/` for one level.
    #[serde(default)]
    pub(crate) delimiter: String,
    /// Rows at most, prefixes included.
    #[param(value_type = Option<u32>, minimum = 1, maximum = 1000, default = 50)]
    pub(crate) limit: Option<String>,
    /// The `next` of the page before.
    pub(crate) cursor: Option<String>,
}

/// Lists the blobs of a bucket in the order of the bytes of their keys.
#[utoipa::path(get, path = "/v1/buckets/{b}/objects", tag = "buckets",
    params(("b" = String, Path, description = "The bucket"), BlobParams),
    responses(
        (status = 200, body = BlobList),
        (status = 400, body = ProblemBody, content_type = "application/problem+json"),
        (status = 404, body = ProblemBody, content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn list(
    State(node): State<Arc<Node>>,
    Path(bucket): Path<String>,
    Params(params): Params<BlobParams>,
) -> Result<Json<BlobList>, Problem> {
    Ok(Json(read_blobs(&node, &BucketName::new(&bucket)?, params).await?))
}

/// Reads a part of the list of a bucket's blobs.
pub(crate) async fn read_blobs(
    node: &Node,
    bucket: &BucketName,
    params: BlobParams,
) -> Result<BlobList, Problem> {
    let page = Page::new(params.limit.as_deref(), params.cursor.as_deref())?;
    let options = ListOptions {
        prefix: params.prefix,
        delimiter: params.delimiter,
        after: page.after_name()?.map(str::to_owned),
        limit: Some(page.limit),
    };
    let listing = node.buckets()?.list(bucket, &options).await?;
    Ok(BlobList {
        items: listing.blobs.into_iter().map(BlobEntry::of).collect(),
        prefixes: listing.prefixes,
        next: listing.next.map(|it| Cursor::Name(it).encode()),
    })
}
