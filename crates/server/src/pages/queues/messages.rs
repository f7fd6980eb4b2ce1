//! The messages of a queue, and what can be done with those that were given up.

use maud::{Markup, html};
use steadfast_api::queues::MessageState;
use steadfast_core::queue::PeekState;

use super::super::table::time;
use crate::api::wire::QueueMessage;

/// Characters of a body that a page shows; the rest is a link away.
const BODY_CHARACTERS_MAX: usize = 4_000;

/// Whether it was given up: here, or in the queue that it came from.
pub(super) fn is_dead_letter(message: &QueueMessage) -> bool {
    message.from.is_some() || message.state == MessageState::Dead
}

/// Messages as rows.
pub(super) fn message_table(messages: &[QueueMessage], path: &str) -> Markup {
    html! {
        div.scroll {
            table.rows {
                thead { tr {
                    th.number { "Id" } th { "Body" } th.number { "Attempts" }
                    th { "Sent (UTC)" } th { "Reason" }
                } }
                tbody { @for it in messages { (row(it, path)) } }
            }
        }
    }
}

fn row(it: &QueueMessage, path: &str) -> Markup {
    html! {
        tr {
            td.number data-label="Id" {
                a href={ "/v1/messages/" (it.id) } title={ "Message " (it.id) " as JSON" } {
                    (it.id)
                }
            }
            td.message.content data-label="Body" {
                div {
                    (body(it))
                    @if is_dead_letter(it) { (mending(it, path)) }
                }
            }
            td.number data-label="Attempts" {
                div {
                    (it.attempts)
                    @if 0 < it.attempts_before {
                        div.quiet { "and " (it.attempts_before) " before" }
                    }
                }
            }
            td data-label="Sent" {
                div {
                    (time(&it.enqueued_at))
                    @if let Some(from) = &it.from { div.quiet { "to " (from) } }
                    @if let Some(at) = it.due_at.as_ref().filter(|at| **at != it.enqueued_at) {
                        div.quiet { (due(it)) " " (time(at)) }
                    }
                }
            }
            td.error.none[it.last_error.is_none()] data-label="Reason" {
                @if let Some(error) = &it.last_error { (error) } @else { span.quiet { "–" } }
            }
        }
    }
}

/// What its time is the time of.
fn due(it: &QueueMessage) -> &'static str {
    if it.state == MessageState::InFlight { "held until" } else { "due" }
}

fn body(it: &QueueMessage) -> Markup {
    let text = it.body.get();
    let shown: String = text.chars().take(BODY_CHARACTERS_MAX).collect();
    html! {
        pre { code { (shown) } }
        @if shown.len() < text.len() {
            p.quiet {
                "The first " (shown.len()) " of " (text.len()) " bytes. "
                a href={ "/v1/messages/" (it.id) } { "All of it" }
            }
        }
    }
}

/// Another chance for one, as it is or with another body.
fn mending(it: &QueueMessage, path: &str) -> Markup {
    html! {
        div.mend {
            form method="post" action={ (path) "/redrive" } {
                input type="hidden" name="state" value=(it.state.name());
                input type="hidden" name="id" value=(it.id);
                button.button { "Redrive" }
            }
            details data-key={ "edit " (it.id) } {
                summary { "Edit" }
                form.ask method="post" action={ (path) "/messages/" (it.id) "/edit" } {
                    input type="hidden" name="state" value=(it.state.name());
                    label for={ "body-" (it.id) } { "Body, as JSON" }
                    textarea id={ "body-" (it.id) } name="body" rows="4" spellcheck="false"
                        required { (it.body.get()) }
                    div.line { button.button { "Send it like this" } }
                }
            }
        }
    }
}

/// Another chance for all of them.
pub(super) fn redrive_form(path: &str, state: PeekState) -> Markup {
    html! {
        form.search method="post" action={ (path) "/redrive" } {
            input type="hidden" name="state" value=(state.name());
            span.pair {
                label for="error" { "Reason contains" }
                input.short #error name="error" autocomplete="off";
            }
            span.pair {
                label for="to" { "To queue" }
                input.short #to name="to" autocomplete="off" placeholder="where it was sent";
            }
            span.pair {
                label for="rate" { "Per second" }
                input.short #rate name="rate" inputmode="decimal" autocomplete="off"
                    placeholder="all at once";
            }
            button.button { "Redrive all" }
        }
    }
}
