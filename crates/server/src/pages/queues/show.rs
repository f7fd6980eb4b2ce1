//! One queue: how it is, how it is set, what lies in it, and what can be done.

use std::sync::Arc;

use axum::extract::{Path, State};
use maud::{Markup, html};
use serde_json::Value;
use steadfast_api::{
    Limit,
    queues::{PeekQueue, ShowQueue},
};
use steadfast_core::queue::PeekState;
use steadfast_web::{Page, console::Section};

use super::{
    super::live::{live, live_page},
    age, badge,
    messages::{is_dead_letter, message_table, redrive_form},
    path_of, rate, spark,
};
use crate::{
    api::{
        page::Params,
        problem::Problem,
        queues,
        wire::{List, QueueEntry, QueueMessage},
    },
    server::Server,
};

/// Shows one queue, and its messages in one state.
#[utoipa::path(get, path = "/queues/{q}", tag = "pages",
    params(("q" = String, Path, description = "The queue")),
    responses((status = 200, body = String, content_type = "text/html")),
)]
pub(in super::super) async fn show(
    State(server): State<Arc<Server>>,
    Path(queue): Path<String>,
    Params(mut params): Params<PeekQueue>,
) -> Result<Page, Problem> {
    params.queue.clone_from(&queue);
    let (state, limit) = (PeekState::from(params.state), params.limit);
    // What lies further behind does not change every second.
    let busy = params.cursor.is_none();
    let view = queues::show(server.clone(), ShowQueue { queue: queue.clone() }).await?;
    let page = queues::peek(server, params).await?;
    let content = html! {
        p.crumbs { a href="/queues" { "← Queues" } }
        h1.address { (queue) }
        (live(busy, &html! {
            (what_is_known(&view))
            (tabs(&view, state))
            (lying(&view, &page, state, limit))
            section.columns.next {
                (minutes(&view))
                (settings(&view))
            }
        }))
    };
    Ok(live_page(&queue, Section::Queues, content))
}

fn what_is_known(view: &QueueEntry) -> Markup {
    let path = path_of(&view.name);
    html! {
        p.lead {
            (badge(view))
            @if let Some(place) = &view.settings.dead_letter_queue {
                " dead letters go to " a href=(path_of(place)) { (place) }
            } @else {
                " no dead-letter queue: what is given up stays here, dead"
            }
            " · " a href={ "/v1" (path) } { "JSON" }
        }
        (buttons(view, &path))
        (figures(view, &path))
    }
}

/// Those that fit its state can be pressed.
fn buttons(view: &QueueEntry, path: &str) -> Markup {
    html! {
        div.actions {
            @for (verb, word, fits) in
                [("pause", "Pause", !view.paused), ("resume", "Resume", view.paused)] {
                form method="post" action={ (path) "/" (verb) } {
                    button.button disabled[!fits] { (word) }
                }
            }
            // It is for good, so one press is not enough.
            details.confirm data-key="purge" {
                summary.button { "Purge…" }
                form method="post" action={ (path) "/purge" } {
                    span { "All that nobody handles is cancelled then." }
                    button.button.bad { "Purge it" }
                }
            }
        }
    }
}

fn figures(view: &QueueEntry, path: &str) -> Markup {
    html! {
        section.figures aria-label="Figures" {
            a.figure href={ (path) "?state=pending" } {
                strong { (view.depth) }
                span { "depth" @if 0 < view.delayed { ", " (view.delayed) " for later" } }
            }
            div.figure {
                strong { @if let Some(age) = age(view) { (age) } @else { "–" } }
                span { "age of the oldest" }
            }
            a.figure href={ (path) "?state=in-flight" } {
                strong { (view.in_flight) }
                span { "in flight" }
            }
            a.figure.alarm[0 < view.dead] href={ (path) "?state=dead" } {
                strong { (view.dead) }
                span { "dead in place" }
            }
        }
    }
}

fn minutes(view: &QueueEntry) -> Markup {
    let rates = &view.rates;
    let rates = [
        ("sent", rates.sent),
        ("delivered", rates.delivered),
        ("done", rates.done),
        ("retried", rates.retried),
        ("given up", rates.dead),
    ];
    html! {
        section.card {
            h2 { "Last minutes" }
            div.pictures {
                figure {
                    (spark::depth(view))
                    figcaption { "depth" }
                }
                figure {
                    (spark::age(view))
                    figcaption { "age of the oldest" }
                }
            }
            ul.links {
                @for (word, it) in rates {
                    li { (word) span { (rate(it)) @if it != 0.0 { " per second" } } }
                }
            }
        }
    }
}

fn settings(view: &QueueEntry) -> Markup {
    let settings = serde_json::to_value(&view.settings).unwrap_or_default();
    html! {
        section.card {
            h2 { "Settings" }
            ul.links {
                @for (name, value) in settings.as_object().into_iter().flatten() {
                    li {
                        code { (name) }
                        span { @match value {
                            Value::Null => "–",
                            Value::String(text) => (text),
                            other => (other),
                        } }
                    }
                }
            }
        }
    }
}

fn tabs(view: &QueueEntry, chosen: PeekState) -> Markup {
    let path = path_of(&view.name);
    let waiting = view.ready + view.delayed;
    let all = [
        (PeekState::Pending, "Pending", waiting),
        (PeekState::InFlight, "In flight", view.in_flight),
        (PeekState::Dead, "Dead", view.dead),
    ];
    html! {
        h2.next { "Messages" }
        nav.tabs aria-label="Messages" {
            @for (state, word, count) in all {
                a href={ (path) "?state=" (state.name()) }
                    aria-current=[(state == chosen).then_some("page")] {
                    (word) " " (count)
                }
            }
        }
    }
}

fn lying(view: &QueueEntry, page: &List<QueueMessage>, state: PeekState, limit: Limit) -> Markup {
    let path = path_of(&view.name);
    let dead_letters = page.items.iter().any(is_dead_letter);
    html! {
        @if page.items.is_empty() {
            div.empty { h2 { "No message is " (state.name()) } }
        } @else {
            @if dead_letters { (redrive_form(&path, state)) }
            (message_table(&page.items, &path))
        }
        @if let Some(next) = &page.next {
            p.more {
                a.button href={
                    (path) "?state=" (state.name()) "&cursor=" (next)
                    "&limit=" (limit)
                } { "Next page" }
            }
        }
    }
}
