//! The server itself: liveness, readiness and checks.

use clap::{Args, builder::FalseyValueParser};
use serde::{Deserialize, Serialize};
pub use steadfast_bucket::UnreadableBlob;
use utoipa::ToSchema;

use crate::operation::operation;

/// Check the invariants, the disk and the settings.
#[derive(Clone, Debug, Default, Args, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Examine {
    /// Read every row, even of a large store, which takes a while
    #[arg(long, env = "STEADFAST_DEEP", value_parser = FalseyValueParser::new())]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub deep: bool,
}
operation!(Examine => Examination, Get "/v1/doctor" (), Operator, scope None,
    errors []);

/// Show the totals of the store, overdue messages, and the names that the program declares.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ShowOverview {}
operation!(ShowOverview => Overview, Get "/v1/overview" (), Viewer, scope None,
    errors []);

/// Totals of the store, overdue messages, and the names that the program declares.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Overview {
    /// The position of the last message.
    pub position: i64,
    /// Messages to be delivered.
    pub pending: u64,
    /// Dead messages.
    pub dead: u64,
    /// The five messages that are overdue for the longest time, except those in queues.
    pub overdue: Vec<OverdueMessage>,
    /// The classes of objects that the program declares.
    pub classes: Vec<String>,
    /// The workflows that it declares.
    pub workflows: Vec<String>,
    /// The processes that it declares.
    pub processes: Vec<String>,
}

/// A message that should have been delivered.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct OverdueMessage {
    /// Its `globalPosition`.
    pub message: i64,
    /// The address of its receiver.
    pub target: String,
    /// The time since it was due.
    pub overdue_ms: u64,
}

/// Read contents of blobs, about 64 MiB in one request, and name those that are damaged or missing.
#[derive(Clone, Debug, Default, Args, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CheckBlobs {
    /// Continue there: `next` of the request before
    #[arg(long)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}
operation!(CheckBlobs => BlobCheck, Get "/v1/doctor/blobs" (), Operator, scope None,
    errors [InvalidInput]);

/// The blobs that one request read.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct BlobCheck {
    /// The number of all blobs, in the first answer.
    pub total: Option<u64>,
    /// The number of blobs that were read.
    pub blobs: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Those that are damaged or missing.
    pub unreadable: Vec<UnreadableBlob>,
    /// The `cursor` of the next request; null at the end.
    pub next: Option<String>,
}

/// The result of all checks.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Examination {
    /// Whether no check failed.
    pub ok: bool,
    /// Each check.
    pub checks: Vec<Check>,
}

/// One check.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Check {
    /// Name of the check.
    pub name: String,
    /// Its result.
    pub status: Verdict,
    /// The finding, and the next step if the check failed.
    pub detail: String,
}

impl Check {
    /// A check that passed.
    pub fn ok(name: &str, detail: impl Into<String>) -> Self {
        Self { name: name.into(), status: Verdict::Ok, detail: detail.into() }
    }

    /// A check with a warning.
    pub fn warning(name: &str, detail: impl Into<String>) -> Self {
        Self { name: name.into(), status: Verdict::Warning, detail: detail.into() }
    }

    /// A check that failed.
    pub fn failed(name: &str, detail: impl Into<String>) -> Self {
        Self { name: name.into(), status: Verdict::Failed, detail: detail.into() }
    }
}

/// The result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// The check passed.
    Ok,
    /// The check passed with a warning.
    Warning,
    /// The check failed.
    Failed,
}

steadfast_store::texts! {
    Verdict { Ok = "ok", Warning = "warning", Failed = "failed" }
}

impl Verdict {
    /// The verdict as text.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// The process is alive.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Alive {
    /// Always `ok`.
    pub status: String,
}

/// Whether the server is ready for requests.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Readiness {
    /// `ready` or `not ready`.
    pub status: String,
}
