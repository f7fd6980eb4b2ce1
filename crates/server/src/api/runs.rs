//! Runs of workflows: started, looked at, told things, paused and ended.

pub(crate) mod history;
pub(crate) mod list;

use std::{sync::Arc, time::Duration};

use axum::{
    Json,
    body::Bytes,
    extract::{Path, State},
    http::StatusCode,
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::Value;
use steadfast_core::workflow::{FailureView, Phase, RunView, Started, Status};
use steadfast_store::{Entropy, SeededEntropy};
use utoipa::{IntoParams, ToSchema};

use super::{
    page::Params,
    problem::{Code, Problem, ProblemBody},
};
use crate::node::Node;

/// Seconds that a request may wait.
const WAIT_MAX: u64 = 60;

/// What a run is started with.
#[derive(Debug, Default, Deserialize, ToSchema)]
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

/// What came of a start.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct StartedEntry {
    /// The id of the run.
    pub(crate) id: String,
    /// Its workflow.
    pub(crate) workflow: String,
    /// Whether this request has made it; if not, it was there.
    pub(crate) created: bool,
    /// How far it is.
    pub(crate) status: Phase,
    /// What it ended with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) output: Option<Value>,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<FailureView>,
}

/// Starts a run, or finds the one with this id.
#[utoipa::path(post, path = "/v1/workflows/{name}/runs", tag = "workflows",
    params(("name" = String, Path, description = "The workflow"), WaitParams),
    request_body = Option<StartBody>,
    responses(
        (status = 201, body = StartedEntry, description = "It is made, durably"),
        (status = 200, body = StartedEntry, description = "It was there; its input is what it was"),
        (status = 400, body = ProblemBody, content_type = "application/problem+json"),
        (status = 404, body = ProblemBody, content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn start(
    State(node): State<Arc<Node>>,
    Path(name): Path<String>,
    Params(params): Params<WaitParams>,
    body: Bytes,
) -> Result<(StatusCode, Json<StartedEntry>), Problem> {
    let StartBody { id, input } = body_or(&body, "{\"id\"?, \"input\"}")?;
    let id = id.unwrap_or_else(made_up);
    let wait = params.seconds()?;
    let enough = enough(&node, wait);
    let Started { created, status } =
        node.runtime.runs().start_json_and_wait(&name, &id, input, enough).await?;
    let is_over = status.is_final() || status.is_paused();
    let status = match is_over || wait.is_zero() {
        true => status,
        false => node.runtime.runs().run(&name, &id).await?.status,
    };
    let code = if created { StatusCode::CREATED } else { StatusCode::OK };
    Ok((code, Json(StartedEntry::of(name, id, created, status))))
}

impl StartedEntry {
    /// From the status alone, so that a start need not read what the run looks like.
    fn of(workflow: String, id: String, created: bool, status: Status) -> Self {
        let phase = Phase::of(&status);
        let (output, error) = match status {
            Status::Complete(output) => (Some(output), None),
            Status::Errored(error) => (None, Some(FailureView::of(&error))),
            Status::Queued
            | Status::Running
            | Status::Waiting
            | Status::Paused(_)
            | Status::Terminated => (None, None),
        };
        Self { id, workflow, created, status: phase, output, error }
    }
}

/// Shows a run.
#[utoipa::path(get, path = "/v1/workflows/{name}/runs/{id}", tag = "workflows",
    params(
        ("name" = String, Path, description = "The workflow"),
        ("id" = String, Path, description = "The run"),
        WaitParams,
    ),
    responses(
        (status = 200, body = RunView),
        (status = 404, body = ProblemBody, content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn show(
    State(node): State<Arc<Node>>,
    Path((name, id)): Path<(String, String)>,
    Params(params): Params<WaitParams>,
) -> Result<Json<RunView>, Problem> {
    awaited(&node, &name, &id, params.seconds()?).await?;
    Ok(Json(node.runtime.runs().look(&name, &id).await?))
}

/// Erases a run that has ended, as if it had never been. Its id is free again.
#[utoipa::path(delete, path = "/v1/workflows/{name}/runs/{id}", tag = "workflows",
    params(
        ("name" = String, Path, description = "The workflow"),
        ("id" = String, Path, description = "The run"),
    ),
    responses(
        (status = 204, description = "It is gone, durably"),
        (status = 404, body = ProblemBody, content_type = "application/problem+json"),
        (status = 409, body = ProblemBody, content_type = "application/problem+json",
            description = "It has not ended, or messages that it sent are still to be delivered"),
    ),
)]
pub(crate) async fn delete(
    State(node): State<Arc<Node>>,
    Path((name, id)): Path<(String, String)>,
) -> Result<StatusCode, Problem> {
    node.runtime.runs().delete(&name, &id).await?;
    Ok(StatusCode::NO_CONTENT)
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
        (status = 200, body = RunView, description = "As it is now"),
        (status = 404, body = ProblemBody, content_type = "application/problem+json"),
        (status = 409, body = ProblemBody, content_type = "application/problem+json",
            description = "It is not in a state in which that could be done"),
    ),
)]
pub(crate) async fn control(
    State(node): State<Arc<Node>>,
    Path((name, id, verb)): Path<(String, String, String)>,
    body: Bytes,
) -> Result<Json<RunView>, Problem> {
    let runs = node.runtime.runs();
    match verb.as_str() {
        "pause" => runs.pause(&name, &id).await?,
        "resume" => runs.resume(&name, &id).await?,
        "terminate" => runs.terminate(&name, &id).await?,
        "restart" => {
            let RestartBody { from } = body_or(&body, "{\"from\"?}")?;
            runs.restart(&name, &id, from.as_deref()).await?;
        }
        _ => return Err(Problem::new(Code::UnknownRoute, "no such route; see /openapi.json")),
    }
    Ok(Json(node.runtime.runs().look(&name, &id).await?))
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
        (status = 200, body = RunView, description = "It is kept, durably"),
        (status = 404, body = ProblemBody, content_type = "application/problem+json"),
        (status = 409, body = ProblemBody, content_type = "application/problem+json",
            description = "The run has ended"),
    ),
)]
pub(crate) async fn event(
    State(node): State<Arc<Node>>,
    Path((name, id, event)): Path<(String, String, String)>,
    body: Bytes,
) -> Result<Json<RunView>, Problem> {
    let payload: Value = body_or(&body, "the payload")?;
    node.runtime.runs().send_event(&name, &id, &event, &payload).await?;
    Ok(Json(node.runtime.runs().look(&name, &id).await?))
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

/// Reads a body. One that is empty says nothing.
fn body_or<T: DeserializeOwned + Default>(body: &[u8], form: &str) -> Result<T, Problem> {
    if body.is_empty() {
        return Ok(T::default());
    }
    serde_json::from_slice(body).map_err(|error| {
        Problem::new(Code::BadRequest, format!("the body must be {form}: {error}"))
    })
}

fn made_up() -> String {
    let entropy = SeededEntropy::from_system();
    format!("{:016x}{:016x}", entropy.next(), entropy.next())
}

/// Over when it was waited for so long, or the node stops: what a run is then is an answer as well.
async fn enough(node: &Node, wait: Duration) {
    if !wait.is_zero() {
        // Which of the two it was is no matter.
        let _ = tokio::time::timeout(wait, node.stopping.cancelled()).await;
    }
}

/// How far a run is after a wait, if it has ended or stands still by then.
async fn awaited(
    node: &Node,
    name: &str,
    id: &str,
    wait: Duration,
) -> Result<Option<Status>, Problem> {
    if wait.is_zero() {
        return Ok(None);
    }
    tokio::select! {
        ended = node.runtime.runs().wait(name, id) => Ok(Some(ended?)),
        () = enough(node, wait) => Ok(None),
    }
}
