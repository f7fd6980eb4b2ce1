//! What a bucket told, and what became of it.

use std::sync::Arc;

use axum::{
    Json,
    extract::{Path, State},
};
use steadfast_bucket::{BucketName, SentEvent};
use steadfast_store::{EntityId, Recorded, State as Delivery};

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
    let found = node.buckets.events(bucket, before, page.limit).await?;
    let oldest = found.last().map_or(1, |it| it.message.version);
    let next = (1 < oldest).then(|| Cursor::Version(oldest).encode());
    let targets: Vec<EntityId> = found.iter().filter_map(|it| it.message.target).collect();
    let addresses = node.store.addresses(&targets).await?;
    let entry = |SentEvent { event, message }: SentEvent| {
        let place = message.target.and_then(|it| addresses.get(&it));
        let queue = place.map_or(message.message_type.as_str(), |it| it.class()).to_owned();
        let attempts = attempts(&message);
        EventEntry {
            event,
            queue,
            state: message.state.as_ref().map(MessageState::of),
            attempts,
            message_id: message.position.to_string(),
            last_error: last_error(message),
        }
    };
    Ok(List { items: found.into_iter().map(entry).collect(), next })
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
