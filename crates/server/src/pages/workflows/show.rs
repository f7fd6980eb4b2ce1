//! One run: how far it is, why it does not go on, its steps over time, and what can be done.

use std::sync::Arc;

use axum::extract::{Path, State};
use maud::{Markup, html};
use steadfast_core::workflow::{
    EventView, HistoryEntry, Phase, RunView, StepStatus, StepView, WaitView,
};
use steadfast_store::{Clock, SystemClock};
use steadfast_web::{Page, console::Section, escaped};

use super::{
    super::{
        live::{live, live_page},
        table::time,
    },
    api_of, badge,
    history::entry_table,
    path_of,
    steps::steps,
    value,
};
use crate::{api::problem::Problem, server::Server, waterfall::Range};

/// Entries of the history shown beside the rest.
const ENTRIES: i64 = 10;

/// A longer record is not read again every second only because somebody looks.
const LIVE_ENTRIES_MAX: i64 = 2_000;

/// Shows one run.
#[utoipa::path(get, path = "/workflows/{name}/{id}", tag = "pages",
    params(
        ("name" = String, Path, description = "The workflow"),
        ("id" = String, Path, description = "The run"),
    ),
    responses((status = 200, body = String, content_type = "text/html")),
)]
pub(in super::super) async fn show(
    State(server): State<Arc<Server>>,
    Path((name, id)): Path<(String, String)>,
) -> Result<Page, Problem> {
    let run = server.runtime.runs().look(&name, &id).await?;
    let before = (run.version - ENTRIES).max(0);
    let latest = server.runtime.runs().history(&name, &id, before, ENTRIES as usize).await?;
    let path = path_of(&name, &id);
    // One that has ended may begin anew, but that is seldom.
    let busy = !run.status.is_final() && run.version <= LIVE_ENTRIES_MAX;
    let content = html! {
        p.crumbs { a href={ "/workflows/" (escaped(&name)) } { "← " (name) } }
        h1.address { (id) }
        (live(busy, &what_is_known(&run, &latest, &path)))
        @if !run.status.is_final() { (event_form(&run, &path)) }
    };
    Ok(live_page(&id, Section::Workflows, content))
}

fn what_is_known(run: &RunView, latest: &[HistoryEntry], path: &str) -> Markup {
    let range = Range::of(run, SystemClock.now());
    html! {
        p.lead {
            (badge(run.status)) " started " (time(&run.created_at.to_string()))
            @if let Some(at) = &run.ended_at { " · ended " (time(&at.to_string())) }
            @if run.restarts == 1 { " · restarted once" }
            @if 1 < run.restarts { " · restarted " (run.restarts) " times" }
            " · " a href=(api_of(&run.workflow, &run.id)) { "JSON" }
        }
        (progress(run))
        (buttons(run, path))
        @if !run.waiting.is_empty() { (blocked(run, path)) }
        @if let Some(error) = &run.error {
            div.notice.bad {
                strong { "It failed" }
                p { (error.message) " " code { (error.code) } }
            }
        }
        @if !run.steps.is_empty() {
            h2.next { "Steps" }
            (steps(run, range, path))
        }
        @if !run.events.is_empty() { (events(&run.events)) }
        div.columns.next {
            section { h2 { "Input" } (value(&run.input)) }
            @if let Some(output) = &run.output { section { h2 { "Output" } (value(output)) } }
        }
        h2.next { "Latest history" }
        (entry_table(latest))
        @if (latest.len() as i64) < run.version {
            p.more { a.button href={ (path) "/history" } { "All of it" } }
        }
    }
}

fn progress(run: &RunView) -> Markup {
    let it = &run.progress;
    html! {
        @if it.message.is_some() || it.percent.is_some() {
            p.progress {
                @if let Some(percent) = it.percent {
                    progress max="100" value=(percent) { (percent) " %" }
                    " " (percent) " % "
                }
                @if let Some(message) = &it.message { (message) }
            }
        }
    }
}

/// Those that fit its state can be pressed.
fn buttons(run: &RunView, path: &str) -> Markup {
    let (ended, paused) = (run.status.is_final(), run.status == Phase::Paused);
    let all = [
        ("pause", "Pause", !ended && !paused),
        ("resume", "Resume", paused),
        ("terminate", "Terminate", !ended),
        ("restart", "Restart", ended || paused),
    ];
    html! {
        div.actions {
            @for (verb, word, fits) in all {
                form method="post" action={ (path) "/" (verb) } {
                    button.button disabled[!fits] { (word) }
                }
            }
            @if ended { (deletion(path)) }
        }
    }
}

/// It is for good, so one press is not enough.
fn deletion(path: &str) -> Markup {
    html! {
        details.confirm data-key="delete" {
            summary.button { "Delete…" }
            form method="post" action={ (path) "/delete" } {
                span { "It is gone for good then, with its history." }
                button.button.bad { "Delete it" }
            }
        }
    }
}

/// What a run is blocked on, each with its action.
fn blocked(run: &RunView, path: &str) -> Markup {
    let stuck = run.waiting.iter().any(|it| it.kind == "report");
    let heading = match run.status == Phase::Running {
        true => "Waiting while other branches run",
        false => "Blocked on",
    };
    html! {
        div.notice.why.bad[stuck] {
            strong { (heading) }
            ul { @for it in &run.waiting { li { (quoted(&it.why)) (action(it, path)) } } }
        }
    }
}

/// The action that unblocks a run, if there is one: a sleep and a retry wait for their time.
fn action(wait: &WaitView, path: &str) -> Markup {
    html! {
        @match wait.kind.as_str() {
            "event" => details.act data-key={ "send " (wait.name) } {
                summary.button { "Send " (wait.name) "…" }
                form.ask method="post" action={ (path) "/events" } {
                    input type="hidden" name="type" value=(wait.name);
                    textarea name="payload" rows="3" spellcheck="false" placeholder="{}"
                        aria-label={ "Payload of " (wait.name) " as JSON; empty is null" } {}
                    div.line { button.button { "Send event" } }
                }
            },
            "pause" | "report" => form.act method="post" action={ (path) "/resume" } {
                button.button { "Resume" }
            },
            _ => {}
        }
    }
}

/// A sentence whose names stand between backticks.
fn quoted(text: &str) -> Markup {
    html! {
        @for (place, part) in text.split('`').enumerate() {
            @if place % 2 == 1 { code { (part) } } @else { (part) }
        }
    }
}

fn events(events: &[EventView]) -> Markup {
    html! {
        h2.next { "Events that it has not taken" }
        div.scroll {
            table.rows {
                thead { tr { th { "Event" } th { "Came (UTC)" } th { "Payload" } } }
                tbody {
                    @for it in events {
                        tr {
                            td.address data-label="Event" { (it.name) }
                            td data-label="Came" { (time(&it.at.to_string())) }
                            td.address data-label="Payload" { (value(&it.payload)) }
                        }
                    }
                }
            }
        }
    }
}

/// It is not in the part that is kept fresh: what is typed would be replaced.
fn event_form(run: &RunView, path: &str) -> Markup {
    // By its steps, also while it is on its way to the wait again.
    let awaits = |it: &&StepView| it.kind == "event" && it.status == StepStatus::Waiting;
    let awaited = run.steps.iter().find(awaits);
    html! {
        h2.next { "Send an event" }
        form.ask method="post" action={ (path) "/events" } {
            label for="type" { "Name" }
            input #type name="type" required autocomplete="off"
                value=[awaited.map(|it| it.name.as_str())];
            label for="payload" { "Payload, as JSON; empty is null" }
            textarea #payload name="payload" rows="3" spellcheck="false"
                placeholder="{\"amount\": 500}" {}
            div.line { button.button { "Send" } }
        }
    }
}
