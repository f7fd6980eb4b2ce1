//! Sessions of browsers.

use std::sync::Arc;

use axum::{
    Extension,
    extract::{Path, State},
    response::Redirect,
};
use maud::html;
use steadfast_api::sessions::{EndSession, ListSessions, Session};
use steadfast_core::object::Caller;
use steadfast_web::{
    Page, Params, Problem,
    console::{Section, console},
};

use super::components::{
    button, column, command, empty, optional, pager, table, text, time, times,
};
use crate::{api, server::Server};

/// Lists the sessions, each with a button that ends it.
pub(super) async fn list(
    State(server): State<Arc<Server>>,
    Extension(caller): Extension<Caller>,
    Params(query): Params<ListSessions>,
) -> Result<Page, Problem> {
    let found = api::sessions::list(server, caller, query).await?;
    let columns = [
        column("Token"),
        column("Name"),
        column("Role"),
        column("Organization"),
        times("Begun"),
        times("Last used"),
        column("Client"),
        times("Ends"),
        column("Action"),
    ];
    let row = |it: &Session| {
        vec![
            text(&it.token),
            optional(it.name.as_deref()),
            text(it.role.name()),
            optional(it.organization.as_deref()),
            time(it.begun_at.rfc3339()),
            time(it.last_used_at.rfc3339()),
            optional(it.client.as_deref()),
            time(it.ends_at.rfc3339()),
            button(&format!("/sessions/{}/end", it.id), "End", true),
        ]
    };
    let content = html! {
        h1 { "Sessions" }
        p.quiet {
            "Browsers that are logged in. An admin of the platform sees all of them, others see "
            "those of their token. The time of the last use is exact to five minutes."
        }
        @if found.items.is_empty() && found.next.is_none() {
            (empty("No browser is logged in.", &command("Print a login link:", "steadfast login")))
        } @else {
            (table(&columns, found.items.iter().map(row)))
        }
        (pager("/sessions", "", found.next.as_deref()))
    };
    Ok(console("Sessions", Section::None, content))
}

/// Ends a session.
pub(super) async fn end(
    State(server): State<Arc<Server>>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
) -> Result<Redirect, Problem> {
    api::sessions::end(server, caller, EndSession { id }).await?;
    Ok(Redirect::to("/sessions"))
}
