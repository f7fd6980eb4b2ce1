//! `steadfast buckets …`.

mod cp;
mod lifecycle;
mod meter;
mod place;
mod rules;

use serde_json::json;
use steadfast_web::escaped;

use self::place::Place;
use super::{
    client::Client,
    output::{print, print_json},
    query,
    table::{Table, or_dash},
    tell_next,
};
use crate::{
    api::wire::{BlobGone, BlobList, BucketEntry, List, PresignedEntry},
    args::{
        AskArgs, BlobArgs, BucketArgs, BucketsVerb, LifecycleVerb, ListArgs, MethodArg,
        PresignArgs, RulesVerb,
    },
    failure::Failure,
};

impl BucketArgs {
    /// Where the API has it.
    fn path(&self) -> String {
        path_of(&self.name)
    }
}

fn path_of(bucket: &str) -> String {
    format!("/v1/buckets/{}", escaped(bucket))
}

/// Asks, and prints the answer.
pub(super) fn ask(client: &Client, verb: BucketsVerb) -> Result<(), Failure> {
    match verb {
        BucketsVerb::List(args) => list(client, &args),
        BucketsVerb::Create { bucket, max_blob_bytes, ask } => {
            create(client, &bucket, max_blob_bytes, &ask)
        }
        BucketsVerb::Delete { bucket, ask } => delete(client, &bucket, &ask),
        BucketsVerb::Ls { place, list } => ls(client, &place, &list),
        BucketsVerb::Cp(args) => cp::cp(client, &args),
        BucketsVerb::Rm { blob, ask } => rm(client, &blob, &ask),
        BucketsVerb::Presign(args) => presign(client, &args),
        BucketsVerb::Rules(RulesVerb::List { bucket, ask }) => rules::list(client, &bucket, &ask),
        BucketsVerb::Rules(RulesVerb::Put(rule)) => rules::put(client, &rule),
        BucketsVerb::Rules(RulesVerb::Delete { bucket, id, ask }) => {
            remove(client, &bucket, ("rules", "rule", &id), &ask)
        }
        BucketsVerb::Lifecycle(LifecycleVerb::List { bucket, ask }) => {
            lifecycle::list(client, &bucket, &ask)
        }
        BucketsVerb::Lifecycle(LifecycleVerb::Put(rule)) => lifecycle::put(client, &rule),
        BucketsVerb::Lifecycle(LifecycleVerb::Delete { bucket, id, ask }) => {
            remove(client, &bucket, ("lifecycle", "lifecycle rule", &id), &ask)
        }
    }
}

fn list(client: &Client, list: &ListArgs) -> Result<(), Failure> {
    let body = client.get(&format!("/v1/buckets{}", query(list)), list.ask.json)?;
    if list.ask.json {
        return print_json(&body);
    }
    let page: List<BucketEntry> = client.read(&body)?;
    if page.items.is_empty() {
        return print("no buckets here: make one with `steadfast buckets create`\n");
    }
    let mut table = Table::new(&["BUCKET", "CREATED", "MAX BLOB BYTES", "RULES", "LIFECYCLE"]);
    for it in page.items {
        let max = it.max_blob_bytes.map(|it| it.to_string());
        let (rules, lifecycle) = (it.rules.len().to_string(), it.lifecycle.len().to_string());
        table.row([it.name, it.created_at, or_dash(max.as_deref()), rules, lifecycle]);
    }
    print(&table.write())?;
    tell_next(page.next.as_deref(), &list.ask);
    Ok(())
}

fn create(
    client: &Client,
    bucket: &BucketArgs,
    max_blob_bytes: Option<u64>,
    ask: &AskArgs,
) -> Result<(), Failure> {
    let mut body = json!({});
    if let Some(max) = max_blob_bytes {
        body["maxBlobBytes"] = json!(max);
    }
    let answer = client.put(&bucket.path(), &body.to_string(), ask.json)?;
    if ask.json {
        return print_json(&answer);
    }
    let it: BucketEntry = client.read(&answer)?;
    let takes = it.max_blob_bytes.map_or(String::new(), |it| format!("; {it} bytes at most"));
    print(&format!("{} is there{takes}\n", it.name))
}

fn delete(client: &Client, bucket: &BucketArgs, ask: &AskArgs) -> Result<(), Failure> {
    let answer = client.delete(&bucket.path(), ask.json)?;
    if ask.json {
        return print_json(&answer);
    }
    print(&format!("{} is deleted\n", bucket.name))
}

/// Removes a rule of one sort or the other.
fn remove(
    client: &Client,
    bucket: &BucketArgs,
    (folder, noun, id): (&str, &str, &str),
    ask: &AskArgs,
) -> Result<(), Failure> {
    let path = format!("{}/{folder}/{}", bucket.path(), escaped(id));
    let answer = client.delete(&path, ask.json)?;
    if ask.json {
        return print_json(&answer);
    }
    print(&format!("{noun} {id} of {} is deleted\n", bucket.name))
}

fn ls(client: &Client, place: &str, list: &ListArgs) -> Result<(), Failure> {
    let (bucket, prefix) = place.split_once('/').unwrap_or((place, ""));
    let (path, query) = (path_of(bucket), query(list));
    let path = format!("{path}/objects{query}&delimiter=%2F&prefix={}", escaped(prefix));
    let body = client.get(&path, list.ask.json)?;
    if list.ask.json {
        return print_json(&body);
    }
    let page: BlobList = client.read(&body)?;
    if page.items.is_empty() && page.prefixes.is_empty() {
        return print(&format!("nothing in {bucket} begins with `{prefix}`\n"));
    }
    let mut table = Table::new(&["KEY", "SIZE", "MODIFIED", "TYPE", "SEQUENCE"]);
    for prefix in page.prefixes {
        table.row([prefix, "-".into(), "-".into(), "-".into(), "-".into()]);
    }
    for it in page.items {
        let kind = or_dash(it.content_type.as_deref());
        table.row([it.key, it.size.to_string(), it.modified_at, kind, it.sequence.to_string()]);
    }
    print(&table.write())?;
    tell_next(page.next.as_deref(), &list.ask);
    Ok(())
}

fn rm(client: &Client, blob: &BlobArgs, ask: &AskArgs) -> Result<(), Failure> {
    let place = Place::blob(&blob.place)?;
    let answer = client.delete(&place.path(), ask.json)?;
    if ask.json {
        return print_json(&answer);
    }
    let gone: BlobGone = client.read(&answer)?;
    print(&format!("{}/{} is deleted; number {}\n", place.bucket, gone.key, gone.sequence))
}

fn presign(client: &Client, args: &PresignArgs) -> Result<(), Failure> {
    let PresignArgs { blob, method, expires, ask } = args;
    let place = Place::blob(&blob.place)?;
    let method = match method {
        MethodArg::Get => "GET",
        MethodArg::Put => "PUT",
    };
    let body = json!({ "key": place.key, "method": method, "expiresSeconds": expires.0 });
    let path = format!("{}/presign", path_of(&place.bucket));
    let answer = client.post(&path, Some(&body.to_string()), None, ask.json)?;
    if ask.json {
        return print_json(&answer);
    }
    let made: PresignedEntry = client.read(&answer)?;
    print(&format!("{}\n", made.url))
}
