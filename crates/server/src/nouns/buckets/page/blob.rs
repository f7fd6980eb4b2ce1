//! A blob: its facts, a preview, a presigned link, and its deletion.

use std::sync::Arc;

use axum::{
    Extension,
    extract::{Path, State},
    response::Redirect,
};
use maud::{Markup, html};
use serde::Deserialize;
use steadfast_api::{
    Code,
    buckets::{BlobPath, PresignBlob, PresignMethod, PresignedUrl},
    rfc3339,
};
use steadfast_bucket::{ByteRange, Condition, GetOptions};
use steadfast_core::object::Caller;
use steadfast_web::{
    Page, Params, Problem,
    console::{Section, console},
};

use crate::{
    nouns::buckets::{
        self as api,
        blobs::names,
        page::{bytes_of, crumbs, folder_of, path_in},
    },
    pages::{
        components::{facts, hidden, optional, text, time},
        forms::Fields,
        links::bucket_path,
    },
    server::Server,
};

/// Maximum size of a text preview in bytes.
const TEXT_BYTES_MAX: u64 = 64 << 10;

/// Images that browsers show. An image runs no script and loads nothing.
const IMAGES: [&str; 6] =
    ["image/png", "image/jpeg", "image/gif", "image/webp", "image/avif", "image/svg+xml"];

/// Types of texts that do not begin with `text/`.
const TEXTS: [&str; 6] = [
    "application/json",
    "application/xml",
    "application/javascript",
    "application/yaml",
    "application/toml",
    "application/x-ndjson",
];

/// The key in a form. Spaces around it belong to it.
fn key_in(form: &mut Fields) -> Result<String, Problem> {
    form.exact("key").ok_or_else(|| Problem::of(Code::BadRequest, "the field `key` is missing"))
}

/// The query of the page of a blob.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct BlobParams {
    key: String,
}

/// Shows one blob.
pub(crate) async fn blob(
    State(server): State<Arc<Server>>,
    Path(bucket): Path<String>,
    Params(BlobParams { key }): Params<BlobParams>,
) -> Result<Page, Problem> {
    blob_page(&server, &bucket, &key, None).await
}

/// Presigns a URL of a blob and shows it.
pub(crate) async fn presign(
    State(server): State<Arc<Server>>,
    Path(bucket): Path<String>,
    Extension(caller): Extension<Caller>,
    mut form: Fields,
) -> Result<Page, Problem> {
    let key = key_in(&mut form)?;
    let expires_seconds = form.parsed("expires")?.unwrap_or(3_600);
    form.end()?;
    let blob = BlobPath { bucket: bucket.clone(), key: key.clone() };
    let request = PresignBlob { blob, method: PresignMethod::Get, expires_seconds };
    let url = api::presign(server.clone(), caller, request).await?;
    blob_page(&server, &bucket, &key, Some(url)).await
}

async fn blob_page(
    server: &Server,
    bucket: &str,
    key: &str,
    url: Option<PresignedUrl>,
) -> Result<Page, Problem> {
    let (name, key) = names(bucket, key)?;
    let blob = server.buckets()?.head(&name, &key).await?;
    let preview = preview(server, bucket, &blob).await?;
    let key = blob.key.as_str();
    let fixed = [
        ("Size", html! { (blob.size) " bytes" }),
        ("Type", optional(blob.attributes.content_type.as_deref())),
        ("Written", time(rfc3339(blob.modified_at))),
        ("Sequence", text(blob.sequence)),
        ("Version", html! { code { (blob.version()) } }),
        ("ETag", html! { code { (blob.etag) } }),
    ];
    let content = html! {
        (crumbs(bucket, folder_of(key)))
        h1.address { (key) }
        (actions(server, bucket, key))
        @if let Some(url) = url {
            div.notice.good {
                strong { "Everyone with the link can read the blob until " (time(&url.expires_at)) }
                pre { code #link { (url.url) } }
                p { a href=(url.url) rel="noreferrer" { "Open the link" } }
            }
        }
        (facts(fixed))
        @if !blob.attributes.metadata.is_empty() {
            h2.next { "Metadata" }
            dl.facts {
                @for (name, value) in &blob.attributes.metadata {
                    div { dt { code { (name) } } dd { (value) } }
                }
            }
        }
        h2.next { "Preview" }
        (preview)
    };
    Ok(console(key, Section::Buckets, content))
}

fn actions(server: &Server, bucket: &str, key: &str) -> Markup {
    let path = bucket_path(bucket);
    html! {
        div.actions {
            a.button href=(bytes_of(bucket, key)) { "Download" }
            @if server.s3_address.is_some() {
                form.pair method="post" action={ (path) "/blob/link" } {
                    (hidden("key", key))
                    label.hidden for="expires" { "Lifetime of the link" }
                    select #expires name="expires" {
                        option value="3600" { "for an hour" }
                        option value="86400" { "for a day" }
                        option value="604800" { "for a week" }
                    }
                    button.button { "Create a link" }
                }
            }
            details.confirm {
                summary.button { "Delete…" }
                form method="post" action={ (path) "/blob/delete" } {
                    (hidden("key", key))
                    span { "This cannot be undone." }
                    button.button.bad { "Delete the blob" }
                }
            }
        }
    }
}

/// Deletes a blob and shows its folder.
pub(crate) async fn delete_blob(
    State(server): State<Arc<Server>>,
    Path(bucket): Path<String>,
    mut form: Fields,
) -> Result<Redirect, Problem> {
    let key = key_in(&mut form)?;
    form.end()?;
    let (name, blob) = names(&bucket, &key)?;
    // Another request may have deleted it already.
    server.buckets()?.delete(&name, &blob, Condition::default()).await?;
    Ok(Redirect::to(&path_in(&bucket, folder_of(&key))))
}

/// A preview: an image, or text, never as markup.
async fn preview(
    server: &Server,
    bucket: &str,
    blob: &steadfast_bucket::Blob,
) -> Result<Markup, Problem> {
    let kind = blob.attributes.content_type.as_deref().unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    if IMAGES.contains(&kind.as_str()) {
        let source = format!("{}?inline", bytes_of(bucket, blob.key.as_str()));
        return Ok(html! { p.preview { img src=(source) alt=(blob.key) loading="lazy"; } });
    }
    let is_packed = blob.attributes.headers.contains_key("content-encoding");
    let is_text = kind.starts_with("text/") || TEXTS.contains(&kind.as_str());
    if is_packed || !is_text || blob.size == 0 {
        return Ok(html! { p.quiet { "No preview for this type." } });
    }
    let name = steadfast_bucket::BucketName::new(bucket)?;
    let range = Some(ByteRange::Between(0, TEXT_BYTES_MAX - 1));
    let get = GetOptions { range, ..GetOptions::default() };
    let begin = server.buckets()?.get(&name, &blob.key, get).await?.bytes().await?;
    Ok(html! {
        pre.preview { code { (String::from_utf8_lossy(&begin)) } }
        @if TEXT_BYTES_MAX < blob.size {
            p.quiet { "The first " (TEXT_BYTES_MAX) " of " (blob.size) " bytes." }
        }
    })
}
