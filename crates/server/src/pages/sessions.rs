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

use super::components::{button, command, empty, pager};
use crate::{api, list::Columns, server::Server};

/// The columns of the list.
pub(crate) fn columns() -> Columns<'static, Session> {
    Columns::<Session>::new()
        .text("Session", |it| it.id.clone())
        .on_command_line()
        .text("Token", |it| it.token.clone())
        .text("Name", |it| it.name.clone().unwrap_or_default())
        .text("Role", |it| it.role.name().into())
        .text("Organization", |it| it.organization.clone().unwrap_or_default())
        .text("Client", |it| it.client.clone().unwrap_or_default())
        .time("Begun", |it| it.begun_at.rfc3339())
        .time("Last used", |it| it.last_used_at.rfc3339())
        .time("Ends", |it| it.ends_at.rfc3339())
        .console("Action", |it| button(&format!("/sessions/{}/end", it.id), "End", true))
}

/// Lists the sessions, each with a button that ends it.
pub(super) async fn list(
    State(server): State<Arc<Server>>,
    Extension(caller): Extension<Caller>,
    Params(query): Params<ListSessions>,
) -> Result<Page, Problem> {
    let found = api::sessions::list(server, caller, query).await?;
    let content = html! {
        h1 { "Sessions" }
        p.quiet {
            "Browsers that are logged in. An admin of the platform sees all of them, others see "
            "those of their token. The time of the last use is exact to five minutes."
        }
        @if found.items.is_empty() && found.next.is_none() {
            (empty("No browser is logged in.", &command("Print a login link:", "steadfast login")))
        } @else {
            (columns().table(&found.items))
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
