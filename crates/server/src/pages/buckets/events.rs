//! What a bucket told, and what became of it.

use maud::{Markup, html};
use steadfast_api::{
    DeliveryState, Page,
    buckets::{Bucket, BucketEvent},
};
use steadfast_web::escaped;

use super::{super::table::time, path_of, path_to};

/// Events as rows, newest first.
pub(super) fn event_table(bucket: &str, view: &Bucket, events: &Page<BucketEvent>) -> Markup {
    if events.items.is_empty() {
        return html! {
            p.quiet {
                @if view.rules.is_empty() {
                    "Nobody is told of changes: add a rule below."
                } @else { "Nothing was told lately." }
            }
        };
    }
    html! {
        div.scroll {
            table.rows {
                thead { tr {
                    th { "When (UTC)" } th { "What" } th { "Key" } th.number { "Number" }
                    th { "Queue" } th { "Delivery" } th.number { "Attempts" } th { "Error" }
                } }
                tbody { @for it in &events.items { (row(bucket, it)) } }
            }
        }
        @if events.next.is_some() {
            p.more { a href={ "/v1" (path_of(bucket)) "/events" } { "All events as JSON" } }
        }
    }
}

fn row(bucket: &str, it: &BucketEvent) -> Markup {
    let event = &it.event;
    html! {
        tr {
            td data-label="When" { (time(&event.event_time)) }
            td data-label="What" { (event.action.name()) }
            td data-label="Key" {
                @if event.action.is_deletion() { span.address { (event.key()) } } @else {
                    a.address href=(path_to(bucket, event.key())) { (event.key()) }
                }
            }
            td.number data-label="Number" { (event.sequence) }
            td data-label="Queue" { a.address href=(queue(it)) { (it.queue) } }
            td data-label="Delivery" {
                div {
                    @if let Some(state) = it.state { (badge(state)) " " }
                    a.quiet href={ "/v1/messages/" (it.message_id) }
                        title={ "Message " (it.message_id) " as JSON" } { "#" (it.message_id) }
                }
            }
            td.number.none[it.attempts == 0] data-label="Attempts" { (it.attempts) }
            td.error.none[it.last_error.is_none()] data-label="Error" {
                @if let Some(error) = &it.last_error { (error) } @else { span.quiet { "–" } }
            }
        }
    }
}

/// The page of the queue, with the tab on which the message is.
fn queue(it: &BucketEvent) -> String {
    let path = format!("/queues/{}", escaped(&it.queue));
    match it.state {
        Some(DeliveryState::Pending) => format!("{path}?state=pending"),
        Some(DeliveryState::InFlight) => format!("{path}?state=in-flight"),
        Some(DeliveryState::Dead) => format!("{path}?state=dead"),
        Some(DeliveryState::Done | DeliveryState::Cancelled) | None => path,
    }
}

fn badge(state: DeliveryState) -> Markup {
    let class = match state {
        DeliveryState::Done => "done",
        DeliveryState::Dead => "dead",
        DeliveryState::Pending | DeliveryState::InFlight => "waiting",
        DeliveryState::Cancelled => "quiet",
    };
    html! { span.badge.(class) { (state.name()) } }
}
