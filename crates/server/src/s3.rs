//! The S3 port: the same accept loop, with nothing but S3 behind it.

use axum::{Router, body::Body, extract::Request, response::Response};
use steadfast_s3::{Refusal, S3Api};

use crate::{budget, listener::Seat, node::Node};

/// Everything that the S3 port answers.
pub(crate) fn router(node: &Node) -> Router {
    let budget = node.budget.clone();
    let Ok(buckets) = node.buckets() else { return Router::new() };
    let api = S3Api::new(buckets.clone(), node.runtime.store().clone());
    Router::new().fallback(async move |request: Request| -> Response {
        let seat = request.extensions().get::<Seat>().cloned();
        let answer = async |request| api.answer(request).await.map(Body::new);
        let answered = budget::check_s3(&budget, request, answer).await;
        match answered {
            None => api.refuse(Refusal::Busy).await.map(Body::new),
            Some(_) if seat.is_some_and(|it| it.was_slow()) => {
                api.refuse(Refusal::Slow).await.map(Body::new)
            }
            Some(response) => response,
        }
    })
}
