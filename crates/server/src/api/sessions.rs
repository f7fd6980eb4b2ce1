//! Sessions of browsers over HTTP.

use std::sync::Arc;

use steadfast_api::{
    Code, Page,
    sessions::{EndSession, EndedSession, ListSessions, Session},
};
use steadfast_core::object::Caller;
use steadfast_web::Problem;

use crate::{operation::ApiRoutes, server::Server};

pub(super) fn routes() -> ApiRoutes {
    ApiRoutes::default().operation_by(list).operation_by(end)
}

/// The token whose sessions a caller may see and end; `None` for all.
fn only(caller: &Caller) -> Option<&str> {
    caller.principal().filter(|it| !it.is_admin_of_platform()).map(|it| &*it.token)
}

pub(crate) async fn list(
    server: Arc<Server>,
    caller: Caller,
    it: ListSessions,
) -> Result<Page<Session>, Problem> {
    let (after, limit) = (it.cursor.as_deref(), it.limit.rows());
    let (items, next) = server.runtime.sessions().list(only(&caller), after, limit).await?;
    Ok(Page { items, next })
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
