//! The buckets.

use std::sync::Arc;

use axum::{
    extract::{Form, State, rejection::FormRejection},
    response::Redirect,
};
use maud::{Markup, html};
use serde::Deserialize;
use steadfast_api::buckets::{Bucket, ListBuckets, PutBucket};
use steadfast_web::{
    Page,
    console::{Section, console},
};
use utoipa::ToSchema;

use super::{
    super::table::{more, time},
    bytes,
    control::unreadable,
    path_of,
};
use crate::{
    api::{
        buckets as api,
        page::{PageParams, Params},
        problem::Problem,
    },
    server::Server,
};

/// What the form of a new bucket says.
#[derive(Debug, Deserialize, ToSchema)]
pub(in super::super) struct BucketForm {
    /// Its name.
    name: String,
}

/// Shows the buckets.
#[utoipa::path(get, path = "/buckets", tag = "pages",
    params(PageParams),
    responses((status = 200, body = String, content_type = "text/html")),
)]
pub(in super::super) async fn buckets(
    State(server): State<Arc<Server>>,
    Params(params): Params<ListBuckets>,
) -> Result<Page, Problem> {
    let page = api::list(server, params).await?;
    let content = html! {
        h1 { "Buckets" }
        p.lead {
            "Blobs by key. Each change has a number, and is told to a queue in the same commit. · "
            a href="/v1/buckets" { "JSON" }
        }
        form.search method="post" action="/buckets" {
            label for="name" { "New bucket" }
            input #name name="name" required minlength="3" maxlength="63" autocomplete="off"
                pattern="[a-z0-9][a-z0-9.\\-]*[a-z0-9]"
                title="3 to 63 lowercase letters, digits, - or .";
            button.button { "Create" }
        }
        @if page.items.is_empty() {
            div.empty {
                h2 { "No bucket here" }
                p { "Make one here, with an S3 client, or:" }
                pre { code { "steadfast buckets create BUCKET" } }
            }
        } @else { (bucket_table(&page.items)) }
        (more("/buckets", page.next.as_deref()))
    };
    Ok(console("Buckets", Section::Buckets, content))
}

fn bucket_table(buckets: &[Bucket]) -> Markup {
    html! {
        div.scroll {
            table.rows {
                thead { tr {
                    th { "Bucket" } th { "Made (UTC)" } th.number { "Largest blob" }
                    th.number { "Rules" } th.number { "Lifecycle" }
                } }
                tbody { @for it in buckets { (row(it)) } }
            }
        }
    }
}

fn row(it: &Bucket) -> Markup {
    let count = |label: &str, count: usize| {
        html! {
            td.number.none[count == 0] data-label=(label) {
                @if count == 0 { span.quiet { "–" } } @else { (count) }
            }
        }
    };
    html! {
        tr {
            td data-label="Bucket" { a.address href=(path_of(&it.name)) { (it.name) } }
            td data-label="Made" { (time(&it.created_at)) }
            td.number.none[it.max_blob_bytes.is_none()] data-label="Largest blob" {
                @if let Some(max) = it.max_blob_bytes { (bytes(max)) } @else { span.quiet { "–" } }
            }
            (count("Rules", it.rules.len()))
            (count("Lifecycle", it.lifecycle.len()))
        }
    }
}

/// Makes a bucket, and shows it.
#[utoipa::path(post, path = "/buckets", tag = "pages",
    request_body(content = BucketForm, content_type = "application/x-www-form-urlencoded"),
    responses((status = 303, description = "It is there; its page is, too")),
)]
pub(in super::super) async fn create(
    State(server): State<Arc<Server>>,
    form: Result<Form<BucketForm>, FormRejection>,
) -> Result<Redirect, Problem> {
    let Form(BucketForm { name }) = form.map_err(unreadable)?;
    let request = PutBucket { bucket: name.trim().to_owned(), ..PutBucket::default() };
    let saved = api::put(server, request).await?;
    Ok(Redirect::to(&path_of(&saved.bucket.name)))
}
