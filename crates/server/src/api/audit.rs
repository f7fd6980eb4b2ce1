//! The audit log over HTTP.

use std::sync::Arc;

use steadfast_api::{
    Page,
    audit::{AuditEntry, ListAudit},
};
use steadfast_web::{Cursor, PageRequest, Problem};
use utoipa_axum::router::OpenApiRouter;

use crate::{operation::operation, server::Server};

pub(super) fn routes() -> OpenApiRouter<Arc<Server>> {
    OpenApiRouter::default().routes(operation(list))
}

pub(crate) async fn list(server: Arc<Server>, it: ListAudit) -> Result<Page<AuditEntry>, Problem> {
    let page = PageRequest::new(it.limit, it.cursor.as_deref())?;
    let before = Some(page.after_position()?).filter(|it| *it != 0);
    let found = server.runtime.audit().list(before, page.limit + 1).await?;
    Ok(page.page(found, |it| Cursor::Position(it.number), AuditEntry::from))
}
