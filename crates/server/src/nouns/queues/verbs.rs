//! Output of `steadfast queues …`, and the verbs that send several requests.

use std::io::IsTerminal;

use clap::Args;
use serde_json::{Value, json};
use steadfast_api::{
    Page,
    queues::{MessageState, PeekQueue, Queue, QueueMessage, RedriveQueue, Redriven, ShowQueue},
    rfc3339,
};

use crate::{
    args::AskArgs,
    cli::{
        client::Client,
        output::{Table, bar, or_dash, print, print_json, try_print},
    },
    failure::Failure,
    nouns::queues::page::{attempts, named_rates, named_settings, short, state},
    waterfall::words_of,
};

pub(super) fn show(it: &Queue) -> String {
    let mut table = Table::new(&["queue", &it.name]);
    let mut fact = |name: &str, text: String| table.row([name.into(), text]);
    fact("state", state(it).into());
    let (ready, delayed) = (it.ready, it.delayed);
    let parts = format!("{ready} ready, {delayed} delayed, {} in flight", it.in_flight);
    fact("depth", format!("{} ({parts})", it.depth));
    fact("dead", it.dead.to_string());
    fact("oldest", it.oldest_age_ms.map_or("-".into(), words_of));
    for (name, rate) in named_rates(it) {
        fact(&format!("{name}/s"), format!("{rate:.1}"));
    }
    for (name, value) in named_settings(it) {
        fact(&name, or_dash(value.as_deref()));
    }
    table.write()
}

pub(super) fn control(it: &Queue) -> String {
    let waiting = counted(it.ready + it.delayed);
    let state = if it.paused { "paused" } else { "resumed" };
    format!("{state} queue {}; it holds {waiting}\n", it.name)
}

pub(super) fn counted(count: u64) -> String {
    if count == 1 { "1 message".into() } else { format!("{count} messages") }
}

#[derive(Args)]
pub(super) struct DeadLetterArgs {
    /// Queue name
    queue: String,
    /// Maximum number of rows
    #[arg(long, env = "STEADFAST_LIMIT", default_value_t = 50)]
    limit: usize,
}

/// Lists the dead letters of a queue: those in its dead-letter queue, and those in the queue
/// itself.
pub(super) fn dead_letters(
    client: &Client,
    args: DeadLetterArgs,
    ask: &AskArgs,
) -> Result<(), Failure> {
    let queue: Queue = client.send(&ShowQueue { queue: args.queue }, ask.json)?;
    let mut found = Vec::new();
    let elsewhere = queue.settings.dead_letter_queue.as_deref();
    let holders = [
        elsewhere.map(|it| (it, MessageState::Pending)),
        elsewhere.map(|it| (it, MessageState::Dead)),
        Some((&*queue.name, MessageState::Dead)),
    ];
    for (holder, state) in holders.into_iter().flatten() {
        let from = (holder != queue.name).then_some(&*queue.name);
        let mut peek = PeekQueue { queue: holder.into(), state, ..PeekQueue::default() };
        while found.len() < args.limit {
            let page: Page<QueueMessage> = client.send(&peek, ask.json)?;
            let is_meant = |it: &QueueMessage| from.is_none() || it.from.as_deref() == from;
            let room = args.limit - found.len();
            let meant = page.items.into_iter().filter(is_meant).take(room);
            found.extend(meant.map(|it| (holder.to_owned(), it)));
            peek.cursor = page.next;
            if peek.cursor.is_none() {
                break;
            }
        }
    }
    if ask.json {
        let item = |(holder, it): &(String, QueueMessage)| {
            let mut item = serde_json::to_value(it).unwrap_or_default();
            item["queue"] = json!(holder);
            item
        };
        let items: Vec<Value> = found.iter().map(item).collect();
        return print_json(&json!({ "items": items, "next": null }).to_string());
    }
    if found.is_empty() {
        return print(&format!("queue {} has no dead letters\n", queue.name));
    }
    let mut table = Table::new(&["ID", "IN", "SENT", "ATTEMPTS", "LAST ERROR", "BODY"]);
    for (holder, it) in &found {
        let error = or_dash(it.last_error.as_deref());
        let sent = rfc3339(it.enqueued_at);
        table.row([it.id.to_string(), holder.clone(), sent, attempts(it), error, short(it)]);
    }
    let holder = elsewhere.unwrap_or(&queue.name);
    let next = format!("move them back with `steadfast queues redrive {holder}`");
    print(&format!("{}\n{next}\n", table.write()))
}

/// Redrives messages. On a terminal, a bar shows how many have left the queue.
pub(super) fn redrive(client: &Client, args: RedriveQueue, ask: &AskArgs) -> Result<(), Failure> {
    let is_watched =
        !ask.json && !args.dry_run && client.is_server() && std::io::stdout().is_terminal();
    let answer = match is_watched {
        true => watched_redrive(client, &args)?,
        false => client.request(&args, ask.json)?,
    };
    if ask.json {
        return print_json(&answer);
    }
    print(&moved(&client.read(&answer)?, &args))
}

fn watched_redrive(client: &Client, args: &RedriveQueue) -> Result<String, Failure> {
    let dry = RedriveQueue { dry_run: true, ..args.clone() };
    let matched = client.send(&dry, false)?.matched;
    let held = || {
        let queue: Queue = client.send(&ShowQueue { queue: args.queue.clone() }, false)?;
        Ok::<u64, Failure>(queue.depth + queue.dead)
    };
    let before = held()?;
    std::thread::scope(|scope| {
        let request = scope.spawn(|| client.request(args, false));
        while !request.is_finished() {
            // A failed read is retried.
            let done = held().map_or(0, |now| before.saturating_sub(now));
            try_print(&format!("\r{}", progress(done, matched)))?;
            std::thread::park_timeout(std::time::Duration::from_millis(150));
        }
        try_print("\r\x1b[K")?;
        request.join().unwrap_or_else(|_| Err(Failure::new("the request panicked")))
    })
}

/// One line of progress.
fn progress(done: u64, total: u64) -> String {
    format!("{} {} of {total} moved", bar(done, total), done.min(total))
}

fn moved(done: &Redriven, args: &RedriveQueue) -> String {
    let to = args.to.as_ref().map_or("the queues they were sent to".to_owned(), Clone::clone);
    if args.dry_run {
        let first = match done.first.is_empty() {
            true => String::new(),
            false => format!("; the first: {}", done.first.join(" ")),
        };
        return format!("would move {} to {to}{first}\n", counted(done.matched));
    }
    let lasts = match done.lasts_ms {
        0 => String::new(),
        ms => format!("; the last is due in {}", words_of(ms)),
    };
    let left = match done.matched.saturating_sub(done.moved) {
        0 => String::new(),
        left => format!("; consumers hold {left}"),
    };
    format!("moved {} to {to}{lasts}{left}\n", counted(done.moved))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_progress_bar_fills_and_keeps_its_width() {
        assert_eq!(progress(0, 8), format!("|{}| 0 of 8 moved", ".".repeat(40)));
        assert_eq!(progress(2, 8), format!("|{}{}| 2 of 8 moved", "=".repeat(10), ".".repeat(30)));
        assert_eq!(progress(9, 8), format!("|{}| 8 of 8 moved", "=".repeat(40)));
        assert_eq!(progress(0, 0), format!("|{}| 0 of 0 moved", "=".repeat(40)));
    }
}
