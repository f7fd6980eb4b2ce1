//! The audit log over HTTP.

use std::sync::Arc;

use steadfast_api::{
    Page,
    audit::{AuditEntry, ListAudit},
};
use steadfast_core::AuditRecord;
use steadfast_store::Timestamp;
use steadfast_web::{Cursor, PageRequest, Problem};

use super::runs::{given, parse_time};
use crate::{operation::ApiRoutes, server::Server};

pub(super) fn routes() -> ApiRoutes {
    ApiRoutes::default().operation(list)
}

/// Rows that a list with a filter reads at a time, and in total.
const CHUNK: usize = 1_000;
const ROWS_MAX: usize = 10_000;

/// The records that a list has.
struct Filter {
    actor: Option<String>,
    action: Option<String>,
    since: Option<Timestamp>,
    until: Option<Timestamp>,
}

impl Filter {
    fn of(it: ListAudit) -> Result<Self, Problem> {
        Ok(Self {
            actor: given(it.actor),
            action: given(it.action),
            since: parse_time("since", it.since)?,
            until: parse_time("until", it.until)?,
        })
    }

    fn has_all(&self) -> bool {
        let Self { actor, action, since, until } = self;
        actor.is_none() && action.is_none() && since.is_none() && until.is_none()
    }

    fn has(&self, AuditRecord { at, event, .. }: &AuditRecord) -> bool {
        let is_actor = |actor: &String| {
            let known = [event.token.as_ref(), event.name.as_ref(), Some(&event.client)];
            known.contains(&Some(actor))
        };
        self.actor.as_ref().is_none_or(is_actor)
            && self.action.as_ref().is_none_or(|it| event.action.contains(it))
            && self.since.is_none_or(|it| it <= *at)
            && self.until.is_none_or(|it| *at < it)
    }
}

pub(crate) async fn list(server: Arc<Server>, it: ListAudit) -> Result<Page<AuditEntry>, Problem> {
    let page = PageRequest::new(it.limit, it.cursor.as_deref())?;
    let mut last = page.after_position()?;
    let filter = Filter::of(it)?;
    // One more than the page has, to know whether more exist.
    let chunk = if filter.has_all() { page.limit + 1 } else { CHUNK };
    let (mut items, mut rows) = (Vec::new(), 0);
    loop {
        let before = Some(last).filter(|it| *it != 0);
        let found = server.runtime.audit().list(before, chunk).await?;
        rows += found.len();
        let is_end = found.len() < chunk;
        for record in found {
            if items.len() == page.limit {
                return Ok(Page { items, next: Some(Cursor::Position(last).encode()) });
            }
            last = record.number;
            if filter.has(&record) {
                items.push(AuditEntry::from(record));
            }
        }
        if is_end {
            return Ok(Page::whole(items));
        }
        if ROWS_MAX <= rows {
            return Ok(Page { items, next: Some(Cursor::Position(last).encode()) });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use steadfast_api::{Limit, rfc3339};
    use steadfast_core::{App, AuditEvent};

    use super::*;
    use crate::{location::Location, server::Policy};

    #[tokio::test]
    async fn records_are_filtered_by_actor_action_and_time() {
        let program = App::new("host").test().await.unwrap();
        let record = async |token: &str, name: Option<&str>, action: &str| {
            let (token, name) = (Some(token.to_owned()), name.map(str::to_owned));
            let (client, action) = ("203.0.113.9".to_owned(), action.to_owned());
            let event = AuditEvent { token, name, client, action, ..AuditEvent::default() };
            program.audit().record(event).await.unwrap();
        };
        record("ANN", Some("ann of sales"), "POST /v1/tokens").await;
        let begun = rfc3339(program.store().clock().now());
        program.advance(Duration::from_hours(1)).await;
        for _ in 0..CHUNK + 50 {
            record("BOB", None, "DELETE /things").await;
        }
        let server = Server::new((*program).clone(), Location::Host, Policy::Loopback);
        let server = Arc::new(server);
        let listed = async |it: ListAudit| {
            let (mut numbers, mut asked) = (Vec::new(), it);
            loop {
                let page = list(server.clone(), asked.clone()).await.unwrap();
                assert!(page.items.len() <= asked.limit.rows());
                numbers.extend(page.items.iter().map(|it| it.number));
                asked.cursor = page.next;
                if asked.cursor.is_none() {
                    return numbers;
                }
            }
        };
        let all = ListAudit { limit: Limit::of(400), ..ListAudit::default() };
        let newest: i64 = (CHUNK + 51).try_into().unwrap();
        let down_to = |last: i64| (last..=newest).rev().collect::<Vec<_>>();
        assert_eq!(listed(all.clone()).await, down_to(1));
        let some = |it: &str| Some(it.to_owned());
        for actor in ["ANN", "ann of sales"] {
            assert_eq!(listed(ListAudit { actor: some(actor), ..all.clone() }).await, [1]);
        }
        let client = ListAudit { actor: some("203.0.113.9"), ..all.clone() };
        assert_eq!(listed(client).await, down_to(1));
        let action = ListAudit { action: some("DELETE"), ..all.clone() };
        assert_eq!(listed(action).await, down_to(2));
        let later = some("2023-11-14T23:00:00Z");
        assert_eq!(begun, "2023-11-14T22:13:20.000Z");
        assert_eq!(listed(ListAudit { until: later.clone(), ..all.clone() }).await, [1]);
        assert_eq!(listed(ListAudit { since: later, ..all.clone() }).await, down_to(2));
        let bad = ListAudit { since: some("yesterday"), ..all };
        assert_eq!(list(server, bad).await.unwrap_err().code(), "bad_request");
    }
}
