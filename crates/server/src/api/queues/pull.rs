//! Consumers outside of the server: they pull messages under a lease and acknowledge them.

use std::{sync::Arc, time::Duration};

use axum::{
    Json,
    body::Bytes,
    extract::{Path, State},
};
use serde::Deserialize;
use steadfast_core::queue::LeaseId;
use utoipa::ToSchema;

use super::{body_of, body_or};
use crate::{
    api::{
        problem::{Problem, ProblemBody},
        wire::{AckedEntry, PulledEntry, PulledList},
    },
    node::Node,
};

/// How many, and for how long.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub(crate) struct PullBody {
    /// Messages at most.
    #[schema(minimum = 1, maximum = 1000, default = 5)]
    batch_size: usize,
    /// How long nobody else gets them.
    #[schema(minimum = 1, maximum = 86_400_000, default = 30_000)]
    lease_ms: u64,
}

impl Default for PullBody {
    fn default() -> Self {
        Self { batch_size: 5, lease_ms: 30_000 }
    }
}

/// Which deliveries ended, and how.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct AckBody {
    /// These are done.
    #[serde(default)]
    acks: Vec<AckOne>,
    /// These are to be delivered again.
    #[serde(default)]
    retries: Vec<RetryOne>,
}

/// A message that is done.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct AckOne {
    /// As it came with the message.
    lease_id: String,
}

/// A message that is to be delivered again.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct RetryOne {
    /// As it came with the message.
    lease_id: String,
    /// How long it waits before; as the queue says if it is left out.
    #[serde(default)]
    delay_ms: Option<u64>,
}

/// Takes messages that are due, each under a lease, in due order.
///
/// A message whose lease ends without an answer is delivered again; each pull is one attempt. One
/// whose attempts are used up is given up instead of delivered.
#[utoipa::path(post, path = "/v1/queues/{q}/messages/pull", tag = "queues",
    params(("q" = String, Path, description = "The queue")),
    request_body = Option<PullBody>,
    responses(
        (status = 200, body = PulledList),
        (status = 400, body = ProblemBody, content_type = "application/problem+json"),
        (status = 404, body = ProblemBody, content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn pull(
    State(node): State<Arc<Node>>,
    Path(queue): Path<String>,
    body: Bytes,
) -> Result<Json<PulledList>, Problem> {
    let PullBody { batch_size, lease_ms } = body_or(&body, "{\"batchSize\"?, \"leaseMs\"?}")?;
    let lease = Duration::from_millis(lease_ms);
    let pulled = node.runtime.queues().pull(&queue, batch_size, lease).await?;
    // What gave something was not paused.
    let paused = pulled.is_empty() && node.runtime.queues().is_paused(&queue).await?;
    Ok(Json(PulledList { items: pulled.iter().map(PulledEntry::of).collect(), paused }))
}

/// Ends deliveries of messages that were pulled.
///
/// An acknowledgement that comes after the end of its lease counts as long as nobody else has got
/// the message: late is better than twice. When somebody has, or when the message is settled, its
/// lease is in `lost`, and nothing was changed by it; the others of the same request count.
#[utoipa::path(post, path = "/v1/queues/{q}/messages/ack", tag = "queues",
    params(("q" = String, Path, description = "The queue")),
    request_body = AckBody,
    responses(
        (status = 200, body = AckedEntry, description = "As it says, durably"),
        (status = 400, body = ProblemBody, content_type = "application/problem+json"),
        (status = 404, body = ProblemBody, content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn ack(
    State(node): State<Arc<Node>>,
    Path(queue): Path<String>,
    body: Bytes,
) -> Result<Json<AckedEntry>, Problem> {
    let form = "{\"acks\": [{\"leaseId\"}, …], \"retries\": [{\"leaseId\", \"delayMs\"?}, …]}";
    let AckBody { acks, retries } = body_of(&body, form)?;
    let acks: Result<Vec<LeaseId>, _> = acks.iter().map(|it| it.lease_id.parse()).collect();
    let retries: Result<Vec<_>, Problem> = retries
        .iter()
        .map(|it| Ok((it.lease_id.parse()?, it.delay_ms.map(Duration::from_millis))))
        .collect();
    let acked = node.runtime.queues().ack(&queue, &acks?, &retries?).await?;
    Ok(Json(AckedEntry::of(&acked)))
}
