//! Quotas of organizations.

use std::sync::Arc;

use axum::extract::State;
use maud::{Markup, html};
use steadfast_api::quotas::{ListQuotas, Quota, QuotaUse, kinds};
use steadfast_web::{
    Page, Params, Problem,
    console::{Section, console},
};

use super::components::{column, command, empty, pager, table, text};
use crate::{api, server::Server};

/// Lists the quotas, each with a bar.
pub(super) async fn list(
    State(server): State<Arc<Server>>,
    Params(query): Params<ListQuotas>,
) -> Result<Page, Problem> {
    let found = api::quotas::list(server, query).await?;
    let columns = [
        column("Organization"),
        column("Bytes"),
        column("Objects"),
        column("Spend this month"),
        column("Count"),
    ];
    let row = |it: &Quota| {
        let mut cells = vec![text(&it.organization)];
        cells.extend(kinds(it).map(|(kind, used, write)| bar(kind, used, write)));
        cells.push(text(if it.is_counting { "in progress" } else { "complete" }));
        cells
    };
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
            (table(&columns, found.items.iter().map(row)))
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
