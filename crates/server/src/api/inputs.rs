//! Gives a process an input.

use std::sync::Arc;

use axum::{
    Json,
    body::Bytes,
    extract::{Path, State},
    http::HeaderMap,
};

use super::{
    problem::{Code, Problem, ProblemBody},
    revive::key_of,
    wire::{Decision, InputBody},
};
use crate::node::Node;

/// Decides an input and records it together with what was decided.
#[utoipa::path(post, path = "/v1/processes/{name}/{id}/inputs", tag = "processes",
    params(
        ("name" = String, Path, description = "The process"),
        ("id" = String, Path, description = "The instance; it begins with its first input"),
        ("Idempotency-Key" = Option<String>, Header, description =
            "A repetition within 24 hours gets the first answer and changes nothing"),
    ),
    request_body = InputBody,
    responses(
        (status = 200, body = Decision, description = "It is recorded"),
        (status = 400, body = ProblemBody, content_type = "application/problem+json",
            description = "It is not a message of this process"),
        (status = 404, body = ProblemBody, content_type = "application/problem+json"),
        (status = 409, body = ProblemBody, content_type = "application/problem+json",
            description = "Others kept deciding first; send it again"),
        (status = 422, body = ProblemBody, content_type = "application/problem+json", description =
            "The process refuses it, it is of another instance, or its key is of another input"),
    ),
)]
pub(crate) async fn send(
    State(node): State<Arc<Node>>,
    Path((name, id)): Path<(String, String)>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Json<Decision>, Problem> {
    let key = key_of(&headers)?;
    let InputBody { type_, data } = serde_json::from_slice(&body).map_err(|error| {
        let detail = format!("the body must be {{\"type\": …, \"data\": …}}: {error}");
        Problem::new(Code::BadRequest, detail)
    })?;
    let decided = node.runtime.processes().input_json(&name, &id, &type_, data, key).await?;
    Ok(Json(Decision::of(&decided)))
}
