//! The start page: what runs, where to look, what to do next.

use std::sync::Arc;

use axum::{
    extract::State,
    http::{HeaderMap, header},
};
use maud::{Markup, html};
use steadfast_store::{Health, Totals};
use steadfast_web::{
    Page, Web,
    console::{Section, console},
};

use crate::{
    api::{objects::list::read_classes, problem::Problem, wire::ObjectClass},
    args::SERVER,
    doctor::clock,
    node::Node,
};

/// Shows what runs here.
#[utoipa::path(get, path = "/", tag = "pages", responses(
    (status = 200, body = String, content_type = "text/html"),
))]
pub(super) async fn start(
    State(node): State<Arc<Node>>,
    headers: HeaderMap,
) -> Result<Page, Problem> {
    let totals = node.runtime.store().totals().await?;
    let objects = read_classes(&node).await?;
    let unserved = node.unserved.get().map(Vec::as_slice).unwrap_or_default();
    let content = html! {
        section.hero {
            (health(&node))
            @if let Some(trouble) = clock::trouble(&node.runtime.store().clock().report()) {
                " " span.badge.waiting { "clock: " (trouble) }
            }
            h1 { (title(&node)) " is running" }
            p.lead {
                "Every step of progress is one commit. What is still to be done is a row, and it "
                "survives a crash."
            }
        }
        (figures(totals, &objects))
        @if !unserved.is_empty() {
            section.card {
                h2 { "Not served here" }
                p { "This program does not declare what these messages wait for. They are kept." }
                ul { @for it in unserved { li { (it) } } }
            }
        }
        (facts(&node))
        section.columns {
            (links(&node))
            (commands(node.runtime.name(), host(&headers)))
        }
    };
    Ok(console("Overview", Section::Start, content))
}

/// The name of the program, as a title.
fn title(node: &Node) -> &str {
    match node.runtime.name() {
        "steadfast" => "Steadfast",
        name => name,
    }
}

fn health(node: &Node) -> Markup {
    match node.runtime.store().health() {
        Health::Ready if node.is_draining() => html! { span.badge.waiting { "stopping" } },
        Health::Ready => html! { span.badge.done { "ready" } },
        Health::Degraded { reason } => html! { span.badge.waiting { "degraded: " (reason) } },
        Health::Failed { reason } => html! { span.badge.dead { "failed: " (reason) } },
    }
}

fn figures(totals: Totals, classes: &[ObjectClass]) -> Markup {
    let objects: usize = classes.iter().map(|it| it.objects).sum();
    html! {
        section.figures aria-label="Figures" {
            a.figure href="/streams" {
                strong { (totals.position) }
                span { "messages and turns" }
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

fn facts(node: &Node) -> Markup {
    html! {
        dl.facts {
            div { dt { "Version" } dd { (env!("CARGO_PKG_VERSION")) } }
            div { dt { "Store" } dd { (node.place.store()) } }
            div { dt { (node.place.noun()) } dd { code { (node.place) } } }
            div { dt { "Owner epoch" } dd { (node.runtime.store().owner().epoch) } }
        }
    }
}

fn links(node: &Node) -> Markup {
    let links = [
        ("/processes", "Processes", "what is under way, and what it knows"),
        ("/workflows", "Workflows", "what each run does, and why it waits"),
        ("/objects", "Objects", "what each of them holds, and how it came to"),
        ("/queues", "Queues", "what waits, what is in flight, what was given up"),
        ("/buckets", "Buckets", "blobs by key, and what their changes told"),
        ("/streams", "Streams", "every message, and how far it is"),
        ("/readyz", "Health", "whether requests should come here"),
        ("/metrics", "Metrics", "figures for Prometheus"),
        ("/openapi.json", "OpenAPI", "every route, for programs"),
    ];
    let pages = node.runtime.extension::<Web>().map_or(&[][..], |it| &it.pages);
    let pages = pages.iter().map(|it| (it.path, it.title, it.about));
    html! {
        section.card {
            h2 { "Look around" }
            ul.links {
                @for (href, label, about) in pages.chain(links) {
                    li { a href=(href) { (label) } span { (about) } }
                }
            }
        }
    }
}

/// Where this page was found.
fn host(headers: &HeaderMap) -> &str {
    headers.get(header::HOST).and_then(|it| it.to_str().ok()).unwrap_or_default()
}

fn commands(program: &str, host: &str) -> Markup {
    let server = format!("http://{host}");
    let commands = [
        ("processes list", "the processes there are"),
        ("runs list", "the workflows there are, and their runs"),
        ("objects classes", "the classes of objects there are"),
        ("queues list", "the queues there are, and how full"),
        ("buckets list", "the buckets there are"),
        ("streams list", "the streams there are"),
        ("streams pending", "what is still to be done"),
        ("streams dead", "what was given up, and why"),
        ("doctor", "whether all is well"),
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
