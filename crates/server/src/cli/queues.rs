//! `steadfast queues …`.

mod dlq;
mod progress;
mod redrive;

use serde_json::{json, value::RawValue};
use steadfast_web::escaped;

pub(super) use self::{dlq::dlq, redrive::redrive};
use super::{
    client::Client,
    output::{print, print_json},
    query,
    table::{Table, or_dash},
    tell_next,
};
use crate::{
    api::{
        queues::{redrive::PurgedEntry, send::SentEntry},
        wire::{List, QueueEntry, QueueList, QueueMessage},
    },
    args::{AskArgs, ListArgs, PeekArg, PurgeArgs, QueueArgs, QueueSendArgs},
    failure::Failure,
    waterfall::words,
};

/// Characters of a body in a line.
const BODY_MAX: usize = 100;

impl QueueArgs {
    /// Where the API has it.
    fn path(&self) -> String {
        path_of(&self.name)
    }
}

fn path_of(queue: &str) -> String {
    format!("/v1/queues/{}", escaped(queue))
}

/// Lists the queues.
pub(super) fn list(client: &Client, ask: &AskArgs) -> Result<(), Failure> {
    let body = client.get("/v1/queues", ask.json)?;
    if ask.json {
        return print_json(&body);
    }
    let list: QueueList = client.read(&body)?;
    if list.queues.is_empty() {
        return print("no queues here: make one with `steadfast queues send`\n");
    }
    let mut table = Table::new(&[
        "QUEUE",
        "STATE",
        "DEPTH",
        "READY",
        "DELAYED",
        "IN FLIGHT",
        "DEAD",
        "OLDEST",
        "SENT/S",
        "DONE/S",
    ]);
    for it in list.queues {
        let counts = [it.depth, it.ready, it.delayed, it.in_flight, it.dead];
        let mut row = vec![it.name.clone(), state(&it).into()];
        row.extend(counts.map(|it| it.to_string()));
        row.extend([age(&it), format!("{:.1}", it.rates.sent), format!("{:.1}", it.rates.done)]);
        table.row(row);
    }
    print(&table.write())
}

fn state(queue: &QueueEntry) -> &'static str {
    match (queue.paused, queue.consumed) {
        (true, _) => "paused",
        (false, true) => "consumed",
        (false, false) => "to pull",
    }
}

fn age(queue: &QueueEntry) -> String {
    let age = queue.oldest_age_ms.map(|it| i64::try_from(it).unwrap_or(i64::MAX));
    age.map_or("-".into(), words)
}

/// Shows one queue.
pub(super) fn show(client: &Client, queue: &QueueArgs, ask: &AskArgs) -> Result<(), Failure> {
    let body = client.get(&queue.path(), ask.json)?;
    if ask.json {
        return print_json(&body);
    }
    let it: QueueEntry = client.read(&body)?;
    let mut table = Table::new(&["queue", &it.name]);
    let mut fact = |name: &str, text: String| table.row([name.into(), text]);
    fact("state", state(&it).into());
    let (ready, delayed) = (it.ready, it.delayed);
    let parts = format!("{ready} ready, {delayed} delayed, {} in flight", it.in_flight);
    fact("depth", format!("{} ({parts})", it.depth));
    fact("dead", it.dead.to_string());
    fact("oldest", age(&it));
    let rates = &it.rates;
    for (name, rate) in [
        ("sent/s", rates.sent),
        ("delivered/s", rates.delivered),
        ("done/s", rates.done),
        ("retried/s", rates.retried),
        ("dead/s", rates.dead),
    ] {
        fact(name, format!("{rate:.1}"));
    }
    let settings = serde_json::to_value(&it.settings).unwrap_or_default();
    for (name, value) in settings.as_object().into_iter().flatten() {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        fact(name, if value.is_null() { "-".into() } else { text });
    }
    print(&table.write())
}

/// Looks at messages.
pub(super) fn peek(
    client: &Client,
    queue: &QueueArgs,
    state: PeekArg,
    list: &ListArgs,
) -> Result<(), Failure> {
    let path = format!("{}/messages{}&state={}", queue.path(), query(list), state.word());
    let body = client.get(&path, list.ask.json)?;
    if list.ask.json {
        return print_json(&body);
    }
    let page: List<QueueMessage> = client.read(&body)?;
    if page.items.is_empty() {
        return print(&format!("no message of {} is {}\n", queue.name, state.word()));
    }
    let mut table = Table::new(&["ID", "SENT", "DUE", "TRIED", "LAST ERROR", "BODY"]);
    for it in &page.items {
        let due = or_dash(it.due_at.as_deref());
        let error = or_dash(it.last_error.as_deref());
        table.row([it.id.clone(), it.enqueued_at.clone(), due, tried(it), error, short(&it.body)]);
    }
    print(&table.write())?;
    tell_next(page.next.as_deref(), &list.ask);
    Ok(())
}

/// Attempts, and those before it came here.
fn tried(message: &QueueMessage) -> String {
    match message.attempts_before {
        0 => message.attempts.to_string(),
        before => format!("{} + {before}", message.attempts),
    }
}

fn short(body: &RawValue) -> String {
    let text = body.get();
    match text.char_indices().nth(BODY_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Sends a message.
pub(super) fn send(client: &Client, args: &QueueSendArgs) -> Result<(), Failure> {
    let QueueSendArgs { queue, body, delay_ms, idempotency_key, ask } = args;
    let text = match body.strip_prefix('@') {
        Some(file) => std::fs::read_to_string(file)
            .map_err(|error| Failure::new(format!("--body @{file} cannot be read: {error}")))?,
        None => body.clone(),
    };
    let body: &RawValue = serde_json::from_str(&text)
        .map_err(|error| Failure::new(format!("--body is not JSON: {error}")))?;
    let delay = delay_ms.map_or(String::new(), |it| format!(",\"delayMs\":{it}"));
    let body = format!("{{\"body\":{}{delay}}}", body.get());
    let path = format!("{}/messages", queue.path());
    let answer = client.post(&path, Some(&body), idempotency_key.as_deref(), ask.json)?;
    if ask.json {
        return print_json(&answer);
    }
    let sent: SentEntry = client.read(&answer)?;
    print(&format!("{}  is sent to {}\n", sent.ids.join(" "), queue.name))
}

/// Pauses or resumes a queue.
pub(super) fn control(
    client: &Client,
    queue: &QueueArgs,
    verb: &str,
    ask: &AskArgs,
) -> Result<(), Failure> {
    let answer = client.post(&format!("{}/{verb}", queue.path()), None, None, ask.json)?;
    if ask.json {
        return print_json(&answer);
    }
    let it: QueueEntry = client.read(&answer)?;
    print(&format!("{} is {}; {} wait\n", it.name, state(&it), it.ready + it.delayed))
}

/// Takes messages out.
pub(super) fn purge(client: &Client, args: &PurgeArgs) -> Result<(), Failure> {
    let PurgeArgs { queue, state, ids, ask } = args;
    let mut body = json!({});
    if let Some(state) = state {
        body["state"] = json!(state.word());
    }
    if !ids.is_empty() {
        body["ids"] = json!(ids);
    }
    let path = format!("{}/purge", queue.path());
    let answer = client.post_patiently(&path, &body.to_string(), ask.json)?;
    if ask.json {
        return print_json(&answer);
    }
    let purged: PurgedEntry = client.read(&answer)?;
    print(&format!("{} taken out of {}\n", counted(purged.purged), queue.name))
}

fn counted(count: u64) -> String {
    if count == 1 { "1 message is".into() } else { format!("{count} messages are") }
}
