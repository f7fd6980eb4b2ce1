//! The description of this API.

use std::sync::Arc;

use axum::{
    extract::State,
    http::header,
    response::{IntoResponse, Response},
};

use crate::node::Node;

/// Describes every route.
#[utoipa::path(get, path = "/openapi.json", tag = "operations", responses(
    (status = 200, body = serde_json::Value),
))]
pub(crate) async fn openapi(State(node): State<Arc<Node>>) -> Response {
    let text = node.openapi.get().cloned().unwrap_or_default();
    ([(header::CONTENT_TYPE, "application/json")], text).into_response()
}
