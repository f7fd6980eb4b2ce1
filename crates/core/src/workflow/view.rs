//! The view of a run: its steps with their times, and the reasons why it is blocked.

mod build;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use steadfast_store::Timestamp;

use super::{
    record::{Progress, Report, StepInput, present},
    state::AttemptInFlight,
    status::{Phase, StepStatus},
};
use crate::{Error, body::Time};

/// The state of a run that is not in its record.
#[derive(Clone, Debug)]
pub(super) struct LiveState {
    pub(super) now: Timestamp,
    /// Attempts in flight; `None` if the run is not active.
    pub(super) in_flight: Option<Vec<AttemptInFlight>>,
    /// The last reported progress, if it is active.
    pub(super) progress: Option<Progress>,
    /// Runs of its workflow that are active.
    pub(super) running: usize,
    /// Whether this program has the workflow.
    pub(super) served: bool,
}

/// One run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RunView {
    /// Its id.
    pub id: String,
    /// Its workflow.
    pub workflow: String,
    /// Its status.
    pub status: Phase,
    /// Its input.
    pub input: Value,
    /// Its output.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    pub output: Option<Value>,
    /// The error, if it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<FailureView>,
    /// Why it has paused itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Object>))]
    pub report: Option<Report>,
    /// When it was started.
    pub created_at: Time,
    /// The time of the last entry of its record.
    pub changed_at: Time,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Time>,
    /// Its progress, in short form.
    pub progress: ProgressView,
    /// Its operations; those of a branch are together.
    pub steps: Vec<StepView>,
    /// Why it is blocked; empty while it is active and when it has ended.
    pub waiting: Vec<WaitView>,
    /// Events that it has not taken.
    pub events: Vec<EventView>,
    /// The number of restarts.
    pub restarts: u32,
    /// Entries of its history.
    pub version: i64,
}

/// The progress of a run, in short form.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ProgressView {
    /// Its status.
    pub status: Phase,
    /// The step in progress, or the one that it waits for, or the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// The progress message of its code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The progress of its code, from 0 to 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub percent: Option<f64>,
}

/// An operation of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct StepView {
    /// Its name; empty for an operation without one.
    pub name: String,
    /// step, sleep, event, call, send, select, now, random, uuid and so on.
    pub kind: String,
    /// Its branch; empty outside of all.
    pub branch: String,
    /// Its number among those of the same name in the branch, from 1.
    pub count: u32,
    /// Its status.
    pub status: StepStatus,
    /// When it began.
    pub started_at: Time,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Time>,
    /// When a sleep ends, or the next attempt begins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Time>,
    /// The input of a call or a send; of a call, when its first attempt has ended. A step has none
    /// of its own: its code uses the input of the run and earlier outputs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<StepInput>,
    /// Its result.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    pub output: Option<Value>,
    /// The last error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<FailureView>,
    /// Its attempts, without those that a crash interrupted.
    pub attempts: Vec<AttemptView>,
}

/// One attempt of a step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AttemptView {
    /// From 1.
    pub number: u32,
    /// When it began.
    pub started_at: Time,
    /// When it ended; absent while it is in progress.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Time>,
    /// The error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<FailureView>,
}

/// An error.
#[derive(Default, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FailureView {
    /// The stable code.
    pub code: String,
    /// The message.
    pub message: String,
}

impl FailureView {
    /// The failure of an error.
    pub fn of(error: &Error) -> Self {
        Self { code: error.code().into(), message: error.to_string() }
    }
}

/// A reason why a run is blocked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct WaitView {
    /// The kind: sleep, event, step, call and so on; or queue, pause, report, program.
    pub kind: String,
    /// The name of the operation; empty where there is none.
    pub name: String,
    /// The end of the wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Time>,
    /// The reason as a sentence, with the next step.
    pub why: String,
}

/// An event that the run has not taken.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct EventView {
    /// Its name.
    pub name: String,
    /// When it arrived.
    pub at: Time,
    /// Its payload.
    pub payload: Value,
}
