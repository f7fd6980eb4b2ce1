//! Whom a bucket tells, and what it forgets.

use maud::{Markup, html};
use steadfast_api::buckets::{Bucket, BucketRule, LifecycleRule};
use steadfast_web::escaped;

use super::path_of;
use crate::waterfall::words;

/// The rules, and a form for one more.
pub(super) fn rules_card(view: &Bucket) -> Markup {
    let path = format!("{}/rules", path_of(&view.name));
    html! {
        section.card {
            h2 { "Rules: who is told of which changes" }
            @if !view.rules.is_empty() {
                ul.links { @for it in &view.rules { (rule(it, &path)) } }
            }
            details {
                summary { "Add a rule" }
                form.ask method="post" action=(path) {
                    (field("rule-id", "Name", "id", true))
                    (field("rule-queue", "Queue", "queue", true))
                    div.line {
                        label { input type="checkbox" name="created" checked; " written" }
                        label { input type="checkbox" name="deleted"; " deleted" }
                    }
                    (field("rule-prefix", "Keys that begin with", "prefix", false))
                    (field("rule-suffix", "Keys that end with", "suffix", false))
                    div.line { button.button { "Add it" } }
                }
            }
        }
    }
}

fn rule(it: &BucketRule, path: &str) -> Markup {
    let events: Vec<&str> = it.events.iter().map(|it| it.name()).collect();
    html! {
        li {
            div {
                strong { (it.id) } " → " a href={ "/queues/" (escaped(&it.queue)) } { (it.queue) }
                div.quiet.address {
                    (events.join(", ")) " of " code { (it.prefix) "*" (it.suffix) }
                }
            }
            (removal(path, &it.id))
        }
    }
}

/// The lifecycle rules, and a form for one more.
pub(super) fn lifecycle_card(view: &Bucket) -> Markup {
    let path = format!("{}/lifecycle", path_of(&view.name));
    html! {
        section.card {
            h2 { "Lifecycle: what is deleted when it is old" }
            @if !view.lifecycle.is_empty() {
                ul.links { @for it in &view.lifecycle { (lifecycle(it, &path)) } }
            }
            details {
                summary { "Add a lifecycle rule" }
                form.ask method="post" action=(path) {
                    (field("lifecycle-id", "Name", "id", true))
                    (field("lifecycle-prefix", "Keys that begin with", "prefix", false))
                    (days("lifecycle-delete", "Delete after days", "delete"))
                    (days("lifecycle-abort", "Abort uploads in parts after days", "abort"))
                    div.line { button.button { "Add it" } }
                }
            }
        }
    }
}

fn lifecycle(it: &LifecycleRule, path: &str) -> Markup {
    let span = |millis: u64| words(i64::try_from(millis).unwrap_or(i64::MAX));
    html! {
        li {
            div {
                strong { (it.id) } " " code.address { (it.prefix) "*" }
                @if let Some(millis) = it.delete_after_ms {
                    div.quiet { "is deleted after " (span(millis)) }
                }
                @if let Some(millis) = it.abort_uploads_after_ms {
                    div.quiet { "uploads are aborted after " (span(millis)) }
                }
            }
            (removal(path, &it.id))
        }
    }
}

fn removal(path: &str, id: &str) -> Markup {
    html! {
        form method="post" action={ (path) "/" (escaped(id)) "/delete" } {
            button.button.bad title={ "Delete " (id) } { "Delete" }
        }
    }
}

fn field(id: &str, label: &str, name: &str, required: bool) -> Markup {
    html! {
        label for=(id) { (label) }
        input id=(id) name=(name) autocomplete="off" required[required];
    }
}

fn days(id: &str, label: &str, name: &str) -> Markup {
    html! {
        label for=(id) { (label) }
        input id=(id) name=(name) type="number" min="1" max="36500" step="1";
    }
}
