//! The S3 port: the same accept loop, serving only S3.

use axum::{Router, body::Body, extract::Request, response::Response};
use steadfast_s3::{Refusal, S3Api};

use crate::{budget, envelope, listener::ConnectionSlot, server::Server};

/// The router of the S3 port.
pub(crate) fn router(server: &Server) -> Router {
    let budget = server.budget.clone();
    let Ok(buckets) = server.buckets() else { return Router::new() };
    let api = {
        let (store, seal) = (server.runtime.store().clone(), server.runtime.seal().clone());
        S3Api::new(buckets.clone(), store, seal)
    };
    Router::new().fallback(async move |request: Request| -> Response {
        if envelope::fetches_code(request.headers()) {
            return api.refuse(Refusal::Code).await.map(Body::new);
        }
        let slot = request.extensions().get::<ConnectionSlot>().cloned();
        let answer = async |request| api.answer(request).await.map(Body::new);
        let answered = budget::check_s3(&budget, request, answer).await;
        match answered {
            None => api.refuse(Refusal::Busy).await.map(Body::new),
            Some(_) if slot.is_some_and(|it| it.was_slow()) => {
                api.refuse(Refusal::Slow).await.map(Body::new)
            }
            Some(response) => response,
        }
    })
}
