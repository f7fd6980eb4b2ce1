//! The buttons and forms of a queue.

use std::sync::Arc;

use axum::{
    extract::{Form, Path, State, rejection::FormRejection},
    response::Redirect,
};
use serde::Deserialize;
use steadfast_api::queues::{EditMessage, RedriveFilter, RedriveQueue};
use steadfast_core::queue::PeekState;
use utoipa::ToSchema;

use super::path_of;
use crate::{
    api::{
        problem::{Code, Problem},
        queues,
    },
    server::Server,
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
    State(server): State<Arc<Server>>,
    Path((queue, verb)): Path<(String, String)>,
) -> Result<Redirect, Problem> {
    match verb.as_str() {
        "pause" => server.runtime.queues().pause(&queue).await?,
        "resume" => server.runtime.queues().resume(&queue).await?,
        "purge" => drop(server.runtime.queues().purge(&queue, None, None).await?),
        _ => return Err(Problem::of(Code::RouteNotFound, "no such route; see /openapi.json")),
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
    State(server): State<Arc<Server>>,
    Path(queue): Path<String>,
    form: Result<Form<RedriveForm>, FormRejection>,
) -> Result<Redirect, Problem> {
    // What cannot be read must not become a redrive of everything.
    let Form(form) = form.map_err(unreadable)?;
    let to = back(&queue, &form.state)?;
    let _ = queues::redrive(server, wanted(queue, &form)?).await?;
    Ok(Redirect::to(&to))
}

fn wanted(queue: String, form: &RedriveForm) -> Result<RedriveQueue, Problem> {
    let given = |text: &str| Some(text.trim().to_owned()).filter(|it| !it.is_empty());
    let rate_per_second = given(&form.rate).map(|rate| {
        rate.parse().map_err(|_| {
            Problem::of(Code::BadRequest, format!("`{rate}` per second is not a number"))
        })
    });
    let (ids, error_contains) = (given(&form.id).map(|it| vec![it]), given(&form.error));
    Ok(RedriveQueue {
        queue,
        to: given(&form.to),
        filter: RedriveFilter { ids, error_contains },
        rate_per_second: rate_per_second.transpose()?,
        dry_run: false,
    })
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
    State(server): State<Arc<Server>>,
    Path((queue, id)): Path<(String, String)>,
    form: Result<Form<EditForm>, FormRejection>,
) -> Result<Redirect, Problem> {
    let Form(EditForm { state, body }) = form.map_err(unreadable)?;
    let to = back(&queue, &state)?;
    let body = serde_json::from_str(&body)
        .map_err(|error| Problem::of(Code::BadRequest, format!("the body is not JSON: {error}")))?;
    let id = crate::api::id::position(&id)?;
    let _ = queues::edit(server, EditMessage { queue, id, body, to: None }).await?;
    Ok(Redirect::to(&to))
}

/// The page of a queue with the tab that somebody came from.
fn back(queue: &str, tab: &str) -> Result<String, Problem> {
    let path = path_of(queue);
    if tab.is_empty() {
        return Ok(path);
    }
    let state = PeekState::ALL.into_iter().find(|it| it.name() == tab);
    let unknown = || Problem::of(Code::BadRequest, format!("no state is called `{tab}`"));
    Ok(format!("{path}?state={}", state.ok_or_else(unknown)?.name()))
}

fn unreadable(error: FormRejection) -> Problem {
    Problem::of(Code::BadRequest, error.body_text())
}
