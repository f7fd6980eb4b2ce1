//! The event and lifecycle rules of a bucket.

use std::sync::Arc;

use axum::{
    extract::{Path, State},
    response::Redirect,
};
use maud::{Markup, html};
use steadfast_api::{
    Code,
    buckets::{Bucket, BucketRule, LifecycleRule, PutBucketRule, PutLifecycleRule},
};
use steadfast_bucket::EventType;
use steadfast_web::{Problem, escaped};

use crate::{
    nouns::buckets as api,
    pages::{
        components::{button, card},
        forms::Fields,
        links::{bucket_path, queue_path},
    },
    server::Server,
    waterfall::words_of,
};

const DAY_MS: u64 = 24 * 60 * 60 * 1_000;

pub(crate) fn rules_card(view: &Bucket) -> Markup {
    let path = format!("{}/rules", bucket_path(view.name.as_str()));
    let rule = |it: &BucketRule| {
        let events: Vec<&str> = it.events.iter().map(|it| it.name()).collect();
        html! {
            strong { (it.id) } " → " a href=(queue_path(&it.queue)) { (it.queue) }
            div.quiet.address { (events.join(", ")) " of " code { (it.prefix) "*" (it.suffix) } }
        }
    };
    let fields = html! {
        (named("rule-id", "Name", "id", true))
        (named("rule-queue", "Queue", "queue", true))
        div.line {
            label { input type="checkbox" name="created" checked; " written" }
            label { input type="checkbox" name="deleted"; " deleted" }
        }
        (named("rule-prefix", "Prefix of keys", "prefix", false))
        (named("rule-suffix", "Suffix of keys", "suffix", false))
    };
    let rules = view.rules.iter().map(|it| (it.id.as_str(), rule(it)));
    rule_card("Event rules", "Add a rule", &path, rules, &fields)
}

pub(crate) fn lifecycle_card(view: &Bucket) -> Markup {
    let path = format!("{}/lifecycle", bucket_path(view.name.as_str()));
    let rule = |it: &LifecycleRule| {
        html! {
            strong { (it.id) } " " code.address { (it.prefix) "*" }
            @if let Some(millis) = it.delete_after_ms {
                div.quiet { "deletes blobs after " (words_of(millis)) }
            }
            @if let Some(millis) = it.abort_uploads_after_ms {
                div.quiet { "aborts uploads after " (words_of(millis)) }
            }
        }
    };
    let fields = html! {
        (named("lifecycle-id", "Name", "id", true))
        (named("lifecycle-prefix", "Prefix of keys", "prefix", false))
        (days_field("lifecycle-delete", "Delete blobs after days", "delete"))
        (days_field("lifecycle-abort", "Abort multipart uploads after days", "abort"))
    };
    let rules = view.lifecycle.iter().map(|it| (it.id.as_str(), rule(it)));
    rule_card("Lifecycle rules", "Add a lifecycle rule", &path, rules, &fields)
}

/// Rules, each with a delete button, and a form for another one.
fn rule_card<'a>(
    title: &str,
    add: &str,
    path: &str,
    rules: impl Iterator<Item = (&'a str, Markup)>,
    fields: &Markup,
) -> Markup {
    card(
        title,
        &html! {
            ul.links {
                @for (id, rule) in rules {
                    li {
                        div { (rule) }
                        (button(&format!("{path}/{}/delete", escaped(id)), "Delete", true))
                    }
                }
            }
            details {
                summary { (add) }
                form.ask method="post" action=(path) {
                    (fields)
                    div.line { button.button { "Add" } }
                }
            }
        },
    )
}

fn named(id: &str, label: &str, name: &str, required: bool) -> Markup {
    html! {
        label for=(id) { (label) }
        input id=(id) name=(name) autocomplete="off" required[required];
    }
}

fn days_field(id: &str, label: &str, name: &str) -> Markup {
    html! {
        label for=(id) { (label) }
        input id=(id) name=(name) type="number" min="1" max="36500" step="1";
    }
}

/// Sets a rule and shows the bucket.
pub(crate) async fn put_rule(
    State(server): State<Arc<Server>>,
    Path(bucket): Path<String>,
    mut form: Fields,
) -> Result<Redirect, Problem> {
    let mut events = Vec::new();
    events.extend(form.text("created").map(|_| EventType::ObjectCreate));
    events.extend(form.text("deleted").map(|_| EventType::ObjectDelete));
    let (id, queue) = (form.required("id")?, form.required("queue")?);
    let mut exact = |name| form.exact(name).unwrap_or_default();
    let (prefix, suffix) = (exact("prefix"), exact("suffix"));
    form.end()?;
    let to = bucket_path(&bucket);
    let all = PutBucketRule { bucket, id, queue, events, ..PutBucketRule::default() };
    api::put_rule(server, PutBucketRule { prefix, suffix, ..all }).await?;
    Ok(Redirect::to(&to))
}

/// Sets a lifecycle rule and shows the bucket.
pub(crate) async fn put_lifecycle(
    State(server): State<Arc<Server>>,
    Path(bucket): Path<String>,
    mut form: Fields,
) -> Result<Redirect, Problem> {
    let (id, prefix) = (form.required("id")?, form.exact("prefix").unwrap_or_default());
    let delete_after_ms = days(&mut form, "delete")?;
    let abort_uploads_after_ms = days(&mut form, "abort")?;
    form.end()?;
    let to = bucket_path(&bucket);
    let request = PutLifecycleRule { bucket, id, prefix, delete_after_ms, abort_uploads_after_ms };
    api::put_lifecycle(server, request).await?;
    Ok(Redirect::to(&to))
}

/// A number of days in a form, in milliseconds.
fn days(form: &mut Fields, name: &str) -> Result<Option<u64>, Problem> {
    let millis = |days: u64| {
        let detail = format!("{days} days are too many");
        days.checked_mul(DAY_MS).ok_or_else(|| Problem::of(Code::BadRequest, detail))
    };
    form.parsed(name)?.map(millis).transpose()
}
