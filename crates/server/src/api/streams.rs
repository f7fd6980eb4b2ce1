//! Streams: the list, and one with its messages.

use std::sync::Arc;

use axum::{
    Json,
    extract::{Path, State},
};

use super::{
    id,
    page::{Cursor, Gathered, Page, PageParams, Params, gather},
    problem::{Code, Problem, ProblemBody},
    wire::{Addresses, List, Message, Stream, StreamDetail},
};
use crate::node::Node;

/// Lists the streams in the order of kind, class and name.
#[utoipa::path(get, path = "/v1/streams", tag = "streams", params(PageParams), responses(
    (status = 200, body = List<Stream>),
    (status = 400, body = ProblemBody, content_type = "application/problem+json"),
))]
pub(crate) async fn list(
    State(node): State<Arc<Node>>,
    Params(params): Params<PageParams>,
) -> Result<Json<List<Stream>>, Problem> {
    Ok(Json(read_list(&node, &params.page()?).await?))
}

/// Shows a stream by id or address, with its messages.
#[utoipa::path(get, path = "/v1/streams/{*id}", tag = "streams",
    params(
        ("id" = String, Path, description = "32 hexadecimal digits, or kind/class/name"),
        PageParams,
    ),
    responses(
        (status = 200, body = StreamDetail),
        (status = 400, body = ProblemBody, content_type = "application/problem+json"),
        (status = 404, body = ProblemBody, content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn show(
    State(node): State<Arc<Node>>,
    Path(id): Path<String>,
    Params(params): Params<PageParams>,
) -> Result<Json<StreamDetail>, Problem> {
    Ok(Json(read_one(&node, &id, &params.page()?).await?))
}

/// Reads a part of the list of streams.
pub(crate) async fn read_list(node: &Node, page: &Page) -> Result<List<Stream>, Problem> {
    let mut found =
        node.runtime.store().streams(None, page.after_address()?, page.limit + 1).await?;
    let more = page.limit < found.len();
    found.truncate(page.limit);
    let last = found.last().filter(|_| more);
    let next = last.map(|it| Cursor::Address(it.address.clone()).encode());
    Ok(List { items: found.iter().map(Stream::of).collect(), next })
}

/// Reads a stream and a part of its messages.
pub(crate) async fn read_one(
    node: &Node,
    text: &str,
    page: &Page,
) -> Result<StreamDetail, Problem> {
    let id = id::stream(text)?;
    let store = node.runtime.store().as_ref();
    let after = page.after_version()?;
    let Some(address) = store.addresses(&[id]).await?.remove(&id) else {
        let detail = format!("stream `{text}` is not known; see `steadfast streams list`");
        return Err(Problem::new(Code::NotFound, detail));
    };
    let version = store.version(id).await?;
    let read = |after, rows| store.read_stream(id, after + 1, rows);
    let Gathered { items, more } = gather(page.limit, after, |it| it.version, read).await?;
    let addresses = Addresses::read(store, &items).await?;
    let last = items.last().filter(|_| more);
    Ok(StreamDetail {
        id: id.to_string(),
        address: address.to_string(),
        version,
        next: last.map(|it| Cursor::Version(it.version).encode()),
        items: items.iter().map(|it| Message::of(it, &addresses)).collect(),
    })
}
