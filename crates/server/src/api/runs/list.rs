//! The workflows, and the runs of one.

use std::sync::Arc;

use axum::{
    Json,
    extract::{Path, State},
};
use serde::{Deserialize, Serialize};
use steadfast_core::{
    RunError,
    workflow::{Phase, RunOptions, RunPage, RunQuery, Time, WorkflowCounts},
};
use utoipa::{IntoParams, ToSchema};

use crate::{
    api::{
        page::{Params, bad_cursor, rows},
        problem::{Code, Problem, ProblemBody},
        time,
        wire::List,
    },
    node::Node,
};

/// The query of the list of a workflow's runs.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct RunParams {
    /// Only those that are so far.
    #[param(value_type = Option<Phase>)]
    pub(crate) status: Option<String>,
    /// Only those whose ids begin with this.
    pub(crate) prefix: Option<String>,
    /// Only those that were started then or later: RFC 3339, UTC if it names no zone.
    pub(crate) since: Option<String>,
    /// Only those that were started before.
    pub(crate) until: Option<String>,
    /// The `next` of the page before.
    pub(crate) after: Option<String>,
    /// Rows at most.
    #[param(value_type = Option<u32>, minimum = 1, maximum = 1000, default = 50)]
    pub(crate) limit: Option<String>,
}

impl RunParams {
    /// Checks the query. What is empty was left empty in a form.
    pub(crate) fn query(&self, workflow: &str) -> Result<RunQuery, Problem> {
        Ok(RunQuery {
            workflow: workflow.into(),
            status: given(self.status.as_ref()).map(phase).transpose()?,
            prefix: self.prefix.clone().unwrap_or_default(),
            since: given(self.since.as_ref()).map(|it| moment("since", it)).transpose()?,
            until: given(self.until.as_ref()).map(|it| moment("until", it)).transpose()?,
            after: given(self.after.as_ref()).map(str::to_owned),
            limit: rows(given(self.limit.as_ref()))?,
        })
    }
}

fn given(text: Option<&String>) -> Option<&str> {
    text.map(String::as_str).filter(|it| !it.is_empty())
}

fn phase(word: &str) -> Result<Phase, Problem> {
    Phase::named(word).ok_or_else(|| {
        let words = Phase::ALL.map(Phase::word).join(", ");
        Problem::new(Code::BadQuery, format!("`status` must be one of {words}, not `{word}`"))
    })
}

fn moment(name: &str, text: &str) -> Result<Time, Problem> {
    time::read(text).map(Time).ok_or_else(|| {
        let detail = format!("`{name}` must be a time like 2026-11-15T12:30:00Z, not `{text}`");
        Problem::new(Code::BadQuery, detail)
    })
}

/// A workflow.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct WorkflowEntry {
    /// Its name, and how many runs of it there are.
    #[serde(flatten)]
    pub(crate) counts: WorkflowCounts,
    /// What its runs are held to.
    pub(crate) limits: LimitsEntry,
}

/// How many runs are awake at once, and for how many seconds those that have ended are kept.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LimitsEntry {
    /// Runs that are awake at once; runs that sleep do not count.
    pub(crate) concurrency: usize,
    /// Of runs that ended well.
    pub(crate) keep_complete: u64,
    /// Of runs that failed.
    pub(crate) keep_errored: u64,
    /// Of runs that were ended from outside.
    pub(crate) keep_terminated: u64,
}

impl LimitsEntry {
    fn of(options: RunOptions) -> Self {
        let RunOptions { concurrency, keep_complete, keep_errored, keep_terminated } = options;
        Self {
            concurrency,
            keep_complete: keep_complete.as_secs(),
            keep_errored: keep_errored.as_secs(),
            keep_terminated: keep_terminated.as_secs(),
        }
    }
}

/// Lists the workflows that run here, their limits, and how many runs of each there are.
#[utoipa::path(get, path = "/v1/workflows", tag = "workflows",
    responses((status = 200, body = List<WorkflowEntry>)))]
pub(crate) async fn workflows(
    State(node): State<Arc<Node>>,
) -> Result<Json<List<WorkflowEntry>>, Problem> {
    Ok(Json(List { items: read_workflows(&node).await?, next: None }))
}

/// Reads the workflows.
pub(crate) async fn read_workflows(node: &Node) -> Result<Vec<WorkflowEntry>, Problem> {
    let counts = node.runtime.runs().counts().await?;
    let limits = node.runtime.runs().workflows().map(|(_, options)| LimitsEntry::of(options));
    let all = counts.into_iter().zip(limits);
    Ok(all.map(|(counts, limits)| WorkflowEntry { counts, limits }).collect())
}

/// Lists the runs of a workflow, newest first.
#[utoipa::path(get, path = "/v1/workflows/{name}/runs", tag = "workflows",
    params(("name" = String, Path, description = "The workflow"), RunParams),
    responses(
        (status = 200, body = RunPage),
        (status = 400, body = ProblemBody, content_type = "application/problem+json"),
        (status = 404, body = ProblemBody, content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn list(
    State(node): State<Arc<Node>>,
    Path(name): Path<String>,
    Params(params): Params<RunParams>,
) -> Result<Json<RunPage>, Problem> {
    Ok(Json(read_runs(&node, &params.query(&name)?).await?))
}

/// Reads a part of the runs of a workflow.
pub(crate) async fn read_runs(node: &Node, query: &RunQuery) -> Result<RunPage, Problem> {
    let list = node.runtime.runs().list(query).await;
    // Nothing else of a query can be malformed.
    let is_cursor = |it: &RunError| matches!(it, RunError::Malformed { .. });
    list.map_err(|error| if is_cursor(&error) { bad_cursor("after") } else { error.into() })
}
