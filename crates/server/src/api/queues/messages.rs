//! Looking into a queue without consuming.

use std::sync::Arc;

use axum::{
    Json,
    extract::{Path, State},
};
use serde::Deserialize;
use steadfast_core::queue::{PeekState, Peeked};
use steadfast_store::{Position, Timestamp};
use utoipa::IntoParams;

use crate::{
    api::{
        page::{CURSOR, Cursor, Params, bad_cursor, rows},
        problem::{Code, Problem, ProblemBody},
        wire::{List, QueueMessage},
    },
    node::Node,
};

/// Bytes of messages in one page, unless the first alone is larger.
const PAGE_BYTES_MAX: usize = 8 << 20;

/// Rows of one read, so that what is read in vain stays small.
const READ_ROWS: usize = 50;

/// The query of the list of a queue's messages.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct PeekParams {
    /// pending, in-flight or dead; pending if it is left out.
    pub(crate) state: Option<String>,
    /// Rows at most.
    #[param(value_type = Option<u32>, minimum = 1, maximum = 1000, default = 50)]
    pub(crate) limit: Option<String>,
    /// The `next` of the page before.
    pub(crate) cursor: Option<String>,
}

/// Which messages of a queue are wanted.
#[derive(Debug)]
pub(crate) struct Peek {
    pub(crate) state: PeekState,
    limit: usize,
    after: Option<(Timestamp, Position)>,
}

impl PeekParams {
    /// Checks the query.
    pub(crate) fn peek(&self) -> Result<Peek, Problem> {
        let state = self.state.as_deref().map_or(Ok(PeekState::Pending), state)?;
        let after = self.cursor.as_deref().map(|text| match Cursor::decode(text) {
            Some(Cursor::Due(due_at, position)) => Ok((due_at, position)),
            Some(_) | None => Err(bad_cursor(CURSOR)),
        });
        Ok(Peek { state, limit: rows(self.limit.as_deref())?, after: after.transpose()? })
    }
}

/// Reads the name of a state.
pub(crate) fn state(word: &str) -> Result<PeekState, Problem> {
    PeekState::ALL.into_iter().find(|it| it.name() == word).ok_or_else(|| {
        let words = PeekState::ALL.map(PeekState::name).join(", ");
        Problem::new(Code::BadQuery, format!("`state` must be one of {words}, not `{word}`"))
    })
}

/// Lists the messages of a queue, in the order in which they are due, or sent if they are dead.
/// They are not consumed.
#[utoipa::path(get, path = "/v1/queues/{q}/messages", tag = "queues",
    params(("q" = String, Path, description = "The queue"), PeekParams),
    responses(
        (status = 200, body = List<QueueMessage>),
        (status = 400, body = ProblemBody, content_type = "application/problem+json"),
        (status = 404, body = ProblemBody, content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn peek(
    State(node): State<Arc<Node>>,
    Path(queue): Path<String>,
    Params(params): Params<PeekParams>,
) -> Result<Json<List<QueueMessage>>, Problem> {
    Ok(Json(read_messages(&node, &queue, &params.peek()?).await?))
}

/// Reads a part of the messages of a queue.
pub(crate) async fn read_messages(
    node: &Node,
    queue: &str,
    peek: &Peek,
) -> Result<List<QueueMessage>, Problem> {
    let mut items = Vec::new();
    let (mut after, mut bytes) = (peek.after, 0);
    loop {
        let wanted = (peek.limit + 1 - items.len()).min(READ_ROWS);
        let page = node.runtime.queues().peek(queue, peek.state, after, wanted).await?;
        let is_last = page.len() < wanted;
        for it in page {
            bytes += it.message.data.as_str().len();
            if items.len() == peek.limit || (!items.is_empty() && PAGE_BYTES_MAX < bytes) {
                let next = after.map(|(due_at, position)| Cursor::Due(due_at, position).encode());
                return Ok(List { items, next });
            }
            after = Some(place(&it));
            items.push(QueueMessage::of(it));
        }
        if is_last {
            return Ok(List { items, next: None });
        }
    }
}

/// Behind what the next page begins.
fn place(it: &Peeked) -> (Timestamp, Position) {
    (it.due_at.unwrap_or(Timestamp(0)), it.message.position)
}
