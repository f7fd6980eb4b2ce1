//! Streams: the list, and one with its messages.

use std::sync::Arc;

use axum::extract::{Path, State};
use maud::{Markup, html};
use steadfast_web::{
    Page,
    console::{Section, console},
};

use super::{
    live::{is_busy, live, live_page},
    table::{Columns, message_table, more, time},
};
use crate::{
    api::{
        page::{PageParams, Params},
        problem::Problem,
        streams::{read_list, read_one},
        wire::{MessageState, Stream, StreamDetail},
    },
    server::Server,
};

/// Lists the streams.
#[utoipa::path(get, path = "/streams", tag = "pages", params(PageParams), responses(
    (status = 200, body = String, content_type = "text/html"),
))]
pub(super) async fn list(
    State(server): State<Arc<Server>>,
    Params(params): Params<PageParams>,
) -> Result<Page, Problem> {
    let list = read_list(&server, &params.page()?).await?;
    let content = html! {
        h1 { "Streams" }
        @if list.items.is_empty() {
            div.empty {
                h2 { "No stream yet" }
                p { "A stream begins with its first message. Append one from your application:" }
                pre { code { "streams.append(&address, 0, vec![message]).await?" } }
                p.quiet { "For programs: " a href="/v1/streams" { "/v1/streams" } }
            }
        } @else {
            p.lead { "Each is inbox and outbox of one entity, in the order in which it happened." }
            (stream_table(&list.items))
            (more("/streams", list.next.as_deref()))
        }
    };
    Ok(console("Streams", Section::Streams, content))
}

fn stream_table(streams: &[Stream]) -> Markup {
    html! {
        div.scroll {
            table.rows {
                thead { tr {
                    th { "Address" } th.number { "Messages" }
                    th { "Updated (UTC)" } th { "Created (UTC)" }
                } }
                tbody {
                    @for stream in streams {
                        tr {
                            td data-label="Address" {
                                a.address href={ "/streams/" (stream.id) } {
                                    span.quiet { (stream.kind) "/" (stream.class) "/" }
                                    (stream.name)
                                }
                            }
                            td.number data-label="Messages" { (stream.version) }
                            td data-label="Updated" { (time(&stream.updated_at)) }
                            td data-label="Created" { (time(&stream.created_at)) }
                        }
                    }
                }
            }
        }
    }
}

/// Shows one stream.
#[utoipa::path(get, path = "/streams/{*id}", tag = "pages",
    params(
        ("id" = String, Path, description = "32 hexadecimal digits, or kind/class/name"),
        PageParams,
    ),
    responses((status = 200, body = String, content_type = "text/html")),
)]
pub(super) async fn show(
    State(server): State<Arc<Server>>,
    Path(id): Path<String>,
    Params(params): Params<PageParams>,
) -> Result<Page, Problem> {
    let stream = read_one(&server, &id, &params.page()?).await?;
    let path = format!("/streams/{}", stream.id);
    let content = html! {
        p.crumbs { a href="/streams" { "← Streams" } }
        h1.address { (stream.address) }
        p.lead {
            (stream.version) @if stream.version == 1 { " message" } @else { " messages" }
            " · id " code { (stream.id) } " · "
            a href={ "/v1/streams/" (stream.id) } { "JSON" }
        }
        @if stream.items.is_empty() {
            div.empty {
                h2 { "No message here" }
                p { "Others send to this address, but nothing stands in its own stream." }
            }
        } @else {
            (live(is_busy(&stream.items), &html! {
                (message_table(&stream.items, Columns::OneStream))
                (more(&path, stream.next.as_deref()))
                (revive_hint(&stream))
            }))
        }
    };
    Ok(live_page(&stream.address, Section::Streams, content))
}

fn revive_hint(stream: &StreamDetail) -> Markup {
    let dead = stream.items.iter().find(|it| it.state == Some(MessageState::Dead));
    html! {
        @if let Some(message) = dead {
            p.hint {
                "Give a dead message another chance: "
                code { "steadfast streams revive " (message.global_position) }
            }
        }
    }
}
