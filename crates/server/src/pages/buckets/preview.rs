//! What a blob looks like: a picture as a picture, a text as its letters, never as markup.

use maud::{Markup, html};
use steadfast_bucket::{Blob, ByteRange, GetOptions};

use super::bytes_of;
use crate::{api::problem::Problem, server::Server};

/// Bytes of a text that are shown.
const TEXT_BYTES_MAX: u64 = 64 << 10;

/// Pictures that browsers show. In a picture nothing runs, nor is anything loaded by it.
const PICTURES: [&str; 6] =
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

/// Shows it, if it can be shown.
pub(super) async fn preview(server: &Server, bucket: &str, blob: &Blob) -> Result<Markup, Problem> {
    let kind = blob.attributes.content_type.as_deref().unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let is_packed = blob.attributes.headers.contains_key("content-encoding");
    if PICTURES.contains(&kind.as_str()) {
        let source = format!("{}?inline", bytes_of(bucket, blob.key.as_str()));
        return Ok(html! { p.preview { img src=(source) alt=(blob.key) loading="lazy"; } });
    }
    let is_text = kind.starts_with("text/") || TEXTS.contains(&kind.as_str());
    if is_packed || !is_text || blob.size == 0 {
        return Ok(html! { p.quiet { "It cannot be shown here." } });
    }
    text(server, bucket, blob).await
}

async fn text(server: &Server, bucket: &str, blob: &Blob) -> Result<Markup, Problem> {
    let bucket = steadfast_bucket::BucketName::new(bucket)?;
    let range = Some(ByteRange::Between(0, TEXT_BYTES_MAX - 1));
    let get = GetOptions { range, ..GetOptions::default() };
    let begin = server.buckets()?.get(&bucket, &blob.key, get).await?.bytes().await?;
    let shown = String::from_utf8_lossy(&begin);
    Ok(html! {
        pre.preview { code { (shown) } }
        @if TEXT_BYTES_MAX < blob.size {
            p.quiet { "The first " (TEXT_BYTES_MAX) " of " (blob.size) " bytes." }
        }
    })
}
