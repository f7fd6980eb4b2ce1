//! A connection to a program: sends operations over HTTP or within this process.

use std::{fmt, future::Future, path::Path, pin::Pin, sync::Arc, time::Duration};

use bytes::Bytes;
use futures_util::stream;
use http::{HeaderValue, Request, Response, header};
use http_body_util::{BodyExt, Full, Limited, StreamBody, combinators::UnsyncBoxBody};
use hyper_util::{client::legacy::Client as HttpClient, rt::TokioExecutor};
use steadfast_store::{RemoteProblem, StoreError};

use crate::{
    Code, Method, Operation, ProblemBody, RawRequest,
    connector::{Connector, read_authorities},
};

/// Timeout of a read: `doctor` scans tables, and a request may wait a minute for a run. Changes
/// have no timeout: some affect many messages.
const READ_TIMEOUT: Duration = Duration::from_secs(90);

/// Maximum size of a response in bytes: an object has at most 256 MiB, unless its program sets
/// another limit.
const BODY_BYTES_MAX: usize = 1 << 30;

/// The body of a request or a response.
pub type Payload = UnsyncBoxBody<Bytes, BrokenBody>;

/// A body that ended before it was complete.
#[derive(Clone, Debug)]
pub struct BrokenBody(String);

impl BrokenBody {
    /// A body that failed for this reason.
    pub fn because(error: impl fmt::Display) -> Self {
        Self(error.to_string())
    }
}

impl fmt::Display for BrokenBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BrokenBody {}

/// A body with these bytes.
pub fn payload(bytes: impl Into<Bytes>) -> Payload {
    Full::new(bytes.into()).map_err(|never| match never {}).boxed_unsync()
}

/// A request without a response.
#[derive(Clone, Debug)]
pub struct NoAnswer {
    /// The cause.
    pub reason: String,
    /// Whether the request may have arrived.
    pub may_have_arrived: bool,
}

/// The response to a request.
pub type ResponseFuture = Pin<Box<dyn Future<Output = Result<Response<Payload>, NoAnswer>> + Send>>;

/// The result of a request, boxed: it is compiled here and not again by each crate that awaits it.
pub type ApiFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, ApiError>> + Send + 'a>>;

/// Carries requests to a program.
pub trait Transport: Send + Sync + 'static {
    /// Sends a request and returns the response.
    fn exchange(&self, request: Request<Payload>) -> ResponseFuture;
}

/// An operation failed.
#[derive(Clone, Debug)]
pub enum ApiError {
    /// The request cannot be built; nothing was sent.
    Invalid {
        /// The cause.
        reason: String,
    },
    /// The program answered with a problem.
    Problem(Box<ProblemBody>),
    /// The program did not respond.
    NoAnswer {
        /// The address of the program.
        url: String,
        /// The cause, and whether the request may have arrived.
        cause: NoAnswer,
    },
    /// The response is not one of a Steadfast program of this version.
    Unreadable {
        /// The address of the program.
        url: String,
        /// The cause.
        reason: String,
    },
}

impl ApiError {
    /// The code, if it is one of the platform.
    pub fn kind(&self) -> Option<Code> {
        match self {
            Self::Invalid { .. } => Some(Code::BadRequest),
            Self::Problem(problem) => {
                Code::of_tag(&problem.code).filter(|it| it.status() == problem.status)
            }
            Self::NoAnswer { cause, .. } if cause.may_have_arrived => Some(Code::OutcomeUnknown),
            Self::NoAnswer { .. } => Some(Code::StoreUnavailable),
            Self::Unreadable { .. } => Some(Code::Internal),
        }
    }

    /// The problem, if the program answered with one.
    pub fn problem(&self) -> Option<&ProblemBody> {
        match self {
            Self::Problem(problem) => Some(problem),
            Self::Invalid { .. } | Self::NoAnswer { .. } | Self::Unreadable { .. } => None,
        }
    }

    /// Whether the same request may succeed if it is sent again.
    pub fn is_retryable(&self) -> bool {
        let known = || self.kind().is_some_and(Code::is_retryable);
        self.problem().map_or_else(known, |it| it.retryable)
    }

    /// Whether the request certainly changed nothing.
    pub fn surely_unapplied(&self) -> bool {
        match self.kind() {
            Some(code) => code.surely_unapplied(),
            // The application refused the request: the change is rolled back.
            None => self.problem().is_some_and(|it| it.status < 500),
        }
    }
}

impl fmt::Display for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid { reason } => f.write_str(reason),
            Self::Problem(problem) => write!(f, "{} ({})", problem.detail, problem.code),
            Self::NoAnswer { url, cause } => {
                let NoAnswer { reason, may_have_arrived } = cause;
                let outcome = match may_have_arrived {
                    true => "the request may or may not have been applied",
                    false => "nothing was sent",
                };
                write!(f, "no answer from {url}: {reason}; {outcome}")
            }
            Self::Unreadable { url, reason } => {
                write!(f, "{url} does not answer like a steadfast server of this version: {reason}")
            }
        }
    }
}

impl std::error::Error for ApiError {}

/// Converts to the error that the verbs of a [`Client`](steadfast_core::Client) return.
impl From<ApiError> for StoreError {
    fn from(error: ApiError) -> Self {
        let code = error.kind();
        let refusal = match (&error, code) {
            (ApiError::Problem(it), _) if it.type_ == "urn:steadfast:problem:refused" => {
                Some(it.code.clone())
            }
            (ApiError::Problem(it), None) if it.status < 500 => Some(it.code.clone()),
            (_, Some(_) | None) => None,
        };
        // After a refusal with a status of 500 or more something may have changed.
        let is_certain = error.surely_unapplied();
        let fallback = if refusal.is_some() && is_certain { Code::Refused } else { Code::Internal };
        let detail = error.problem().map_or_else(|| error.to_string(), |it| it.detail.clone());
        StoreError::Remote(Box::new(RemoteProblem {
            code: code.unwrap_or(fallback),
            detail,
            refusal,
            is_retryable: error.is_retryable(),
        }))
    }
}

/// Connects to a program that is served at this URL: `http://127.0.0.1:8787`. Over `https://` the
/// certificate must be of an authority that this machine trusts, or of one of
/// [`Connection::ca_file`]. Nothing is sent before the first operation. Cheap to clone; clones
/// share their connections.
///
/// ```no_run
/// # use steadfast_api::{connect, queues::ShowQueue};
/// # async fn ask() -> Result<(), steadfast_api::ApiError> {
/// let program = connect("http://127.0.0.1:8787");
/// let queue = program.send(&ShowQueue { queue: "mail".into() }).await?;
/// println!("{} messages", queue.depth);
/// # Ok(()) }
/// ```
pub fn connect(url: impl AsRef<str>) -> Connection {
    Connection {
        url: url.as_ref().trim_end_matches('/').into(),
        token: None,
        transport: Arc::new(Http::new(Connector::new(Vec::new()))),
    }
}

/// A connection to a program. [`client`](Self::client) gives the typed verbs of the library.
#[derive(Clone)]
pub struct Connection {
    url: String,
    token: Option<String>,
    transport: Arc<dyn Transport>,
}

impl Connection {
    /// A connection over another transport; `url` names the program in errors.
    pub fn over(url: impl Into<String>, transport: Arc<dyn Transport>) -> Self {
        Self { url: url.into(), token: None, transport }
    }

    /// Sends this token with every request.
    pub fn token(mut self, token: impl Into<String>) -> Self {
        self.token = Some(token.into());
        self
    }

    /// Also trusts the certificates of this file, in PEM: for https with a private authority. Fails
    /// if the file has none.
    pub fn ca_file(mut self, file: impl AsRef<Path>) -> Result<Self, ApiError> {
        let authorities = read_authorities(file.as_ref());
        let authorities = authorities.map_err(|reason| ApiError::Invalid { reason })?;
        self.transport = Arc::new(Http::new(Connector::new(authorities)));
        Ok(self)
    }

    /// The address of the program, without a user name and a password.
    pub fn url(&self) -> String {
        let Some((scheme, rest)) = self.url.split_once("://") else { return self.url.clone() };
        let (host, path) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
        let host = host.rsplit_once('@').map_or(host, |it| it.1);
        format!("{scheme}://{host}{path}")
    }

    /// A client with the same type and verbs as within the program.
    pub fn client(&self) -> steadfast_core::Client {
        steadfast_core::Client::remote(Arc::new(self.clone()))
    }

    /// Sends an operation and parses the response.
    pub async fn send<O: Operation>(&self, operation: &O) -> Result<O::Response, ApiError> {
        let text = self.request(operation).await?;
        let text = if text.is_empty() { "null" } else { &text };
        O::parse_response(text).map_err(|error| self.unreadable(&error))
    }

    /// Sends an operation and returns the text of the response.
    pub fn request<O: Operation>(&self, operation: &O) -> ApiFuture<'_, String> {
        self.request_raw(operation.write())
    }

    /// [`Connection::request`], compiled once for all operations.
    fn request_raw(&self, written: Result<RawRequest, String>) -> ApiFuture<'_, String> {
        Box::pin(async move {
            let invalid = |reason: String| ApiError::Invalid { reason };
            let RawRequest { method, uri, body, key } = written.map_err(invalid)?;
            let mut request = self.start(method.name(), &uri);
            if body.is_some() {
                request = request.header(header::CONTENT_TYPE, "application/json");
            }
            if let Some(key) = key {
                let key = HeaderValue::from_str(&key);
                let key =
                    key.map_err(|_| invalid("an idempotency key must be visible ASCII".into()))?;
                request = request.header("idempotency-key", key);
            }
            let request = request.body(payload(body.unwrap_or_default()));
            let request = request.map_err(|error| invalid(error.to_string()))?;
            let bytes = match method {
                Method::Get => {
                    let read = tokio::time::timeout(READ_TIMEOUT, self.bytes(request)).await;
                    read.map_err(|_| self.no_response("it took longer than 90 seconds"))??
                }
                Method::Post | Method::Put | Method::Delete => self.bytes(request).await?,
            };
            String::from_utf8(bytes.into()).map_err(|error| self.unreadable(&error))
        })
    }

    /// Starts a request to a path of the program.
    pub fn start(&self, method: &str, path: &str) -> http::request::Builder {
        let mut request = Request::builder().method(method).uri(format!("{}{path}", self.url));
        if let Some(token) = &self.token {
            request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
        }
        request
    }

    /// Sends a request and returns the bytes of a successful response.
    pub fn bytes(&self, request: Request<Payload>) -> ApiFuture<'_, Bytes> {
        Box::pin(async move {
            let answer = self.exchange(request).await?;
            self.whole(answer).await
        })
    }

    /// Sends a request and returns a successful response, whose body has not been read.
    pub fn exchange(&self, request: Request<Payload>) -> ApiFuture<'_, Response<Payload>> {
        Box::pin(self.exchange_now(request))
    }

    async fn exchange_now(&self, request: Request<Payload>) -> Result<Response<Payload>, ApiError> {
        if !matches!(request.uri().scheme_str(), Some("http" | "https")) {
            let reason = format!("URL `{}` must be like http://127.0.0.1:8787", self.url());
            return Err(ApiError::Invalid { reason });
        }
        let sent = self.transport.exchange(request).await;
        let answer = sent.map_err(|cause| ApiError::NoAnswer { url: self.url(), cause })?;
        if answer.status().is_success() {
            return Ok(answer);
        }
        let status = answer.status();
        let body = self.whole(answer).await?;
        match serde_json::from_str::<ProblemBody>(&String::from_utf8_lossy(&body)) {
            Ok(problem) => Err(ApiError::Problem(Box::new(problem))),
            Err(_) => Err(self.unreadable(&format!("it answered with status {status}"))),
        }
    }

    async fn whole(&self, answer: Response<Payload>) -> Result<Bytes, ApiError> {
        let limited = Limited::new(answer.into_body(), BODY_BYTES_MAX);
        let read = limited.collect().await;
        read.map(http_body_util::Collected::to_bytes)
            .map_err(|it| self.no_response(&it.to_string()))
    }

    fn no_response(&self, reason: &str) -> ApiError {
        let cause = NoAnswer { reason: reason.into(), may_have_arrived: true };
        ApiError::NoAnswer { url: self.url(), cause }
    }

    fn unreadable(&self, reason: &impl fmt::Display) -> ApiError {
        ApiError::Unreadable { url: self.url(), reason: reason.to_string() }
    }
}

/// Waits for "100 Continue" before sending the body, so that a refusal arrives first. Without an
/// answer the body is sent after one second.
fn await_continue(mut request: Request<Payload>) -> Request<Payload> {
    const CONTINUE_TIMEOUT: Duration = Duration::from_secs(1);
    let wanted = Arc::new(tokio::sync::Notify::new());
    let heard = wanted.clone();
    hyper::ext::on_informational(&mut request, move |_| heard.notify_one());
    request.map(|body| {
        let start = (Some(wanted), body);
        let frames = stream::try_unfold(start, async |(wanted, mut body)| {
            if let Some(wanted) = wanted {
                let _ = tokio::time::timeout(CONTINUE_TIMEOUT, wanted.notified()).await;
            }
            let frame = body.frame().await.transpose()?;
            Ok(frame.map(|it| (it, (None, body))))
        });
        BodyExt::boxed_unsync(StreamBody::new(frames))
    })
}

/// Transport over HTTP.
struct Http(HttpClient<Connector, Payload>);

impl Http {
    fn new(connector: Connector) -> Self {
        Self(HttpClient::builder(TokioExecutor::new()).build(connector))
    }
}

impl Transport for Http {
    fn exchange(&self, mut request: Request<Payload>) -> ResponseFuture {
        if request.headers().contains_key(header::EXPECT) {
            request = await_continue(request);
        }
        let sent = self.0.request(request);
        Box::pin(async move {
            let answer = sent.await.map_err(|error| {
                let mut reason = error.to_string();
                let mut cause = std::error::Error::source(&error);
                while let Some(error) = cause {
                    reason = format!("{reason}: {error}");
                    cause = error.source();
                }
                NoAnswer { reason, may_have_arrived: !error.is_connect() }
            })?;
            Ok(answer.map(|body| body.map_err(BrokenBody::because).boxed_unsync()))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_does_not_become_surer_when_it_is_converted() {
        let refused = "urn:steadfast:problem:refused";
        for (type_, code, status) in [
            (refused, "sold_out", 422),
            (refused, "sold_out", 500),
            (refused, "sold_out", 503),
            ("about:blank", "sold_out", 409),
            ("about:blank", "sold_out", 502),
            (refused, "busy", 429),
            ("", "outcome_unknown", 503),
        ] {
            let (type_, code) = (type_.to_owned(), code.to_owned());
            let problem = ProblemBody { type_, code, status, ..ProblemBody::default() };
            let error = ApiError::Problem(Box::new(problem));
            let converted = StoreError::from(error.clone());
            assert_eq!(converted.surely_unapplied(), error.surely_unapplied(), "{error:?}");
        }
    }
}
