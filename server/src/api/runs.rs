//! Runs of workflows: started, looked at, told things, paused and ended.

use std::{sync::Arc, time::Duration};

use axum::{
    Json,
    body::Bytes,
    extract::{Path, State},
    http::StatusCode,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use steadfast::workflow::Status;
use steadfast_store::{Entropy, SeededEntropy};
use utoipa::{IntoParams, ToSchema};

use super::{
    page::Params,
    problem::{Code, Problem, ProblemBody},
    wire::List,
};
use crate::node::Node;

/// Seconds that a request may wait.
const WAIT_MAX: u64 = 60;

/// A workflow.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct WorkflowEntry {
    /// Its name.
    name: String,
}

/// What a run is started with.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct StartBody {
    /// Its id; made up if it is left out. The same id is the same run.
    #[serde(default)]
    id: Option<String>,
    /// What the workflow takes.
    #[serde(default)]
    input: Value,
}

/// Where a run is to begin anew.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RestartBody {
    /// The step from which on what is recorded is forgotten; everything if it is left out.
    #[serde(default)]
    from: Option<String>,
}

/// How long to wait.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct WaitParams {
    /// Seconds to wait for its end, up to 60.
    #[param(value_type = Option<u32>, minimum = 0, maximum = 60)]
    wait: Option<String>,
}

/// One run.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RunEntry {
    /// Its id.
    id: String,
    /// Whether this request has made it; only in the answer to a start.
    #[serde(skip_serializing_if = "Option::is_none")]
    created: Option<bool>,
    /// queued, running, waiting, paused, complete, errored or terminated.
    status: String,
    /// What it began with.
    input: Value,
    /// What it ended with.
    #[serde(skip_serializing_if = "Option::is_none")]
    output: Option<Value>,
    /// Why it failed, or why it stands still.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Value>,
    /// What is recorded, outside of branches.
    steps: Vec<StepEntry>,
}

/// Something that a run has done.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct StepEntry {
    /// What.
    name: String,
    /// What it gave; null for a timer or an error.
    value: Option<Value>,
}

/// Lists the workflows that run here.
#[utoipa::path(get, path = "/v1/workflows", tag = "workflows",
    responses((status = 200, body = List<WorkflowEntry>)))]
pub(crate) async fn list(State(node): State<Arc<Node>>) -> Json<List<WorkflowEntry>> {
    let items = node.runs.workflows().map(|(it, _)| WorkflowEntry { name: it.into() }).collect();
    Json(List { items, next: None })
}

/// Starts a run, or finds the one with this id.
#[utoipa::path(post, path = "/v1/workflows/{name}/runs", tag = "workflows",
    params(("name" = String, Path, description = "The workflow"), WaitParams),
    request_body = StartBody,
    responses(
        (status = 201, body = RunEntry, description = "It is made, durably"),
        (status = 200, body = RunEntry, description = "It was there; its input is what it was"),
        (status = 400, body = ProblemBody, content_type = "application/problem+json"),
        (status = 404, body = ProblemBody, content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn start(
    State(node): State<Arc<Node>>,
    Path(name): Path<String>,
    Params(params): Params<WaitParams>,
    body: Bytes,
) -> Result<(StatusCode, Json<RunEntry>), Problem> {
    let StartBody { id, input } = body_of(&body, "{\"id\"?, \"input\"}")?;
    let id = id.unwrap_or_else(made_up);
    let wait = params.seconds()?;
    let started = node.runs.start_json(&name, &id, input).await?;
    let entry = read(&node, &name, &id, wait, Some(started.created)).await?;
    let status = if started.created { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, Json(entry)))
}

/// Shows a run.
#[utoipa::path(get, path = "/v1/workflows/{name}/runs/{id}", tag = "workflows",
    params(
        ("name" = String, Path, description = "The workflow"),
        ("id" = String, Path, description = "The run"),
        WaitParams,
    ),
    responses(
        (status = 200, body = RunEntry),
        (status = 404, body = ProblemBody, content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn show(
    State(node): State<Arc<Node>>,
    Path((name, id)): Path<(String, String)>,
    Params(params): Params<WaitParams>,
) -> Result<Json<RunEntry>, Problem> {
    let wait = params.seconds()?;
    Ok(Json(read(&node, &name, &id, wait, None).await?))
}

/// Pauses, resumes, terminates or restarts a run.
#[utoipa::path(post, path = "/v1/workflows/{name}/runs/{id}/{verb}", tag = "workflows",
    params(
        ("name" = String, Path, description = "The workflow"),
        ("id" = String, Path, description = "The run"),
        ("verb" = String, Path, description = "pause, resume, terminate or restart"),
    ),
    request_body(content = Option<RestartBody>, description = "For restart; may be left out"),
    responses(
        (status = 200, body = RunEntry, description = "As it is now"),
        (status = 404, body = ProblemBody, content_type = "application/problem+json"),
        (status = 409, body = ProblemBody, content_type = "application/problem+json",
            description = "It is not in a state in which that could be done"),
    ),
)]
pub(crate) async fn control(
    State(node): State<Arc<Node>>,
    Path((name, id, verb)): Path<(String, String, String)>,
    body: Bytes,
) -> Result<Json<RunEntry>, Problem> {
    let runs = &node.runs;
    match verb.as_str() {
        "pause" => runs.pause(&name, &id).await?,
        "resume" => runs.resume(&name, &id).await?,
        "terminate" => runs.terminate(&name, &id).await?,
        "restart" => {
            let RestartBody { from } = match body.is_empty() {
                true => RestartBody::default(),
                false => body_of(&body, "{\"from\"?}")?,
            };
            runs.restart(&name, &id, from.as_deref()).await?;
        }
        _ => return Err(Problem::new(Code::UnknownRoute, "no such route; see /openapi.json")),
    }
    Ok(Json(read(&node, &name, &id, Duration::ZERO, None).await?))
}

/// Tells a run of an event. It is kept until the run waits for it.
#[utoipa::path(post, path = "/v1/workflows/{name}/runs/{id}/events/{type}", tag = "workflows",
    params(
        ("name" = String, Path, description = "The workflow"),
        ("id" = String, Path, description = "The run"),
        ("type" = String, Path, description = "The name of the event"),
    ),
    request_body(content = Option<Value>, content_type = "application/json"),
    responses(
        (status = 200, body = RunEntry, description = "It is kept, durably"),
        (status = 404, body = ProblemBody, content_type = "application/problem+json"),
        (status = 409, body = ProblemBody, content_type = "application/problem+json",
            description = "The run has ended"),
    ),
)]
pub(crate) async fn event(
    State(node): State<Arc<Node>>,
    Path((name, id, event)): Path<(String, String, String)>,
    body: Bytes,
) -> Result<Json<RunEntry>, Problem> {
    let payload: Value = if body.is_empty() { Value::Null } else { body_of(&body, "the payload")? };
    node.runs.send_event(&name, &id, &event, &payload).await?;
    Ok(Json(read(&node, &name, &id, Duration::ZERO, None).await?))
}

impl WaitParams {
    fn seconds(&self) -> Result<Duration, Problem> {
        let seconds = self.wait.as_deref().map_or(Ok(0), str::parse::<u64>);
        let seconds = seconds.ok().filter(|it| *it <= WAIT_MAX).ok_or_else(|| {
            Problem::new(Code::BadQuery, format!("`wait` must be 0 to {WAIT_MAX} seconds"))
        })?;
        Ok(Duration::from_secs(seconds))
    }
}

fn body_of<T: serde::de::DeserializeOwned>(body: &[u8], form: &str) -> Result<T, Problem> {
    serde_json::from_slice(body).map_err(|error| {
        Problem::new(Code::BadRequest, format!("the body must be {form}: {error}"))
    })
}

fn made_up() -> String {
    let entropy = SeededEntropy::from_system();
    format!("{:016x}{:016x}", entropy.next(), entropy.next())
}

/// A run as it is, or as it ends within a time.
async fn read(
    node: &Node,
    name: &str,
    id: &str,
    wait: Duration,
    created: Option<bool>,
) -> Result<RunEntry, Problem> {
    if !wait.is_zero()
        && let Ok(ended) = tokio::time::timeout(wait, node.runs.wait(name, id)).await
    {
        ended?;
    }
    let run = node.runs.run(name, id).await?;
    let (output, error) = match &run.status {
        Status::Complete(output) => (Some(output.clone()), None),
        Status::Errored(error) => {
            let (code, message) = (error.code(), error.to_string());
            (None, Some(serde_json::json!({ "code": code, "message": message })))
        }
        Status::Paused(Some(report)) => (None, serde_json::to_value(report).ok()),
        Status::Paused(None)
        | Status::Queued
        | Status::Running
        | Status::Waiting
        | Status::Terminated => (None, None),
    };
    let steps = run.steps.into_iter().map(|(name, value)| StepEntry { name, value }).collect();
    let status = run.status.tag().into();
    Ok(RunEntry { id: id.into(), created, status, input: run.input, output, error, steps })
}
