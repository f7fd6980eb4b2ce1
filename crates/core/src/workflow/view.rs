//! What a run looks like to who is outside of it: its steps with their times, and why it does not
//! go on. Folded from its record; only what is under way right now comes from memory.

mod fold;
mod order;
mod phase;
#[cfg(test)]
mod tests;
mod time;
mod why;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use steadfast_store::Timestamp;

pub(super) use self::fold::Story;
pub use self::{
    phase::{Phase, StepStatus},
    time::Time,
};
use super::{
    record::{Progress, Report},
    state::UnderWay,
};
use crate::Error;

/// What the record does not say.
#[derive(Clone, Debug)]
pub(super) struct Present {
    pub(super) now: Timestamp,
    /// What is under way in it; `None` if it is not active.
    pub(super) under_way: Option<Vec<UnderWay>>,
    /// What it has last said, if it is active.
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
    /// How far it is.
    pub status: Phase,
    /// What it began with.
    pub input: Value,
    /// What it ended with.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    pub output: Option<Value>,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<FailureView>,
    /// Why it stands still though nobody has paused it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Object>))]
    pub report: Option<Report>,
    /// When it was started.
    pub created_at: Time,
    /// When something was last recorded of it.
    pub changed_at: Time,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Time>,
    /// How far it is, in short.
    pub progress: ProgressView,
    /// What it has done and does; what a branch does stands together.
    pub steps: Vec<StepView>,
    /// Why it does not go on; empty while it runs and when it has ended.
    pub waiting: Vec<WaitView>,
    /// Events that came and that it has not taken.
    pub events: Vec<EventView>,
    /// How often it has begun anew.
    pub restarts: u32,
    /// Entries of its history.
    pub version: i64,
}

/// A null that is there is a value.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

/// How far a run is, in short.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ProgressView {
    /// How far it is.
    pub status: Phase,
    /// The step that is under way, or what it waits for, or the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// What it says itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// From 0 to 100, as it says itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub percent: Option<f64>,
}

/// Something that a run has done or does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct StepView {
    /// Its name; empty for what has none.
    pub name: String,
    /// step, sleep, event, call, send, select, now, random, uuid and so on.
    pub kind: String,
    /// The branch that it is in; empty outside of all.
    pub branch: String,
    /// Which one of this name in its branch, from 1.
    pub count: u32,
    /// How far it is.
    pub status: StepStatus,
    /// When it began.
    pub started_at: Time,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Time>,
    /// When a sleep ends, or the next attempt begins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Time>,
    /// What it gave.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    pub output: Option<Value>,
    /// Why it failed, last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<FailureView>,
    /// How often it was tried. One that a crash cut off is not among them.
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
    /// When it ended; nothing while it is under way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Time>,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<FailureView>,
}

/// Why something failed.
#[derive(Default, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FailureView {
    /// The stable code.
    pub code: String,
    /// What happened.
    pub message: String,
}

impl FailureView {
    /// Of an error.
    pub fn of(error: &Error) -> Self {
        Self { code: error.code().into(), message: error.to_string() }
    }
}

/// A reason why a run does not go on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct WaitView {
    /// sleep, event, step, call and so on; or queue, pause, report, program.
    pub kind: String,
    /// The name of what it waits for; empty where there is none.
    pub name: String,
    /// Until when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Time>,
    /// The reason as a sentence, with what to do.
    pub why: String,
}

/// An event that nobody has taken.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct EventView {
    /// Its name.
    pub name: String,
    /// When it came.
    pub at: Time,
    /// What it says.
    pub payload: Value,
}
