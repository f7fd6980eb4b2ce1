//! Errors as RFC 9457 has them. Whoever serves adds the path and the id of the request.

use axum::{
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use serde_json::json;
use steadfast_core::{BucketError, CallError, QueueError, RunError, process::InputError};

/// A problem: a stable code, what happened, and what to do.
pub fn problem(status: StatusCode, code: &str, detail: &str) -> Response {
    let body = json!({
        "type": format!("urn:steadfast:problem:{code}"),
        "title": status.canonical_reason().unwrap_or("Error"),
        "status": status.as_u16(),
        "code": code,
        "detail": detail,
    });
    let kind = [(header::CONTENT_TYPE, "application/problem+json")];
    (status, kind, body.to_string()).into_response()
}

/// Why a route does not answer as wished: `async fn bid(…) -> Result<Json<Bid>, Problem>`.
///
/// Errors of calls, runs, queues, processes and buckets convert with `?`. An object that refuses is
/// 422 with the code of the object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    status: StatusCode,
    code: String,
    detail: String,
}

impl Problem {
    /// A problem with a stable code and an explanation.
    pub fn new(status: StatusCode, code: impl Into<String>, detail: impl Into<String>) -> Self {
        Self { status, code: code.into(), detail: detail.into() }
    }

    fn of(code: &str, detail: impl ToString) -> Self {
        Self::new(status_of(code), code, detail.to_string())
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        problem(self.status, &self.code, &self.detail)
    }
}

impl From<CallError> for Problem {
    fn from(error: CallError) -> Self {
        if let CallError::Refused(error) = &error {
            return Self::new(StatusCode::UNPROCESSABLE_ENTITY, error.code(), error.to_string());
        }
        Self::of(error.code(), &error)
    }
}

impl From<RunError> for Problem {
    fn from(error: RunError) -> Self {
        if let RunError::Failed { error, .. } = &error {
            return Self::new(StatusCode::UNPROCESSABLE_ENTITY, error.code(), error.to_string());
        }
        Self::of(error.code(), &error)
    }
}

impl From<QueueError> for Problem {
    fn from(error: QueueError) -> Self {
        Self::of(error.code(), &error)
    }
}

impl From<InputError> for Problem {
    fn from(error: InputError) -> Self {
        Self::of(error.code(), &error)
    }
}

impl From<BucketError> for Problem {
    fn from(error: BucketError) -> Self {
        Self::of(error.code(), &error)
    }
}

/// The status that carries a code of ours.
fn status_of(code: &str) -> StatusCode {
    match code {
        "invalid_input"
        | "invalid_name"
        | "invalid_id"
        | "invalid_key"
        | "malformed_message"
        | "malformed"
        | "invalid_settings"
        | "invalid_batch"
        | "invalid_bucket_name"
        | "invalid_part"
        | "invalid_argument"
        | "incomplete_body"
        | "checksum_mismatch"
        | "metadata_too_large"
        | "unknown_message" => StatusCode::BAD_REQUEST,
        "class_not_found" | "message_not_found" | "workflow_not_found" | "run_not_found"
        | "unknown_queue" | "unknown_process" | "unknown_bucket" | "unknown_blob"
        | "unknown_upload" | "unknown_rule" | "not_live" => StatusCode::NOT_FOUND,
        "wrong_status" | "read_only" | "contended" | "not_connected" | "bucket_exists"
        | "bucket_not_empty" | "rule_overlap" => StatusCode::CONFLICT,
        "not_modified" => StatusCode::NOT_MODIFIED,
        "precondition_failed" => StatusCode::PRECONDITION_FAILED,
        "message_too_large" | "blob_too_large" => StatusCode::PAYLOAD_TOO_LARGE,
        "range_not_satisfiable" => StatusCode::RANGE_NOT_SATISFIABLE,
        "refused" | "key_reused" | "wrong_instance" | "step_not_found" | "turn_rolled_back" => {
            StatusCode::UNPROCESSABLE_ENTITY
        }
        "busy" | "queue_full" | "too_many_connections" => StatusCode::TOO_MANY_REQUESTS,
        "turn_lost" | "store_unavailable" | "outcome_unknown" | "fenced" | "commits_lost"
        | "storage_failed" | "closed" => StatusCode::SERVICE_UNAVAILABLE,
        "disk_full" => StatusCode::INSUFFICIENT_STORAGE,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

#[cfg(test)]
mod tests {
    use steadfast_core::Error;

    use super::*;

    #[test]
    fn an_object_that_refuses_is_422_with_its_own_code() {
        let refused = CallError::Refused(Error::terminal("too low").with_code("bid_too_low"));
        let expected = Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "bid_too_low", "too low");
        assert_eq!(Problem::from(refused), expected);
    }

    #[test]
    fn an_error_of_the_platform_keeps_its_code_and_has_a_status() {
        let unknown = RunError::UnknownWorkflow { workflow: "x".into() };
        let full = QueueError::Full { queue: "mail".into(), max: 1 };
        let panicked = CallError::Panicked { message: "x".into(), detail: "y".into() };
        for (problem, status, code) in [
            (Problem::from(unknown), 404, "workflow_not_found"),
            (Problem::from(full), 429, "queue_full"),
            (Problem::from(panicked), 500, "handler_panicked"),
        ] {
            assert_eq!((problem.status.as_u16(), &*problem.code), (status, code));
        }
    }
}
