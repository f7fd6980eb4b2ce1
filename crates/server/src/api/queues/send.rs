//! Sending to a queue. This is the way that is used most: the body is read once and kept as text.

use std::{sync::Arc, time::Duration};

use axum::{
    Json,
    body::Bytes,
    extract::{Path, State},
    http::{HeaderMap, StatusCode},
};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use steadfast_core::queue::Outgoing;
use steadfast_store::Json as Text;
use utoipa::ToSchema;

use super::body_of;
use crate::{
    api::{
        problem::{Code, Problem, ProblemBody},
        revive::key_of,
        wire::written,
    },
    node::Node,
};

const FORM: &str = "{\"body\", \"delayMs\"?} or {\"messages\": [{\"body\", \"delayMs\"?}, …]}";

/// One message, or several that are sent together: all of them, or none.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct SendBody<'a> {
    /// What to send: any JSON.
    #[serde(borrow, default, deserialize_with = "present")]
    #[schema(value_type = Option<serde_json::Value>)]
    body: Option<&'a RawValue>,
    /// How long it waits before it may be delivered, a year at most.
    #[serde(default)]
    delay_ms: Option<u64>,
    /// Up to 1,000 messages.
    #[serde(borrow, default)]
    #[schema(value_type = Option<Vec<OneBody>>)]
    messages: Option<Vec<OneBody<'a>>>,
}

/// One of several messages.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct OneBody<'a> {
    /// What to send: any JSON.
    #[serde(borrow)]
    #[schema(value_type = serde_json::Value)]
    body: &'a RawValue,
    /// How long it waits before it may be delivered.
    #[serde(default)]
    delay_ms: Option<u64>,
}

/// What was sent.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct SentEntry {
    /// The ids of the messages, in their order.
    pub(crate) ids: Vec<String>,
}

/// A body of `null` is one.
fn present<'de, D: Deserializer<'de>>(from: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(from).map(Some)
}

/// Sends messages. They are durable when this is answered.
#[utoipa::path(post, path = "/v1/queues/{q}/messages", tag = "queues",
    params(
        ("q" = String, Path, description = "The queue; it is made by what is sent to it"),
        ("Idempotency-Key" = Option<String>, Header, description =
            "A repetition within 24 hours gets the same ids and sends nothing more"),
    ),
    request_body = SendBody,
    responses(
        (status = 201, body = SentEntry, description = "They wait in the queue, durably"),
        (status = 400, body = ProblemBody, content_type = "application/problem+json"),
        (status = 409, body = ProblemBody, content_type = "application/problem+json",
            description = "The key was used for other messages"),
        (status = 413, body = ProblemBody, content_type = "application/problem+json",
            description = "`message_too_large`: larger than its maxMessageBytes"),
        (status = 429, body = ProblemBody, content_type = "application/problem+json",
            description = "`queue_full`: as many wait as its maxMessages says; send them later"),
    ),
)]
pub(crate) async fn send(
    State(node): State<Arc<Node>>,
    Path(queue): Path<String>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<(StatusCode, Json<SentEntry>), Problem> {
    let key = key_of(&headers)?;
    let all = outgoing(&body)?;
    let ids = node.runtime.queues().send_json(&queue, all, key).await?;
    Ok((StatusCode::CREATED, Json(SentEntry { ids: written(&ids) })))
}

fn outgoing(body: &[u8]) -> Result<Vec<Outgoing>, Problem> {
    let SendBody { body, delay_ms, messages } = body_of(body, FORM)?;
    match (body, delay_ms, messages) {
        (Some(body), delay_ms, None) => Ok(vec![one(body, delay_ms)?]),
        (None, None, Some(all)) => all.iter().map(|it| one(it.body, it.delay_ms)).collect(),
        _ => Err(Problem::new(Code::BadRequest, format!("the body must be {FORM}"))),
    }
}

fn one(body: &RawValue, delay_ms: Option<u64>) -> Result<Outgoing, Problem> {
    let body = Text::raw(body).map_err(steadfast_store::StoreError::from)?;
    Ok(Outgoing { body, delay: Duration::from_millis(delay_ms.unwrap_or(0)) })
}
