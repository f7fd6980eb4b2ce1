//! Streams and messages.

pub(crate) mod page;

use std::sync::Arc;

use steadfast_api::{
    Code, DeliveryState, Operation, Page,
    streams::{
        Addresses, AttemptEntry, ListDead, ListPending, ListStreams, Message, MessageDetail,
        ReviveMessage, ShowMessage, ShowStream, Stream, StreamDetail,
    },
};
use steadfast_core::RequestKey;
use steadfast_store::{Position, Recorded, Store, StoreError};
use steadfast_web::{Cursor, PageRequest, Problem};

use crate::{
    cli::noun::Noun,
    nouns::streams::page::{columns, message_columns},
    operation::ApiRoutes,
    pages::{PageRoute, get, post},
    path,
    server::Server,
};

pub(crate) fn routes() -> ApiRoutes {
    ApiRoutes::default()
        .operation(list)
        .operation(pending)
        .operation(dead)
        .operation(show)
        .operation(message)
        .operation(revive)
}

/// The pages of the console.
pub(crate) fn pages() -> Vec<PageRoute> {
    vec![
        get("/streams", page::list),
        get("/streams/pending", page::pending),
        get("/streams/dead", page::dead),
        get("/streams/{*id}", page::show),
        post("/messages/{position}/revive", ReviveMessage::NEEDS, page::revive),
    ]
}

pub(crate) async fn list(server: Arc<Server>, it: ListStreams) -> Result<Page<Stream>, Problem> {
    let page = PageRequest::new(it.limit, it.cursor.as_deref())?;
    let store = server.runtime.store();
    let found = store.streams(None, page.after_address()?, page.limit + 1).await?;
    Ok(page.page(found, |it| Cursor::Address(it.address.clone()), |it| Stream::from(&it)))
}

/// Shows a stream and a page of its messages.
pub(crate) async fn show(server: Arc<Server>, it: ShowStream) -> Result<StreamDetail, Problem> {
    let page = PageRequest::new(it.limit, it.cursor.as_deref())?;
    let id = path::stream(&it.id)?;
    let store = server.runtime.store().as_ref();
    let after = page.after_version()?;
    let Some(address) = store.addresses(&[id]).await?.remove(&id) else {
        let detail = format!("stream `{}` is not known; see `steadfast streams list`", it.id);
        return Err(Problem::of(Code::StreamNotFound, detail));
    };
    let version = store.version(id).await?;
    let read = |after, rows| store.read_stream(id, after + 1, rows);
    let measure = |it: &Recorded| (it.version, bytes(it));
    let MessagePage { items, more } = collect(page.limit, after, measure, read).await?;
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

pub(crate) async fn pending(
    server: Arc<Server>,
    it: ListPending,
) -> Result<Page<Message>, Problem> {
    let page = PageRequest::new(it.limit, it.cursor.as_deref())?;
    let stream = it.stream.as_deref().map(path::stream).transpose()?;
    let read = |after, rows| server.runtime.store().pending(stream, after, rows);
    let measure = |it: &Recorded| (it.position, bytes(it));
    messages(&server, collect(page.limit, page.after_position()?, measure, read).await?).await
}

pub(crate) async fn dead(server: Arc<Server>, it: ListDead) -> Result<Page<Message>, Problem> {
    let page = PageRequest::new(it.limit, it.cursor.as_deref())?;
    let read = |after, rows| server.runtime.store().dead(after, rows);
    let measure = |it: &Recorded| (it.position, bytes(it));
    messages(&server, collect(page.limit, page.after_position()?, measure, read).await?).await
}

/// The size of a message in a page.
fn bytes(it: &Recorded) -> usize {
    it.data.as_str().len() + it.metadata.as_str().len()
}

async fn messages(server: &Server, found: MessagePage<Recorded>) -> Result<Page<Message>, Problem> {
    let MessagePage { items, more } = found;
    let addresses = Addresses::read(server.runtime.store().as_ref(), &items).await?;
    let last = items.last().filter(|_| more);
    let next = last.map(|it| Cursor::Position(it.position).encode());
    Ok(Page { items: items.iter().map(|it| Message::of(it, &addresses)).collect(), next })
}

pub(crate) async fn message(
    server: Arc<Server>,
    it: ShowMessage,
) -> Result<MessageDetail, Problem> {
    let store = server.runtime.store().as_ref();
    let recorded = recorded(store, it.message).await?;
    let attempts = store.attempts(it.message).await?;
    let addresses = Addresses::read(store, std::slice::from_ref(&recorded)).await?;
    Ok(MessageDetail {
        message: Message::of(&recorded, &addresses),
        attempt_log: attempts.iter().map(AttemptEntry::from).collect(),
    })
}

async fn recorded(store: &dyn Store, position: Position) -> Result<Recorded, Problem> {
    store.message(position).await?.ok_or_else(|| {
        let detail = format!("message {position} does not exist, or was deleted by retention");
        Problem::of(Code::MessageNotFound, detail)
    })
}

pub(crate) async fn revive(server: Arc<Server>, it: ReviveMessage) -> Result<Message, Problem> {
    let (store, position) = (&**server.runtime.store(), it.message);
    let new = |key: String| RequestKey::new("revive", None, &key, position.to_string().as_bytes());
    let key = it.idempotency_key.map(new).transpose().map_err(StoreError::from)?;
    if let Some(key) = &key
        && let Some(before) = key.answer(store).await?
    {
        return Ok(before);
    }
    let recorded = recorded(store, position).await?;
    let addresses = Addresses::read(store, std::slice::from_ref(&recorded)).await?;
    // The commit records the response with the key, before the commit time is known.
    let answer =
        Message { state: Some(DeliveryState::Pending), ..Message::of(&recorded, &addresses) };
    let with_answer = key.clone().map(|it| it.answering(&answer)).transpose();
    let with_answer = with_answer.map_err(StoreError::from)?;
    match (steadfast_core::revive(store, &recorded, with_answer).await?, key) {
        // Another request with this key was first.
        (false, Some(key)) => Ok(key.answer(store).await?.unwrap_or(answer)),
        (true, _) | (false, None) => Ok(answer),
    }
}

/// Maximum bytes of messages in a page, unless the first alone is larger: a thousand messages may
/// have a gigabyte.
const PAGE_BYTES_MAX: usize = 8 << 20;

/// Rows per read, to bound the rows that are read and not used.
const READ_ROWS: usize = 50;

/// A page, and whether more rows follow.
pub(crate) struct MessagePage<T> {
    /// The messages.
    pub(crate) items: Vec<T>,
    /// Whether more rows follow.
    pub(crate) more: bool,
}

/// Reads up to `limit` rows after `after` through `read`, which takes the last key and the number
/// of rows. `measure` returns the key and the bytes of a row.
pub(crate) async fn collect<T, K, E, F>(
    limit: usize,
    mut after: K,
    measure: fn(&T) -> (K, usize),
    read: impl Fn(K, usize) -> F + Send,
) -> Result<MessagePage<T>, E>
where
    T: Send,
    K: Clone + Send,
    F: Future<Output = Result<Vec<T>, E>> + Send,
{
    let mut items = Vec::new();
    let mut bytes = 0;
    loop {
        let wanted = (limit + 1 - items.len()).min(READ_ROWS);
        let rows = read(after.clone(), wanted).await?;
        let last = rows.len() < wanted;
        for row in rows {
            let (key, len) = measure(&row);
            (after, bytes) = (key, bytes + len);
            if items.len() == limit || (!items.is_empty() && PAGE_BYTES_MAX < bytes) {
                return Ok(MessagePage { items, more: true });
            }
            items.push(row);
        }
        if last {
            return Ok(MessagePage { items, more: false });
        }
    }
}

pub(crate) fn verbs() -> Noun {
    Noun::new("streams", "List message streams, pending and dead messages, revive dead ones")
        .verb::<ListStreams>("list", &["streams list --limit 10"], |_, page| {
            columns().list(&page.items, "no streams; the first message creates one\n")
        })
        .verb::<ShowStream>(
            "show",
            &[
                "streams show process/checkout/42",
                "streams show 60b5bdcba1353ac8a8b1e05c5d3b9a3e --json",
            ],
            |_, stream| show_text(stream),
        )
        .verb::<ListPending>(
            "pending",
            &["streams pending --stream process/checkout/42"],
            |_, page| message_columns(false).list(&page.items, "no message is pending\n"),
        )
        .verb::<ListDead>("dead", &["streams dead"], |_, page| {
            message_columns(false).list(&page.items, "no message is dead\n")
        })
        .verb::<ReviveMessage>("revive", &["streams revive 17"], |it, revived| {
            let Message { type_, stream, .. } = revived;
            format!("message {} is pending again: {type_} of {stream}\n", it.message)
        })
}

fn show_text(stream: &StreamDetail) -> String {
    let StreamDetail { id, address, version, items, .. } = stream;
    format!("{id}  {address}  {version} messages\n\n{}", message_columns(true).write(items))
}
