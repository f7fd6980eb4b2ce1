//! Processes: instances, their state and messages, inputs.

use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};
use serde_json::Value;
pub use steadfast_core::process::Decided as Decision;
use steadfast_store::StreamSummary;
use utoipa::ToSchema;

use crate::{
    Page,
    json::json_value,
    operation::{operation, requests},
    rfc3339,
    streams::Message,
};

requests! {
    /// List the processes of the program.
    plain ListProcesses {} => Page<Process>, Get "/v1/processes", Viewer, scope None, errors [];

    /// List the instances of a process by id. With a status, a page may be shorter than its limit
    /// and still have a next one.
    paged ListInstances {
        /// Process name
        #[arg(default_value = "", hide_default_value = true)]
        name: String,
    } with {
        /// Filter by status
        #[arg(long, env = "STEADFAST_STATUS", value_enum)]
        pub status: Option<Status>,
    } => Page<Instance>, Get "/v1/processes/{name}", Viewer, scope Process(name) Read,
        errors [ProcessNotFound];

    /// Show the state and the messages of an instance.
    paged ShowInstance {
        /// Process name
        name: String,
        /// Instance id
        id: String,
    } => InstanceDetail, Get "/v1/processes/{name}/{id}", Viewer, scope Process(name, id) Read,
        errors [InvalidInput, ProcessNotFound, InstanceNotFound];
}

/// Send an input to an instance, and show the decision. The first input creates the instance.
#[derive(Clone, Debug, Default, Args, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SendInput {
    /// Process name
    #[serde(skip)]
    pub name: String,
    /// Instance id
    #[serde(skip)]
    pub id: String,
    /// Type of the input
    #[arg(long = "type", env = "STEADFAST_TYPE", value_name = "TYPE")]
    #[serde(rename = "type")]
    pub type_: String,
    /// Data of the input, as JSON
    // `--data` is the data folder, as for every verb.
    #[arg(id = "input", long = "body", env = "STEADFAST_BODY", value_name = "JSON",
        value_parser = json_value)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
    /// Idempotency key: a repetition within 24 hours changes nothing and gets the first answer
    #[arg(long, env = "STEADFAST_IDEMPOTENCY_KEY", value_name = "KEY")]
    #[serde(skip)]
    pub idempotency_key: Option<String>,
}
operation!(SendInput => Decision, Post "/v1/processes/{name}/{id}/inputs" (name, id), Member,
    scope Process(name, id) Send, key
    idempotency_key,
    errors [InvalidInput, MalformedMessage, ProcessNotFound, Refused, Contended]);

/// A process in a list.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Process {
    /// Its name.
    pub name: String,
}

/// Whether an instance has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "each would take a line of the help")]
pub enum Status {
    Open,
    Completed,
}

steadfast_store::texts! {
    Status { Open = "open", Completed = "completed" }
}

impl Status {
    /// The status as text.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// The status of an instance.
    pub fn of(completed: bool) -> Self {
        if completed { Status::Completed } else { Status::Open }
    }
}

/// An instance in a list.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Instance {
    /// Its name within the process.
    pub id: String,
    /// The address of its stream.
    pub address: String,
    /// Whether it has ended.
    pub status: Status,
    /// The number of its last message.
    pub version: i64,
    /// When it began.
    #[schema(format = DateTime)]
    pub created_at: String,
    /// When its last message was committed.
    #[schema(format = DateTime)]
    pub updated_at: String,
    /// When it ended; null while it is active.
    #[schema(format = DateTime)]
    pub completed_at: Option<String>,
}

impl From<&StreamSummary> for Instance {
    fn from(summary: &StreamSummary) -> Self {
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

/// An instance with a page of its messages.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct InstanceDetail {
    /// Its name within the process.
    pub id: String,
    /// The process.
    pub process: String,
    /// The address of its stream.
    pub address: String,
    /// Whether it has ended.
    pub status: Status,
    /// Its state, as the process defines it.
    pub state: Value,
    /// The number of its last message.
    pub version: i64,
    /// The messages, oldest first.
    pub items: Vec<Message>,
    /// The cursor of the next page; null at the end.
    pub next: Option<String>,
}
