//! `steadfast buckets rules`.

use serde_json::json;
use steadfast_web::escaped;

use crate::{
    api::wire::{List, RuleEntry},
    args::{AskArgs, BucketArgs, EventArg, RuleArgs},
    cli::{
        client::Client,
        output::{print, print_json},
        table::Table,
    },
    failure::Failure,
};

/// Lists the rules of a bucket.
pub(super) fn list(client: &Client, bucket: &BucketArgs, ask: &AskArgs) -> Result<(), Failure> {
    let body = client.get(&format!("{}/rules", bucket.path()), ask.json)?;
    if ask.json {
        return print_json(&body);
    }
    let page: List<RuleEntry> = client.read(&body)?;
    if page.items.is_empty() {
        return print(&format!("{} tells nobody\n", bucket.name));
    }
    let mut table = Table::new(&["RULE", "EVENTS", "PREFIX", "SUFFIX", "QUEUE"]);
    for it in page.items {
        let events: Vec<&str> = it.events.iter().map(|it| it.name()).collect();
        table.row([it.id, events.join(" "), it.prefix, it.suffix, it.queue]);
    }
    print(&table.write())
}

/// Sends changes to a queue.
pub(super) fn put(client: &Client, rule: &RuleArgs) -> Result<(), Failure> {
    let RuleArgs { bucket, id, queue, events, prefix, suffix, ask } = rule;
    let events: Vec<&str> = events.iter().copied().map(EventArg::word).collect();
    let body = json!({ "events": events, "prefix": prefix, "suffix": suffix, "queue": queue });
    let path = format!("{}/rules/{}", bucket.path(), escaped(id));
    let answer = client.put(&path, &body.to_string(), ask.json)?;
    if ask.json {
        return print_json(&answer);
    }
    print(&format!("rule {id} of {} tells {queue}\n", bucket.name))
}
