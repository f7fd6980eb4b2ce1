//! `steadfast queues redrive`.

use std::io::IsTerminal;

use serde_json::{Value, json};

use super::{counted, progress};
use crate::{
    api::wire::RedrivenEntry,
    args::RedriveArgs,
    cli::{
        client::Client,
        output::{print, print_json},
    },
    failure::Failure,
    waterfall::words,
};

/// Gives messages another chance.
pub(in super::super) fn redrive(client: &Client, args: &RedriveArgs) -> Result<(), Failure> {
    let path = format!("{}/redrive", args.queue.path());
    let watched =
        !args.ask.json && !args.dry_run && client.is_server() && std::io::stdout().is_terminal();
    let answer = match watched {
        true => watched_post(client, args, &path)?,
        false => client.post_patiently(&path, &body(args, args.dry_run), args.ask.json)?,
    };
    if args.ask.json {
        return print_json(&answer);
    }
    print(&told(&client.read(&answer)?, args))
}

fn body(args: &RedriveArgs, dry_run: bool) -> String {
    let mut filter = json!({});
    if !args.ids.is_empty() {
        filter["ids"] = json!(args.ids);
    }
    if let Some(text) = &args.error_contains {
        filter["errorContains"] = json!(text);
    }
    let mut body = json!({ "filter": filter, "dryRun": dry_run });
    if let Some(to) = &args.to {
        body["to"] = json!(to);
    }
    if let Some(rate) = args.rate {
        body["ratePerSecond"] = json!(rate);
    }
    body.to_string()
}

/// Shows how many have left the queue while the request is under way.
fn watched_post(client: &Client, args: &RedriveArgs, path: &str) -> Result<String, Failure> {
    let dry = client.post_patiently(path, &body(args, true), false)?;
    let matched = client.read::<RedrivenEntry>(&dry)?.matched;
    let before = held(client, args)?;
    let sent = body(args, false);
    std::thread::scope(|scope| {
        let request = scope.spawn(|| client.post_patiently(path, &sent, false));
        progress::watch(
            matched,
            || request.is_finished(),
            || {
                // Only a picture: what cannot be asked now is asked again.
                held(client, args).map_or(0, |now| before.saturating_sub(now))
            },
        )?;
        request.join().unwrap_or_else(|_| Err(Failure::new("the request met a bug")))
    })
}

/// Messages that wait or are dead in the queue.
fn held(client: &Client, args: &RedriveArgs) -> Result<u64, Failure> {
    let view: Value = client.read(&client.get(&args.queue.path(), false)?)?;
    let count = |name: &str| view[name].as_u64().unwrap_or(0);
    Ok(count("depth") + count("dead"))
}

fn told(done: &RedrivenEntry, args: &RedriveArgs) -> String {
    let to = args.to.as_ref().map_or("to where each was sent".to_owned(), |it| format!("to {it}"));
    if args.dry_run {
        let first = match done.first.is_empty() {
            true => String::new(),
            false => format!("; the first: {}", done.first.join(" ")),
        };
        return format!("{} to be moved {to}{first}\n", counted(done.matched));
    }
    let lasts = match done.lasts_ms {
        0 => String::new(),
        ms => format!("; the last is due in {}", words(i64::try_from(ms).unwrap_or(i64::MAX))),
    };
    let left = match done.matched.saturating_sub(done.moved) {
        0 => String::new(),
        left => format!("; {left} are being handled by somebody"),
    };
    format!("{} moved {to}{lasts}{left}\n", counted(done.moved))
}
