//! Sessions of browsers.

use std::sync::Arc;

use axum::{
    Extension,
    extract::{Path, State},
    response::Redirect,
};
use maud::html;
use steadfast_api::{
    Code, Operation, Page as List,
    sessions::{EndSession, EndedSession, ListSessions, Session},
};
use steadfast_core::object::Caller;
use steadfast_web::{
    Page, Params, Problem,
    console::{Section, console},
};

use crate::{
    cli::noun::Noun,
    list::Columns,
    operation::ApiRoutes,
    pages::{
        PageRoute,
        components::{button, command, empty, pager},
        get, post,
    },
    server::Server,
};

pub(crate) fn routes() -> ApiRoutes {
    ApiRoutes::default().operation_by(list).operation_by(end)
}

/// The pages of the console.
pub(crate) fn pages() -> [PageRoute; 2] {
    let all =
        [get("/sessions", list_page), post("/sessions/{id}/end", EndSession::NEEDS, end_page)];
    all.map(|it| PageRoute { scope: EndSession::INFO.scope, ..it })
}

/// The token whose sessions a caller may see and end; `None` for all.
fn only(caller: &Caller) -> Option<&str> {
    caller.principal().filter(|it| !it.is_admin_of_platform()).map(|it| &*it.token)
}

pub(crate) async fn list(
    server: Arc<Server>,
    caller: Caller,
    it: ListSessions,
) -> Result<List<Session>, Problem> {
    let (after, limit) = (it.cursor.as_deref(), it.limit.rows());
    let (items, next) = server.runtime.sessions().list(only(&caller), after, limit).await?;
    Ok(List { items, next })
}

pub(crate) async fn end(
    server: Arc<Server>,
    caller: Caller,
    EndSession { id }: EndSession,
) -> Result<EndedSession, Problem> {
    if server.runtime.sessions().end_by_id(&id, only(&caller)).await? {
        return Ok(EndedSession { id });
    }
    let detail =
        format!("session `{id}` does not exist or has ended; see `steadfast sessions list`");
    Err(Problem::of(Code::SessionNotFound, detail))
}

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
async fn list_page(
    State(server): State<Arc<Server>>,
    Extension(caller): Extension<Caller>,
    Params(query): Params<ListSessions>,
) -> Result<Page, Problem> {
    let found = list(server, caller, query).await?;
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
async fn end_page(
    State(server): State<Arc<Server>>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
) -> Result<Redirect, Problem> {
    end(server, caller, EndSession { id }).await?;
    Ok(Redirect::to("/sessions"))
}

pub(crate) fn verbs() -> Noun {
    Noun::new("sessions", "List and end sessions of browsers")
        .verb::<ListSessions>("list", &["sessions list"], |_, page| {
            let empty = "no sessions; `steadfast login` prints a link that begins one\n";
            columns().list(&page.items, empty)
        })
        .verb::<EndSession>("end", &["sessions end 0a1b2c…"], |_, EndedSession { id }| {
            format!("ended session {id}\n")
        })
}
