//! The audit log.

use std::sync::Arc;

use axum::extract::State;
use clap::Args;
use maud::html;
use steadfast_api::{
    LIMIT_MAX, Limit, Operation, Page as List,
    audit::{AuditEntry, ListAudit},
};
use steadfast_core::AuditRecord;
use steadfast_store::Timestamp;
use steadfast_web::{
    Cursor, Page, PageRequest, Params, Problem,
    console::{Section, console},
};

use crate::{
    args::AskArgs,
    cli::{client::Client, noun::Noun, output::try_print},
    failure::Failure,
    list::Columns,
    nouns::runs::{given, parse_time},
    operation::ApiRoutes,
    pages::{
        PageRoute,
        components::{empty, field, filters, pager},
        get,
    },
    server::Server,
};

pub(crate) fn routes() -> ApiRoutes {
    ApiRoutes::default().operation(list)
}

/// The pages of the console.
pub(crate) fn pages() -> [PageRoute; 1] {
    [PageRoute { needs: ListAudit::NEEDS.into(), ..get("/audit", list_page) }]
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

pub(crate) async fn list(server: Arc<Server>, it: ListAudit) -> Result<List<AuditEntry>, Problem> {
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
                return Ok(List { items, next: Some(Cursor::Position(last).encode()) });
            }
            last = record.number;
            if filter.has(&record) {
                items.push(AuditEntry::from(record));
            }
        }
        if is_end {
            return Ok(List::whole(items));
        }
        if ROWS_MAX <= rows {
            return Ok(List { items, next: Some(Cursor::Position(last).encode()) });
        }
    }
}

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
async fn list_page(
    State(server): State<Arc<Server>>,
    Params(query): Params<ListAudit>,
) -> Result<Page, Problem> {
    let found = list(server, query.clone()).await?;
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

pub(crate) fn verbs() -> Noun {
    Noun::new("audit", "Read the audit log")
        .verb::<ListAudit>(
            "tail",
            &["audit tail --limit 20", "audit tail --actor ABCDEFGHIJ --since 2026-11-15"],
            |_, page| tail_text(page),
        )
        .custom(
            "export",
            (
                "Print all records as lines of JSON, newest first",
                &["audit export", "audit export --since 2026-11-01 --until 2026-12-01"],
            ),
            export,
        )
}

#[derive(Args)]
struct ExportArgs {
    /// Filter by the id or name of a token or access key, or the address of a client
    #[arg(long, env = "STEADFAST_ACTOR", value_name = "ACTOR")]
    actor: Option<String>,
    /// Filter by a part of the action, as in `DELETE` or `/v1/tokens`
    #[arg(long, env = "STEADFAST_ACTION", value_name = "TEXT")]
    action: Option<String>,
    /// Only records of this time or later, as in 2026-11-15T12:30:00Z
    #[arg(long, env = "STEADFAST_SINCE", value_name = "TIME")]
    since: Option<String>,
    /// Only records before this time
    #[arg(long, env = "STEADFAST_UNTIL", value_name = "TIME")]
    until: Option<String>,
}

fn export(client: &Client, it: ExportArgs, ask: &AskArgs) -> Result<(), Failure> {
    let ExportArgs { actor, action, since, until } = it;
    let (limit, cursor) = (Limit::of(LIMIT_MAX), None);
    let mut request = ListAudit { actor, action, since, until, limit, cursor };
    loop {
        let page = client.send(&request, ask.json)?;
        let mut lines = String::new();
        for it in &page.items {
            lines += &serde_json::to_string(it).map_err(std::io::Error::from)?;
            lines.push('\n');
        }
        // The reader may have closed the pipe.
        if !try_print(&lines)? || page.next.is_none() {
            return Ok(());
        }
        request.cursor = page.next;
    }
}

fn tail_text(page: &List<AuditEntry>) -> String {
    if page.items.is_empty() {
        return "nothing is recorded; records begin when access is closed\n".into();
    }
    columns().write(page.items.iter().rev())
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
