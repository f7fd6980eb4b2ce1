//! The overview: how the last hour went, what needs a person, and what is here.

mod attention;

use std::{sync::Arc, time::Duration};

use axum::{
    extract::State,
    http::{HeaderMap, header},
};
use maud::{Markup, html};
use steadfast_api::objects::ListClasses;
use steadfast_store::{Clock, EntityKind, Health, SystemClock, Totals};
use steadfast_web::{Page, Web, console::Section};

use self::attention::Attention;
use super::{
    chart::{Line, chart},
    live::{live_every, live_page},
    table::time,
};
use crate::{
    api::{objects, problem::Problem, time::rfc3339, wire::ObjectClass},
    args::SERVER,
    doctor::clock,
    history::Sample,
    server::Server,
};

/// Streams that are read to see whether anything was done here.
const STREAMS: usize = 20;

/// Shows how the program is.
#[utoipa::path(get, path = "/", tag = "pages", responses(
    (status = 200, body = String, content_type = "text/html"),
))]
pub(super) async fn start(
    State(server): State<Arc<Server>>,
    headers: HeaderMap,
) -> Result<Page, Problem> {
    let totals = server.runtime.store().totals().await?;
    let objects = objects::classes(server.clone(), ListClasses {}).await?.items;
    let attention = Attention::read(&server).await?;
    let is_empty = is_empty(&server, &objects).await?;
    let content = html! {
        div.heading {
            h1 { (title(&server)) " is running" }
            (health(&server))
            @if let Some(trouble) = clock::trouble(&server.runtime.store().clock().report()) {
                span.badge.waiting { "clock: " (trouble) }
            }
        }
        (live_every(10, &html! {
            (charts(&server))
            (figures(totals, &objects))
            (attention.shown())
        }))
        (unserved(&server))
        section.columns {
            (applications(&server))
            @if is_empty { (commands(server.runtime.name(), host(&headers))) }
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
        Health::Ready if server.is_draining() => html! { span.badge.waiting { "stopping" } },
        Health::Ready => html! { span.badge.done { "ready" } },
        Health::Degraded { reason } => html! { span.badge.waiting { "degraded: " (reason) } },
        Health::Failed { reason } => html! { span.badge.dead { "failed: " (reason) } },
    }
}

/// The last hour of this process.
fn charts(server: &Server) -> Markup {
    let samples = server.history.samples();
    let now = SystemClock.now();
    let line = |class, value: fn(&Sample) -> Option<f64>| Line {
        class,
        values: samples.iter().map(|it| (it.at, value(it))).collect(),
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
                    "Measured every 10 s since " (time(&rfc3339(at)))
                    ", in memory: a restart empties these charts. Latency is that of HTTP "
                    "requests. Failures are messages that became dead and requests with a "
                    "status of 500 and above."
                },
                None => "This program does not measure: `serve` does.",
            }
        }
    }
}

fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1_000.0
}

/// A value with at most two digits behind its point.
fn number(value: f64) -> String {
    match value {
        10.0.. => format!("{value:.0}"),
        0.1.. => format!("{value:.1}"),
        0.0 => "0".into(),
        _ => format!("{value:.2}"),
    }
}

fn figures(totals: Totals, classes: &[ObjectClass]) -> Markup {
    let objects: usize = classes.iter().map(|it| it.objects).sum();
    html! {
        section.figures aria-label="Figures" {
            a.figure href="/streams" {
                strong { (totals.position) }
                span { "commits recorded" }
            }
            a.figure href="/objects" {
                strong { (objects) @if classes.iter().any(|it| it.more) { "+" } }
                span { @if objects == 1 { "object" } @else { "objects" } }
            }
            a.figure href="/streams/pending" {
                strong { (totals.pending) }
                span { "pending" }
            }
            a.figure.alarm[0 < totals.dead] href="/streams/dead" {
                strong { (totals.dead) }
                span { "dead" }
            }
        }
    }
}

fn unserved(server: &Server) -> Markup {
    let unserved = server.unserved.get().map(Vec::as_slice).unwrap_or_default();
    html! {
        @if !unserved.is_empty() {
            section.card {
                h2 { "Not served here" }
                p { "This program does not declare what these messages wait for. They are kept." }
                ul { @for it in unserved { li { (it) } } }
            }
        }
    }
}

fn facts(server: &Server) -> Markup {
    html! {
        dl.facts {
            div { dt { "Version" } dd { (env!("CARGO_PKG_VERSION")) } }
            div { dt { "Store" } dd { (server.place.store()) } }
            div { dt { (server.place.noun()) } dd { code { (server.place) } } }
            div { dt { "Owner epoch" } dd { (server.runtime.store().owner().epoch) } }
        }
    }
}

fn applications(server: &Server) -> Markup {
    let pages = server.runtime.extension::<Web>().map_or(&[][..], |it| &it.pages);
    html! {
        @if !pages.is_empty() {
            section.card {
                h2 { "Applications" }
                ul.links {
                    @for it in pages { li { a href=(it.path) { (it.title) } span { (it.about) } } }
                }
            }
        }
    }
}

/// Whether nothing was done here yet, beside what a program does at its first start.
async fn is_empty(server: &Server, classes: &[ObjectClass]) -> Result<bool, Problem> {
    if classes.iter().any(|it| 0 < it.objects) {
        return Ok(false);
    }
    let streams = server.runtime.store().streams(None, None, STREAMS).await?;
    let own = [EntityKind::Bucket, EntityKind::System];
    Ok(streams.iter().all(|it| own.contains(&it.address.kind())))
}

/// Where this page was found.
fn host(headers: &HeaderMap) -> &str {
    headers.get(header::HOST).and_then(|it| it.to_str().ok()).unwrap_or_default()
}

fn commands(program: &str, host: &str) -> Markup {
    let server = format!("http://{host}");
    let commands = [
        ("objects classes", "List the classes of objects"),
        ("runs list", "List the workflows and their runs"),
        ("processes list", "List the processes"),
        ("queues list", "List the queues"),
        ("buckets list", "List the buckets"),
        ("streams list", "List the streams"),
        ("doctor", "Check the store"),
    ];
    html! {
        section.card {
            h2 { "Next commands" }
            ul.links {
                @for (command, about) in commands {
                    li { code { (program) " " (command) } span { (about) } }
                }
            }
            @if server != SERVER {
                p.quiet { "Each with " code { "--server " (server) } }
            }
        }
    }
}
