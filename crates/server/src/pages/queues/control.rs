//! The buttons and forms of a queue.

use std::sync::Arc;

use axum::{
    body::Bytes,
    extract::{Form, Path, State, rejection::FormRejection},
    response::Redirect,
};
use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};
use utoipa::ToSchema;

use super::path_of;
use crate::{
    api::{
        problem::{Code, Problem},
        queues::{self as api, messages::state},
    },
    node::Node,
};

/// What the form of a redrive says. What is empty was left empty.
#[derive(Debug, Default, Deserialize, ToSchema)]
pub(in super::super) struct RedriveForm {
    /// The tab to come back to.
    #[serde(default)]
    state: String,
    /// Only this message.
    #[serde(default)]
    id: String,
    /// Only those whose last error contains this.
    #[serde(default)]
    error: String,
    /// To which queue.
    #[serde(default)]
    to: String,
    /// So many each second.
    #[serde(default)]
    rate: String,
}

/// What the form of an edited message says.
#[derive(Debug, Deserialize, ToSchema)]
pub(in super::super) struct EditForm {
    /// The tab to come back to.
    #[serde(default)]
    state: String,
    /// JSON.
    body: String,
}

/// Pauses, resumes or purges a queue, and shows it.
#[utoipa::path(post, path = "/queues/{q}/{verb}", tag = "pages",
    params(
        ("q" = String, Path, description = "The queue"),
        ("verb" = String, Path, description = "pause, resume or purge"),
    ),
    responses((status = 303, description = "It is done; the page of the queue is there")),
)]
pub(in super::super) async fn control(
    State(node): State<Arc<Node>>,
    Path((queue, verb)): Path<(String, String)>,
) -> Result<Redirect, Problem> {
    match verb.as_str() {
        "pause" => node.runtime.queues().pause(&queue).await?,
        "resume" => node.runtime.queues().resume(&queue).await?,
        "purge" => drop(node.runtime.queues().purge(&queue, None, None).await?),
        _ => return Err(Problem::new(Code::UnknownRoute, "no such route; see /openapi.json")),
    }
    Ok(Redirect::to(&path_of(&queue)))
}

/// Gives messages another chance, and shows the queue.
#[utoipa::path(post, path = "/queues/{q}/redrive", tag = "pages",
    params(("q" = String, Path, description = "The queue")),
    request_body(content = RedriveForm, content_type = "application/x-www-form-urlencoded"),
    responses((status = 303, description = "They are moved; the page of the queue is there")),
)]
pub(in super::super) async fn redrive(
    State(node): State<Arc<Node>>,
    Path(queue): Path<String>,
    form: Result<Form<RedriveForm>, FormRejection>,
) -> Result<Redirect, Problem> {
    // What cannot be read must not become a redrive of everything.
    let Form(form) = form.map_err(unreadable)?;
    let to = back(&queue, &form.state)?;
    let body = wanted(&form)?;
    let _ = api::redrive::redrive(State(node), Path(queue), body.to_string().into()).await?;
    Ok(Redirect::to(&to))
}

fn wanted(form: &RedriveForm) -> Result<Value, Problem> {
    let mut body = json!({ "filter": {} });
    if !form.id.is_empty() {
        body["filter"]["ids"] = json!([form.id]);
    }
    if !form.error.is_empty() {
        body["filter"]["errorContains"] = json!(form.error);
    }
    let (to, rate) = (form.to.trim(), form.rate.trim());
    if !to.is_empty() {
        body["to"] = json!(to);
    }
    if !rate.is_empty() {
        let rate: f64 = rate.parse().map_err(|_| {
            Problem::new(Code::BadRequest, format!("`{rate}` per second is not a number"))
        })?;
        body["ratePerSecond"] = json!(rate);
    }
    Ok(body)
}

/// Replaces a message by one with another body, and shows the queue.
#[utoipa::path(post, path = "/queues/{q}/messages/{id}/edit", tag = "pages",
    params(
        ("q" = String, Path, description = "The queue"),
        ("id" = String, Path, description = "The message"),
    ),
    request_body(content = EditForm, content_type = "application/x-www-form-urlencoded"),
    responses((status = 303, description = "It is replaced; the page of the queue is there")),
)]
pub(in super::super) async fn edit(
    State(node): State<Arc<Node>>,
    Path((queue, id)): Path<(String, String)>,
    form: Result<Form<EditForm>, FormRejection>,
) -> Result<Redirect, Problem> {
    let Form(EditForm { state, body }) = form.map_err(unreadable)?;
    let to = back(&queue, &state)?;
    // Checked by itself: what is typed must not reach beyond its place in the request.
    let body: &RawValue = serde_json::from_str(&body).map_err(|error| {
        Problem::new(Code::BadRequest, format!("the body is not JSON: {error}"))
    })?;
    let body = Bytes::from(format!("{{\"body\":{}}}", body.get()));
    let _ = api::redrive::edit(State(node), Path((queue, id)), body).await?;
    Ok(Redirect::to(&to))
}

/// The page of a queue with the tab that somebody came from.
fn back(queue: &str, tab: &str) -> Result<String, Problem> {
    let path = path_of(queue);
    Ok(if tab.is_empty() { path } else { format!("{path}?state={}", state(tab)?.name()) })
}

fn unreadable(error: FormRejection) -> Problem {
    Problem::new(Code::BadRequest, error.body_text())
}
