//! The audit log.

use std::sync::Arc;

use axum::extract::State;
use maud::html;
use steadfast_api::audit::{AuditEntry, ListAudit};
use steadfast_web::{
    Page, Params, Problem,
    console::{Section, console},
};

use super::components::{column, empty, optional, pager, table, text, time, times};
use crate::{api, server::Server};

/// Lists the records, the newest first.
pub(super) async fn list(
    State(server): State<Arc<Server>>,
    Params(query): Params<ListAudit>,
) -> Result<Page, Problem> {
    let found = api::audit::list(server, query).await?;
    let columns = [
        column("Number"),
        times("When"),
        column("Token"),
        column("Name"),
        column("Client"),
        column("Action"),
        column("Target"),
        column("Outcome"),
        column("Detail"),
    ];
    let row = |it: &AuditEntry| {
        vec![
            text(it.number),
            time(&it.at),
            optional(it.token.as_deref()),
            optional(it.name.as_deref()),
            text(&it.client),
            text(&it.action),
            text(&it.target),
            text(&it.outcome),
            text(it.facts()),
        ]
    };
    let content = html! {
        h1 { "Audit log" }
        p.quiet {
            "Logins, refused requests and changes while access is closed. Each record "
            "has the hash of the one before it; " code { "steadfast doctor" } " checks them."
        }
        @if found.items.is_empty() {
            (empty("Nothing is recorded.", &html! { "Records begin when access is closed." }))
        } @else {
            (table(&columns, found.items.iter().map(row)))
            (pager("/audit", "", found.next.as_deref()))
        }
    };
    Ok(console("Audit log", Section::None, content))
}
