//! Quotas of organizations.

use std::sync::Arc;

use axum::extract::State;
use maud::{Markup, html};
use steadfast_api::quotas::{ListQuotas, Quota, QuotaUse, kinds};
use steadfast_web::{
    Page, Params, Problem,
    console::{Section, console},
};

use super::components::{command, empty, pager, text};
use crate::{api, list::Columns, server::Server};

/// The columns of the list.
pub(crate) fn columns() -> Columns<'static, Quota> {
    let limit = |at: usize| {
        move |it: &Quota| {
            let (_, used, write) = kinds(it)[at];
            of(used, write)
        }
    };
    let bar = |at: usize| {
        move |it: &Quota| {
            let (kind, used, write) = kinds(it)[at];
            bar(kind, used, write)
        }
    };
    Columns::<Quota>::new()
        .text("Organization", |it| it.organization.clone())
        .text("Bytes", limit(0))
        .markup(bar(0))
        .text("Objects", limit(1))
        .markup(bar(1))
        .text("Spend this month", limit(2))
        .markup(bar(2))
        .console("Count", |it| text(if it.is_counting { "in progress" } else { "complete" }))
}

/// A use and its limit.
pub(crate) fn of(it: QuotaUse, write: fn(u64) -> String) -> String {
    let limit = it.limit.map_or_else(|| "no limit".to_owned(), write);
    format!("{} of {limit}", write(it.used))
}

/// Lists the quotas, each with a bar.
pub(super) async fn list(
    State(server): State<Arc<Server>>,
    Params(query): Params<ListQuotas>,
) -> Result<Page, Problem> {
    let found = api::quotas::list(server, query).await?;
    let set = "steadfast quotas set acme --bytes 10GiB --objects 100000 --spend 50";
    let content = html! {
        h1 { "Quotas" }
        p.quiet {
            "Bytes, objects and spend of organizations, with their limits. A blob belongs to the "
            "organization that is the first segment of its key."
        }
        @if found.items.is_empty() {
            (empty("No organization has a quota.", &command("Set one:", set)))
        } @else {
            (columns().table(&found.items))
            (pager("/quotas", "", found.next.as_deref()))
        }
    };
    Ok(console("Quotas", Section::None, content))
}

fn bar(kind: &str, it: QuotaUse, write: fn(u64) -> String) -> Markup {
    let used = write(it.used);
    let Some(limit) = it.limit else { return html! { (used) } };
    html! {
        meter aria-label=(kind) min="0" max=(limit.max(1)) high=(limit / 10 * 9)
            value=(it.used.min(limit.max(1))) {}
        " " (used) " of " (write(limit))
    }
}
