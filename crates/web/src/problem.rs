//! Errors as in RFC 9457. The server adds the path and the id of the request.

use axum::{
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use steadfast_api::{Code, ProblemBody};
use steadfast_core::{
    BucketError, CallError, Error, KeyError, QueueError, ReviveError, RunError, TokenError,
    bucket::QuotaError,
    object::InspectError,
    process::InputError,
    store::{Rejection, StoreError},
};

use crate::Page;

/// The error of a route: `async fn bid(…) -> Result<Json<Bid>, Problem>`.
///
/// Errors of calls, runs, queues, processes and buckets convert with `?`. A refusal by an object is
/// 422 with the code of the object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    status: StatusCode,
    /// Whether an object refused with its own code.
    is_refusal: bool,
    code: String,
    title: &'static str,
    detail: String,
    field: Option<String>,
    retryable: bool,
    retry_after: Option<u32>,
}

impl Problem {
    /// A problem of an application, with its own stable code and an explanation.
    pub fn new(status: StatusCode, code: impl Into<String>, detail: impl Into<String>) -> Self {
        Self {
            status,
            is_refusal: false,
            code: code.into(),
            title: status.canonical_reason().unwrap_or("Error"),
            detail: detail.into(),
            field: None,
            retryable: Code::is_passing(status.as_u16()),
            retry_after: None,
        }
    }

    /// A request that is wrong: status 400.
    pub fn invalid(code: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, code, detail)
    }

    /// Something that does not exist: status 404.
    pub fn not_found(code: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, code, detail)
    }

    /// A problem with a code of the platform.
    pub fn of(code: Code, detail: impl Into<String>) -> Self {
        let status = StatusCode::from_u16(code.status());
        Self {
            status: status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR),
            is_refusal: false,
            code: code.tag().into(),
            title: code.title(),
            detail: detail.into(),
            field: None,
            retryable: code.is_retryable(),
            retry_after: (code.is_retryable() && code != Code::DiskFull
                || code == Code::OutcomeUnknown)
                .then_some(1),
        }
    }

    /// Marks that the change was applied and reading its result failed: the caller must not repeat
    /// the request.
    pub fn after_change(self) -> Self {
        let detail = format!("applied, but the result cannot be read: {}", self.detail);
        Self::of(Code::OutcomeUnknown, detail)
    }

    /// Sets another status for this code. Objects do not know HTTP: their refusals are 422 unless a
    /// route sets another status, or [`Routes::refusals`](crate::Routes::refusals) does for all
    /// routes of an application.
    ///
    /// ```
    /// use axum::{Json, http::StatusCode};
    /// use steadfast_web::{Caller, Problem};
    ///
    /// async fn look(caller: Caller) -> Result<String, Problem> {
    ///     let seen = caller.call_json("auction", "7", "look", "").await;
    ///     let missing = |it| Problem::from(it).when("auction_not_found", StatusCode::NOT_FOUND);
    ///     seen.map_err(missing)
    /// }
    /// ```
    #[must_use]
    pub fn when(mut self, code: &str, status: StatusCode) -> Self {
        if self.code == code {
            self.status = status;
            self.title = status.canonical_reason().unwrap_or("Error");
        }
        self
    }

    /// Names the part of the request that is wrong.
    pub fn at(mut self, field: impl Into<String>) -> Self {
        self.field = Some(field.into());
        self
    }

    /// A refusal by the application, with its own code.
    fn refused(error: &Error) -> Self {
        let problem = Self::of(Code::Refused, error.to_string());
        let (code, retryable) = (error.code().into(), !error.is_terminal());
        Self { is_refusal: true, code, retryable, ..problem }
    }

    /// The status of the response.
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// The code.
    pub fn code(&self) -> &str {
        &self.code
    }

    /// The explanation for people.
    pub fn detail(&self) -> &str {
        &self.detail
    }

    /// The code of the platform: `Refused` if an object refused, `None` for a code of the
    /// application.
    pub fn kind(&self) -> Option<Code> {
        if self.is_refusal { Some(Code::Refused) } else { Code::of_tag(&self.code) }
    }

    /// Seconds to wait before the next request: a repetition, or a read of the outcome.
    pub fn retry_after(&self) -> Option<u32> {
        self.retry_after
    }

    /// The wire form, for one request.
    pub fn body(&self, path: &str, request_id: &str) -> ProblemBody {
        let kind = if self.is_refusal { Code::Refused.tag() } else { &self.code };
        ProblemBody {
            type_: format!("urn:steadfast:problem:{kind}"),
            title: self.title.into(),
            status: self.status.as_u16(),
            detail: self.detail.clone(),
            instance: path.into(),
            code: self.code.clone(),
            field: self.field.clone(),
            request_id: request_id.into(),
            retryable: self.retryable,
        }
    }

    /// The response for a browser: a page of the application that shows the problem.
    pub fn on_page(self, page: Page) -> Response {
        let mut response = (self.status, page).into_response();
        response.extensions_mut().insert(self);
        response
    }

    /// Sets the status of a refusal in a response, if the application declares one for its code.
    pub(crate) fn declared(mut response: Response, statuses: &[(&str, StatusCode)]) -> Response {
        let refusal = response.extensions().get::<Self>().filter(|it| it.is_refusal);
        let declared = refusal.and_then(|problem| {
            let (_, status) = statuses.iter().find(|(code, _)| *code == problem.code)?;
            Some(Self::new(*status, &*problem.code, &*problem.detail))
        });
        let Some(problem) = declared else { return response };
        match response.extensions_mut().remove::<Page>() {
            Some(page) => problem.on_page(page),
            None => problem.into_response(),
        }
    }
}

/// The server adds the path and the id of the request.
impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let body = serde_json::to_string(&self.body("", "")).unwrap_or_default();
        let kind = [(header::CONTENT_TYPE, "application/problem+json")];
        let mut response = (self.status, kind, body).into_response();
        response.extensions_mut().insert(self);
        response
    }
}

impl From<CallError> for Problem {
    fn from(error: CallError) -> Self {
        if let CallError::Refused(error) = &error {
            return Self::refused(error);
        }
        let problem = Self::of(error.kind(), error.to_string());
        if let CallError::Malformed { path, .. } = error { problem.at(path) } else { problem }
    }
}

impl From<RunError> for Problem {
    fn from(error: RunError) -> Self {
        if let RunError::Failed { error, .. } = &error {
            return Self::refused(error);
        }
        Self::of(error.kind(), error.to_string())
    }
}

impl From<BucketError> for Problem {
    fn from(error: BucketError) -> Self {
        let mut problem = Self::of(error.kind(), error.to_string());
        if let BucketError::Quota(QuotaError::Spend { seconds, .. }) = error {
            problem.retry_after = Some(u32::try_from(seconds).unwrap_or(u32::MAX));
        }
        problem
    }
}

macro_rules! from_errors {
    ($($error:ty),*) => {
        $(impl From<$error> for Problem {
            fn from(error: $error) -> Self {
                Self::of(error.kind(), error.to_string())
            }
        })*
    };
}

from_errors!(
    StoreError,
    Rejection,
    QueueError,
    InputError,
    InspectError,
    KeyError,
    TokenError,
    ReviveError
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_that_refuses_is_422_with_its_own_code() {
        let refused = CallError::Refused(Error::terminal("too low").with_code("bid_too_low"));
        let body = Problem::from(refused).body("/bids", "r-1");
        assert_eq!((body.status, &*body.code, &*body.detail), (422, "bid_too_low", "too low"));
    }

    #[test]
    fn a_route_decides_the_status_of_a_refusal() {
        let refused = CallError::Refused(Error::terminal("no such").with_code("no_auction"));
        let problem = Problem::from(refused).when("bid_too_low", StatusCode::CONFLICT);
        let problem = problem.when("no_auction", StatusCode::NOT_FOUND);
        let body = problem.clone().body("/auctions/7", "r-1");
        assert_eq!((body.status, &*body.code, &*body.title), (404, "no_auction", "Not Found"));
        assert_eq!(problem.into_response().status(), 404);
    }

    #[test]
    fn an_application_declares_the_status_of_its_refusals() {
        let statuses = [("no_auction", StatusCode::NOT_FOUND)];
        let problem = |code| {
            let refused = CallError::Refused(Error::terminal("no such").with_code(code));
            Problem::from(refused)
        };
        let declared = |response| {
            let response = Problem::declared(response, &statuses);
            let problem = response.extensions().get::<Problem>().cloned().expect("a problem");
            (response.status().as_u16(), problem.body("/", "r").type_)
        };
        let expected = (404, "urn:steadfast:problem:no_auction".to_owned());
        assert_eq!(declared(problem("no_auction").into_response()), expected);
        let page = Page::new("Auctions", maud::html! {});
        let on_page = Problem::declared(problem("no_auction").on_page(page.clone()), &statuses);
        assert!(on_page.extensions().get::<Page>().is_some());
        assert_eq!(declared(on_page), expected);
        // Others keep their status: those without a declaration, and those of a route.
        let expected = (422, "urn:steadfast:problem:refused".to_owned());
        assert_eq!(declared(problem("bid_too_low").into_response()), expected);
        let gone = Problem::new(StatusCode::GONE, "no_auction", "it was");
        assert_eq!(declared(gone.on_page(page)).0, 410);
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

    #[test]
    fn an_unreadable_result_after_a_change_is_not_retryable() {
        let full = QueueError::Full { queue: "mail".into(), max: 1 };
        assert!(Problem::from(full.clone()).body("/", "r").retryable);
        let body = Problem::from(full).after_change().body("/", "r");
        assert_eq!((body.status, &*body.code, body.retryable), (503, "outcome_unknown", false));
    }
}
