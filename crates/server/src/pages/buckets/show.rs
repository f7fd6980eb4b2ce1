//! One bucket: what is in it, what it told, and its rules.

use std::sync::Arc;

use axum::extract::{Path, State};
use maud::{Markup, html};
use serde::Deserialize;
use steadfast_api::{
    Limit,
    buckets::{BlobPath, Bucket, ListBlobs, ListBucketEvents, ShowBucket},
};
use steadfast_web::{Page, console::Section, escaped};
use utoipa::IntoParams;

use super::{
    super::{
        assets,
        live::{live, live_page},
        table::time,
    },
    browse::{blob_table, crumbs, upload_form},
    bytes,
    events::event_table,
    path_of,
    rules::{lifecycle_card, rules_card},
};
use crate::{
    api::{buckets as api, page::Params, problem::Problem},
    server::Server,
};

/// Events on the page.
const EVENTS: &str = "20";

/// The query of the page of a bucket.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(in super::super) struct ShowParams {
    /// Only keys that begin with this, up to the next slash.
    #[serde(default)]
    prefix: String,
    /// Rows at most.
    #[serde(default)]
    #[param(value_type = Option<u32>, minimum = 1, maximum = 1000, default = 50)]
    limit: Limit,
    /// The `next` of the page before.
    cursor: Option<String>,
}

/// Shows one bucket, and what is in it on one level.
#[utoipa::path(get, path = "/buckets/{b}", tag = "pages",
    params(("b" = String, Path, description = "The bucket"), ShowParams),
    responses((status = 200, body = String, content_type = "text/html")),
)]
pub(in super::super) async fn show(
    State(server): State<Arc<Server>>,
    Path(bucket): Path<String>,
    Params(params): Params<ShowParams>,
) -> Result<Page, Problem> {
    let view = api::show(server.clone(), ShowBucket { bucket: bucket.clone() }).await?;
    let ShowParams { prefix, limit, cursor } = params;
    // What lies further behind does not change every second.
    let busy = cursor.is_none();
    let place = BlobPath { bucket: bucket.clone(), key: prefix.clone() };
    let blobs = ListBlobs { place, delimiter: "/".into(), limit, cursor };
    let page = api::list_blobs(server.clone(), blobs).await?;
    let limit = EVENTS.parse().unwrap_or_default();
    let events = ListBucketEvents { bucket: bucket.clone(), limit, cursor: None };
    let events = api::list_events(server, events).await?;
    let content = html! {
        (crumbs(&bucket, &prefix))
        h1.address { (bucket) }
        (lead(&view))
        (upload_form(&bucket, &prefix))
        (live(busy, &html! {
            (blob_table(&bucket, &prefix, &page))
            @if let Some(next) = &page.next {
                p.more {
                    a.button href={
                        (path_of(&bucket)) "?prefix=" (escaped(&prefix)) "&cursor=" (next)
                    } { "Next page" }
                }
            }
            h2.next { "Recent events" }
            (event_table(&bucket, &view, &events))
        }))
        section.columns.next {
            (rules_card(&view))
            (lifecycle_card(&view))
        }
        div.actions.next {
            // It is for good, so one press is not enough.
            details.confirm {
                summary.button { "Delete the bucket…" }
                form method="post" action={ (path_of(&bucket)) "/delete" } {
                    span { "It must be empty. Its rules go with it." }
                    button.button.bad { "Delete it" }
                }
            }
        }
    };
    Ok(live_page(&bucket, Section::Buckets, content).script(&assets::BUCKETS))
}

fn lead(view: &Bucket) -> Markup {
    html! {
        p.lead {
            "made " (time(&view.created_at))
            @if let Some(max) = view.max_blob_bytes { " · " (bytes(max)) " at most each" }
            " · " a href={ "/v1" (path_of(&view.name)) } { "JSON" }
        }
    }
}
