//! `steadfast queues dlq`: the dead letters of a queue, those that moved and those that stayed.

use serde_json::{Value, json};

use super::{path_of, short, tried};
use crate::{
    api::wire::{List, QueueEntry, QueueMessage},
    args::{AskArgs, QueueArgs},
    cli::{
        client::Client,
        output::{print, print_json},
        table::{Table, or_dash},
    },
    failure::Failure,
};

/// Rows of one question.
const PAGE: usize = 200;

/// Lists the dead letters of a queue.
pub(in super::super) fn dlq(
    client: &Client,
    queue: &QueueArgs,
    limit: usize,
    ask: &AskArgs,
) -> Result<(), Failure> {
    let view: QueueEntry = client.read(&client.get(&queue.path(), ask.json)?)?;
    let mut found = Vec::new();
    let mut look = |place: &str, state: &str| -> Result<(), Failure> {
        let from = (place != view.name).then_some(view.name.as_str());
        gather(client, (place, state), from, (limit, ask.json), &mut found)
    };
    let elsewhere = view.settings.dead_letter_queue.as_deref();
    if let Some(place) = elsewhere {
        look(place, "pending")?;
        look(place, "dead")?;
    }
    look(&view.name, "dead")?;
    if ask.json {
        let item = |(place, it): &(String, QueueMessage)| {
            let mut item = serde_json::to_value(it).unwrap_or_default();
            item["queue"] = json!(place);
            item
        };
        let items: Vec<Value> = found.iter().map(item).collect();
        return print_json(&json!({ "items": items }).to_string());
    }
    if found.is_empty() {
        return print(&format!("{} has no dead letters\n", view.name));
    }
    let mut table = Table::new(&["ID", "IN", "SENT", "TRIED", "WHY", "BODY"]);
    for (place, it) in &found {
        let why = or_dash(it.last_error.as_deref());
        let sent = it.enqueued_at.clone();
        table.row([it.id.clone(), place.clone(), sent, tried(it), why, short(&it.body)]);
    }
    let place = elsewhere.unwrap_or(&view.name);
    let next = format!("give them another chance with `steadfast queues redrive {place}`");
    print(&format!("{}\n{next}\n", table.write()))
}

/// Reads the messages of a queue in a state, of those that were sent to one, page by page.
fn gather(
    client: &Client,
    (place, state): (&str, &str),
    from: Option<&str>,
    (limit, json): (usize, bool),
    found: &mut Vec<(String, QueueMessage)>,
) -> Result<(), Failure> {
    let mut next = String::new();
    while found.len() < limit {
        let path = format!("{}/messages?state={state}&limit={PAGE}{next}", path_of(place));
        let page: List<QueueMessage> = client.read(&client.get(&path, json)?)?;
        let is_meant = |it: &QueueMessage| from.is_none() || it.from.as_deref() == from;
        let room = limit - found.len();
        let meant = page.items.into_iter().filter(is_meant).take(room);
        found.extend(meant.map(|it| (place.to_owned(), it)));
        match page.next {
            Some(cursor) => next = format!("&cursor={cursor}"),
            None => return Ok(()),
        }
    }
    Ok(())
}
