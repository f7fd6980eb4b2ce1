//! Errors as problem+json: a stable code, what happened, and what to do.

use axum::{
    http::StatusCode,
    response::{IntoResponse, Response},
};
use steadfast_core::{BucketError, CallError, Denied, TokenError};
use steadfast_images::{ImageError, PoolError};
use steadfast_web::problem;

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

    pub(super) fn unknown(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "upload_not_found", detail)
    }

    pub(super) fn bad(code: &str, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, code, detail)
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        problem(self.status, &self.code, &self.detail)
    }
}

impl From<TokenError> for Problem {
    fn from(error: TokenError) -> Self {
        let (status, code) = match &error {
            TokenError::Denied(Denied::Unknown) => (StatusCode::UNAUTHORIZED, "token_needed"),
            TokenError::Denied(Denied::Foreign) => (StatusCode::FORBIDDEN, "token_foreign"),
            TokenError::Organization { .. } => (StatusCode::BAD_REQUEST, "invalid_organization"),
            TokenError::Repeated { .. } | TokenError::KeyReused { .. } => {
                (StatusCode::CONFLICT, "key_reused")
            }
            TokenError::Store(error) => (StatusCode::SERVICE_UNAVAILABLE, error.code()),
        };
        Self::new(status, code, error.to_string())
    }
}

impl From<ImageError> for Problem {
    fn from(error: ImageError) -> Self {
        let code = error.code();
        let status = match code {
            "image_too_large" => StatusCode::PAYLOAD_TOO_LARGE,
            "image_format_unsupported" => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            _ => StatusCode::UNPROCESSABLE_ENTITY,
        };
        Self::new(status, code, error.to_string())
    }
}

impl From<PoolError> for Problem {
    fn from(error: PoolError) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", error.to_string())
    }
}

impl From<BucketError> for Problem {
    fn from(error: BucketError) -> Self {
        let code = error.code();
        let status = match code {
            "blob_not_found" => StatusCode::NOT_FOUND,
            "precondition_failed" => StatusCode::PRECONDITION_FAILED,
            "range_not_satisfiable" => StatusCode::RANGE_NOT_SATISFIABLE,
            "too_large" => StatusCode::PAYLOAD_TOO_LARGE,
            "disk_full" => StatusCode::INSUFFICIENT_STORAGE,
            "key_reused" => StatusCode::CONFLICT,
            _ => StatusCode::SERVICE_UNAVAILABLE,
        };
        Self::new(status, code, error.to_string())
    }
}

impl From<CallError> for Problem {
    fn from(error: CallError) -> Self {
        let code = error.code().to_owned();
        let status = match code.as_str() {
            "upload_not_found" => StatusCode::NOT_FOUND,
            "wrong_status" | "key_reused" => StatusCode::CONFLICT,
            _ => StatusCode::SERVICE_UNAVAILABLE,
        };
        Self::new(status, &code, error.to_string())
    }
}
