//! Errors on the wire, as in RFC 9457.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The body of an error: `application/problem+json`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
#[schema(as = Problem)]
pub struct ProblemBody {
    /// A URN of the code.
    #[serde(rename = "type")]
    pub type_: String,
    /// A short name for people.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// The fact and the next step.
    pub detail: String,
    /// The path of the request.
    pub instance: String,
    /// The stable code. An object that refuses has its own.
    pub code: String,
    /// The part of the request that is wrong, as in `lines[2].by`; `.` is the whole body.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// The id of the request.
    pub request_id: String,
    /// Whether the same request may succeed if it is sent again.
    pub retryable: bool,
}
