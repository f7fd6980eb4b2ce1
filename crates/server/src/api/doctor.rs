//! The examination, over HTTP.

use std::sync::Arc;

use axum::{
    Json,
    extract::{Query, State},
};
use serde::Deserialize;
use utoipa::IntoParams;

use crate::{
    doctor::{Examination, examine},
    server::Server,
};

/// What to look at.
#[derive(Clone, Copy, Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(default)]
pub(crate) struct Depth {
    /// Whether to read every row of a large store as well, which takes a while.
    deep: bool,
}

/// Checks the invariants, the disk and the settings.
#[utoipa::path(get, path = "/v1/doctor", tag = "operations", params(Depth), responses(
    (status = 200, body = Examination, description = "What was found, good or bad"),
))]
pub(crate) async fn doctor(
    State(server): State<Arc<Server>>,
    Query(depth): Query<Depth>,
) -> Json<Examination> {
    Json(examine(&server, depth.deep).await)
}
