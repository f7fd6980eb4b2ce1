//! What is in a bucket, one level at a time.

use maud::{Markup, html};
use steadfast_api::buckets::{Blob, BlobPage};
use steadfast_web::escaped;

use super::{super::table::time, bytes, bytes_of, path_in, path_of, path_to};

/// The way back up, level by level.
pub(super) fn crumbs(bucket: &str, prefix: &str) -> Markup {
    let ends = prefix.match_indices('/').map(|(at, _)| at + 1);
    let mut begin = 0;
    let levels = ends.map(|end| {
        let level = (&prefix[begin..end], &prefix[..end]);
        begin = end;
        level
    });
    let levels: Vec<(&str, &str)> = levels.collect();
    let rest = &prefix[levels.last().map_or(0, |it| it.1.len())..];
    html! {
        p.crumbs.address {
            a href="/buckets" { "← Buckets" } " / " a href=(path_of(bucket)) { (bucket) }
            @for (name, upto) in &levels {
                " / " a href=(path_in(bucket, upto)) { (name.trim_end_matches('/')) }
            }
            @if !rest.is_empty() { " / " (rest) "…" }
        }
    }
}

/// Puts files there. The script sends them one by one, and shows how far it is.
pub(super) fn upload_form(bucket: &str, prefix: &str) -> Markup {
    let path = path_of(bucket);
    html! {
        form.card.upload #upload method="post" enctype="multipart/form-data"
            action={ (path) "/upload?prefix=" (escaped(prefix)) }
            data-objects={ "/v1" (path) "/objects/" } data-prefix=(prefix) {
            label for="file" {
                "Upload to " code.address { (bucket) "/" (prefix) }
            }
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

/// Prefixes, and the blobs between them.
pub(super) fn blob_table(bucket: &str, prefix: &str, page: &BlobPage) -> Markup {
    if page.items.is_empty() && page.prefixes.is_empty() {
        return html! {
            div.empty {
                h2 { @if prefix.is_empty() { "Nothing here yet" } @else { "Nothing begins so" } }
                p { "Upload something here, with an S3 client, or:" }
                pre { code { "steadfast buckets cp FILE " (bucket) "/" (prefix) } }
            }
        };
    }
    html! {
        div.scroll {
            table.rows.blobs {
                thead { tr {
                    th { "Key" } th.number { "Size" } th { "Type" } th { "Written (UTC)" }
                    th.number { "Number" } th { span.hidden { "What can be done" } }
                } }
                tbody {
                    @for it in &page.prefixes { (folder(bucket, prefix, it)) }
                    @for it in &page.items { (row(bucket, prefix, it)) }
                }
            }
        }
    }
}

fn folder(bucket: &str, prefix: &str, it: &str) -> Markup {
    html! {
        tr {
            td colspan="6" data-label="Prefix" {
                a.address.folder href=(path_in(bucket, it)) {
                    (it.strip_prefix(prefix).unwrap_or(it))
                }
            }
        }
    }
}

fn row(bucket: &str, prefix: &str, it: &Blob) -> Markup {
    let name = it.key.strip_prefix(prefix).filter(|it| !it.is_empty()).unwrap_or(&it.key);
    html! {
        tr {
            td data-label="Key" { a.address href=(path_to(bucket, &it.key)) { (name) } }
            td.number data-label="Size" { (bytes(it.size)) }
            td.none[it.content_type.is_none()] data-label="Type" {
                @if let Some(kind) = &it.content_type { (kind) } @else { span.quiet { "–" } }
            }
            td data-label="Written" { (time(&it.modified_at)) }
            td.number data-label="Number" { (it.sequence) }
            td data-label="" { a.button href=(bytes_of(bucket, &it.key)) { "Download" } }
        }
    }
}
