//! Messages across streams: what is pending, what is dead, and one with its attempts.

use std::sync::Arc;

use axum::{
    Json,
    extract::{Path, State},
};
use steadfast_store::{Position, StoreError};

use super::{
    id,
    page::{Cursor, Gathered, Page, PageParams, Params, PendingParams, gather},
    problem::{Code, Problem, ProblemBody},
    wire::{Addresses, AttemptEntry, List, Message, MessageDetail},
};
use crate::node::Node;

/// Lists what is to be delivered, of one stream or of all, oldest first.
#[utoipa::path(get, path = "/v1/streams/pending", tag = "streams", params(PendingParams), responses(
    (status = 200, body = List<Message>),
    (status = 400, body = ProblemBody, content_type = "application/problem+json"),
))]
pub(crate) async fn pending(
    State(node): State<Arc<Node>>,
    Params(params): Params<PendingParams>,
) -> Result<Json<List<Message>>, Problem> {
    Ok(Json(read_pending(&node, params.stream.as_deref(), &params.page()?).await?))
}

/// Lists what was given up, oldest first.
#[utoipa::path(get, path = "/v1/streams/dead", tag = "streams", params(PageParams), responses(
    (status = 200, body = List<Message>),
    (status = 400, body = ProblemBody, content_type = "application/problem+json"),
))]
pub(crate) async fn dead(
    State(node): State<Arc<Node>>,
    Params(params): Params<PageParams>,
) -> Result<Json<List<Message>>, Problem> {
    Ok(Json(read_dead(&node, &params.page()?).await?))
}

/// Shows one message and its failed attempts.
#[utoipa::path(get, path = "/v1/messages/{position}", tag = "messages",
    params(("position" = i64, Path, description = "The message's `globalPosition`")),
    responses(
        (status = 200, body = MessageDetail),
        (status = 404, body = ProblemBody, content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn show(
    State(node): State<Arc<Node>>,
    Path(position): Path<String>,
) -> Result<Json<MessageDetail>, Problem> {
    let position = id::position(&position)?;
    let store = node.runtime.store().as_ref();
    let recorded = store.message(position).await?.ok_or_else(|| not_found(position))?;
    let attempts = store.attempts(position).await?;
    let addresses = Addresses::read(store, std::slice::from_ref(&recorded)).await?;
    Ok(Json(MessageDetail {
        message: Message::of(&recorded, &addresses),
        attempt_log: attempts.iter().map(AttemptEntry::of).collect(),
    }))
}

/// Says that there is no such message.
pub(super) fn not_found(position: Position) -> Problem {
    let detail = format!("message {position} is not there: it never was, or is forgotten");
    Problem::new(Code::NotFound, detail)
}

/// Reads a part of what is pending.
pub(crate) async fn read_pending(
    node: &Node,
    stream: Option<&str>,
    page: &Page,
) -> Result<List<Message>, Problem> {
    let stream = stream.map(id::stream).transpose()?;
    let read = |after, rows| node.runtime.store().pending(stream, after, rows);
    let gathered = gather(page.limit, page.after_position()?, |it| it.position, read).await?;
    Ok(list(node, gathered).await?)
}

/// Reads a part of what is dead.
pub(crate) async fn read_dead(node: &Node, page: &Page) -> Result<List<Message>, Problem> {
    let read = |after, rows| node.runtime.store().dead(after, rows);
    let gathered = gather(page.limit, page.after_position()?, |it| it.position, read).await?;
    Ok(list(node, gathered).await?)
}

async fn list(node: &Node, gathered: Gathered) -> Result<List<Message>, StoreError> {
    let Gathered { items, more } = gathered;
    let addresses = Addresses::read(node.runtime.store().as_ref(), &items).await?;
    let last = items.last().filter(|_| more);
    let next = last.map(|it| Cursor::Position(it.position).encode());
    Ok(List { items: items.iter().map(|it| Message::of(it, &addresses)).collect(), next })
}
