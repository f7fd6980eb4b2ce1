//! The table of messages, and what lists have below them.

use maud::{Markup, html};

use crate::api::wire::{Message, MessageState};

/// Characters of data that a page shows; the rest is a link away.
const DATA_CHARACTERS_MAX: usize = 4_000;

/// Whether the rows are of one stream or of all.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Columns {
    OneStream,
    AllStreams,
}

/// Shows messages as the rows of a table.
pub(super) fn message_table(messages: &[Message], columns: Columns) -> Markup {
    html! {
        div.scroll {
            table.rows {
                thead { tr {
                    th.number { "#" }
                    @if columns == Columns::AllStreams { th { "Stream" } }
                    th { "Message" } th { "Kind" } th { "Direction" } th { "Processed" }
                    th.number { "Attempts" }
                    @if columns == Columns::OneStream { th { "Executed at (UTC)" } }
                    th { "Error" }
                } }
                tbody {
                    @for message in messages { (row(message, columns)) }
                }
            }
        }
    }
}

fn row(message: &Message, columns: Columns) -> Markup {
    let (stream, _) = message.id.split_once('/').unwrap_or((&message.id, ""));
    html! {
        tr {
            td.number data-label="#" {
                a href={ "/v1/messages/" (message.global_position) }
                    title={ "Message " (message.global_position) " as JSON" } {
                    @match columns {
                        Columns::OneStream => (message.position),
                        Columns::AllStreams => (message.global_position),
                    }
                }
            }
            @if columns == Columns::AllStreams {
                td.stream data-label="Stream" {
                    a.address href={ "/streams/" (stream) } { (message.stream) }
                }
            }
            td.message data-label="Message" { (content(message)) }
            td data-label="Kind" { (message.kind) }
            td data-label="Direction" { (message.direction) }
            (cell("Processed", "state", state(message)))
            (cell("Attempts", "number", message.attempts.map(|it| html! { (it) })))
            // What is pending or dead was not executed.
            @if columns == Columns::OneStream {
                (cell("Executed at", "time", message.processed_at.as_deref().map(time)))
            }
            (cell("Error", "error", message.error.as_ref().map(|it| html! { (it) })))
        }
    }
}

fn content(message: &Message) -> Markup {
    let text = message.data.get();
    let shown: String = text.chars().take(DATA_CHARACTERS_MAX).collect();
    html! {
        strong { (message.type_) }
        @if let Some(target) = &message.target {
            div.quiet.address { "→ " (target) }
        }
        details {
            summary { "data" }
            pre { code { (shown) } }
            @if shown.len() < text.len() {
                p.quiet {
                    "The first " (shown.len()) " of " (text.len()) " bytes. "
                    a href={ "/v1/messages/" (message.global_position) } { "All of it" }
                }
            }
            p.quiet { "committed " (time(&message.created_at)) " · id " code { (message.id) } }
        }
    }
}

/// A cell that may be empty; a narrow screen leaves it out then.
fn cell(label: &str, class: &str, content: Option<Markup>) -> Markup {
    html! {
        td.(class).none[content.is_none()] data-label=(label) {
            @if let Some(content) = content { (content) } @else { span.quiet { "–" } }
        }
    }
}

fn state(message: &Message) -> Option<Markup> {
    let state = message.state?;
    let class = match state {
        MessageState::Done => "done",
        MessageState::Dead => "dead",
        MessageState::Pending | MessageState::InFlight => "waiting",
        MessageState::Cancelled => "quiet",
    };
    Some(html! {
        span.badge.(class) { (state.name()) }
        @if let Some(due) = &message.due_at { div.quiet { "due " (time(due)) } }
        @if state == MessageState::Dead {
            form method="post" action={ "/messages/" (message.global_position) "/revive" } {
                button.button { "Revive" }
            }
        }
    })
}

/// A time as people read it, and as machines do.
pub(super) fn time(rfc3339: &str) -> Markup {
    let shown = rfc3339.split_once('.').map_or(rfc3339, |(seconds, _)| seconds).replace('T', " ");
    html! { time datetime=(rfc3339) title=(rfc3339) { (shown) } }
}

/// The way to the next part of a list.
pub(super) fn more(path: &str, next: Option<&str>) -> Markup {
    html! {
        @if let Some(next) = next {
            p.more { a.button href={ (path) "?cursor=" (next) } { "Next page" } }
        }
    }
}
