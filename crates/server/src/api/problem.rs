//! Errors on the wire: problem+json with a stable code.

mod code;

use axum::{
    http::StatusCode,
    response::{IntoResponse, Response},
};
use serde::{Deserialize, Serialize};
use steadfast_bucket::BucketError;
use steadfast_core::{CallError, QueueError, RunError, object::InspectError, process::InputError};
use steadfast_store::{Rejection, StoreError};
use utoipa::ToSchema;

pub(crate) use self::code::{BucketCode, Code};

/// Why a request was not answered as wished.
#[derive(Clone, Debug)]
pub(crate) struct Problem {
    code: Code,
    detail: String,
    /// The place in the body that it is about.
    field: Option<String>,
    /// What an object calls it that refuses.
    refusal: Option<Refusal>,
}

/// Code of the user's has codes of its own.
#[derive(Clone, Debug)]
struct Refusal {
    code: String,
    retryable: bool,
}

impl Problem {
    /// A problem with this explanation.
    pub(crate) fn new(code: Code, detail: impl Into<String>) -> Self {
        Self { code, detail: detail.into(), field: None, refusal: None }
    }

    /// A problem that a layer of somebody else reported by its status alone.
    pub(crate) fn of_status(status: StatusCode) -> Self {
        match status {
            StatusCode::PAYLOAD_TOO_LARGE => {
                Self::new(Code::BodyTooLarge, "the body is larger than 2 MiB")
            }
            _ if status.is_client_error() => Self::new(Code::BadRequest, status.to_string()),
            _ => Self::new(Code::Internal, status.to_string()),
        }
    }

    /// The stable code.
    #[cfg(test)]
    pub(crate) fn code(&self) -> Code {
        self.code
    }

    /// Seconds after which to ask again: repeat the request, or find out what became of it.
    pub(crate) fn retry_after(&self) -> Option<u32> {
        let passes = matches!(
            self.code,
            Code::Busy
                | Code::StoreUnavailable
                | Code::OutcomeUnknown
                | Code::Contended
                | Code::TurnLost
                | Code::TooManyConnections
                | Code::QueueFull
        );
        passes.then_some(1)
    }

    /// The wire form, for one request.
    pub(crate) fn body(&self, path: &str, request_id: &str) -> ProblemBody {
        let refusal = self.refusal.as_ref();
        ProblemBody {
            type_: format!("urn:steadfast:problem:{}", self.code.tag()),
            title: self.code.title().into(),
            status: self.code.http_status(),
            detail: self.detail.clone(),
            instance: path.into(),
            code: refusal.map_or_else(|| self.code.tag().into(), |it| it.code.clone()),
            field: self.field.clone(),
            request_id: request_id.into(),
            retryable: refusal.map_or_else(|| self.code.retryable(), |it| it.retryable),
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
        Self::new(Code::of_store(&error), error.to_string())
    }
}

impl From<RunError> for Problem {
    fn from(error: RunError) -> Self {
        Self::new(Code::of_run(&error), error.to_string())
    }
}

impl From<QueueError> for Problem {
    fn from(error: QueueError) -> Self {
        Self::new(Code::of_queue(&error), error.to_string())
    }
}

impl From<BucketError> for Problem {
    fn from(error: BucketError) -> Self {
        Self::new(Code::of_bucket(&error), error.to_string())
    }
}

impl From<InputError> for Problem {
    fn from(error: InputError) -> Self {
        Self::new(Code::of_input(&error), error.to_string())
    }
}

impl From<CallError> for Problem {
    fn from(error: CallError) -> Self {
        let mut problem = Self::new(Code::of_call(&error), error.to_string());
        if let CallError::Refused(_) = &error {
            let (code, retryable) = (error.code().into(), error.is_retryable());
            problem.refusal = Some(Refusal { code, retryable });
        }
        if let CallError::Malformed { path, .. } = error {
            problem.field = Some(path);
        }
        problem
    }
}

impl From<InspectError> for Problem {
    fn from(error: InspectError) -> Self {
        Self::new(Code::of_inspect(&error), error.to_string())
    }
}

impl From<Rejection> for Problem {
    fn from(rejection: Rejection) -> Self {
        Self::new(Code::of_rejection(&rejection), rejection.to_string())
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
    /// The stable code; that of the object where an object refuses.
    pub(crate) code: String,
    /// The place in the body that it is about, as in `lines[2].by`; `.` is the whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) field: Option<String>,
    /// The id of the request.
    pub(crate) request_id: String,
    /// Whether the same request may be sent again.
    pub(crate) retryable: bool,
}
