//! The overview: the last hour, failures, stuck work, longest waits, and facts about the program.
//! It calls operations. Every read has a limit.

use std::{cmp::Reverse, sync::Arc, time::Duration};

use axum::{
    Extension,
    extract::State,
    http::{HeaderMap, header},
};
use maud::{Markup, html};
use steadfast_api::{
    Limit,
    objects::{ListClasses, ObjectClass},
    queues::{ListQueues, Queue},
    rfc3339,
    runs::{ListRuns, RunHistory, ShowRun},
    server::{OverdueMessage, Overview, ShowOverview},
    streams::{ListDead, ListStreams, Message},
};
use steadfast_core::workflow::{Phase, RunItem};
use steadfast_store::{Address, Clock, EntityKind, Health, SystemClock};
use steadfast_web::{Page, Problem, Web, console::Section};

use crate::{
    args::SERVER,
    doctor::store::difference,
    history::Sample,
    listener::ConnectionInfo,
    nouns::{objects, queues, runs, server::overview, streams},
    pages::{
        chart::{Line, chart},
        components::{
            Tone, alarm, badge, card, facts as fact_list, figure, lines, link, live_every,
            live_page, text, time,
        },
        links::{href_of, queue_path, run_path},
    },
    server::Server,
    waterfall::words_of,
};

/// Rows per list.
const ROWS: u32 = 5;

/// Maximum number of workflows and queues to read, by name.
const NAMES_MAX: u32 = 50;

/// Longer records are not read for the reason of a pause: the page of the run shows it.
const ENTRIES_MAX: i64 = 500;

/// Streams to read to decide whether the store is empty.
const STREAMS: u32 = 20;

/// Shows the overview.
pub(super) async fn start(
    State(server): State<Arc<Server>>,
    connection: Option<Extension<ConnectionInfo>>,
    headers: HeaderMap,
) -> Result<Page, Problem> {
    let overview = overview(server.clone(), ShowOverview {}).await?;
    let objects = objects::classes(server.clone(), ListClasses::default()).await?.items;
    let attention = attention(&server, &overview).await?;
    let is_empty = is_empty(&server, &objects).await?;
    let used = connection.and_then(|it| it.client.origin());
    let used = used.unwrap_or_else(|| origin(&headers));
    let content = html! {
        div.heading {
            h1 { (title(&server)) " is running" }
            (health(&server))
            @if let Some(trouble) = difference(&server.runtime.store().clock().report()) {
                (badge(Tone::Waiting, &format!("clock: {trouble}")))
            }
        }
        (live_every(10, &html! {
            (charts(&server))
            (figures(&overview, &objects))
            (attention)
        }))
        (unserved(&server))
        section.columns {
            (applications(&server))
            @if is_empty { (commands(server.runtime.name(), &used)) }
            (facts(&server))
        }
    };
    Ok(live_page("Overview", Section::Start, content))
}

/// The name of the program, as a title.
fn title(server: &Server) -> &str {
    match server.runtime.name() {
        "steadfast" => "Steadfast",
        name => name,
    }
}

fn health(server: &Server) -> Markup {
    match server.runtime.store().health() {
        Health::Ready if server.is_draining() => badge(Tone::Waiting, "stopping"),
        Health::Ready => badge(Tone::Good, "ready"),
        Health::Degraded { reason } => badge(Tone::Waiting, &format!("degraded: {reason}")),
        Health::Failed { reason } => badge(Tone::Bad, &format!("failed: {reason}")),
    }
}

/// Charts of the last hour of this process.
fn charts(server: &Server) -> Markup {
    let samples = server.history.samples();
    let now = SystemClock.now();
    let line = |class, value: fn(&Sample) -> Option<f64>| {
        Line::new(class, samples.iter().map(|it| (it.at, value(it))).collect())
    };
    let latency =
        [line("median", |it| it.median.map(millis)), line("value", |it| it.p95.map(millis))];
    let commits = [line("value", |it| Some(it.commits))];
    let backlog = [line("value", |it| it.pending.map(|it| it as f64))];
    let failures = [line("bad", |it| Some(it.failures as f64))];
    html! {
        section.charts aria-label="The last hour" {
            (chart("Commits", &commits, now, |it| format!("{}/s", number(it))))
            (chart("Latency (p95)", &latency, now, |it| format!("{} ms", number(it))))
            (chart("Backlog", &backlog, now, number))
            (chart("Failures", &failures, now, number))
        }
        p.quiet.measured {
            @match server.history.since() {
                Some(at) => {
                    "Measured every 10 s since " (time(rfc3339(at)))
                    ", in memory: a restart clears these charts. Latency is that of HTTP "
                    "requests. Failures are messages that became dead and requests with a "
                    "status of 500 and above."
                },
                None => "No measurements: only `serve` takes them.",
            }
        }
    }
}

fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1_000.0
}

/// A value with at most two decimal places.
fn number(value: f64) -> String {
    match value {
        10.0.. => format!("{value:.0}"),
        0.1.. => format!("{value:.1}"),
        0.0 => "0".into(),
        _ => format!("{value:.2}"),
    }
}

fn figures(totals: &Overview, classes: &[ObjectClass]) -> Markup {
    let objects: usize = classes.iter().map(|it| it.objects).sum();
    let more = if classes.iter().any(|it| it.more) { "+" } else { "" };
    let word = if objects == 1 { "object" } else { "objects" };
    html! {
        section.figures aria-label="Figures" {
            (figure(Some("/streams"), totals.position, &text("commits recorded")))
            (figure(Some("/objects"), format!("{objects}{more}"), &text(word)))
            (figure(Some("/streams/pending"), totals.pending, &text("pending")))
            (alarm("/streams/dead", totals.dead, "dead"))
        }
    }
}

fn unserved(server: &Server) -> Markup {
    let unserved = server.unserved.get().map(Vec::as_slice).unwrap_or_default();
    html! {
        @if !unserved.is_empty() {
            (card("Not served here", &html! {
                p { "Stored messages for targets that this program does not declare." }
                ul { @for it in unserved { li { (it) } } }
            }))
        }
    }
}

fn facts(server: &Server) -> Markup {
    fact_list([
        ("Version", text(env!("CARGO_PKG_VERSION"))),
        ("Store", text(server.location.store())),
        (server.location.noun(), html! { code { (server.location) } }),
        ("Owner epoch", text(server.runtime.store().owner().epoch)),
    ])
}

fn applications(server: &Server) -> Markup {
    let pages = server.runtime.extension::<Web>().map_or(&[][..], |it| &it.pages);
    let line =
        |it: &steadfast_web::NavLink| (html! { a href=(it.path) { (it.title) } }, text(it.about));
    html! {
        @if !pages.is_empty() { (card("Applications", &lines(pages.iter().map(line)))) }
    }
}

/// Whether the store contains only the data of a first start.
async fn is_empty(server: &Arc<Server>, classes: &[ObjectClass]) -> Result<bool, Problem> {
    if classes.iter().any(|it| 0 < it.objects) {
        return Ok(false);
    }
    let asked = ListStreams { limit: Limit::of(STREAMS), ..ListStreams::default() };
    let streams = streams::list(server.clone(), asked).await?.items;
    let own: [&str; 2] = [EntityKind::Bucket.into(), EntityKind::System.into()];
    Ok(streams.iter().all(|it| own.contains(&&*it.kind)))
}

/// The URL of this server behind a host program, which knows the scheme.
fn origin(headers: &HeaderMap) -> String {
    let host = headers.get(header::HOST).and_then(|it| it.to_str().ok()).unwrap_or_default();
    format!("http://{host}")
}

fn commands(program: &str, server: &str) -> Markup {
    let commands = [
        ("objects classes", "List the classes of objects"),
        ("runs list", "List the workflows and their runs"),
        ("processes list", "List the processes"),
        ("queues list", "List the queues"),
        ("buckets list", "List the buckets"),
        ("streams list", "List the streams"),
        ("doctor", "Check the store"),
    ];
    let line =
        |(command, about): (&str, &str)| (html! { code { (program) " " (command) } }, text(about));
    card(
        "Next commands",
        &html! {
            (lines(commands.map(line)))
            @if server != SERVER { p.quiet { "Each with " code { "--server " (server) } } }
        },
    )
}

/// Items that need an operator: failing, stuck, waiting longest.
async fn attention(server: &Arc<Server>, overview: &Overview) -> Result<Markup, Problem> {
    let workflows = &overview.workflows[..];
    let asked = ListQueues { limit: Limit::of(NAMES_MAX), ..ListQueues::default() };
    let queues = queues::list(server.clone(), asked).await?.items;
    let failed = latest_runs(server, workflows, Phase::Errored).await?;
    // One more than is shown, to detect further ones.
    let asked = ListDead { limit: Limit::of(ROWS + 1), ..ListDead::default() };
    let dead = streams::dead(server.clone(), asked).await?.items;
    let stuck = stuck(server, workflows, &queues).await?;
    let waiting = waiting(server, &queues, &overview.overdue);
    Ok(html! {
        section.columns.three {
            (failing(&failed, &dead))
            (list_or("Stuck", stuck, "No paused run and no paused queue."))
            (list_or("Waiting longest", waiting, "Nothing is overdue."))
        }
    })
}

fn list_or(title: &str, all: Vec<(Markup, Markup)>, none: &str) -> Markup {
    card(title, &html! { @if all.is_empty() { p.quiet { (none) } } @else { (lines(all)) } })
}

fn failing(failed: &[RunItem], dead: &[Message]) -> Markup {
    let run = |it: &RunItem| {
        let label = format!("{}/{}", it.workflow, it.id);
        let failed = html! { "failed " (time(it.changed_at.to_string())) };
        (link(run_path(&it.workflow, &it.id), label), failed)
    };
    let message = |it: &Message| {
        let label = format!("{} #{}", it.type_, it.global_position);
        let error = it.error.as_deref().unwrap_or("dead");
        (link(format!("/streams/{}", it.stream_id()), label), text(error))
    };
    let rows = ROWS as usize;
    let all = failed.iter().map(run).chain(dead.iter().take(rows).map(message));
    html! {
        section.card {
            h2 { "Failing" }
            @if failed.is_empty() && dead.is_empty() {
                p.quiet { "No failed run and no dead message." }
            } @else { (lines(all)) }
            @if rows < dead.len() { p { a href="/streams/dead" { "All dead messages" } } }
        }
    }
}

/// The latest runs of all workflows with one status.
async fn latest_runs(
    server: &Arc<Server>,
    workflows: &[String],
    status: Phase,
) -> Result<Vec<RunItem>, Problem> {
    let mut found = Vec::new();
    for workflow in workflows.iter().take(NAMES_MAX as usize) {
        let (workflow, limit) = (workflow.clone(), Limit::of(ROWS));
        let asked = ListRuns { workflow, status: Some(status), limit, ..ListRuns::default() };
        found.extend(runs::list(server.clone(), asked).await?.items);
    }
    found.sort_by_key(|it| Reverse(it.changed_at.0));
    found.truncate(ROWS as usize);
    Ok(found)
}

async fn stuck(
    server: &Arc<Server>,
    workflows: &[String],
    all: &[Queue],
) -> Result<Vec<(Markup, Markup)>, Problem> {
    let mut stuck = Vec::new();
    for it in latest_runs(server, workflows, Phase::Paused).await? {
        let label = format!("{}/{}", it.workflow, it.id);
        let href = run_path(&it.workflow, &it.id);
        stuck.push((link(href, label), text(pause_reason(server, &it).await)));
    }
    for it in all.iter().filter(|it| it.paused && 0 < it.depth) {
        let why = format!("paused; {} messages wait", it.depth);
        stuck.push((link(queue_path(&it.name), &it.name), text(why)));
    }
    for it in all.iter().filter(|it| 0 < it.dead) {
        let href = format!("{}?state=dead", queue_path(&it.name));
        let why = format!("{} dead messages; redrive or purge them", it.dead);
        stuck.push((link(href, &it.name), text(why)));
    }
    stuck.truncate(2 * ROWS as usize);
    Ok(stuck)
}

/// The reason why a run is paused, if its record is short enough to read here.
async fn pause_reason(server: &Arc<Server>, run: &RunItem) -> String {
    let (workflow, id) = (run.workflow.clone(), run.id.clone());
    let (cursor, limit) = (Some(ENTRIES_MAX.to_string()), Limit::of(1));
    let behind = runs::history(server.clone(), RunHistory { workflow, id, limit, cursor }).await;
    if !behind.is_ok_and(|it| it.items.is_empty()) {
        return "paused".into();
    }
    let asked = ShowRun { workflow: run.workflow.clone(), id: run.id.clone(), wait: None };
    let view = runs::show(server.clone(), asked).await;
    let why = view.ok().and_then(|it| it.waiting.first().map(|it| it.why.replace('`', "")));
    why.unwrap_or_else(|| "paused".into())
}

/// Overdue messages, and the oldest messages of queues.
fn waiting(server: &Server, all: &[Queue], overdue: &[OverdueMessage]) -> Vec<(Markup, Markup)> {
    let oldest = |it: &Queue| {
        let link = link(queue_path(&it.name), format!("queue {}", it.name));
        Some((it.oldest_age_ms?, link))
    };
    let late = |it: &OverdueMessage| {
        let address: Address = it.target.parse().ok()?;
        let label = format!("message {} for {address}", it.message);
        Some((it.overdue_ms, link(href_of(server, &address), label)))
    };
    let waiting = all.iter().filter_map(oldest).chain(overdue.iter().filter_map(late));
    let mut waiting: Vec<(u64, Markup)> = waiting.collect();
    waiting.sort_by_key(|it| Reverse(it.0));
    waiting.truncate(ROWS as usize);
    waiting.into_iter().map(|(age, link)| (link, text(words_of(age)))).collect()
}
