//! The description of this API.

use std::sync::Arc;

use axum::{
    extract::State,
    http::header,
    response::{IntoResponse, Response},
};

use crate::server::Server;

/// Describes every route.
#[utoipa::path(get, path = "/openapi.json", tag = "server",
    extensions(("x-needs-role" = json!("viewer"))),
    responses((status = 200, body = serde_json::Value)),
)]
pub(crate) async fn openapi(State(server): State<Arc<Server>>) -> Response {
    let text = server.openapi.get().cloned().unwrap_or_default();
    ([(header::CONTENT_TYPE, "application/json")], text).into_response()
}
