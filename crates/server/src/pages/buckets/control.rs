//! The buttons of a bucket.

use std::sync::Arc;

use axum::{
    extract::{Path, State, rejection::FormRejection},
    response::Redirect,
};
use steadfast_api::buckets::DeleteBucket;

use crate::{
    api::{
        buckets as api,
        problem::{Code, Problem},
    },
    node::Node,
};

/// Deletes a bucket, and shows the others.
#[utoipa::path(post, path = "/buckets/{b}/delete", tag = "pages",
    params(("b" = String, Path, description = "The bucket")),
    responses((status = 303, description = "It is gone; the list of buckets is there")),
)]
pub(in super::super) async fn delete(
    State(node): State<Arc<Node>>,
    Path(bucket): Path<String>,
) -> Result<Redirect, Problem> {
    let _ = api::delete(node, DeleteBucket { bucket }).await?;
    Ok(Redirect::to("/buckets"))
}

pub(super) fn unreadable(error: FormRejection) -> Problem {
    Problem::of(Code::BadRequest, error.body_text())
}
