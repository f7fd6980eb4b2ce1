//! Errors: what happened, with a stable code, in the form that clients of comparisons expect as
//! well.

use axum::{
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use serde_json::json;
use steadfast::CallError;

use crate::pair::PairError;
use steadfast_egress::EgressError;

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

    pub(super) fn unknown(id: &str) -> Self {
        let detail = format!("there is no comparison `{id}`; old ones are forgotten");
        Self::new(StatusCode::NOT_FOUND, "unknown_comparison", detail)
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let body = json!({
            "type": format!("urn:steadfast:problem:{}", self.code),
            "title": self.status.canonical_reason().unwrap_or("Error"),
            "status": self.status.as_u16(),
            "code": self.code,
            "detail": self.detail,
            "error": { "code": self.code, "message": self.detail },
        });
        let kind = [(header::CONTENT_TYPE, "application/problem+json")];
        (self.status, kind, body.to_string()).into_response()
    }
}

impl From<EgressError> for Problem {
    fn from(error: EgressError) -> Self {
        Self::bad(error.code(), error.to_string())
    }
}

impl From<PairError> for Problem {
    fn from(error: PairError) -> Self {
        Self::bad(error.code(), error.to_string())
    }
}

impl From<CallError> for Problem {
    fn from(error: CallError) -> Self {
        let code = error.code().to_owned();
        let status = match code.as_str() {
            "unknown_comparison" => StatusCode::NOT_FOUND,
            "too_many_running" => StatusCode::TOO_MANY_REQUESTS,
            _ => StatusCode::SERVICE_UNAVAILABLE,
        };
        Self::new(status, &code, error.to_string())
    }
}
