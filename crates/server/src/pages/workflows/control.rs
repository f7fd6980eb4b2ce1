//! The buttons of a run.

use std::sync::Arc;

use axum::{
    extract::{Form, Path, State, rejection::FormRejection},
    response::Redirect,
};
use serde::Deserialize;
use steadfast_api::runs::{DeleteRun, PauseRun, RestartRun, ResumeRun, SendEvent, TerminateRun};
use steadfast_web::escaped;
use utoipa::ToSchema;

use super::path_of;
use crate::{
    api::{
        problem::{Code, Problem},
        runs as api,
    },
    server::Server,
};

/// What the form of a restart says.
#[derive(Debug, Default, Deserialize, ToSchema)]
pub(in super::super) struct RestartForm {
    /// The step to begin with; everything if it is left out.
    from: Option<String>,
}

/// What the form of an event says.
#[derive(Debug, Deserialize, ToSchema)]
pub(in super::super) struct EventForm {
    /// Its name.
    #[serde(rename = "type")]
    type_: String,
    /// JSON, or nothing.
    #[serde(default)]
    payload: String,
}

/// Pauses, resumes, terminates or restarts a run, and shows it.
#[utoipa::path(post, path = "/workflows/{name}/{id}/{verb}", tag = "pages",
    params(
        ("name" = String, Path, description = "The workflow"),
        ("id" = String, Path, description = "The run"),
        ("verb" = String, Path, description = "pause, resume, terminate or restart"),
    ),
    request_body(content = RestartForm, content_type = "application/x-www-form-urlencoded"),
    responses((status = 303, description = "It is done; the page of the run is there")),
)]
pub(in super::super) async fn control(
    State(server): State<Arc<Server>>,
    Path((name, id, verb)): Path<(String, String, String)>,
    form: Result<Form<RestartForm>, FormRejection>,
) -> Result<Redirect, Problem> {
    // What cannot be read must not become a restart of everything.
    let Form(RestartForm { from }) = form.map_err(unreadable)?;
    let to = path_of(&name, &id);
    let workflow = name;
    match verb.as_str() {
        "pause" => drop(api::pause(server, PauseRun { workflow, id }).await?),
        "resume" => drop(api::resume(server, ResumeRun { workflow, id }).await?),
        "terminate" => drop(api::terminate(server, TerminateRun { workflow, id }).await?),
        "restart" => drop(api::restart(server, RestartRun { workflow, id, from }).await?),
        _ => return Err(Problem::of(Code::RouteNotFound, "no such route; see /openapi.json")),
    }
    Ok(Redirect::to(&to))
}

/// Erases a run, and shows the others.
#[utoipa::path(post, path = "/workflows/{name}/{id}/delete", tag = "pages",
    params(
        ("name" = String, Path, description = "The workflow"),
        ("id" = String, Path, description = "The run"),
    ),
    responses((status = 303, description = "It is gone; the list of the others is there")),
)]
pub(in super::super) async fn delete(
    State(server): State<Arc<Server>>,
    Path((name, id)): Path<(String, String)>,
) -> Result<Redirect, Problem> {
    let to = format!("/workflows/{}?deleted={}", escaped(&name), escaped(&id));
    api::delete(server, DeleteRun { workflow: name, id }).await?;
    Ok(Redirect::to(&to))
}

/// Tells a run of an event, and shows it.
#[utoipa::path(post, path = "/workflows/{name}/{id}/events", tag = "pages",
    params(
        ("name" = String, Path, description = "The workflow"),
        ("id" = String, Path, description = "The run"),
    ),
    request_body(content = EventForm, content_type = "application/x-www-form-urlencoded"),
    responses((status = 303, description = "It is kept; the page of the run is there")),
)]
pub(in super::super) async fn event(
    State(server): State<Arc<Server>>,
    Path((name, id)): Path<(String, String)>,
    form: Result<Form<EventForm>, FormRejection>,
) -> Result<Redirect, Problem> {
    let Form(EventForm { type_, payload }) = form.map_err(unreadable)?;
    let to = path_of(&name, &id);
    let payload = if payload.trim().is_empty() { "null" } else { payload.trim() };
    let payload = serde_json::from_str(payload).map_err(|error| {
        Problem::of(Code::BadRequest, format!("the payload is not JSON: {error}"))
    })?;
    let _ = api::event(server, SendEvent { workflow: name, id, event: type_, payload }).await?;
    Ok(Redirect::to(&to))
}

fn unreadable(error: FormRejection) -> Problem {
    Problem::of(Code::BadRequest, error.body_text())
}
