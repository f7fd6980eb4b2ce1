//! One blob: what is known of it, what it looks like, and what can be done with it.

use std::sync::Arc;

use axum::{
    extract::{Form, Path, State, rejection::FormRejection},
    response::Redirect,
};
use maud::{Markup, html};
use serde::Deserialize;
use steadfast_api::buckets::{Blob, BlobPath, PresignBlob, PresignMethod, PresignedUrl};
use steadfast_bucket::Condition;
use steadfast_web::{
    Page,
    console::{Section, console},
};
use utoipa::{IntoParams, ToSchema};

use super::{
    super::table::time, browse::crumbs, bytes_of, control::unreadable, folder_of, path_in, path_of,
    preview::preview,
};
use crate::{
    api::{
        buckets::{blobs::names, presign},
        page::Params,
        problem::Problem,
    },
    server::Server,
};

/// The query of the page of a blob, and its buttons.
#[derive(Debug, Deserialize, IntoParams, ToSchema)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(in super::super) struct BlobForm {
    /// Its key.
    key: String,
}

/// What the form of a link says.
#[derive(Debug, Deserialize, ToSchema)]
pub(in super::super) struct LinkForm {
    /// The key.
    key: String,
    /// For how many seconds it holds.
    expires: u64,
}

/// Shows one blob.
#[utoipa::path(get, path = "/buckets/{b}/blob", tag = "pages",
    params(("b" = String, Path, description = "The bucket"), BlobForm),
    responses((status = 200, body = String, content_type = "text/html")),
)]
pub(in super::super) async fn show(
    State(server): State<Arc<Server>>,
    Path(bucket): Path<String>,
    Params(BlobForm { key }): Params<BlobForm>,
) -> Result<Page, Problem> {
    page(&server, &bucket, &key, None).await
}

async fn page(
    server: &Server,
    bucket: &str,
    key: &str,
    link: Option<PresignedUrl>,
) -> Result<Page, Problem> {
    let (name, key) = names(bucket, key)?;
    let blob = server.buckets()?.head(&name, &key).await?;
    let preview = preview(server, bucket, &blob).await?;
    let view = Blob::from(blob);
    let content = html! {
        (crumbs(bucket, folder_of(&view.key)))
        h1.address { (view.key) }
        (actions(server, bucket, &view))
        @if let Some(link) = link {
            div.notice.good {
                strong { "Whoever has this link can read it until " (time(&link.expires_at)) }
                pre { code #link { (link.url) } }
                p { a href=(link.url) rel="noreferrer" { "Open it" } }
            }
        }
        (facts(&view))
        h2.next { "Preview" }
        (preview)
    };
    Ok(console(&view.key, Section::Buckets, content))
}

fn actions(server: &Server, bucket: &str, view: &Blob) -> Markup {
    let (path, bytes) = (path_of(bucket), bytes_of(bucket, &view.key));
    let key = || html! { input type="hidden" name="key" value=(view.key); };
    html! {
        div.actions {
            a.button href=(bytes) { "Download" }
            @if server.s3_address.get().is_some() {
                form.pair method="post" action={ (path) "/blob/link" } {
                    (key())
                    label.hidden for="expires" { "The link holds for" }
                    select #expires name="expires" {
                        option value="3600" { "for an hour" }
                        option value="86400" { "for a day" }
                        option value="604800" { "for a week" }
                    }
                    button.button { "Make a link" }
                }
            }
            details.confirm {
                summary.button { "Delete…" }
                form method="post" action={ (path) "/blob/delete" } {
                    (key())
                    span { "It is gone for good then." }
                    button.button.bad { "Delete it" }
                }
            }
        }
    }
}

fn facts(view: &Blob) -> Markup {
    html! {
        dl.facts {
            div { dt { "Size" } dd { (view.size) " bytes" } }
            div { dt { "Type" } dd {
                @if let Some(kind) = &view.content_type { (kind) } @else { "–" }
            } }
            div { dt { "Written" } dd { (time(&view.modified_at)) } }
            div { dt { "Number" } dd { (view.sequence) } }
            div { dt { "Version" } dd { code { (view.version) } } }
            div { dt { "ETag" } dd { code { (view.etag) } } }
            @for (name, value) in &view.metadata {
                div { dt { code { (name) } } dd { (value) } }
            }
        }
    }
}

/// Deletes a blob, and shows what is beside it.
#[utoipa::path(post, path = "/buckets/{b}/blob/delete", tag = "pages",
    params(("b" = String, Path, description = "The bucket")),
    request_body(content = BlobForm, content_type = "application/x-www-form-urlencoded"),
    responses((status = 303, description = "It is gone; the page of the bucket is there")),
)]
pub(in super::super) async fn delete(
    State(server): State<Arc<Server>>,
    Path(bucket): Path<String>,
    form: Result<Form<BlobForm>, FormRejection>,
) -> Result<Redirect, Problem> {
    let Form(BlobForm { key }) = form.map_err(unreadable)?;
    let (name, blob) = names(&bucket, &key)?;
    // Somebody else may have been faster: gone is gone.
    server.buckets()?.delete(&name, &blob, Condition::default()).await?;
    Ok(Redirect::to(&path_in(&bucket, folder_of(&key))))
}

/// Makes a link to a blob, and shows it.
#[utoipa::path(post, path = "/buckets/{b}/blob/link", tag = "pages",
    params(("b" = String, Path, description = "The bucket")),
    request_body(content = LinkForm, content_type = "application/x-www-form-urlencoded"),
    responses((status = 200, body = String, content_type = "text/html")),
)]
pub(in super::super) async fn link(
    State(server): State<Arc<Server>>,
    Path(bucket): Path<String>,
    form: Result<Form<LinkForm>, FormRejection>,
) -> Result<Page, Problem> {
    let Form(LinkForm { key, expires }) = form.map_err(unreadable)?;
    let blob = BlobPath { bucket: bucket.clone(), key: key.clone() };
    let request = PresignBlob { blob, method: PresignMethod::Get, expires_seconds: expires };
    let link = presign(server.clone(), request).await?;
    page(&server, &bucket, &key, Some(link)).await
}
