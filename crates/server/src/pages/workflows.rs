//! Workflows: all of them, the runs of one, and one of those over time.

pub(super) mod control;
pub(super) mod history;
pub(super) mod list;
pub(super) mod show;
mod steps;

use maud::{Markup, html};
use serde_json::Value;
use steadfast_core::workflow::Phase;
use steadfast_web::escaped;

/// Characters of a value that a page shows.
const VALUE_MAX: usize = 20_000;

/// Where the pages of a run are.
pub(super) fn path_of(workflow: &str, id: &str) -> String {
    format!("/workflows/{}/{}", escaped(workflow), escaped(id))
}

/// Where the API has a run.
fn api_of(workflow: &str, id: &str) -> String {
    format!("/v1/workflows/{}/runs/{}", escaped(workflow), escaped(id))
}

fn badge(phase: Phase) -> Markup {
    let class = match phase {
        Phase::Complete => "done",
        Phase::Errored => "dead",
        Phase::Running => "going",
        Phase::Queued | Phase::Waiting | Phase::Paused => "waiting",
        Phase::Terminated => "quiet",
    };
    html! { span.badge.(class) { (phase.word()) } }
}

/// A value, as far as a page has room for it.
fn value(value: &Value) -> Markup {
    let text = format!("{value:#}");
    match text.char_indices().nth(VALUE_MAX) {
        Some((end, _)) => html! {
            pre { code { (text[..end]) "…" } }
            p.quiet { "There is more of it; the JSON of the run has all." }
        },
        None => html! { pre { code { (text) } } },
    }
}
