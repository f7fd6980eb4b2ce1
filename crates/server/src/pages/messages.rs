//! Messages of all streams: what is pending and what is dead.

use std::sync::Arc;

use axum::extract::State;
use maud::html;
use steadfast_web::{
    Page,
    console::{Section, console},
};

use super::table::{Columns, message_table, more};
use crate::{
    api::{
        page::{PageParams, Params},
        problem::Problem,
        streams::{read_dead, read_pending},
    },
    server::Server,
};

/// Lists what is to be delivered.
#[utoipa::path(get, path = "/streams/pending", tag = "pages", params(PageParams), responses(
    (status = 200, body = String, content_type = "text/html"),
))]
pub(super) async fn pending(
    State(server): State<Arc<Server>>,
    Params(params): Params<PageParams>,
) -> Result<Page, Problem> {
    let list = read_pending(&server, None, &params.page()?).await?;
    let content = html! {
        h1 { "Pending" }
        @if list.items.is_empty() {
            div.empty {
                h2 { "Nothing is pending" }
                p { "Every message that was to be delivered is settled." }
            }
        } @else {
            p.lead { "Still to be delivered, oldest first." }
            (message_table(&list.items, Columns::AllStreams))
            (more("/streams/pending", list.next.as_deref()))
        }
    };
    Ok(console("Pending", Section::Pending, content))
}

/// Lists what was given up.
#[utoipa::path(get, path = "/streams/dead", tag = "pages", params(PageParams), responses(
    (status = 200, body = String, content_type = "text/html"),
))]
pub(super) async fn dead(
    State(server): State<Arc<Server>>,
    Params(params): Params<PageParams>,
) -> Result<Page, Problem> {
    let list = read_dead(&server, &params.page()?).await?;
    let content = html! {
        h1 { "Dead" }
        @if let Some(first) = list.items.first() {
            p.lead { "Given up after their last attempt, oldest first." }
            (message_table(&list.items, Columns::AllStreams))
            (more("/streams/dead", list.next.as_deref()))
            p.hint {
                "When the cause is gone, give one another chance: "
                code { "steadfast streams revive " (first.global_position) }
            }
        } @else {
            div.empty {
                h2 { "Nothing is dead" }
                p { "No message was given up." }
            }
        }
    };
    Ok(console("Dead", Section::Dead, content))
}
