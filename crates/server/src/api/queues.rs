//! Queues: looked at, set, paused; what is sent to them, pulled from them and given up in them.

pub(crate) mod messages;
pub(crate) mod pull;
pub(crate) mod redrive;
pub(crate) mod send;

use std::sync::Arc;

use axum::{
    Json,
    body::Bytes,
    extract::{Path, State},
};
use steadfast_core::QueueSettings;

use super::{
    body::{body_of, body_or},
    problem::{Problem, ProblemBody},
    wire::{QueueEntry, QueueList},
};
use crate::node::Node;

/// Lists the queues: all that were declared, made or ever sent to.
#[utoipa::path(get, path = "/v1/queues", tag = "queues",
    responses((status = 200, body = QueueList)))]
pub(crate) async fn list(State(node): State<Arc<Node>>) -> Result<Json<QueueList>, Problem> {
    Ok(Json(QueueList { queues: read_queues(&node).await? }))
}

/// Reads the queues.
pub(crate) async fn read_queues(node: &Node) -> Result<Vec<QueueEntry>, Problem> {
    Ok(node.runtime.queues().list().await?.into_iter().map(QueueEntry::of).collect())
}

/// Shows a queue: settings, how full it is, how old its oldest message is, and what goes through.
#[utoipa::path(get, path = "/v1/queues/{q}", tag = "queues",
    params(("q" = String, Path, description = "The queue")),
    responses(
        (status = 200, body = QueueEntry),
        (status = 404, body = ProblemBody, content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn show(
    State(node): State<Arc<Node>>,
    Path(queue): Path<String>,
) -> Result<Json<QueueEntry>, Problem> {
    Ok(Json(read_queue(&node, &queue).await?))
}

/// Reads one queue.
pub(crate) async fn read_queue(node: &Node, queue: &str) -> Result<QueueEntry, Problem> {
    Ok(QueueEntry::of(node.runtime.queues().show(queue).await?))
}

/// Makes a queue, or gives it other settings. A setting that is left out is as it is by default,
/// not as it was.
#[utoipa::path(put, path = "/v1/queues/{q}", tag = "queues",
    params(("q" = String, Path, description = "The queue")),
    request_body = QueueSettings,
    responses(
        (status = 200, body = QueueEntry, description = "They are in force, durably"),
        (status = 400, body = ProblemBody, content_type = "application/problem+json", description =
            "`bad_request`: unknown or of another type; `invalid_settings`: one cannot be so, or \
             dead letters would come back; `invalid_name`: it cannot be the name of a queue"),
    ),
)]
pub(crate) async fn configure(
    State(node): State<Arc<Node>>,
    Path(queue): Path<String>,
    body: Bytes,
) -> Result<Json<QueueEntry>, Problem> {
    let settings: QueueSettings = body_or(&body, "settings of a queue")?;
    node.runtime.queues().configure(&queue, settings).await?;
    Ok(Json(read_queue(&node, &queue).await?))
}

/// Delivers nothing more from a queue until it is resumed. What is under way ends.
#[utoipa::path(post, path = "/v1/queues/{q}/pause", tag = "queues",
    params(("q" = String, Path, description = "The queue")),
    responses(
        (status = 200, body = QueueEntry, description = "It is paused, durably"),
        (status = 404, body = ProblemBody, content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn pause(
    State(node): State<Arc<Node>>,
    Path(queue): Path<String>,
) -> Result<Json<QueueEntry>, Problem> {
    node.runtime.queues().pause(&queue).await?;
    Ok(Json(read_queue(&node, &queue).await?))
}

/// Lets a queue go on that is paused.
#[utoipa::path(post, path = "/v1/queues/{q}/resume", tag = "queues",
    params(("q" = String, Path, description = "The queue")),
    responses(
        (status = 200, body = QueueEntry, description = "It goes on"),
        (status = 404, body = ProblemBody, content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn resume(
    State(node): State<Arc<Node>>,
    Path(queue): Path<String>,
) -> Result<Json<QueueEntry>, Problem> {
    node.runtime.queues().resume(&queue).await?;
    Ok(Json(read_queue(&node, &queue).await?))
}
