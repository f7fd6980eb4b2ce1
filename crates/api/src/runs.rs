//! Workflows and their runs: start, list, show, events, pause, resume, terminate, restart, delete.

use std::{fmt, str::FromStr};

use clap::{
    Args,
    builder::{PossibleValuesParser, TypedValueParser},
};
use serde::{Deserialize, Deserializer, Serialize, de::Error};
use serde_json::Value;
pub use steadfast_core::workflow::RunOptions as WorkflowLimits;
use steadfast_core::workflow::{
    FailureView, HistoryEntry, Phase, RunItem, RunView, Status, WorkflowCounts,
};
use utoipa::ToSchema;

use crate::{
    JsonText, Page,
    json::json_text,
    operation::{like, operation, requests},
};

requests! {
    /// List the workflows of the program, their limits and their numbers of runs.
    plain ListWorkflows {} => Page<WorkflowEntry>, Get "/v1/workflows", Viewer, scope None,
        errors [];

    /// List the runs of a workflow, newest first.
    paged ListRuns {
        /// Workflow name
        #[arg(default_value = "", hide_default_value = true)]
        workflow: String,
    } with {
        /// Filter by status
        #[arg(long, env = "STEADFAST_STATUS", value_parser = phases())]
        pub status: Option<Phase>,
        /// Filter by prefix of the id
        #[arg(long, env = "STEADFAST_PREFIX", value_name = "TEXT")]
        pub prefix: Option<String>,
        /// Only runs started at this time or later, as in 2026-11-15T12:30:00Z
        #[arg(long, env = "STEADFAST_SINCE", value_name = "TIME")]
        pub since: Option<String>,
        /// Only runs started before this time
        #[arg(long, env = "STEADFAST_UNTIL", value_name = "TIME")]
        pub until: Option<String>,
    } => Page<RunItem>, Get "/v1/workflows/{workflow}/runs", Viewer, scope Workflow(workflow) Read,
        errors [WorkflowNotFound];
}

/// The statuses of a run, for the command line.
pub fn phases() -> impl TypedValueParser<Value = Phase> {
    let words = PossibleValuesParser::new(Phase::ALL.map(Phase::word));
    words.try_map(|it| Phase::named(&it).ok_or("no such status"))
}

/// Start a run, or find the one with this id: the same id is the same run.
#[derive(Clone, Debug, Default, Args, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct StartRun {
    /// Workflow name
    #[serde(skip)]
    pub workflow: String,
    /// Run id; generated if it is left out
    #[arg(long, env = "STEADFAST_ID", value_name = "ID")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Input of the workflow: JSON, or @FILE
    #[arg(long, env = "STEADFAST_INPUT", value_name = "JSON", value_parser = json_text)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<JsonText>,
    /// Seconds to wait for the end, at most 60
    #[arg(long, env = "STEADFAST_WAIT", value_name = "SECONDS")]
    #[serde(skip)]
    pub wait: Option<Wait>,
    /// Idempotency key: a repetition within 24 hours finds the same run
    #[arg(long, env = "STEADFAST_IDEMPOTENCY_KEY", value_name = "KEY")]
    #[serde(skip)]
    pub idempotency_key: Option<String>,
}
operation!(StartRun => StartedRun, Post "/v1/workflows/{workflow}/runs" (workflow), Member,
    scope Workflow(workflow) Start, status
    201, key idempotency_key, query wait, status_by created,
    errors [InvalidName, InvalidInput, WorkflowNotFound, RunNotFound]);

fn created(started: &StartedRun) -> u16 {
    if started.created { 201 } else { 200 }
}

requests! {
    /// Show a run: its steps over time, and what it is blocked on.
    plain ShowRun {
        /// Workflow name
        workflow: String,
        /// Run id
        id: String,
    } with {
        /// Seconds to wait for the end, at most 60
        #[arg(long, env = "STEADFAST_WAIT", value_name = "SECONDS")]
        pub wait: Option<Wait>,
    } => RunView, Get "/v1/workflows/{workflow}/runs/{id}", Viewer,
        scope Workflow(workflow, id) Read,
        errors [InvalidName, WorkflowNotFound, RunNotFound];

    /// Read the history of a run.
    paged RunHistory {
        /// Workflow name
        workflow: String,
        /// Run id
        id: String,
    } => Page<HistoryEntry>, Get "/v1/workflows/{workflow}/runs/{id}/history", Viewer,
        scope Workflow(workflow, id) Read,
        errors [InvalidName, WorkflowNotFound, RunNotFound];

    /// Delete a run that has ended. Its id is free again.
    plain DeleteRun {
        /// Workflow name
        workflow: String,
        /// Run id
        id: String,
    } => (), Delete "/v1/workflows/{workflow}/runs/{id}", Operator,
        scope Workflow(workflow, id) Delete, status 204,
        errors [InvalidName, WorkflowNotFound, RunNotFound, WrongStatus];

    /// Pause a run: attempts in progress finish and are recorded, nothing new begins.
    keyed PauseRun {
        /// Workflow name
        workflow: String,
        /// Run id
        id: String,
    } => RunView, Post "/v1/workflows/{workflow}/runs/{id}/pause", Operator,
        scope Workflow(workflow, id) Manage,
        errors [InvalidName, WorkflowNotFound, RunNotFound, WrongStatus];

    /// Resume a paused run. Its timers have as much time left as when it was paused.
    keyed ResumeRun {
        /// Workflow name
        workflow: String,
        /// Run id
        id: String,
    } => RunView, Post "/v1/workflows/{workflow}/runs/{id}/resume", Operator,
        scope Workflow(workflow, id) Manage,
        errors [InvalidName, WorkflowNotFound, RunNotFound, WrongStatus];

    /// Terminate a run.
    keyed TerminateRun {
        /// Workflow name
        workflow: String,
        /// Run id
        id: String,
    } => RunView, Post "/v1/workflows/{workflow}/runs/{id}/terminate", Operator,
        scope Workflow(workflow, id) Manage,
        errors [InvalidName, WorkflowNotFound, RunNotFound, WrongStatus];

    /// Retry now the steps of a run that wait for their next attempt.
    keyed RetryRun {
        /// Workflow name
        workflow: String,
        /// Run id
        id: String,
    } => RunView, Post "/v1/workflows/{workflow}/runs/{id}/retry", Operator,
        scope Workflow(workflow, id) Manage,
        errors [InvalidName, WorkflowNotFound, RunNotFound, WrongStatus];

    /// Restart a run that has ended or is paused.
    keyed RestartRun {
        /// Workflow name
        workflow: String,
        /// Run id
        id: String,
    } with {
        /// Keep the record before this step; without it, restart from the beginning
        #[arg(long, env = "STEADFAST_FROM", value_name = "STEP")]
        #[serde(skip_serializing_if = "Option::is_none")]
        pub from: Option<String>,
    } => RunView, Post "/v1/workflows/{workflow}/runs/{id}/restart", Operator,
        scope Workflow(workflow, id) Manage,
        errors [InvalidName, WorkflowNotFound, RunNotFound, WrongStatus, StepNotFound];
}

/// Send an event to a run. It is kept until the run waits for it.
#[derive(Clone, Debug, Args, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SendEvent {
    /// Workflow name
    #[serde(skip)]
    pub workflow: String,
    /// Run id
    #[serde(skip)]
    pub id: String,
    /// Event name
    #[serde(skip)]
    #[arg(value_name = "TYPE")]
    pub event: String,
    /// Payload: JSON, or @FILE
    #[arg(long, env = "STEADFAST_PAYLOAD", value_name = "JSON", default_value = "null",
        value_parser = json_text)]
    pub payload: JsonText,
    /// Idempotency key: a repetition within 24 hours changes nothing and gets the first answer
    #[arg(long, env = "STEADFAST_IDEMPOTENCY_KEY", value_name = "KEY")]
    #[serde(skip)]
    pub idempotency_key: Option<String>,
}
operation!(SendEvent => RunView, Post "/v1/workflows/{workflow}/runs/{id}/events/{event}"
    (workflow, id, event), Member, scope Workflow(workflow, id) Send, key idempotency_key,
    empty "null",
    errors [InvalidName, WorkflowNotFound, RunNotFound, WrongStatus, InvalidInput]);
like!(SendEvent, Value, "Send an event to a run. It is kept until the run waits for it.");

/// Seconds to wait, 0 to 60.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[schema(value_type = u32, minimum = 0, maximum = 60)]
pub struct Wait(u32);

impl Wait {
    /// Maximum wait in seconds.
    const MAX: u32 = 60;

    /// The maximum wait.
    pub const LONGEST: Self = Self(Self::MAX);

    /// The number of seconds.
    pub fn seconds(self) -> u64 {
        self.0.into()
    }
}

impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for Wait {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.parse() {
            Ok(seconds) if seconds <= Self::MAX => Ok(Self(seconds)),
            Ok(_) | Err(_) => {
                Err(format!("`wait` must be 0 to {} seconds, not `{text}`", Self::MAX))
            }
        }
    }
}

/// Parses text, because a query has only text.
impl<'de> Deserialize<'de> for Wait {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?.parse().map_err(D::Error::custom)
    }
}

/// A workflow.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct WorkflowEntry {
    /// Its name and its numbers of runs.
    #[serde(flatten)]
    pub counts: WorkflowCounts,
    /// The limits of its runs.
    pub limits: WorkflowLimits,
}

/// A run that was started or found.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct StartedRun {
    /// Its id.
    pub id: String,
    /// Its workflow.
    pub workflow: String,
    /// Whether this request created it.
    pub created: bool,
    /// Its status.
    pub status: Phase,
    /// Its output, if it is complete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Value>,
    /// Its error, if it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<FailureView>,
}

impl StartedRun {
    /// Builds it from the status alone: a start does not read the run.
    pub fn new(workflow: String, id: String, created: bool, status: Status) -> Self {
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
