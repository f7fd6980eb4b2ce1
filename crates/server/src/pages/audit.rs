//! The audit log.

use std::sync::Arc;

use axum::extract::State;
use maud::html;
use steadfast_api::audit::{AuditEntry, ListAudit};
use steadfast_web::{
    Page, Params, Problem,
    console::{Section, console},
};

use super::components::{empty, field, filters, pager};
use crate::{api, list::Columns, server::Server};

/// The columns of the list.
pub(crate) fn columns() -> Columns<'static, AuditEntry> {
    Columns::<AuditEntry>::new()
        .text("Number", |it| it.number.to_string())
        .time("At", |it| it.at.clone())
        .text("Token", |it| it.token.clone().unwrap_or_default())
        .text("Name", |it| it.name.clone().unwrap_or_default())
        .text("Client", |it| it.client.clone())
        .text("Action", |it| it.action.clone())
        .text("Target", |it| it.target.clone())
        .text("Outcome", |it| it.outcome.clone())
        .text("Detail", AuditEntry::facts)
}

/// Lists the records, the newest first.
pub(super) async fn list(
    State(server): State<Arc<Server>>,
    Params(query): Params<ListAudit>,
) -> Result<Page, Problem> {
    let found = api::audit::list(server, query.clone()).await?;
    let filters = filters(&ListAudit { cursor: None, ..query.clone() });
    let given = |value: &Option<String>| value.clone().unwrap_or_default();
    let content = html! {
        h1 { "Audit log" }
        p.quiet {
            "Logins, refused requests and changes while access is closed. Each record "
            "has the hash of the one before it; " code { "steadfast doctor" } " checks them."
        }
        form.search method="get" action="/audit" role="search" {
            (field("Token, name or client", "actor", &given(&query.actor), ""))
            (field("Action contains", "action", &given(&query.action), "DELETE"))
            (field("From", "since", &given(&query.since), "2026-11-15T12:30"))
            (field("before (UTC)", "until", &given(&query.until), "2026-11-16"))
            button.button { "Find" }
        }
        @if !found.items.is_empty() {
            (columns().table(&found.items))
        } @else if filters.is_empty() {
            (empty("Nothing is recorded.", &html! { "Records begin when access is closed." }))
        } @else {
            (empty("No record matches the filter.", &html! {
                @if found.next.is_some() { "Older records were not searched yet." }
            }))
        }
        (pager("/audit", &filters, found.next.as_deref()))
    };
    Ok(console("Audit log", Section::None, content))
}
