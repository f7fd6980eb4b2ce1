//! What `steadfast buckets …` prints.

use steadfast_api::{
    Page,
    buckets::{
        BlobPage, Bucket, BucketRule, CorsRule, DeleteBlob, DeletedBlob, LifecycleRule, ListBlobs,
        ListBucketRules, ListCorsRules, ListLifecycleRules, SavedBucket,
    },
};

use crate::{
    cli::output::{Table, or_dash},
    nouns::buckets::page::{blob_columns, columns, listed},
    waterfall::words,
};

pub(super) fn list(page: &Page<Bucket>) -> String {
    if page.items.is_empty() {
        return "no buckets; create one with `steadfast buckets create`\n".into();
    }
    columns().write(&page.items)
}

pub(super) fn create(SavedBucket { bucket, created }: &SavedBucket) -> String {
    let change = if *created { "created" } else { "updated" };
    let max = bucket.max_blob_bytes.map(|it| format!("; at most {it} bytes per blob"));
    format!("{change} bucket {}{}\n", bucket.name, max.unwrap_or_default())
}

pub(super) fn ls(it: &ListBlobs, page: &BlobPage) -> String {
    if page.items.is_empty() && page.prefixes.is_empty() {
        let (bucket, prefix) = (&it.place.bucket, &it.place.key);
        return match prefix.is_empty() {
            true => format!("bucket {bucket} is empty\n"),
            false => format!("bucket {bucket} has no keys that begin with `{prefix}`\n"),
        };
    }
    blob_columns("", "").write(&listed(page))
}

pub(super) fn rm(it: &DeleteBlob, DeletedBlob { key, sequence }: &DeletedBlob) -> String {
    format!("deleted {}/{key}; sequence {sequence}\n", it.blob.bucket)
}

pub(super) fn list_rules(it: &ListBucketRules, page: &Page<BucketRule>) -> String {
    if page.items.is_empty() {
        return format!("bucket {} has no rules\n", it.bucket);
    }
    let mut table = Table::new(&["RULE", "EVENTS", "PREFIX", "SUFFIX", "QUEUE"]);
    for it in &page.items {
        let events: Vec<&str> = it.events.iter().map(|it| it.name()).collect();
        let (id, events) = (it.id.clone(), events.join(" "));
        table.row([id, events, it.prefix.clone(), it.suffix.clone(), it.queue.clone()]);
    }
    table.write()
}

pub(super) fn list_lifecycle(it: &ListLifecycleRules, page: &Page<LifecycleRule>) -> String {
    if page.items.is_empty() {
        return format!("bucket {} has no lifecycle rules\n", it.bucket);
    }
    let time =
        |ms: Option<u64>| ms.map_or("-".into(), |it| words(i64::try_from(it).unwrap_or(i64::MAX)));
    let mut table = Table::new(&["RULE", "PREFIX", "DELETE AFTER", "ABORT UPLOADS AFTER"]);
    for it in &page.items {
        let (delete, abort) = (time(it.delete_after_ms), time(it.abort_uploads_after_ms));
        table.row([it.id.clone(), it.prefix.clone(), delete, abort]);
    }
    table.write()
}

pub(super) fn list_cors(it: &ListCorsRules, page: &Page<CorsRule>) -> String {
    if page.items.is_empty() {
        return format!("bucket {} has no CORS rules\n", it.bucket);
    }
    let list = |items: &[String]| or_dash(Some(&*items.join(" ")).filter(|it| !it.is_empty()));
    let mut table = Table::new(&["RULE", "ORIGINS", "METHODS", "HEADERS", "EXPOSES", "MAX AGE"]);
    for it in &page.items {
        let (origins, methods) = (list(&it.origins), list(&it.methods));
        let (headers, exposes) = (list(&it.headers), list(&it.expose_headers));
        let age = it.max_age_seconds.map(|it| words(i64::from(it) * 1_000));
        table.row([it.id.clone(), origins, methods, headers, exposes, or_dash(age.as_deref())]);
    }
    table.write()
}
