//! Errors as problem+json: a stable code, what happened, and what to do.

use axum::{
    http::StatusCode,
    response::{IntoResponse, Response},
};
use steadfast_core::{BucketError, CallError};
use steadfast_web::problem;

use crate::providers::GenerateError;

/// Why a request was not served.
#[derive(Debug)]
pub(super) struct Problem {
    pub(super) status: StatusCode,
    code: String,
    pub(super) detail: String,
}

impl Problem {
    pub(super) fn new(status: StatusCode, code: &str, detail: impl Into<String>) -> Self {
        Self { status, code: code.into(), detail: detail.into() }
    }

    pub(super) fn bad(code: &str, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, code, detail)
    }

    pub(super) fn no_generation(id: &str) -> Self {
        let detail = format!("generation `{id}` does not exist");
        Self::new(StatusCode::NOT_FOUND, "unknown_generation", detail)
    }

    pub(super) fn no_artifact(id: &str) -> Self {
        let detail = format!("artifact `{id}` does not exist");
        Self::new(StatusCode::NOT_FOUND, "unknown_artifact", detail)
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        problem(self.status, &self.code, &self.detail)
    }
}

impl From<CallError> for Problem {
    fn from(error: CallError) -> Self {
        let code = error.code().to_owned();
        let status = match code.as_str() {
            "unknown_generation" | "unknown_artifact" => StatusCode::NOT_FOUND,
            "nothing_to_retry" | "key_reused" | "too_many_tags" => StatusCode::CONFLICT,
            "malformed_webhook" => StatusCode::BAD_REQUEST,
            _ => StatusCode::SERVICE_UNAVAILABLE,
        };
        Self::new(status, &code, error.to_string())
    }
}

impl From<BucketError> for Problem {
    fn from(error: BucketError) -> Self {
        let code = error.code();
        let status = match code {
            "blob_not_found" => StatusCode::NOT_FOUND,
            "range_not_satisfiable" => StatusCode::RANGE_NOT_SATISFIABLE,
            _ => StatusCode::SERVICE_UNAVAILABLE,
        };
        Self::new(status, code, error.to_string())
    }
}

impl From<GenerateError> for Problem {
    fn from(error: GenerateError) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, error.code(), error.to_string())
    }
}
