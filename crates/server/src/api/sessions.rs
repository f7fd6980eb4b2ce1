//! Sessions of browsers over HTTP.

use std::sync::Arc;

use steadfast_api::{
    Code, Page,
    sessions::{EndSession, EndedSession, ListSessions, Session},
};
use steadfast_core::object::Caller;
use steadfast_web::Problem;

use crate::{access::problem, operation::ApiRoutes, server::Server};

pub(super) fn routes() -> ApiRoutes {
    ApiRoutes::default().operation_by(list).operation_by(end)
}

/// The token whose sessions a caller may see and end; `None` for all.
fn only(caller: &Caller) -> Option<&str> {
    caller.principal().filter(|it| !it.is_admin_of_platform()).map(|it| &*it.token)
}

async fn list(
    server: Arc<Server>,
    caller: Caller,
    it: ListSessions,
) -> Result<Page<Session>, Problem> {
    let (after, limit) = (it.cursor.as_deref(), it.limit.rows());
    let found = server.runtime.sessions().list(only(&caller), after, limit).await;
    let (items, next) = found.map_err(problem)?;
    Ok(Page { items: items.into_iter().map(Session::from).collect(), next })
}

async fn end(
    server: Arc<Server>,
    caller: Caller,
    EndSession { id }: EndSession,
) -> Result<EndedSession, Problem> {
    let ended = server.runtime.sessions().end_by_id(&id, only(&caller)).await;
    if ended.map_err(problem)? {
        return Ok(EndedSession { id });
    }
    let detail =
        format!("session `{id}` does not exist or has ended; see `steadfast sessions list`");
    Err(Problem::of(Code::SessionNotFound, detail))
}
