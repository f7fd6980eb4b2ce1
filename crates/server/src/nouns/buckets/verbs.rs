//! `steadfast buckets …`.

use steadfast_api::buckets::{
    BlobPage, BucketRule, CorsRule, DeleteBlob, DeleteBucket, DeleteBucketRule, DeleteCorsRule,
    DeleteLifecycleRule, DeletedBlob, LifecycleRule, ListBlobs, ListBucketRules, ListBuckets,
    ListCorsRules, ListLifecycleRules, PresignBlob, PutBucket, PutBucketRule, PutCorsRule,
    PutLifecycleRule, SavedBucket,
};

use crate::{
    cli::noun::Noun,
    list::Columns,
    nouns::buckets::{
        copy,
        page::{blob_columns, columns, listed},
    },
    waterfall::{words, words_of},
};

pub(crate) fn verbs() -> Noun {
    Noun::new("buckets", "List buckets, copy files into and out of them, set their rules")
        .verb::<ListBuckets>("list", &["buckets list"], |_, page| {
            columns().list(&page.items, "no buckets; create one with `steadfast buckets create`\n")
        })
        .verb::<PutBucket>(
            "create",
            &["buckets create photos", "buckets create photos --max-blob-bytes 10000000"],
            |_, saved| create(saved),
        )
        .deletes::<DeleteBucket>(&["buckets delete photos --yes"], |it| {
            format!("bucket {}", it.bucket)
        })
        .verb::<ListBlobs>("ls", &["buckets ls photos", "buckets ls photos/2026/ --limit 1000"], ls)
        .custom(
            "cp",
            (
                "Copy a file into a bucket, or a blob out of it",
                &[
                    "buckets cp cat.png photos/2026/cat.png",
                    "buckets cp ./pets/dog.png photos/2026/",
                    "buckets cp photos/2026/cat.png ./cat.png",
                ],
            ),
            copy::cp,
        )
        .destroys::<DeleteBlob>(
            "rm",
            &["buckets rm photos/2026/cat.png --yes"],
            (
                |it: &DeleteBlob| format!("Delete blob {}/{}?", it.blob.bucket, it.blob.key),
                |it: &DeleteBlob, DeletedBlob { key, sequence }: &DeletedBlob| {
                    format!("deleted {}/{key}; sequence {sequence}\n", it.blob.bucket)
                },
            ),
        )
        .verb::<PresignBlob>(
            "presign",
            &[
                "buckets presign photos/2026/cat.png",
                "buckets presign photos/2026/new.png --method put --expires 10m",
            ],
            |_, made| format!("{}\n", made.url),
        )
        .noun(rules())
        .noun(lifecycle())
        .noun(cors())
}

fn rules() -> Noun {
    Noun::new("rules", "List and set the rules that send events of a bucket to queues")
        .verb::<ListBucketRules>("list", &["buckets rules list photos"], |it, page| {
            rule_columns().list(&page.items, format!("bucket {} has no rules\n", it.bucket))
        })
        .verb::<PutBucketRule>(
            "put",
            &[
                "buckets rules put photos thumbnails --queue thumbnails --suffix .png",
                "buckets rules put photos all --queue q --event object-create,object-delete",
            ],
            |it, rule| {
                let (id, bucket, queue) = (&rule.id, &it.bucket, &rule.queue);
                format!("set rule {id} of bucket {bucket}; it sends events to queue {queue}\n")
            },
        )
        .deletes::<DeleteBucketRule>(&["buckets rules delete photos thumbnails --yes"], |it| {
            format!("rule {} of bucket {}", it.id, it.bucket)
        })
}

fn lifecycle() -> Noun {
    Noun::new("lifecycle", "List and set the rules that delete old blobs of a bucket")
        .verb::<ListLifecycleRules>("list", &["buckets lifecycle list photos"], |it, page| {
            let empty = format!("bucket {} has no lifecycle rules\n", it.bucket);
            lifecycle_columns().list(&page.items, empty)
        })
        .verb::<PutLifecycleRule>(
            "put",
            &[
                "buckets lifecycle put photos old --prefix tmp/ --delete-after 30d",
                "buckets lifecycle put photos stale --abort-uploads-after 12h",
            ],
            |it, rule| format!("set lifecycle rule {} of bucket {}\n", rule.id, it.bucket),
        )
        .deletes::<DeleteLifecycleRule>(&["buckets lifecycle delete photos old --yes"], |it| {
            format!("lifecycle rule {} of bucket {}", it.id, it.bucket)
        })
}

fn cors() -> Noun {
    Noun::new("cors", "List and set the rules for pages of other origins")
        .verb::<ListCorsRules>("list", &["buckets cors list photos"], |it, page| {
            cors_columns().list(&page.items, format!("bucket {} has no CORS rules\n", it.bucket))
        })
        .verb::<PutCorsRule>(
            "put",
            &[
                "buckets cors put photos app --origin https://app.example --method GET,PUT",
                "buckets cors put photos all --origin '*' --method GET --expose etag --max-age 1h",
            ],
            |it, rule| format!("set CORS rule {} of bucket {}\n", rule.id, it.bucket),
        )
        .deletes::<DeleteCorsRule>(&["buckets cors delete photos app --yes"], |it| {
            format!("CORS rule {} of bucket {}", it.id, it.bucket)
        })
}

fn create(SavedBucket { bucket, created }: &SavedBucket) -> String {
    let change = if *created { "created" } else { "updated" };
    let max = bucket.max_blob_bytes.map(|it| format!("; at most {it} bytes per blob"));
    format!("{change} bucket {}{}\n", bucket.name, max.unwrap_or_default())
}

fn ls(it: &ListBlobs, page: &BlobPage) -> String {
    let (bucket, prefix) = (&it.place.bucket, &it.place.key);
    let empty = match prefix.is_empty() {
        true => format!("bucket {bucket} is empty\n"),
        false => format!("bucket {bucket} has no keys that begin with `{prefix}`\n"),
    };
    blob_columns("", "").list(&listed(page), empty)
}

fn rule_columns() -> Columns<'static, BucketRule> {
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

fn lifecycle_columns() -> Columns<'static, LifecycleRule> {
    let time = |ms: Option<u64>| ms.map(words_of).unwrap_or_default();
    Columns::<LifecycleRule>::new()
        .text("Rule", |it| it.id.clone())
        .text("Prefix", |it| it.prefix.clone())
        .may_be_empty()
        .text("Delete after", move |it| time(it.delete_after_ms))
        .text("Abort uploads after", move |it| time(it.abort_uploads_after_ms))
}

fn cors_columns() -> Columns<'static, CorsRule> {
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
