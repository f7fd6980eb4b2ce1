//! Completes the response of every request: an id, security headers, one form of errors, pages with
//! the navigation of this program. Counts the request.

use std::{borrow::Cow, sync::LazyLock, time::Duration};

use axum::{
    body::Body,
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde_json::{Map, Value};
use steadfast_api::{Code, ProblemBody};
use steadfast_core::object::Caller;
use steadfast_store::secret_text;
use steadfast_web::{
    Page, Problem, Web,
    console::{Shell, Visitor},
};

use crate::{
    access::ended,
    facts::{RequestFacts, RequestId},
    listener::ConnectionSlot,
    pages,
    server::Server,
};

/// Length of a nonce, with 5 random bits per letter.
const NONCE_LEN: usize = 26;
const NONCE_LETTERS: &[u8] = b"abcdefghijklmnopqrstuvwxyz234567";

/// Maximum size in bytes of a problem that a foreign router describes.
const PROBLEM_BYTES: usize = 64 << 10;

/// The label of requests that match no route.
static UNMATCHED: Cow<'static, str> = Cow::Borrowed("unmatched");

/// Completes a response, and counts the request. The caller is known if the request was admitted.
pub(crate) async fn complete(
    server: &Server,
    facts: RequestFacts,
    mut response: Response,
    caller: Option<Caller>,
) -> Response {
    let slot = facts.connection.as_ref().map(|it| &it.slot);
    // Also a refusal has the caller, if it has a known credential.
    let caller = caller.or_else(|| response.extensions_mut().remove::<Caller>());
    if facts.is_for_code && is_sandboxed(&response) {
        let detail = "a stored file is never a script or a style of a page";
        response = Problem::of(Code::ForeignOrigin, detail).into_response();
    }
    if slot.is_some_and(ConnectionSlot::was_ended) {
        response = Problem::of(Code::TokenRevoked, ended::ENDED).into_response();
    } else if slot.is_some_and(ConnectionSlot::was_slow) {
        response = slow(server.transport.client_timeout).into_response();
    }
    let (path, request_id) = (facts.path(), facts.id.as_str());
    if let Some(problem) = problem_of(&mut response) {
        let body = problem.body(path, request_id);
        if response.status().is_server_error() {
            tracing::error!(request_id, code = body.code, error = body.detail, "request failed");
        }
        // An application may show the problem on its own page.
        if response.extensions().get::<Page>().is_none() {
            response = rendered(response, &problem, body, facts.wants_page);
        }
    } else if is_problem(&response) {
        response = completed(response, path, request_id).await;
    }
    if let Some(page) = response.extensions_mut().remove::<Page>() {
        response = in_shell(server, response, &page, (&facts.base, path), caller.as_ref());
    }
    if !facts.base.is_empty() {
        redirect_below(&facts.base, response.headers_mut());
    }
    count(server, &facts, response.status());
    add_headers(response.headers_mut(), facts.id, facts.is_strict);
    response
}

/// Counts a request, and logs it.
fn count(server: &Server, facts: &RequestFacts, status: StatusCode) {
    let route = facts.route.as_ref().unwrap_or(&UNMATCHED);
    server.metrics.count_request(route.clone(), &facts.method, status);
    let elapsed = || server.runtime.store().clock().elapsed();
    let took = (!facts.waits).then(|| elapsed().saturating_sub(facts.begun));
    server.history.count_request(took, status.is_server_error());
    let RequestFacts { id, method, .. } = facts;
    let (request_id, status) = (id.as_str(), status.as_u16());
    let client = facts.address().map(tracing::field::display);
    // The path of a webhook has a secret.
    let path: &str = if facts.path().starts_with("/webhooks/") { route } else { facts.path() };
    tracing::debug!(request_id, %method, path, client, status, "request");
}

/// Whether a response is a stored file: those have the policy `sandbox`.
fn is_sandboxed(response: &Response) -> bool {
    let policy = response.headers().get(header::CONTENT_SECURITY_POLICY);
    policy.and_then(|it| it.to_str().ok()).is_some_and(|it| it.contains("sandbox"))
}

fn slow(timeout: Duration) -> Problem {
    let detail = format!(
        "the body did not arrive in time: a client has {} s, plus one second per KiB that it sends",
        timeout.as_secs()
    );
    Problem::of(Code::SlowRequest, detail)
}

/// The problem of a handler, or one for an error from elsewhere.
fn problem_of(response: &mut Response) -> Option<Problem> {
    let status = response.status();
    let left = response.extensions_mut().remove::<Problem>();
    let is_error = status.is_client_error() || status.is_server_error();
    let content_type = response.headers().get(header::CONTENT_TYPE);
    let is_ours = || content_type.is_some_and(|it| it != "text/plain; charset=utf-8");
    left.or_else(|| (is_error && !is_ours()).then(|| of_status(status)))
}

/// The problem for a status that a foreign layer returned.
fn of_status(status: StatusCode) -> Problem {
    match status {
        StatusCode::PAYLOAD_TOO_LARGE => {
            Problem::of(Code::TooLarge, "the body is larger than 2 MiB")
        }
        _ if status.is_client_error() => Problem::of(Code::BadRequest, status.to_string()),
        _ => Problem::of(Code::Internal, status.to_string()),
    }
}

fn rendered(response: Response, problem: &Problem, body: ProblemBody, page: bool) -> Response {
    let status = response.status();
    let kept = [header::ALLOW, header::CONTENT_RANGE, header::WWW_AUTHENTICATE];
    let kept = kept.map(|name| response.headers().get(&name).cloned().map(|value| (name, value)));
    let mut rendered = if page {
        (status, pages::failure(&body)).into_response()
    } else {
        let json = serde_json::to_string(&body).unwrap_or_default();
        let content_type = [(header::CONTENT_TYPE, "application/problem+json")];
        (status, content_type, json).into_response()
    };
    let headers = rendered.headers_mut();
    if let Some(seconds) = problem.retry_after() {
        headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    headers.extend(kept.into_iter().flatten());
    rendered
}

/// Renders a page with the navigation of this program and a new nonce.
fn in_shell(
    server: &Server,
    response: Response,
    page: &Page,
    (base, path): (&str, &str),
    caller: Option<&Caller>,
) -> Response {
    let Ok(nonce) = secret_text(NONCE_LEN, NONCE_LETTERS) else {
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    };
    let pages = server.runtime.extension::<Web>().map_or(&[][..], |it| &it.pages);
    let visitor = match caller {
        Some(Caller::Principal(it)) => Visitor::Principal(&it.token, it.role.name()),
        Some(Caller::Anonymous) if server.is_open() => Visitor::Anybody,
        Some(_) | None => Visitor::Unknown,
    };
    let html = Shell { pages, base, path, nonce: &nonce, visitor }.render(page);
    let (mut parts, _) = response.into_parts();
    parts.headers.remove(header::CONTENT_LENGTH);
    // A stored file has the same origin, but no nonce.
    let policy = policy(&format!("'nonce-{nonce}'"));
    parts.headers.insert(header::CONTENT_SECURITY_POLICY, policy);
    Response::from_parts(parts, Body::from(html))
}

/// Handlers redirect to paths from `/`; a host program may serve them below a prefix.
fn redirect_below(base: &str, headers: &mut HeaderMap) {
    let to = headers.get(header::LOCATION).and_then(|it| it.to_str().ok());
    let to = to.filter(|it| it.starts_with('/') && !it.starts_with("//"));
    // axum serves the root of nested routes without a trailing slash.
    let to = to.map(|it| format!("{base}{}", if it == "/" { "" } else { it }));
    if let Some(Ok(to)) = to.map(|it| HeaderValue::from_str(&it)) {
        headers.insert(header::LOCATION, to);
    }
}

/// The policy of responses that are no pages.
static NO_CODE: LazyLock<HeaderValue> = LazyLock::new(|| policy("'none'"));

/// Content security policy of a page: it may load files of this server only. `code` is the source
/// of its scripts and styles.
fn policy(code: &str) -> HeaderValue {
    let policy = format!(
        "default-src 'none'; style-src {code}; script-src {code}; img-src 'self'; \
         media-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; \
         frame-ancestors 'none'"
    );
    HeaderValue::from_str(&policy).unwrap_or(HeaderValue::from_static("default-src 'none'"))
}

/// Whether a foreign router, which does not know [`Problem`], has described a problem itself.
fn is_problem(response: &Response) -> bool {
    let kind = response.headers().get(header::CONTENT_TYPE);
    kind.is_some_and(|it| it == "application/problem+json")
}

/// Adds the fields of a problem that a foreign router does not know or does not set.
async fn completed(response: Response, path: &str, request_id: &str) -> Response {
    let (mut parts, body) = response.into_parts();
    let bytes = axum::body::to_bytes(body, PROBLEM_BYTES).await.unwrap_or_default();
    let Ok(mut problem) = serde_json::from_slice::<Map<String, Value>>(&bytes) else {
        return Response::from_parts(parts, Body::from(bytes));
    };
    problem.entry("instance").or_insert(path.into());
    problem.entry("requestId").or_insert(request_id.into());
    let is_passing = Code::is_passing(parts.status.as_u16());
    problem.entry("retryable").or_insert(is_passing.into());
    parts.headers.remove(header::CONTENT_LENGTH);
    Response::from_parts(parts, Body::from(Value::Object(problem).to_string()))
}

/// The header that keeps other origins from embedding a response.
const RESOURCE_POLICY: HeaderName = HeaderName::from_static("cross-origin-resource-policy");

fn add_headers(headers: &mut HeaderMap, id: RequestId, is_strict: bool) {
    headers.insert(RequestId::HEADER, id.into_header());
    // Pages and stored files have set their own. `'self'` would admit stored files as scripts.
    headers.entry(header::CONTENT_SECURITY_POLICY).or_insert_with(|| NO_CODE.clone());
    for (name, value) in [
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        // With `no-referrer`, a browser would send `Origin: null` with our own forms.
        (header::REFERRER_POLICY, "same-origin"),
        (RESOURCE_POLICY, "same-origin"),
    ] {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    }
    if is_strict {
        let year = HeaderValue::from_static("max-age=31536000");
        headers.entry(header::STRICT_TRANSPORT_SECURITY).or_insert(year);
    }
    // Messages are private; assets set their own caching.
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
}
