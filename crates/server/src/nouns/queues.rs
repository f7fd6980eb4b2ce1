//! Queues and their messages.

pub(crate) mod page;
mod verbs;

use std::{sync::Arc, time::Duration};

use futures_util::FutureExt;
use steadfast_api::{
    Code, JsonText, Operation, Page,
    queues::{
        AckMessages, AckedMessages, ConfigureQueue, EditMessage, Edited, ListQueues, MessageState,
        PauseQueue, PeekQueue, PullMessages, PulledMessage, PulledMessages, PurgeQueue, Purged,
        Queue, QueueMessage, RedriveQueue, Redriven, ResumeQueue, SendMessages, Sent, ShowQueue,
    },
};
use steadfast_core::{
    QueueError, RequestKey,
    queue::{LeaseId, Outgoing, Redrive},
};
use steadfast_store::{Position, StoreError, Timestamp};
use steadfast_web::{Cursor, PageRequest, Problem, bad_cursor};

use crate::{
    cli::noun::Noun,
    nouns::streams::{MessagePage, collect},
    operation::{ApiRoutes, request_key},
    pages::{PageRoute, form, get, links::queue_path, post},
    path,
    server::Server,
};

pub(crate) fn routes() -> ApiRoutes {
    ApiRoutes::default()
        .operation(list)
        .operation(show)
        .operation(configure)
        .operation(pause)
        .operation(resume)
        .operation(purge)
        .operation(redrive)
        .operation(peek)
        .operation(send)
        .operation(pull)
        .operation(ack)
        .operation(edit)
}

/// The pages of the console.
pub(crate) fn pages() -> Vec<PageRoute> {
    vec![
        get("/queues", page::list),
        get("/queues/{q}", page::show),
        form("/queues/{q}/pause", pause, |it| queue_path(&it.queue)),
        form("/queues/{q}/resume", resume, |it| queue_path(&it.queue)),
        form("/queues/{q}/purge", purge, |it| queue_path(&it.queue)),
        post("/queues/{q}/redrive", RedriveQueue::NEEDS, page::redrive),
        post("/queues/{q}/messages/{id}/edit", EditMessage::NEEDS, page::edit),
    ]
}

/// The verbs of the command line.
pub(crate) fn verbs() -> Noun {
    Noun::new("queues", "List queues, send messages, handle dead letters")
        .verb::<ListQueues>("list", &["queues list"], |_, found| {
            let empty = "no queues; create one with `steadfast queues send`\n";
            page::columns().list(&found.items, empty)
        })
        .verb::<ShowQueue>("show", &["queues show mail"], |_, queue| verbs::show(queue))
        .verb::<PeekQueue>(
            "peek",
            &["queues peek mail", "queues peek mail --state in-flight --limit 10"],
            |it, found| {
                let empty = format!("queue {} has no {} messages\n", it.queue, it.state.name());
                page::message_columns("").list(&found.items, empty)
            },
        )
        .verb::<SendMessages>(
            "send",
            &[
                "queues send mail --body '{\"to\": \"ada@example.org\", \"subject\": \"Hello\"}'",
                "queues send photos --body @photo.json --delay-ms 60000",
            ],
            |it, Sent { ids }| format!("sent {} to {}\n", ids.join(" "), it.queue),
        )
        .verb::<PauseQueue>("pause", &["queues pause mail"], |_, queue| verbs::control(queue))
        .verb::<ResumeQueue>("resume", &["queues resume mail"], |_, queue| verbs::control(queue))
        .destroys::<PurgeQueue>(
            "purge",
            &["queues purge mail --yes", "queues purge mail-dead --id 17 --id 18"],
            (
                |it: &PurgeQueue| format!("Remove messages from queue {}?", it.queue),
                |it: &PurgeQueue, Purged { purged }: &Purged| {
                    format!("removed {} from {}\n", verbs::counted(*purged), it.queue)
                },
            ),
        )
        .custom(
            "dlq",
            ("List the dead letters of a queue with their errors", &["queues dlq mail"]),
            verbs::dead_letters,
        )
        .custom(
            "redrive",
            (
                "Move messages of a dead-letter queue back to the queues that they were sent to, \
                 with new attempts",
                &[
                    "queues redrive mail-dead --dry-run",
                    "queues redrive mail-dead --error-contains \"does not answer\" --rate 10",
                ],
            ),
            verbs::redrive,
        )
}

pub(crate) async fn list(server: Arc<Server>, it: ListQueues) -> Result<Page<Queue>, Problem> {
    let part = PageRequest::new(it.limit, it.cursor.as_deref())?;
    let page = server.runtime.queues().page(part.after_name()?, part.limit).await?;
    let next = page.next.map(|it| Cursor::Name(it).encode());
    Ok(Page { items: page.queues, next })
}

pub(crate) async fn show(server: Arc<Server>, it: ShowQueue) -> Result<Queue, Problem> {
    Ok(server.runtime.queues().show(&it.queue).await?)
}

async fn configure(server: Arc<Server>, it: ConfigureQueue) -> Result<Queue, Problem> {
    server.runtime.queues().configure(&it.queue, it.settings).await?;
    show(server, ShowQueue { queue: it.queue }).await.map_err(Problem::after_change)
}

pub(crate) async fn pause(server: Arc<Server>, it: PauseQueue) -> Result<Queue, Problem> {
    let key = request_key(&it)?;
    set_paused(server, it.queue, true, key).await
}

pub(crate) async fn resume(server: Arc<Server>, it: ResumeQueue) -> Result<Queue, Problem> {
    let key = request_key(&it)?;
    set_paused(server, it.queue, false, key).await
}

/// With a key, the response is built before the change, because the same commit records it.
async fn set_paused(
    server: Arc<Server>,
    queue: String,
    paused: bool,
    key: Option<RequestKey>,
) -> Result<Queue, Problem> {
    let set = async |key: Option<RequestKey>| {
        let queues = server.runtime.queues().keyed(key);
        if paused { queues.pause(&queue).await } else { queues.resume(&queue).await }
    };
    let Some(key) = key else {
        set(None).await?;
        let shown = show(server.clone(), ShowQueue { queue }).await;
        return shown.map_err(Problem::after_change);
    };
    let store = &**server.runtime.store();
    if let Some(before) = key.answer(store).await? {
        return Ok(before);
    }
    let shown = show(server.clone(), ShowQueue { queue: queue.clone() }).await?;
    let answer = Queue { paused, ..shown };
    set(Some(key.clone().answering(&answer).map_err(StoreError::from)?)).await?;
    // Another request with this key may have been first.
    let recorded = key.answer(store).await.map_err(|it| Problem::from(it).after_change())?;
    Ok(recorded.unwrap_or(answer))
}

pub(crate) async fn peek(
    server: Arc<Server>,
    it: PeekQueue,
) -> Result<Page<QueueMessage>, Problem> {
    let after = match it.cursor.as_deref().map(Cursor::decode) {
        None => None,
        Some(Some(Cursor::Due(due_at, position))) => Some((due_at, position)),
        Some(_) => return Err(bad_cursor()),
    };
    let queues = server.runtime.queues();
    let read = |after, rows| queues.peek(&it.queue, it.state, after, rows);
    let measure = |it: &QueueMessage| (Some(row_key(it)), it.body.get().len());
    let MessagePage { items, more } = collect(it.limit.rows(), after, measure, read).await?;
    let last = items.last().filter(|_| more).map(row_key);
    let next = last.map(|(due_at, position)| Cursor::Due(due_at, position).encode());
    Ok(Page { items, next })
}

/// The key of a row, after which the next page begins.
fn row_key(it: &QueueMessage) -> (Timestamp, Position) {
    (it.due_at.unwrap_or(Timestamp(0)), it.id)
}

async fn send(server: Arc<Server>, it: SendMessages) -> Result<Sent, Problem> {
    let all = match (&it.body, it.delay_ms, &it.messages) {
        (Some(body), delay_ms, None) => vec![outgoing(body, delay_ms)?],
        (None, None, Some(all)) => {
            let all = all.iter().map(|it| outgoing(&it.body, it.delay_ms));
            all.collect::<Result<Vec<_>, _>>()?
        }
        _ => {
            let form = "the body must be {\"body\", \"delayMs\"?} or {\"messages\": [{\"body\", \
                 \"delayMs\"?}, …]}";
            return Err(Problem::of(Code::BadRequest, form));
        }
    };
    let key = it.idempotency_key.as_deref();
    Ok(server.runtime.queues().send_json(&it.queue, all, key).await?.into())
}

fn outgoing(body: &JsonText, delay_ms: Option<u64>) -> Result<Outgoing, Problem> {
    let body = body.stored().map_err(StoreError::from)?;
    Ok(Outgoing { body, delay: Duration::from_millis(delay_ms.unwrap_or(0)) })
}

async fn pull(server: Arc<Server>, it: PullMessages) -> Result<PulledMessages, Problem> {
    let lease = Duration::from_millis(it.lease_ms);
    let queues = server.runtime.queues().keyed(request_key(&it)?);
    let pulled = queues.pull(&it.queue, it.batch_size, lease).await?;
    // A queue that returned messages was not paused.
    let paused = pulled.is_empty() && server.runtime.queues().is_paused(&it.queue).await?;
    Ok(PulledMessages { items: pulled.iter().map(PulledMessage::from).collect(), paused })
}

async fn ack(server: Arc<Server>, it: AckMessages) -> Result<AckedMessages, Problem> {
    if it.acks.is_empty() && it.retries.is_empty() {
        // Report an unknown queue first.
        server.runtime.queues().is_paused(&it.queue).await?;
        return Err(Problem::of(Code::BadRequest, "name leases in `acks` or `retries`"));
    }
    let acks: Result<Vec<LeaseId>, _> = it.acks.iter().map(|it| it.lease_id.parse()).collect();
    let retries: Result<Vec<_>, Problem> = it
        .retries
        .iter()
        .map(|it| Ok((it.lease_id.parse()?, it.delay_ms.map(Duration::from_millis))))
        .collect();
    let queues = server.runtime.queues().keyed(request_key(&it)?);
    Ok(queues.ack(&it.queue, &acks?, &retries?).await?.into())
}

pub(crate) async fn purge(server: Arc<Server>, it: PurgeQueue) -> Result<Purged, Problem> {
    if it.state == Some(MessageState::InFlight) {
        let detail = "messages in flight cannot be purged: `state` must be pending or dead";
        return Err(Problem::of(Code::InvalidInput, detail).at("state"));
    }
    let queues = server.runtime.queues().keyed(request_key(&it)?);
    let ids = positions(it.ids)?;
    // The purge completes even if the client disconnects.
    let all = tokio::spawn(
        async move { queues.purge(&it.queue, it.state, ids.as_deref()).await }.boxed(),
    );
    let purged = all.await.unwrap_or(Err(StoreError::Closed.into())).map_err(in_part)?;
    Ok(Purged { purged })
}

pub(crate) async fn redrive(server: Arc<Server>, it: RedriveQueue) -> Result<Redriven, Problem> {
    let queues = server.runtime.queues().keyed(request_key(&it)?);
    let what = Redrive {
        to: it.to,
        ids: positions(it.filter.ids)?,
        error_contains: it.filter.error_contains,
        rate_per_second: it.rate_per_second,
        dry_run: it.dry_run,
    };
    let is_preview = what.dry_run;
    let all = tokio::spawn(async move { queues.redrive(&it.queue, &what).await }.boxed());
    let all = all.await.unwrap_or(Err(StoreError::Closed.into()));
    Ok(all.map_err(|it| if is_preview { it.into() } else { in_part(it) })?.into())
}

/// A change of many messages takes many commits: some may be applied when one fails. Other errors
/// are found before the first commit.
fn in_part(error: QueueError) -> Problem {
    match &error {
        // A read-only store refuses the first commit.
        QueueError::Store(StoreError::ReadOnly) => error.into(),
        QueueError::Store(_) | QueueError::Invalid(_) => {
            let detail = format!("some messages may have been changed before this: {error}");
            Problem::of(Code::OutcomeUnknown, detail)
        }
        QueueError::UnknownQueue { .. }
        | QueueError::UnknownMessage { .. }
        | QueueError::Name { .. }
        | QueueError::Full { .. }
        | QueueError::TooLarge { .. }
        | QueueError::Setting { .. }
        | QueueError::Cycle { .. }
        | QueueError::BatchLength { .. }
        | QueueError::Argument { .. }
        | QueueError::KeyReused { .. } => error.into(),
    }
}

pub(crate) async fn edit(server: Arc<Server>, it: EditMessage) -> Result<Edited, Problem> {
    let body = it.body.stored().map_err(StoreError::from)?;
    let queues = server.runtime.queues().keyed(request_key(&it)?);
    let id = queues.edit(&it.queue, it.id, body, it.to.as_deref()).await?;
    Ok(Edited { id: id.to_string() })
}

fn positions(ids: Option<Vec<String>>) -> Result<Option<Vec<Position>>, Problem> {
    ids.map(|it| it.iter().map(|it| path::position(it)).collect()).transpose()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partial_change_reports_an_unknown_outcome() {
        let code = |error: QueueError| in_part(error).code().to_owned();
        // The failed commit was not applied, but earlier ones may be.
        assert_eq!(code(StoreError::DiskFull.into()), "outcome_unknown");
        assert_eq!(code(StoreError::Closed.into()), "outcome_unknown");
        assert_eq!(code(StoreError::ReadOnly.into()), "read_only");
        assert_eq!(code(QueueError::UnknownQueue { queue: "q".into() }), "queue_not_found");
    }
}
