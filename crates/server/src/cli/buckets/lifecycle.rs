//! `steadfast buckets lifecycle`.

use serde_json::json;
use steadfast_web::escaped;

use crate::{
    api::wire::{LifecycleEntry, List},
    args::{AskArgs, BucketArgs, LifecycleArgs},
    cli::{
        client::Client,
        output::{print, print_json},
        table::Table,
    },
    failure::Failure,
    waterfall::words,
};

/// Lists the lifecycle rules of a bucket.
pub(super) fn list(client: &Client, bucket: &BucketArgs, ask: &AskArgs) -> Result<(), Failure> {
    let body = client.get(&format!("{}/lifecycle", bucket.path()), ask.json)?;
    if ask.json {
        return print_json(&body);
    }
    let page: List<LifecycleEntry> = client.read(&body)?;
    if page.items.is_empty() {
        return print(&format!("{} keeps everything\n", bucket.name));
    }
    let mut table = Table::new(&["RULE", "PREFIX", "DELETE AFTER", "ABORT UPLOADS AFTER"]);
    for it in page.items {
        let (deleted, aborted) = (span(it.delete_after_ms), span(it.abort_uploads_after_ms));
        table.row([it.id, it.prefix, deleted, aborted]);
    }
    print(&table.write())
}

fn span(millis: Option<u64>) -> String {
    millis.map_or("-".into(), |it| words(i64::try_from(it).unwrap_or(i64::MAX)))
}

/// Deletes what is old.
pub(super) fn put(client: &Client, rule: &LifecycleArgs) -> Result<(), Failure> {
    let LifecycleArgs { bucket, id, prefix, delete_after, abort_uploads_after, ask } = rule;
    let body = json!({
        "prefix": prefix,
        "deleteAfterMs": delete_after.map(|it| it.millis()),
        "abortUploadsAfterMs": abort_uploads_after.map(|it| it.millis()),
    });
    let path = format!("{}/lifecycle/{}", bucket.path(), escaped(id));
    let answer = client.put(&path, &body.to_string(), ask.json)?;
    if ask.json {
        return print_json(&answer);
    }
    print(&format!("lifecycle rule {id} of {} is in force\n", bucket.name))
}
