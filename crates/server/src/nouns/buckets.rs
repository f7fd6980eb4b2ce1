//! Buckets: their blobs, rules and events.

pub(crate) mod blobs;
mod copy;
mod headers;
pub(crate) mod page;
#[cfg(test)]
mod tests;
mod verbs;

use std::{sync::Arc, time::Duration};

use steadfast_api::{
    Code, Operation, Page, RouteScope,
    buckets::{
        BlobPage, Bucket, BucketEvent, BucketRule, CorsRule, DeleteBlob, DeleteBucket,
        DeleteBucketRule, DeleteCorsRule, DeleteLifecycleRule, Deleted, LifecycleRule, ListBlobs,
        ListBucketEvents, ListBucketRules, ListBuckets, ListCorsRules, ListLifecycleRules,
        PresignBlob, PresignMethod, PresignedUrl, PutBucket, PutBucketRule, PutCorsRule,
        PutLifecycleRule, SavedBucket, ShowBucket, ShowBucketRule, ShowLifecycleRule,
    },
    rfc3339,
};
use steadfast_bucket::{BucketError, BucketName, BucketSettings, ListOptions};
use steadfast_core::{ResourceKind, Role, Verb, object::Caller};
use steadfast_s3::presign as sign;
use steadfast_store::{Clock, DueCursor, Recorded, State, SystemClock, queue_address};
use steadfast_web::{Cursor, PageRequest, Problem, bad_cursor, needs};
use utoipa_axum::routes;

use crate::{
    access::{record, url_keys},
    cli::noun::Noun,
    nouns::buckets::blobs::names,
    operation::{ApiRoutes, fails_with},
    pages::{PageRoute, form, get, links::bucket_path, post},
    server::Server,
};

/// Maximum lifetime of a URL that a member presigns. Others may use that of S3.
const MEMBER_URL_MAX: Duration = Duration::from_hours(24);

pub(crate) fn routes() -> ApiRoutes {
    ApiRoutes::default()
        .operation(list)
        .operation(show)
        .operation(put)
        .operation(delete)
        .operation(list_rules)
        .operation(show_rule)
        .operation(put_rule)
        .operation(delete_rule)
        .operation(list_lifecycle)
        .operation(show_lifecycle)
        .operation(put_lifecycle)
        .operation(delete_lifecycle)
        .operation(list_cors)
        .operation(put_cors)
        .operation(delete_cors)
        .operation(list_blobs)
        .operation(list_events)
        .operation_by(presign)
}

/// The routes without a fixed limit for bodies: the bucket has one.
pub(crate) fn large_routes() -> ApiRoutes {
    use blobs::{ERRORS, ERRORS_OF_WRITES};
    let of_write = ERRORS.into_iter().chain(ERRORS_OF_WRITES).chain(Code::OF_CHANGES);
    let of_get =
        ERRORS.into_iter().chain([Code::RangeNotSatisfiable, Code::BlobDamaged, Code::BlobMissing]);
    let scope =
        |verb| RouteScope::Resource { kind: ResourceKind::Bucket, names: &["bucket", "key"], verb };
    ApiRoutes::default()
        .routes(scope(Verb::Read), fails_with(of_get, needs(Role::Viewer, routes!(blobs::get))))
        .routes(scope(Verb::Read), fails_with(ERRORS, needs(Role::Viewer, routes!(blobs::head))))
        .routes(scope(Verb::Write), fails_with(of_write, needs(Role::Member, routes!(blobs::put))))
        .routes(
            DeleteBlob::INFO.scope,
            fails_with(DeleteBlob::INFO.codes(), needs(DeleteBlob::NEEDS, routes!(blobs::delete))),
        )
}

/// The pages of the console.
pub(crate) fn pages() -> Vec<PageRoute> {
    use page::{blob, rules};
    let upload = post("/buckets/{b}/upload", PresignBlob::NEEDS, page::upload);
    vec![
        get("/buckets", page::list),
        post("/buckets", PutBucket::NEEDS, page::create),
        get("/buckets/{b}", page::show),
        form("/buckets/{b}/delete", delete, |_| "/buckets".to_owned()),
        get("/buckets/{b}/events", page::events),
        get("/buckets/{b}/blob", blob::blob),
        post("/buckets/{b}/blob/delete", DeleteBlob::NEEDS, blob::delete_blob),
        post("/buckets/{b}/blob/link", PresignBlob::NEEDS, blob::presign),
        post("/buckets/{b}/rules", PutBucketRule::NEEDS, rules::put_rule),
        form("/buckets/{b}/rules/{id}/delete", delete_rule, |it| bucket_path(&it.bucket)),
        post("/buckets/{b}/lifecycle", PutLifecycleRule::NEEDS, rules::put_lifecycle),
        form("/buckets/{b}/lifecycle/{id}/delete", delete_lifecycle, |it| bucket_path(&it.bucket)),
        PageRoute { is_large: true, ..upload },
    ]
}

/// The verbs of the command line.
pub(crate) fn verbs() -> Noun {
    Noun::new("buckets", "List buckets, copy files into and out of them, set their rules")
        .verb::<ListBuckets>("list", &["buckets list"], |_, found| {
            let empty = "no buckets; create one with `steadfast buckets create`\n";
            page::columns().list(&found.items, empty)
        })
        .verb::<PutBucket>(
            "create",
            &["buckets create photos", "buckets create photos --max-blob-bytes 10000000"],
            |_, saved| verbs::create(saved),
        )
        .deletes::<DeleteBucket>(&["buckets delete photos --yes"], |it| {
            format!("bucket {}", it.bucket)
        })
        .verb::<ListBlobs>(
            "ls",
            &["buckets ls photos", "buckets ls photos/2026/ --limit 1000"],
            verbs::ls,
        )
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
                verbs::rm,
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
        .verb::<ListBucketRules>("list", &["buckets rules list photos"], |it, found| {
            let empty = format!("bucket {} has no rules\n", it.bucket);
            verbs::rule_columns().list(&found.items, empty)
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
        .verb::<ListLifecycleRules>("list", &["buckets lifecycle list photos"], |it, found| {
            let empty = format!("bucket {} has no lifecycle rules\n", it.bucket);
            verbs::lifecycle_columns().list(&found.items, empty)
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
        .verb::<ListCorsRules>("list", &["buckets cors list photos"], |it, found| {
            let empty = format!("bucket {} has no CORS rules\n", it.bucket);
            verbs::cors_columns().list(&found.items, empty)
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

pub(crate) async fn list(server: Arc<Server>, it: ListBuckets) -> Result<Page<Bucket>, Problem> {
    let page = PageRequest::new(it.limit, it.cursor.as_deref())?;
    let after = page.after_name()?.map(BucketName::new).transpose().map_err(|_| bad_cursor())?;
    let found = server.buckets()?.buckets(after.as_ref(), page.limit + 1).await?;
    Ok(page.page(found, |it| Cursor::Name(it.name.to_string()), |it| it))
}

pub(crate) async fn show(server: Arc<Server>, it: ShowBucket) -> Result<Bucket, Problem> {
    Ok(server.buckets()?.bucket(&BucketName::new(&it.bucket)?).await?)
}

pub(crate) async fn put(server: Arc<Server>, it: PutBucket) -> Result<SavedBucket, Problem> {
    let name = BucketName::new(&it.bucket)?;
    let max_blob_bytes = it.max_blob_bytes.flatten();
    // Check first: invalid settings must not create a bucket.
    BucketSettings { max_blob_bytes, ..BucketSettings::default() }.check()?;
    let created = match server.buckets()?.create(&name).await {
        Ok(_) => true,
        Err(BucketError::BucketExists { .. }) => false,
        Err(error) => return Err(error.into()),
    };
    if let Some(max) = it.max_blob_bytes {
        let set = |settings: &mut BucketSettings| {
            settings.max_blob_bytes = max;
            Ok(())
        };
        let set = server.buckets()?.configure(&name, &set).await;
        set.map_err(|it| match created {
            true => {
                let detail = format!("bucket created, but not its settings: {it}; send it again");
                Problem::of(Code::OutcomeUnknown, detail)
            }
            false => it.into(),
        })?;
    }
    let bucket = show(server, ShowBucket { bucket: it.bucket }).await;
    Ok(SavedBucket { bucket: bucket.map_err(Problem::after_change)?, created })
}

pub(crate) async fn delete(server: Arc<Server>, it: DeleteBucket) -> Result<Deleted, Problem> {
    server.buckets()?.delete_bucket(&BucketName::new(&it.bucket)?).await?;
    Ok(Deleted { deleted: true })
}

/// Finds a rule of a bucket.
fn rule_of<T>(found: Option<T>, bucket: String, rule: String) -> Result<T, Problem> {
    Ok(found.ok_or(BucketError::UnknownRule { bucket, rule })?)
}

async fn list_rules(server: Arc<Server>, it: ListBucketRules) -> Result<Page<BucketRule>, Problem> {
    Ok(Page::whole(show(server, ShowBucket { bucket: it.bucket }).await?.rules))
}

async fn show_rule(server: Arc<Server>, it: ShowBucketRule) -> Result<BucketRule, Problem> {
    let shown = show(server, ShowBucket { bucket: it.bucket.clone() }).await?;
    rule_of(shown.rules.into_iter().find(|rule| rule.id == it.id), it.bucket, it.id)
}

pub(crate) async fn put_rule(
    server: Arc<Server>,
    it: PutBucketRule,
) -> Result<BucketRule, Problem> {
    let (bucket, id) = (it.bucket.clone(), it.id.clone());
    server.buckets()?.put_rule(&BucketName::new(&bucket)?, it.into()).await?;
    show_rule(server, ShowBucketRule { bucket, id }).await.map_err(Problem::after_change)
}

pub(crate) async fn delete_rule(
    server: Arc<Server>,
    it: DeleteBucketRule,
) -> Result<Deleted, Problem> {
    server.buckets()?.delete_rule(&BucketName::new(&it.bucket)?, &it.id).await?;
    Ok(Deleted { deleted: true })
}

async fn list_lifecycle(
    server: Arc<Server>,
    it: ListLifecycleRules,
) -> Result<Page<LifecycleRule>, Problem> {
    Ok(Page::whole(show(server, ShowBucket { bucket: it.bucket }).await?.lifecycle))
}

async fn show_lifecycle(
    server: Arc<Server>,
    it: ShowLifecycleRule,
) -> Result<LifecycleRule, Problem> {
    let shown = show(server, ShowBucket { bucket: it.bucket.clone() }).await?;
    rule_of(shown.lifecycle.into_iter().find(|rule| rule.id == it.id), it.bucket, it.id)
}

pub(crate) async fn put_lifecycle(
    server: Arc<Server>,
    it: PutLifecycleRule,
) -> Result<LifecycleRule, Problem> {
    let (bucket, id) = (it.bucket.clone(), it.id.clone());
    server.buckets()?.put_lifecycle(&BucketName::new(&bucket)?, it.into()).await?;
    let shown = show_lifecycle(server, ShowLifecycleRule { bucket, id }).await;
    shown.map_err(Problem::after_change)
}

pub(crate) async fn delete_lifecycle(
    server: Arc<Server>,
    it: DeleteLifecycleRule,
) -> Result<Deleted, Problem> {
    server.buckets()?.delete_lifecycle(&BucketName::new(&it.bucket)?, &it.id).await?;
    Ok(Deleted { deleted: true })
}

async fn list_cors(server: Arc<Server>, it: ListCorsRules) -> Result<Page<CorsRule>, Problem> {
    Ok(Page::whole(server.buckets()?.cors(&BucketName::new(&it.bucket)?).await?))
}

async fn put_cors(server: Arc<Server>, it: PutCorsRule) -> Result<CorsRule, Problem> {
    let bucket = BucketName::new(&it.bucket)?;
    let rule = CorsRule::from(it);
    server.buckets()?.put_cors(&bucket, rule.clone()).await?;
    Ok(rule)
}

async fn delete_cors(server: Arc<Server>, it: DeleteCorsRule) -> Result<Deleted, Problem> {
    server.buckets()?.delete_cors(&BucketName::new(&it.bucket)?, &it.id).await?;
    Ok(Deleted { deleted: true })
}

pub(crate) async fn list_blobs(server: Arc<Server>, it: ListBlobs) -> Result<BlobPage, Problem> {
    let page = PageRequest::new(it.limit, it.cursor.as_deref())?;
    let options = ListOptions {
        prefix: it.place.key,
        delimiter: it.delimiter,
        after: page.after_name()?.map(str::to_owned),
        limit: Some(page.limit),
    };
    let listing = server.buckets()?.list(&BucketName::new(&it.place.bucket)?, &options).await?;
    Ok(BlobPage {
        items: listing.blobs,
        prefixes: listing.prefixes,
        next: listing.next.map(|it| Cursor::Name(it).encode()),
    })
}

pub(crate) async fn list_events(
    server: Arc<Server>,
    it: ListBucketEvents,
) -> Result<Page<BucketEvent>, Problem> {
    let page = PageRequest::new(it.limit, it.cursor.as_deref())?;
    let before = Some(page.after_version()?).filter(|it| 0 < *it);
    let name = BucketName::new(&it.bucket)?;
    let found = server.buckets()?.events(&name, before, page.limit).await?;
    let oldest = found.last().map_or(1, |it| it.message.version);
    let next = (1 < oldest).then(|| Cursor::Version(oldest).encode());
    let mut items = Vec::new();
    for sent in found {
        let queue = queue_of(&server, &sent.message).await?;
        items.push(BucketEvent::new(sent, queue));
    }
    Ok(Page { items, next })
}

/// The queue that holds a message: the one that it was sent to, or its dead-letter queue.
async fn queue_of(server: &Server, message: &Recorded) -> Result<String, Problem> {
    // The type of a queued message is the name of its queue.
    let sent_to = message.message_type.clone();
    let at = match &message.state {
        None => return Ok(sent_to),
        Some(State::Settled(settled)) => {
            let Some(queue) = settled.queue else { return Ok(sent_to) };
            let known = server.runtime.store().addresses(&[queue]).await?;
            return Ok(known.get(&queue).map_or(sent_to, |it| it.class().to_owned()));
        }
        Some(State::Pending { due_at, .. }) => *due_at,
        Some(State::InFlight { until, .. }) => *until,
    };
    // Only failed messages move to another queue.
    if message.last_error.is_none() {
        return Ok(sent_to);
    }
    let after = DueCursor { due_at: at, position: message.position - 1 };
    let settings = server.runtime.queues().show(&sent_to).await.map(|it| it.settings);
    let dead_letters = settings.ok().and_then(|it| it.dead_letter_queue);
    for queue in [Some(sent_to.clone()), dead_letters].into_iter().flatten() {
        let Ok(address) = queue_address(&queue) else { continue };
        let found = server.runtime.store().queue_messages(address.id(), after, at, 1).await?;
        if found.first().is_some_and(|it| it.message.position == message.position) {
            return Ok(queue);
        }
    }
    Ok(sent_to)
}

pub(crate) async fn presign(
    server: Arc<Server>,
    caller: Caller,
    it: PresignBlob,
) -> Result<PresignedUrl, Problem> {
    let (bucket, key) = names(&it.blob.bucket, &it.blob.key)?;
    let expires = Duration::from_secs(it.expires_seconds);
    let is_member = caller.principal().is_some_and(|it| !it.has(Role::Operator));
    if is_member && MEMBER_URL_MAX < expires {
        let detail = format!(
            "a URL that role member presigns is valid for 24 hours at most, not for {} seconds; \
             ask for less, or ask an operator for it",
            it.expires_seconds
        );
        return Err(Problem::of(Code::InvalidInput, detail));
    }
    server.buckets()?.bucket(&bucket).await?;
    let (method, verb) = match it.method {
        PresignMethod::Get => {
            // A URL of a missing blob is a mistake: report it now.
            server.buckets()?.head(&bucket, &key).await?;
            (steadfast_s3::PresignMethod::Get, "GET")
        }
        PresignMethod::Put => (steadfast_s3::PresignMethod::Put, "PUT"),
    };
    let address = server.s3_address.ok_or_else(|| {
        let detail = "a presigned URL needs the S3 API, which is not open here; ask a server \
                      that has it";
        Problem::of(Code::Conflict, detail)
    })?;
    let (endpoint, now) = (server.transport.s3_url(address), SystemClock.now());
    let signer = url_keys::of_caller(&server, &caller).map_err(BucketError::from)?;
    let url = sign(&endpoint, &signer, method, (&bucket, &key), expires, now)
        .map_err(|error| Problem::of(Code::InvalidInput, error.to_string()))?;
    let expires_at = rfc3339(now.after(expires));
    record::describe(&format!("{verb} {bucket}/{key}, until {expires_at}"));
    Ok(PresignedUrl { url, expires_at })
}
