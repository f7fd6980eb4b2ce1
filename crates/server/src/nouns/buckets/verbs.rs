//! The output of `steadfast buckets …`.

use steadfast_api::buckets::{
    BlobPage, BucketRule, CorsRule, DeleteBlob, DeletedBlob, LifecycleRule, ListBlobs, SavedBucket,
};

use crate::{
    list::Columns,
    nouns::buckets::page::{blob_columns, listed},
    waterfall::{words, words_of},
};

pub(super) fn create(SavedBucket { bucket, created }: &SavedBucket) -> String {
    let change = if *created { "created" } else { "updated" };
    let max = bucket.max_blob_bytes.map(|it| format!("; at most {it} bytes per blob"));
    format!("{change} bucket {}{}\n", bucket.name, max.unwrap_or_default())
}

pub(super) fn ls(it: &ListBlobs, page: &BlobPage) -> String {
    let (bucket, prefix) = (&it.place.bucket, &it.place.key);
    let empty = match prefix.is_empty() {
        true => format!("bucket {bucket} is empty\n"),
        false => format!("bucket {bucket} has no keys that begin with `{prefix}`\n"),
    };
    blob_columns("", "").list(&listed(page), empty)
}

pub(super) fn rm(it: &DeleteBlob, DeletedBlob { key, sequence }: &DeletedBlob) -> String {
    format!("deleted {}/{key}; sequence {sequence}\n", it.blob.bucket)
}

pub(super) fn rule_columns() -> Columns<'static, BucketRule> {
    let events = |it: &BucketRule| it.events.iter().map(|it| it.name()).collect::<Vec<_>>();
    Columns::<BucketRule>::new()
        .text("Rule", |it| it.id.clone())
        .text("Events", move |it| events(it).join(" "))
        .text("Prefix", |it| it.prefix.clone())
        .may_be_empty()
        .text("Suffix", |it| it.suffix.clone())
        .may_be_empty()
        .text("Queue", |it| it.queue.clone())
}

pub(super) fn lifecycle_columns() -> Columns<'static, LifecycleRule> {
    let time = |ms: Option<u64>| ms.map(words_of).unwrap_or_default();
    Columns::<LifecycleRule>::new()
        .text("Rule", |it| it.id.clone())
        .text("Prefix", |it| it.prefix.clone())
        .may_be_empty()
        .text("Delete after", move |it| time(it.delete_after_ms))
        .text("Abort uploads after", move |it| time(it.abort_uploads_after_ms))
}

pub(super) fn cors_columns() -> Columns<'static, CorsRule> {
    Columns::<CorsRule>::new()
        .text("Rule", |it| it.id.clone())
        .text("Origins", |it| it.origins.join(" "))
        .text("Methods", |it| it.methods.join(" "))
        .text("Headers", |it| it.headers.join(" "))
        .text("Exposes", |it| it.expose_headers.join(" "))
        .text("Max age", |it| {
            it.max_age_seconds.map_or(String::new(), |it| words(i64::from(it) * 1_000))
        })
}
