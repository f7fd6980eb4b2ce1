//! Errors: what happened, with a stable code, in the form that clients of comparisons expect as
//! well.

use axum::{
    http::StatusCode,
    response::{IntoResponse, Response},
};
use steadfast_core::CallError;

use crate::{VaultError, pair::PairError};
use steadfast_egress::EgressError;
use steadfast_web::problem;

/// Why a request was not served.
#[derive(Debug)]
pub(super) struct Problem {
    pub(super) status: StatusCode,
    pub(super) code: String,
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
        let detail = format!("comparison `{id}` does not exist, or retention removed it");
        Self::new(StatusCode::NOT_FOUND, "unknown_comparison", detail)
    }

    pub(super) fn forgotten(id: &str) -> Self {
        let detail = format!(
            "retention removed comparison `{id}` with its URLs and their secrets; enter the \
             URLs again"
        );
        Self::new(StatusCode::GONE, FORGOTTEN, detail)
    }
}

/// The code of a comparison that was there.
pub(super) const FORGOTTEN: &str = "comparison_forgotten";
/// The code of a URL that was shown without its secret, and was given as it was shown.
pub(super) const SECRET_MISSING: &str = "secret_missing";

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        problem(self.status, &self.code, &self.detail)
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

impl From<VaultError> for Problem {
    fn from(error: VaultError) -> Self {
        let status = match &error {
            VaultError::Store(_) | VaultError::Seal(_) => StatusCode::SERVICE_UNAVAILABLE,
            VaultError::Unreadable => StatusCode::CONFLICT,
        };
        Self::new(status, error.code(), error.to_string())
    }
}

impl From<CallError> for Problem {
    fn from(error: CallError) -> Self {
        let code = error.code().to_owned();
        let status = match code.as_str() {
            "unknown_comparison" => StatusCode::NOT_FOUND,
            "key_reused" => StatusCode::CONFLICT,
            "too_many_running" => StatusCode::TOO_MANY_REQUESTS,
            _ => StatusCode::SERVICE_UNAVAILABLE,
        };
        Self::new(status, &code, error.to_string())
    }
}
