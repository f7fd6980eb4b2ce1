//! The examination, over HTTP.

use std::sync::Arc;

use axum::{Json, extract::State};

use crate::{
    doctor::{Examination, examine},
    node::Node,
};

/// Checks the invariants, the disk and the settings.
#[utoipa::path(get, path = "/v1/doctor", tag = "operations", responses(
    (status = 200, body = Examination, description = "What was found, good or bad"),
))]
pub(crate) async fn doctor(State(node): State<Arc<Node>>) -> Json<Examination> {
    Json(examine(&node).await)
}
