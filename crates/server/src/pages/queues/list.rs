//! The queues.

use std::sync::Arc;

use axum::extract::State;
use maud::{Markup, html};
use steadfast_api::queues::ListQueues;
use steadfast_web::{Page, console::Section};

use super::{
    super::live::{live, live_page},
    age, badge, path_of, rate, spark,
};
use crate::{
    api::{problem::Problem, queues::list, wire::QueueEntry},
    server::Server,
};

/// Shows the queues.
#[utoipa::path(get, path = "/queues", tag = "pages", responses(
    (status = 200, body = String, content_type = "text/html"),
))]
pub(in super::super) async fn queues(State(server): State<Arc<Server>>) -> Result<Page, Problem> {
    let queues = list(server, ListQueues {}).await?.items;
    let content = html! {
        h1 { "Queues" }
        p.lead {
            "Messages that are delivered at least once, in due order. · "
            a href="/v1/queues" { "JSON" }
        }
        (live(true, &html! {
            @if queues.is_empty() { (none()) } @else { (queue_table(&queues)) }
        }))
    };
    Ok(live_page("Queues", Section::Queues, content))
}

fn none() -> Markup {
    html! {
        div.empty {
            h2 { "No queue here" }
            p { "Send something:" }
            pre { code { "steadfast queues send QUEUE --body JSON" } }
        }
    }
}

fn queue_table(queues: &[QueueEntry]) -> Markup {
    html! {
        div.scroll {
            table.rows.queues {
                thead { tr {
                    th { "Queue" } th { "State" }
                    th.number { "Depth" } th { span.hidden { "Depth over time" } }
                    th.number { "Oldest" } th { span.hidden { "Age over time" } }
                    th.number { "In flight" } th.number { "Dead" }
                    th.number { "Sent/s" } th.number { "Done/s" }
                } }
                tbody { @for it in queues { (row(it)) } }
            }
        }
    }
}

fn row(it: &QueueEntry) -> Markup {
    let path = path_of(&it.name);
    let count = |label: &str, count: u64, state: &str| {
        html! {
            td.number.none[count == 0] data-label=(label) {
                @if count == 0 { span.quiet { "–" } } @else {
                    a href={ (path) "?state=" (state) } { (count) }
                }
            }
        }
    };
    html! {
        tr {
            td data-label="Queue" { a.address href=(path) { (it.name) } }
            td data-label="State" { (badge(it)) }
            (count("Depth", it.depth, "pending"))
            td.picture { (spark::depth(it)) }
            td.number.none[it.oldest_age_ms.is_none()] data-label="Oldest" {
                @if let Some(age) = age(it) { (age) } @else { span.quiet { "–" } }
            }
            td.picture { (spark::age(it)) }
            (count("In flight", it.in_flight, "in-flight"))
            (count("Dead", it.dead, "dead"))
            td.number data-label="Sent/s" { (rate(it.rates.sent)) }
            td.number data-label="Done/s" { (rate(it.rates.done)) }
        }
    }
}
