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
    server::Server,
};

/// Deletes a bucket, and shows the others.
#[utoipa::path(post, path = "/buckets/{b}/delete", tag = "pages",
    params(("b" = String, Path, description = "The bucket")),
    responses((status = 303, description = "It is gone; the list of buckets is there")),
)]
pub(in super::super) async fn delete(
    State(server): State<Arc<Server>>,
    Path(bucket): Path<String>,
) -> Result<Redirect, Problem> {
    let _ = api::delete(server, DeleteBucket { bucket }).await?;
    Ok(Redirect::to("/buckets"))
}

pub(super) fn unreadable(error: FormRejection) -> Problem {
    Problem::of(Code::BadRequest, error.body_text())
}
