//! Processes on the wire.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use steadfast_core::process::{Decided, Output};
use steadfast_store::StreamSummary;
use utoipa::ToSchema;

use super::Message;
use crate::api::time::rfc3339;

/// A process in a list.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct Process {
    /// Its name.
    pub(crate) name: String,
}

/// Whether an instance has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Status {
    /// It has not.
    Open,
    /// It has.
    Completed,
}

impl Status {
    /// The word.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Status::Open => "open",
            Status::Completed => "completed",
        }
    }

    /// Reads it off.
    pub(crate) fn of(completed: bool) -> Self {
        if completed { Status::Completed } else { Status::Open }
    }
}

/// An instance in a list.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Instance {
    /// Its name within the process.
    pub(crate) id: String,
    /// The address of its stream.
    pub(crate) address: String,
    /// Whether it has ended.
    pub(crate) status: Status,
    /// The number of its last message.
    pub(crate) version: i64,
    /// When it began.
    #[schema(format = DateTime)]
    pub(crate) created_at: String,
    /// When its last message was committed.
    #[schema(format = DateTime)]
    pub(crate) updated_at: String,
    /// When it ended; null if it has not.
    #[schema(format = DateTime)]
    pub(crate) completed_at: Option<String>,
}

impl Instance {
    /// The wire form.
    pub(crate) fn of(summary: &StreamSummary) -> Self {
        Self {
            id: summary.address.name().into(),
            address: summary.address.to_string(),
            status: Status::of(summary.closed_at.is_some()),
            version: summary.version,
            created_at: rfc3339(summary.created_at),
            updated_at: rfc3339(summary.updated_at),
            completed_at: summary.closed_at.map(rfc3339),
        }
    }
}

/// An instance with a part of its messages.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct InstanceDetail {
    /// Its name within the process.
    pub(crate) id: String,
    /// The process.
    pub(crate) process: String,
    /// The address of its stream.
    pub(crate) address: String,
    /// Whether it has ended.
    pub(crate) status: Status,
    /// What it knows.
    pub(crate) state: Value,
    /// The number of its last message.
    pub(crate) version: i64,
    /// The messages, oldest first.
    pub(crate) items: Vec<Message>,
    /// The cursor of the next part; null at the end.
    pub(crate) next: Option<String>,
}

/// An input.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Input)]
pub(crate) struct InputBody {
    /// Its type.
    #[serde(rename = "type")]
    pub(crate) type_: String,
    /// What it says; left out where there is nothing to say.
    #[serde(default)]
    pub(crate) data: Value,
}

/// What became of an input. A repetition under the same key gets the same.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct Decision {
    /// The place of the input in its stream.
    pub(crate) position: i64,
    /// What was decided on it, in order.
    pub(crate) outputs: Vec<DecisionOutput>,
    /// The answer, if the process gave one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reply: Option<InputBody>,
    /// Whether it came after the end, so that it was only recorded.
    pub(crate) ignored: bool,
}

/// One decision.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct DecisionOutput {
    /// What is done with it: reply, send, publish, schedule or complete.
    pub(crate) action: String,
    /// Its type.
    #[serde(rename = "type")]
    pub(crate) type_: String,
    /// What it says.
    pub(crate) data: Value,
}

impl Decision {
    /// The wire form.
    pub(crate) fn of(decided: &Decided) -> Self {
        let reply = decided.reply();
        let reply =
            reply.map(|it| InputBody { type_: it.message_type.clone(), data: it.data.clone() });
        let outputs =
            decided.outputs.iter().map(|Output { action, message_type, data }| DecisionOutput {
                action: action.clone(),
                type_: message_type.clone(),
                data: data.clone(),
            });
        Self {
            position: decided.version,
            outputs: outputs.collect(),
            reply,
            ignored: decided.ignored,
        }
    }
}
