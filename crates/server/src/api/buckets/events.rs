//! What a bucket told, and what became of it.

use std::sync::Arc;

use axum::{
    Json,
    extract::{Path, State},
};
use steadfast_bucket::{BucketName, SentEvent};
use steadfast_store::{DueCursor, Recorded, State as Delivery, queue_address};

use crate::{
    api::{
        page::{Cursor, Page, PageParams, Params},
        problem::{Problem, ProblemBody},
        wire::{EventEntry, List, MessageState},
    },
    node::Node,
};

/// Lists the recent events of a bucket, newest first, and how the delivery of each stands. Those
/// that were delivered are forgotten with other old messages.
#[utoipa::path(get, path = "/v1/buckets/{b}/events", tag = "buckets",
    params(("b" = String, Path, description = "The bucket"), PageParams),
    responses(
        (status = 200, body = List<EventEntry>),
        (status = 400, body = ProblemBody, content_type = "application/problem+json"),
        (status = 404, body = ProblemBody, content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn list(
    State(node): State<Arc<Node>>,
    Path(bucket): Path<String>,
    Params(params): Params<PageParams>,
) -> Result<Json<List<EventEntry>>, Problem> {
    Ok(Json(read_events(&node, &BucketName::new(&bucket)?, &params.page()?).await?))
}

/// Reads a part of the events of a bucket.
pub(crate) async fn read_events(
    node: &Node,
    bucket: &BucketName,
    page: &Page,
) -> Result<List<EventEntry>, Problem> {
    let before = Some(page.after_version()?).filter(|it| 0 < *it);
    let found = node.buckets()?.events(bucket, before, page.limit).await?;
    let oldest = found.last().map_or(1, |it| it.message.version);
    let next = (1 < oldest).then(|| Cursor::Version(oldest).encode());
    let mut items = Vec::new();
    for SentEvent { event, message } in found {
        items.push(EventEntry {
            event,
            queue: place(node, &message).await?,
            state: message.state.as_ref().map(MessageState::of),
            attempts: attempts(&message),
            message_id: message.position.to_string(),
            last_error: last_error(message),
        });
    }
    Ok(List { items, next })
}

/// The queue that a message is in: where it was sent to, or where its dead letters go.
async fn place(node: &Node, message: &Recorded) -> Result<String, Problem> {
    // The type of a message in a queue is the name of the queue.
    let sent_to = message.message_type.clone();
    let at = match &message.state {
        None => return Ok(sent_to),
        Some(Delivery::Settled(settled)) => {
            let Some(queue) = settled.queue else { return Ok(sent_to) };
            let known = node.runtime.store().addresses(&[queue]).await?;
            return Ok(known.get(&queue).map_or(sent_to, |it| it.class().to_owned()));
        }
        Some(Delivery::Pending { due_at, .. }) => *due_at,
        Some(Delivery::InFlight { until, .. }) => *until,
    };
    // Only what has failed moves by itself.
    if message.last_error.is_none() {
        return Ok(sent_to);
    }
    let after = DueCursor { due_at: at, position: message.position - 1 };
    let settings = node.runtime.queues().show(&sent_to).await.map(|it| it.settings);
    let dead_letters = settings.ok().and_then(|it| it.dead_letter_queue);
    for queue in [Some(sent_to.clone()), dead_letters].into_iter().flatten() {
        let Ok(address) = queue_address(&queue) else { continue };
        let found = node.runtime.store().letters(address.id(), after, at, 1).await?;
        if found.first().is_some_and(|it| it.message.position == message.position) {
            return Ok(queue);
        }
    }
    Ok(sent_to)
}

fn attempts(message: &Recorded) -> u32 {
    match &message.state {
        None => 0,
        Some(Delivery::Pending { attempts, .. } | Delivery::InFlight { attempts, .. }) => *attempts,
        Some(Delivery::Settled(settled)) => settled.attempts,
    }
}

fn last_error(message: Recorded) -> Option<String> {
    match message.state {
        Some(Delivery::Settled(settled)) if settled.error.is_some() => settled.error,
        _ => message.last_error,
    }
}
