//! Queues: all of them, and one with its messages and dead letters.

pub(super) mod control;
pub(super) mod list;
mod messages;
pub(super) mod show;
mod spark;

use maud::{Markup, html};
use steadfast_web::escaped;

use crate::{api::wire::QueueEntry, waterfall::words};

/// Where the page of a queue is.
pub(super) fn path_of(queue: &str) -> String {
    format!("/queues/{}", escaped(queue))
}

fn badge(queue: &QueueEntry) -> Markup {
    let (class, word) = match (queue.paused, queue.consumed) {
        (true, _) => ("waiting", "paused"),
        (false, true) => ("done", "consumed"),
        (false, false) => ("quiet", "to pull"),
    };
    html! { span.badge.(class) { (word) } }
}

/// How long the oldest has been there.
fn age(queue: &QueueEntry) -> Option<String> {
    queue.oldest_age_ms.map(|it| words(i64::try_from(it).unwrap_or(i64::MAX)))
}

/// Messages per second.
fn rate(rate: f64) -> String {
    if rate == 0.0 { "–".into() } else { format!("{rate:.1}") }
}
