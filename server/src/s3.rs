//! The S3 port: the same accept loop, with nothing but S3 behind it.

use axum::{Router, body::Body, extract::Request, response::Response};
use steadfast_s3::S3Api;

use crate::node::Node;

/// Everything that the S3 port answers.
pub(crate) fn router(node: &Node) -> Router {
    let api = S3Api::new(node.buckets.clone(), node.store.clone());
    Router::new().fallback(async move |request: Request| -> Response {
        api.answer(request).await.map(Body::new)
    })
}
