//! `steadfast buckets …`.

use steadfast_api::{
    Page,
    buckets::{
        BlobPage, Bucket, BucketRule, CorsRule, DeleteBlob, DeleteBucket, DeleteBucketRule,
        DeleteCorsRule, DeleteLifecycleRule, DeletedBlob, LifecycleRule, ListBlobs,
        ListBucketRules, ListBuckets, ListCorsRules, ListLifecycleRules, PresignBlob, PutBucket,
        PutBucketRule, PutCorsRule, PutLifecycleRule, SavedBucket,
    },
};

use crate::{
    cli::{
        noun::Noun,
        output::{Table, or_dash},
    },
    nouns::buckets::{
        copy,
        page::{blob_columns, columns, listed},
    },
    waterfall::words,
};

pub(crate) fn verbs() -> Noun {
    Noun::new("buckets", "List buckets, copy files into and out of them, set their rules")
        .verb::<ListBuckets>("list", &["buckets list"], |_, page| list(page))
        .verb::<PutBucket>(
            "create",
            &["buckets create photos", "buckets create photos --max-blob-bytes 10000000"],
            |_, saved| create(saved),
        )
        .destroys::<DeleteBucket>(
            "delete",
            &["buckets delete photos --yes"],
            (
                |it| format!("Delete bucket {}?", it.bucket),
                |it, _| format!("deleted bucket {}\n", it.bucket),
            ),
        )
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
            (|it| format!("Delete blob {}/{}?", it.blob.bucket, it.blob.key), rm),
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
        .verb::<ListBucketRules>("list", &["buckets rules list photos"], list_rules)
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
        .destroys::<DeleteBucketRule>(
            "delete",
            &["buckets rules delete photos thumbnails --yes"],
            (
                |it| format!("Delete rule {} of bucket {}?", it.id, it.bucket),
                |it, _| format!("deleted rule {} of bucket {}\n", it.id, it.bucket),
            ),
        )
}

fn lifecycle() -> Noun {
    Noun::new("lifecycle", "List and set the rules that delete old blobs of a bucket")
        .verb::<ListLifecycleRules>("list", &["buckets lifecycle list photos"], list_lifecycle)
        .verb::<PutLifecycleRule>(
            "put",
            &[
                "buckets lifecycle put photos old --prefix tmp/ --delete-after 30d",
                "buckets lifecycle put photos stale --abort-uploads-after 12h",
            ],
            |it, rule| format!("set lifecycle rule {} of bucket {}\n", rule.id, it.bucket),
        )
        .destroys::<DeleteLifecycleRule>(
            "delete",
            &["buckets lifecycle delete photos old --yes"],
            (
                |it| format!("Delete lifecycle rule {} of bucket {}?", it.id, it.bucket),
                |it, _| format!("deleted lifecycle rule {} of bucket {}\n", it.id, it.bucket),
            ),
        )
}

fn cors() -> Noun {
    Noun::new("cors", "List and set the rules for pages of other origins")
        .verb::<ListCorsRules>("list", &["buckets cors list photos"], list_cors)
        .verb::<PutCorsRule>(
            "put",
            &[
                "buckets cors put photos app --origin https://app.example --method GET,PUT",
                "buckets cors put photos all --origin '*' --method GET --expose etag --max-age 1h",
            ],
            |it, rule| format!("set CORS rule {} of bucket {}\n", rule.id, it.bucket),
        )
        .destroys::<DeleteCorsRule>(
            "delete",
            &["buckets cors delete photos app --yes"],
            (
                |it| format!("Delete CORS rule {} of bucket {}?", it.id, it.bucket),
                |it, _| format!("deleted CORS rule {} of bucket {}\n", it.id, it.bucket),
            ),
        )
}

fn list(page: &Page<Bucket>) -> String {
    if page.items.is_empty() {
        return "no buckets; create one with `steadfast buckets create`\n".into();
    }
    columns().write(&page.items)
}

fn create(SavedBucket { bucket, created }: &SavedBucket) -> String {
    let change = if *created { "created" } else { "updated" };
    let max = bucket.max_blob_bytes.map(|it| format!("; at most {it} bytes per blob"));
    format!("{change} bucket {}{}\n", bucket.name, max.unwrap_or_default())
}

fn ls(it: &ListBlobs, page: &BlobPage) -> String {
    if page.items.is_empty() && page.prefixes.is_empty() {
        let (bucket, prefix) = (&it.place.bucket, &it.place.key);
        return match prefix.is_empty() {
            true => format!("bucket {bucket} is empty\n"),
            false => format!("bucket {bucket} has no keys that begin with `{prefix}`\n"),
        };
    }
    blob_columns("", "").write(&listed(page))
}

fn rm(it: &DeleteBlob, DeletedBlob { key, sequence }: &DeletedBlob) -> String {
    format!("deleted {}/{key}; sequence {sequence}\n", it.blob.bucket)
}

fn list_rules(it: &ListBucketRules, page: &Page<BucketRule>) -> String {
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

fn list_lifecycle(it: &ListLifecycleRules, page: &Page<LifecycleRule>) -> String {
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

fn list_cors(it: &ListCorsRules, page: &Page<CorsRule>) -> String {
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
