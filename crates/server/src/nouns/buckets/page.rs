//! Pages of buckets: the list, a bucket with its blobs, a blob, the rules, and the events.

pub(crate) mod blob;
pub(crate) mod rules;

use std::sync::Arc;

use axum::{
    extract::{Multipart, Path, State, multipart::MultipartRejection},
    response::Redirect,
};
use maud::{Markup, html};
use serde::Deserialize;
use steadfast_api::{
    Code, DeliveryState, Limit,
    buckets::{
        Blob, BlobPage, BlobPath, Bucket, BucketEvent, ListBlobs, ListBucketEvents, ListBuckets,
        PutBucket, ShowBucket,
    },
    rfc3339,
};
use steadfast_bucket::{Attributes, PutOptions};
use steadfast_web::{
    Page, Params, Problem,
    console::{Section, console},
    escaped,
};

use crate::{
    list::Columns,
    nouns::{
        buckets::{
            self as api,
            blobs::{names, write},
            page::rules::{lifecycle_card, rules_card},
        },
        streams::page::delivery_badge,
    },
    pages::{
        BUCKETS,
        components::{
            column, command, confirm, empty, heading_of, link, live, live_page, number, optional,
            pager, table, text, time, times,
        },
        forms::Fields,
        links::{bucket_path, queue_path},
    },
    server::Server,
};

/// Events on the page of a bucket.
const EVENTS: u32 = 20;

/// The path of the page of a prefix.
fn path_in(bucket: &str, prefix: &str) -> String {
    match prefix {
        "" => bucket_path(bucket),
        _ => format!("{}?prefix={}", bucket_path(bucket), escaped(prefix)),
    }
}

/// The path of the page of a blob. The key is in the query: a browser would resolve `..` in a path.
fn path_to(bucket: &str, key: &str) -> String {
    format!("{}/blob?key={}", bucket_path(bucket), escaped(key))
}

/// The path of the bytes of a blob.
fn bytes_of(bucket: &str, key: &str) -> String {
    BlobPath { bucket: bucket.into(), key: key.into() }.path()
}

/// The part of a key up to its last slash.
fn folder_of(key: &str) -> &str {
    key.rfind('/').map_or("", |end| &key[..=end])
}

/// Formats a size for people.
fn size(count: u64) -> String {
    match count {
        0..1_000 => format!("{count} B"),
        1_000..1_000_000 => format!("{:.1} kB", count as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} MB", count as f64 / 1e6),
        _ => format!("{:.1} GB", count as f64 / 1e9),
    }
}

/// The columns of the list.
pub(crate) fn columns() -> Columns<'static, Bucket> {
    let count = |count: usize| optional(Some(count).filter(|it| 0 < *it));
    Columns::<Bucket>::new()
        .text("Bucket", |it| it.name.to_string())
        .markup(|it| link(bucket_path(it.name.as_str()), it.name.as_str()))
        .time("Created", |it| it.created_at.rfc3339())
        .number("Max blob bytes", |it| it.max_blob_bytes.map_or(String::new(), |it| it.to_string()))
        .markup(|it| optional(it.max_blob_bytes.map(size)))
        .number("Rules", |it| it.rules.len().to_string())
        .markup(move |it| count(it.rules.len()))
        .number("Lifecycle", |it| it.lifecycle.len().to_string())
        .markup(move |it| count(it.lifecycle.len()))
}

/// Lists the buckets.
pub(crate) async fn list(
    State(server): State<Arc<Server>>,
    Params(params): Params<ListBuckets>,
) -> Result<Page, Problem> {
    let page = api::list(server, params).await?;
    let content = html! {
        h1 { "Buckets" }
        p.lead {
            "Blobs by key. A rule sends each change to a queue in the same commit. · "
            a href="/v1/buckets" { "JSON" }
        }
        form.search method="post" action="/buckets" {
            label for="name" { "New bucket" }
            input #name name="name" required minlength="3" maxlength="63" autocomplete="off"
                pattern="[a-z0-9][a-z0-9.\\-]*[a-z0-9]"
                title="3 to 63 lowercase letters, digits, - or .";
            button.button { "Create" }
        }
        (columns().page(&page, &empty("No bucket", &command(
            "Create one here, with an S3 client, or:",
            "steadfast buckets create BUCKET",
        )), "/buckets", ""))
    };
    Ok(console("Buckets", Section::Buckets, content))
}

/// Creates a bucket and shows it.
pub(crate) async fn create(
    State(server): State<Arc<Server>>,
    mut form: Fields,
) -> Result<Redirect, Problem> {
    let request = PutBucket { bucket: form.required("name")?, ..PutBucket::default() };
    form.end()?;
    Ok(Redirect::to(&bucket_path(api::put(server, request).await?.bucket.name.as_str())))
}

/// The query of the page of a bucket.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ShowParams {
    #[serde(default)]
    prefix: String,
    #[serde(default)]
    limit: Limit,
    cursor: Option<String>,
}

/// Shows one bucket: a level of its blobs, its latest events and its rules.
pub(crate) async fn show(
    State(server): State<Arc<Server>>,
    Path(bucket): Path<String>,
    Params(ShowParams { prefix, limit, cursor }): Params<ShowParams>,
) -> Result<Page, Problem> {
    let view = api::show(server.clone(), ShowBucket { bucket: bucket.clone() }).await?;
    // Only the first page is refreshed.
    let busy = cursor.is_none();
    let place = BlobPath { bucket: bucket.clone(), key: prefix.clone() };
    let blobs = ListBlobs { place, delimiter: "/".into(), limit, cursor };
    let page = api::list_blobs(server.clone(), blobs).await?;
    let (of, limit) = (bucket.clone(), Limit::of(EVENTS));
    let events = ListBucketEvents { bucket: of, limit, cursor: None };
    let events = api::list_events(server, events).await?;
    let path = bucket_path(&bucket);
    let filter = format!("prefix={}", escaped(&prefix));
    let content = html! {
        (crumbs(&bucket, &prefix))
        h1.address { (bucket) }
        p.lead {
            "created " (time(view.created_at.rfc3339()))
            @if let Some(max) = view.max_blob_bytes { " · at most " (size(max)) " per blob" }
            " · " a href={ "/v1" (path) } { "JSON" }
        }
        (upload_form(&bucket, &prefix))
        form.search method="get" action=(path) role="search" {
            label for="prefix" { "Prefix of keys" }
            input #prefix name="prefix" type="search" value=(prefix);
            button.button { "Find" }
        }
        (live(busy, &html! {
            (blob_table(&bucket, &prefix, &page))
            (pager(&path, &filter, page.next.as_deref()))
            h2.next { "Latest events" }
            (event_table(&bucket, &events.items, !view.rules.is_empty()))
            @if events.next.is_some() {
                p.more { a.button href={ (path) "/events" } { "All events" } }
            }
        }))
        section.columns.next { (rules_card(&view)) (lifecycle_card(&view)) }
        div.actions.next {
            (confirm(&format!("{path}/delete"), "Delete the bucket",
                "It must be empty. Its rules are deleted with it.", "Delete it"))
        }
    };
    Ok(live_page(&bucket, Section::Buckets, content).script(&BUCKETS))
}

/// Links to the levels above.
fn crumbs(bucket: &str, prefix: &str) -> Markup {
    let ends: Vec<usize> = prefix.match_indices('/').map(|(at, _)| at + 1).collect();
    let begins = std::iter::once(0).chain(ends.iter().copied());
    let levels = begins.zip(&ends).map(|(begin, &end)| (&prefix[begin..end - 1], &prefix[..end]));
    let rest = &prefix[ends.last().copied().unwrap_or(0)..];
    html! {
        p.crumbs.address {
            a href="/buckets" { "← Buckets" } " / " a href=(bucket_path(bucket)) { (bucket) }
            @for (name, level) in levels { " / " a href=(path_in(bucket, level)) { (name) } }
            @if !rest.is_empty() { " / " (rest) "…" }
        }
    }
}

/// Uploads files. The script sends them one by one and shows the progress.
fn upload_form(bucket: &str, prefix: &str) -> Markup {
    let path = bucket_path(bucket);
    html! {
        form.card.upload #upload method="post" enctype="multipart/form-data"
            action={ (path) "/upload?prefix=" (escaped(prefix)) }
            data-objects={ "/v1" (path) "/objects/" } data-prefix=(prefix) {
            label for="file" { "Upload to " code.address { (bucket) "/" (prefix) } }
            div.line {
                input #file type="file" name="file" multiple required;
                button.button { "Upload" }
            }
            p.progress #progress role="status" hidden {
                progress max="1" value="0" {} " " span {}
            }
            p.problem #problem role="alert" hidden {}
        }
    }
}

fn blob_table(bucket: &str, prefix: &str, page: &BlobPage) -> Markup {
    if page.items.is_empty() && page.prefixes.is_empty() {
        let fact = if prefix.is_empty() { "The bucket is empty" } else { "No key has this prefix" };
        let cp = format!("steadfast buckets cp FILE {bucket}/{prefix}");
        return empty(fact, &command("Upload a file here, with an S3 client, or:", &cp));
    }
    blob_columns(bucket, prefix).table_of("blobs", &listed(page), |_| "")
}

/// A line of a list of blobs.
pub(crate) enum BlobLine<'a> {
    /// The common prefix of several keys.
    Prefix(&'a str),
    /// A blob.
    Blob(&'a Blob),
}

impl BlobLine<'_> {
    fn key(&self) -> &str {
        match self {
            Self::Prefix(prefix) => prefix,
            Self::Blob(blob) => blob.key.as_str(),
        }
    }

    /// A property of the blob; a prefix has none.
    fn of_blob(&self, text: impl Fn(&Blob) -> String) -> String {
        match self {
            Self::Prefix(_) => String::new(),
            Self::Blob(blob) => text(blob),
        }
    }
}

/// The lines of a list of blobs: prefixes first.
pub(crate) fn listed(page: &BlobPage) -> Vec<BlobLine<'_>> {
    let prefixes = page.prefixes.iter().map(|it| BlobLine::Prefix(it));
    prefixes.chain(page.items.iter().map(BlobLine::Blob)).collect()
}

/// The columns of the blobs below a prefix of a bucket.
pub(crate) fn blob_columns<'a>(bucket: &'a str, prefix: &'a str) -> Columns<'a, BlobLine<'a>> {
    let short = move |key: &str| match key.strip_prefix(prefix) {
        Some("") | None => key.to_owned(),
        Some(rest) => rest.to_owned(),
    };
    let name = move |it: &BlobLine<'_>| match it {
        BlobLine::Prefix(key) => {
            html! { a.address.folder href=(path_in(bucket, key)) { (short(key)) } }
        }
        BlobLine::Blob(it) => link(path_to(bucket, it.key.as_str()), short(it.key.as_str())),
    };
    let get = move |it: &BlobLine<'_>| match it {
        BlobLine::Prefix(_) => html! {},
        BlobLine::Blob(it) => {
            html! { a.button href=(bytes_of(bucket, it.key.as_str())) { "Download" } }
        }
    };
    Columns::<BlobLine<'_>>::new()
        .text("Key", |it| it.key().to_owned())
        .markup(name)
        .number("Size", |it| it.of_blob(|it| it.size.to_string()))
        .markup(|it| text(it.of_blob(|it| size(it.size))))
        .time("Modified", |it| it.of_blob(|it| rfc3339(it.modified_at)))
        .text("Type", |it| it.of_blob(|it| it.attributes.content_type.clone().unwrap_or_default()))
        .number("Sequence", |it| it.of_blob(|it| it.sequence.to_string()))
        .console("Actions", get)
        .class("picture")
}

/// Lists the events of a bucket: the change, the rule that sent it, and the state of its message.
pub(crate) async fn events(
    State(server): State<Arc<Server>>,
    Path(bucket): Path<String>,
    Params(params): Params<ListBucketEvents>,
) -> Result<Page, Problem> {
    let busy = params.cursor.is_none();
    let asked = ListBucketEvents { bucket: bucket.clone(), ..params };
    let page = api::list_events(server, asked).await?;
    let path = format!("{}/events", bucket_path(&bucket));
    let content = html! {
        (heading_of(&bucket_path(&bucket), &bucket, "Events"))
        p.lead { "Stored events, newest first. · " a href={ "/v1" (path) } { "JSON" } }
        (live(busy, &html! {
            (event_table(&bucket, &page.items, true))
            (pager(&path, "", page.next.as_deref()))
        }))
    };
    Ok(live_page("Events", Section::Buckets, content))
}

fn event_table(bucket: &str, events: &[BucketEvent], has_rules: bool) -> Markup {
    if events.is_empty() {
        let why = match has_rules {
            true => "No recent events.",
            false => "No rule sends events of this bucket; add one below.",
        };
        return html! { p.quiet { (why) } };
    }
    let row = |it: &BucketEvent| {
        let event = &it.event;
        let key = match event.action.is_deletion() {
            true => html! { span.address { (event.key()) } },
            false => link(path_to(bucket, event.key()), event.key()),
        };
        let message = html! {
            div {
                @if let Some(state) = it.state { (delivery_badge(state)) " " }
                a.quiet href={ "/v1/messages/" (it.message_id) }
                    title={ "Message " (it.message_id) " as JSON" } { "#" (it.message_id) }
            }
        };
        let attempts = optional(Some(it.attempts).filter(|it| 0 < *it));
        [
            time(&event.event_time),
            text(event.action.name()),
            key,
            text(event.sequence),
            text(&it.rule),
            link(queue_of(it), &it.queue),
            message,
            attempts,
            optional(it.last_error.as_deref()),
        ]
    };
    let columns = [
        times("When"),
        column("Change"),
        column("Key"),
        number("Sequence"),
        column("Rule"),
        column("Queue"),
        column("Message"),
        number("Attempts"),
        column("Error").class("error"),
    ];
    table(&columns, events.iter().map(row))
}

/// The page of the queue, with the tab of the message.
fn queue_of(it: &BucketEvent) -> String {
    let path = queue_path(&it.queue);
    match it.state {
        Some(DeliveryState::Pending) => format!("{path}?state=pending"),
        Some(DeliveryState::InFlight) => format!("{path}?state=in-flight"),
        Some(DeliveryState::Dead) => format!("{path}?state=dead"),
        Some(DeliveryState::Done | DeliveryState::Cancelled) | None => path,
    }
}

/// The query of an upload.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct UploadParams {
    #[serde(default)]
    prefix: String,
}

/// Writes the files of a form, each under its name, and shows the bucket. They are streamed as they
/// arrive.
pub(crate) async fn upload(
    State(server): State<Arc<Server>>,
    Path(bucket): Path<String>,
    Params(UploadParams { prefix }): Params<UploadParams>,
    form: Result<Multipart, MultipartRejection>,
) -> Result<Redirect, Problem> {
    let bad = |text: String| Problem::of(Code::BadRequest, text);
    let mut form = form.map_err(|error| bad(error.body_text()))?;
    let mut is_empty = true;
    while let Some(file) = form.next_field().await.map_err(|error| bad(error.body_text()))? {
        // Old browsers send the whole path of the file.
        let name = file.file_name().and_then(|it| it.rsplit(['/', '\\']).next());
        let Some(name) = name.filter(|it| !it.is_empty()) else { continue };
        let (bucket, key) = names(&bucket, &format!("{prefix}{name}"))?;
        let content_type = file.content_type().map(str::to_owned);
        let attributes = Attributes { content_type, ..Attributes::default() };
        let put = PutOptions { attributes, ..PutOptions::default() };
        write(&server, (&bucket, &key), file, put).await?;
        is_empty = false;
    }
    if is_empty {
        return Err(bad("no file was chosen; go back and choose one".into()));
    }
    Ok(Redirect::to(&path_in(&bucket, &prefix)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_of_a_key_ends_at_its_last_slash() {
        assert_eq!(folder_of("a/b/c.png"), "a/b/");
        assert_eq!((folder_of("c.png"), folder_of("a/")), ("", "a/"));
    }

    #[test]
    fn a_link_to_any_key_stays_in_its_bucket() {
        assert_eq!(path_to("abc", "../x?y#z"), "/buckets/abc/blob?key=..%2Fx%3Fy%23z");
        assert_eq!(bytes_of("abc", "a/../b"), "/v1/buckets/abc/objects/a%2F..%2Fb");
    }
}
