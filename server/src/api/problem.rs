//! Errors on the wire: problem+json with a stable code.

mod code;

use axum::{
    http::StatusCode,
    response::{IntoResponse, Response},
};
use serde::{Deserialize, Serialize};
use steadfast::process::InputError;
use steadfast_store::{Rejection, StoreError};
use utoipa::ToSchema;

pub(crate) use self::code::Code;

/// Why a request was not answered as wished.
#[derive(Clone, Debug)]
pub(crate) struct Problem {
    code: Code,
    detail: String,
}

impl Problem {
    /// A problem with this explanation.
    pub(crate) fn new(code: Code, detail: impl Into<String>) -> Self {
        Self { code, detail: detail.into() }
    }

    /// A problem that a layer of somebody else reported by its status alone.
    pub(crate) fn of_status(status: StatusCode) -> Self {
        match status {
            StatusCode::PAYLOAD_TOO_LARGE => {
                Self::new(Code::BodyTooLarge, "the body is larger than 2 MiB")
            }
            _ if status.is_client_error() => {
                Self { code: Code::BadRequest, detail: status.to_string() }
            }
            _ => Self { code: Code::Internal, detail: status.to_string() },
        }
    }

    /// The stable code.
    #[cfg(test)]
    pub(crate) fn code(&self) -> Code {
        self.code
    }

    /// Seconds after which a repetition makes sense.
    pub(crate) fn retry_after(&self) -> Option<u32> {
        matches!(self.code, Code::Busy | Code::StoreUnavailable | Code::Contended).then_some(1)
    }

    /// The wire form, for one request.
    pub(crate) fn body(&self, path: &str, request_id: &str) -> ProblemBody {
        ProblemBody {
            type_: format!("urn:steadfast:problem:{}", self.code.tag()),
            title: self.code.title().into(),
            status: self.code.http_status(),
            detail: self.detail.clone(),
            instance: path.into(),
            code: self.code.tag().into(),
            request_id: request_id.into(),
            retryable: self.code.retryable(),
        }
    }
}

/// The outermost layer writes the body: only it knows the request's id.
impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.code.http_status());
        let mut response = status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR).into_response();
        response.extensions_mut().insert(self);
        response
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        Self { code: Code::of_store(&error), detail: error.to_string() }
    }
}

impl From<InputError> for Problem {
    fn from(error: InputError) -> Self {
        Self { code: Code::of_input(&error), detail: error.to_string() }
    }
}

impl From<Rejection> for Problem {
    fn from(rejection: Rejection) -> Self {
        Self { code: Code::of_rejection(&rejection), detail: rejection.to_string() }
    }
}

/// An error, as RFC 9457 has it.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Problem)]
pub(crate) struct ProblemBody {
    /// A URN of the code.
    #[serde(rename = "type")]
    pub(crate) type_: String,
    /// What sort of problem it is.
    pub(crate) title: String,
    /// The HTTP status.
    pub(crate) status: u16,
    /// What happened and what to do next.
    pub(crate) detail: String,
    /// The path of the request.
    pub(crate) instance: String,
    /// The stable code.
    pub(crate) code: String,
    /// The id of the request.
    pub(crate) request_id: String,
    /// Whether the same request may be sent again.
    pub(crate) retryable: bool,
}
