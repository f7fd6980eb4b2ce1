//! The port for webhooks: providers reach it from the internet, so it serves nothing else.

use axum::{
    Router,
    extract::{MatchedPath, Request},
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use steadfast_web::Problem;
use tower::ServiceExt;

use crate::admission::no_route;

/// Prefix of the routes that receive webhooks. Each URL contains a secret.
pub(crate) const PREFIX: &str = "/webhooks/";

/// Marks a request to the port for webhooks.
#[derive(Clone, Copy)]
struct OfWebhooksPort;

/// The router of the port.
pub(crate) fn router(routes: Router) -> Router {
    Router::new().fallback(async move |mut request: Request| -> Response {
        if !request.uri().path().starts_with(PREFIX) {
            return not_found(request.uri().path());
        }
        request.extensions_mut().insert(OfWebhooksPort);
        match routes.oneshot(request).await {
            Ok(response) => response,
            Err(never) => match never {},
        }
    })
}

/// The verdict about a request to the port for webhooks; `None` if it came to another port. A
/// route such as `/{organization}/{*rest}` would match its paths, too.
pub(crate) fn verdict(request: &Request) -> Option<Result<(), Problem>> {
    request.extensions().get::<OfWebhooksPort>()?;
    let matched = request.extensions().get::<MatchedPath>();
    let is_webhook = matched.is_some_and(|it| it.as_str().starts_with(PREFIX));
    Some(if is_webhook { Ok(()) } else { Err(no_route()) })
}

/// The same problem as elsewhere, but never as a page of the console.
fn not_found(path: &str) -> Response {
    let body = serde_json::to_string(&no_route().body(path, "")).unwrap_or_default();
    let content_type = [(header::CONTENT_TYPE, "application/problem+json")];
    (StatusCode::NOT_FOUND, content_type, body).into_response()
}
