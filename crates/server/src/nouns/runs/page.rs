//! Pages of workflows: the list, the runs of a workflow, a run over time, and its history.

mod steps;

use std::{collections::BTreeMap, sync::Arc};

use axum::{
    extract::{Path, Query, State},
    http::Uri,
    response::Redirect,
};
use maud::{Markup, html};
use serde_json::{Value, json};
use steadfast_api::{
    Code, JsonText,
    runs::{ListRuns, ListWorkflows, RunHistory, SendEvent, WorkflowEntry},
};
use steadfast_core::{
    RunError,
    workflow::{EventView, HistoryEntry, Phase, RunItem, RunView, StepStatus, StepView, WaitView},
};
use steadfast_store::{Clock, SystemClock};
use steadfast_web::{
    Page, Params, Problem,
    console::{Section, console},
    escaped,
};

use crate::{
    list::Columns,
    nouns::runs::{self as api, page::steps::steps},
    pages::{
        components::{
            Tone, ask, badge, button, column, command, confirm, empty, field, filters, heading_of,
            hidden, json as json_of, link, live, live_page, number, pager, quoted, table, text,
            time, times,
        },
        forms::Fields,
        links::run_path,
    },
    server::Server,
    waterfall::Range,
};

/// Entries of the history on the page of a run.
const ENTRIES: i64 = 10;

/// Longer runs are not refreshed every second.
const LIVE_ENTRIES_MAX: i64 = 2_000;

/// Runs with more entries or bytes are not read as a whole: the page shows their history instead of
/// their steps.
const READ_ENTRIES_MAX: i64 = 10_000;
const READ_BYTES_MAX: usize = 8 << 20;

/// The path of a run in the API.
fn api_of(workflow: &str, id: &str) -> String {
    format!("/v1/workflows/{}/runs/{}", escaped(workflow), escaped(id))
}

fn status(phase: Phase) -> Markup {
    let tone = match phase {
        Phase::Complete => Tone::Good,
        Phase::Errored => Tone::Bad,
        Phase::Running => Tone::Active,
        Phase::Queued | Phase::Waiting | Phase::Paused => Tone::Waiting,
        Phase::Terminated => Tone::Quiet,
    };
    badge(tone, phase.word())
}

/// Lists the workflows.
pub(crate) async fn workflows(State(server): State<Arc<Server>>) -> Result<Page, Problem> {
    let workflows = api::workflows(server, ListWorkflows {}).await?.items;
    let content = html! {
        h1 { "Workflows" }
        p.lead {
            "A run executes an async function step by step and continues after a crash. · "
            a href="/v1/workflows" { "JSON" }
        }
        @if workflows.is_empty() {
            (empty("No workflows", &html! { p { "This program declares none." } }))
        } @else { (live(true, &workflow_columns().table(&workflows))) }
    };
    Ok(live_page("Workflows", Section::Workflows, content))
}

/// The columns of the workflows: the number of runs in each phase.
pub(crate) fn workflow_columns() -> Columns<'static, WorkflowEntry> {
    let path = |it: &WorkflowEntry| format!("/workflows/{}", escaped(&it.counts.name));
    let name = Columns::<WorkflowEntry>::new()
        .text("Workflow", |it| it.counts.name.clone())
        .markup(move |it| link(path(it), &it.counts.name));
    let phases = Phase::ALL.into_iter().fold(name, |all, phase| {
        all.number(phase.word(), move |it| it.counts.shown(phase)).markup(move |it| {
            let href = format!("{}?status={}", path(it), phase.word());
            html! {
                @if it.counts.runs.contains_key(&phase) {
                    a href=(href) { (it.counts.shown(phase)) }
                }
            }
        })
    });
    phases
        .number("concurrency", |it| it.limits.concurrency.to_string())
        .markup(|it| html! { "≤ " (it.limits.concurrency) })
}

/// Lists the runs of a workflow, newest first.
pub(crate) async fn runs(
    State(server): State<Arc<Server>>,
    Path(name): Path<String>,
    uri: Uri,
) -> Result<Page, Problem> {
    let (params, deleted) = asked(&name, &uri)?;
    let page = api::list(server.clone(), params.clone()).await?;
    let path = format!("/workflows/{}", escaped(&name));
    let filters = filters(&ListRuns { cursor: None, ..params.clone() });
    // Long lists are not refreshed every second.
    let busy = params.cursor.is_none() && page.next.is_none();
    let content = html! {
        (heading_of("/workflows", "Workflows", &name))
        @if let Some(id) = &deleted { (gone(&server, &name, id).await?) }
        (search(&path, &params))
        p.lead { "Newest first. · " a href={ "/v1" (path) "/runs?" (filters) } { "JSON" } }
        (live(busy, &html! {
            (columns().page(&page, &none(&name, !filters.is_empty()), &path, &filters))
        }))
    };
    Ok(live_page(&name, Section::Workflows, content))
}

/// The query, and the id of a run that was just deleted, which the API does not know.
fn asked(workflow: &str, uri: &Uri) -> Result<(ListRuns, Option<String>), Problem> {
    let bad = |text: String| Problem::of(Code::BadRequest, text);
    let pairs = Query::<BTreeMap<String, String>>::try_from_uri(uri);
    let Query(mut pairs) = pairs.map_err(|error| bad(error.body_text()))?;
    let deleted = pairs.remove("deleted").filter(|it| !it.is_empty());
    // An empty field of the form counts as left out.
    pairs.retain(|_, value| !value.is_empty());
    let params = serde_json::from_value(json!(pairs)).map_err(|error| bad(error.to_string()))?;
    Ok((ListRuns { workflow: workflow.into(), ..params }, deleted))
}

/// Reports that a run was deleted, unless it exists: an address can be bookmarked and an id reused.
async fn gone(server: &Server, name: &str, id: &str) -> Result<Markup, Problem> {
    match server.runtime.runs().phase(name, id).await {
        Err(RunError::UnknownRun { .. }) => Ok(html! {
            div.notice.good role="status" { "Run " code { (id) } " is deleted." }
        }),
        Ok(_) | Err(RunError::InvalidId { .. }) => Ok(html! {}),
        Err(error) => Err(error.into()),
    }
}

fn search(path: &str, params: &ListRuns) -> Markup {
    let given = |value: &Option<String>| value.clone().unwrap_or_default();
    html! {
        form.search method="get" action=(path) role="search" {
            span.pair {
                label for="status" { "Status" }
                select #status name="status" {
                    option value="" { "any" }
                    @for phase in Phase::ALL {
                        option selected[Some(phase) == params.status] { (phase.word()) }
                    }
                }
            }
            (field("Id begins with", "prefix", &given(&params.prefix), ""))
            (field("Started from", "since", &given(&params.since), "2026-11-15T12:30"))
            (field("before (UTC)", "until", &given(&params.until), "2026-11-16"))
            button.button { "Find" }
        }
    }
}

fn none(name: &str, is_filtered: bool) -> Markup {
    let start = format!("steadfast runs start {name} --id ID --input JSON");
    let next = match is_filtered {
        true => html! { p { "No run matches the filter." } },
        false => command("Start one:", &start),
    };
    empty("No runs", &next)
}

/// The columns of the runs of a workflow.
pub(crate) fn columns() -> Columns<'static, RunItem> {
    Columns::<RunItem>::new()
        .text("Id", |it| it.id.clone())
        .markup(|it| link(run_path(&it.workflow, &it.id), &it.id))
        .text("Status", |it| it.status.word().into())
        .markup(|it| status(it.status))
        .time("Changed", |it| it.changed_at.to_string())
        .time("Started", |it| it.created_at.to_string())
}

/// Shows one run.
pub(crate) async fn show(
    State(server): State<Arc<Server>>,
    Path((name, id)): Path<(String, String)>,
) -> Result<Page, Problem> {
    let runs = server.runtime.runs();
    let phase = runs.phase(&name, &id).await?;
    let length = runs.length(&name, &id).await?;
    let mut latest = runs.history(&name, &id, (length - ENTRIES).max(0), ENTRIES as usize).await?;
    // Large entries come in several pages, of which the last is shown.
    while let Some(last) = latest.last().map(|it| it.number).filter(|it| *it < length) {
        let more = runs.history(&name, &id, last, ENTRIES as usize).await?;
        if more.is_empty() {
            break;
        }
        latest = more;
    }
    let path = run_path(&name, &id);
    let run = match length <= READ_ENTRIES_MAX {
        true => runs.look_within(&name, &id, READ_ENTRIES_MAX, READ_BYTES_MAX).await?,
        false => None,
    };
    let Some(run) = run else { return Ok(show_long(&name, &id, (phase, length), &latest)) };
    // An ended run can be restarted, but that is rare.
    let busy = !run.status.is_final() && run.version <= LIVE_ENTRIES_MAX;
    let content = html! {
        (heading_of(&format!("/workflows/{}", escaped(&name)), &name, &id))
        (live(busy, &details(&run, &latest, &path)))
        @if !run.status.is_final() { (event_form(&run, &path)) }
    };
    Ok(live_page(&id, Section::Workflows, content))
}

/// Shows a run whose record is too long for a page.
fn show_long(name: &str, id: &str, run: (Phase, i64), latest: &[HistoryEntry]) -> Page {
    let (path, api) = (run_path(name, id), api_of(name, id));
    let content = html! {
        (heading_of(&format!("/workflows/{}", escaped(name)), name, id))
        p.lead { (status(run.0)) " " (run.1) " entries · " a href=(api) { "JSON" } }
        (buttons(run.0, &path))
        div.notice {
            "A page shows the steps of a record of up to " (READ_ENTRIES_MAX) " entries and "
            (READ_BYTES_MAX >> 20) " MiB. This one is larger: read its history, or its JSON."
        }
        h2.next { "Latest history" }
        (entry_table(latest, &api))
        p.more { a.button href={ (path) "/history" } { "Full history" } }
    };
    console(id, Section::Workflows, content)
}

fn details(run: &RunView, latest: &[HistoryEntry], path: &str) -> Markup {
    let range = Range::of(run, SystemClock.now());
    let api = api_of(&run.workflow, &run.id);
    html! {
        p.lead {
            (status(run.status)) " started " (time(run.created_at.to_string()))
            @if let Some(at) = &run.ended_at { " · ended " (time(at.to_string())) }
            @if run.restarts == 1 { " · restarted once" }
            @if 1 < run.restarts { " · restarted " (run.restarts) " times" }
            " · " a href=(api) { "JSON" }
        }
        (progress(run))
        (buttons(run.status, path))
        @if !run.waiting.is_empty() { (blocked(run, path)) }
        @if let Some(error) = &run.error {
            div.notice.bad {
                strong { "Failed" }
                p { (error.message) " " code { (error.code) } }
            }
        }
        @if !run.steps.is_empty() { h2.next { "Steps" } (steps(run, range, path)) }
        @if !run.events.is_empty() { (events(&run.events, &api)) }
        div.columns.next {
            section { h2 { "Input" } (json_of(&run.input, &api)) }
            @if let Some(output) = &run.output {
                section { h2 { "Output" } (json_of(output, &api)) }
            }
        }
        h2.next { "Latest history" }
        (entry_table(latest, &api))
        @if (latest.len() as i64) < run.version {
            p.more { a.button href={ (path) "/history" } { "Full history" } }
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

fn buttons(phase: Phase, path: &str) -> Markup {
    let (ended, paused) = (phase.is_final(), phase == Phase::Paused);
    let to = |verb: &str| format!("{path}/{verb}");
    html! {
        div.actions {
            (button(&to("pause"), "Pause", !ended && !paused))
            (button(&to("resume"), "Resume", paused))
            (button(&to("terminate"), "Terminate", !ended))
            (button(&to("restart"), "Restart", ended || paused))
            @if ended {
                (confirm(&to("delete"), "Delete", "Deletes the run and its history.", "Delete it"))
            }
        }
    }
}

/// The waits of a run, each with the action that ends it.
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

/// The action that unblocks a run, if there is one: a sleep ends by itself.
fn action(wait: &WaitView, path: &str) -> Markup {
    let act = |verb: &str, word: &str| {
        html! {
            form.act method="post" action={ (path) "/" (verb) } { button.button { (word) } }
        }
    };
    match wait.kind.as_str() {
        "event" => {
            let payload = html! {
                (hidden("type", &wait.name))
                textarea name="payload" rows="3" spellcheck="false" placeholder="{}"
                    aria-label={ "Payload of " (wait.name) " as JSON; empty is null" } {}
                div.line { button.button { "Send event" } }
            };
            let (key, word) = (format!("send {}", wait.name), format!("Send {}", wait.name));
            ask(&key, &word, &format!("{path}/events"), &payload)
        }
        "pause" | "report" => act("resume", "Resume"),
        "step" | "call" if wait.until.is_some() => act("retry", "Retry now"),
        _ => html! {},
    }
}

fn events(events: &[EventView], api: &str) -> Markup {
    let columns =
        [column("Event").class("address"), times("Received"), column("Payload").class("address")];
    let row = |it: &EventView| {
        [text(&it.name), time(it.at.to_string()), html! { div { (json_of(&it.payload, api)) } }]
    };
    html! { h2.next { "Unread events" } (table(&columns, events.iter().map(row))) }
}

/// It is outside of the refreshed part, which would replace typed text.
fn event_form(run: &RunView, path: &str) -> Markup {
    // Decided by the steps, because the run may be replaying towards the wait.
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

/// Sends an event to a run and shows the run.
pub(crate) async fn event(
    State(server): State<Arc<Server>>,
    Path((workflow, id)): Path<(String, String)>,
    mut form: Fields,
) -> Result<Redirect, Problem> {
    let (to, event) = (run_path(&workflow, &id), form.required("type")?);
    let payload = form.json("payload")?.map_or_else(null, Ok)?;
    form.end()?;
    let _ = api::event(server, SendEvent { workflow, id, event, payload, idempotency_key: None })
        .await?;
    Ok(Redirect::to(&to))
}

fn null() -> Result<JsonText, Problem> {
    JsonText::parse("null".into()).map_err(|it| Problem::of(Code::Internal, it.to_string()))
}

/// Shows the record of a run in pages.
pub(crate) async fn history(
    State(server): State<Arc<Server>>,
    Path((name, id)): Path<(String, String)>,
    Params(params): Params<RunHistory>,
) -> Result<Page, Problem> {
    let asked = RunHistory { workflow: name.clone(), id: id.clone(), ..params };
    let list = api::history(server, asked).await?;
    let (path, api) = (run_path(&name, &id), api_of(&name, &id));
    let content = html! {
        p.crumbs { a href=(path) { "← " (id) } }
        h1 { "History" }
        p.lead { "The record of the run, in order. · " a href={ (api) "/history" } { "JSON" } }
        (entry_table(&list.items, &format!("{api}/history")))
        (pager(&format!("{path}/history"), "", list.next.as_deref()))
    };
    Ok(console(&id, Section::Workflows, content))
}

fn entry_table(entries: &[HistoryEntry], api: &str) -> Markup {
    let columns = [
        number("#"),
        times("At"),
        column("Entry"),
        column("About").class("address"),
        column("Content").class("message"),
    ];
    let row = |it: &HistoryEntry| {
        let (about, rest) = parts(it);
        [
            text(it.number),
            time(it.at.to_string()),
            html! { code { (it.entry) } },
            text(about),
            html! {
                @if let Some(rest) = &rest {
                    details data-key={ "entry " (it.number) } {
                        summary { "show" }
                        (json_of(rest, api))
                    }
                }
            },
        ]
    };
    table(&columns, entries.iter().map(row))
}

/// The subject of an entry, and its other fields.
fn parts(entry: &HistoryEntry) -> (String, Option<Value>) {
    let mut fields = entry.fields.clone();
    let key = fields.remove("key");
    let word = |name: &str| key.as_ref().and_then(|it| it[name].as_str()).unwrap_or_default();
    let name = fields.get("name").and_then(Value::as_str).unwrap_or_default();
    let about = format!("{}{} {} {name}", word("scope"), word("kind"), word("name"));
    let rest = (!fields.is_empty()).then_some(Value::Object(fields.clone()));
    (about.trim().to_owned(), rest)
}
