//! One request: resolve, connect, encrypt, ask, read.

use std::{io, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, Request, Response, Version, header};
use http_body_util::Empty;
use hyper::{
    body::Incoming,
    client::conn::{http1, http2},
    rt::{Executor, Read, Write},
};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use percent_encoding::{AsciiSet, percent_encode};
use steadfast_egress::Target;
use tokio::{
    task::AbortHandle,
    time::{Instant, timeout_at},
};

use super::{Method, Prober, body, failed, headers, redact::redacted_url, refused, tls};
use crate::envelope::{Hop, Platform, ProbeError, ProbeErrorCode, ResponseMetadata, Timing};

/// How much of a head is read.
const HEAD_BYTES_MAX: usize = 64 << 10;
/// How many headers are read.
const HEADERS_MAX: usize = 200;
/// Limits of an HTTP/2 server's unrequested frames.
const WINDOW_BYTES: u32 = 256 << 10;

/// The end of one request.
pub(super) struct Visit {
    pub(super) hop: Hop,
    pub(super) end: End,
}

/// The end of one request.
pub(super) enum End {
    /// A redirect, with its `Location`.
    Redirect(Option<String>),
    /// Anything else.
    Answer(Box<Answer>),
}

/// The last response.
pub(super) struct Answer {
    pub(super) response: ResponseMetadata,
    pub(super) platform: Platform,
    pub(super) place: headers::Place,
}

/// The tasks that drive a connection. HTTP/2 starts some of its own, which would wait for a peer
/// that never reads; all of them end with the request.
#[derive(Clone, Default)]
struct Driver(Arc<Mutex<Vec<AbortHandle>>>);

impl<Work> Executor<Work> for Driver
where
    Work: Future<Output: Send> + Send + 'static,
{
    fn execute(&self, work: Work) {
        let handle = tokio::spawn(work).abort_handle();
        self.0.lock().push(handle);
    }
}

/// Ends the tasks.
struct Driven(Driver);

impl Drop for Driven {
    fn drop(&mut self) {
        for handle in self.0.0.lock().iter() {
            handle.abort();
        }
    }
}

/// Runs a phase until the time is up.
async fn phase<T>(
    deadline: Instant,
    what: &str,
    work: impl Future<Output = Result<T, ProbeError>>,
) -> Result<(T, f64), ProbeError> {
    let start = Instant::now();
    match timeout_at(deadline, work).await {
        Ok(done) => Ok((done?, millis(start.elapsed()))),
        Err(_) => Err(failed(ProbeErrorCode::Timeout, format!("the time is up while {what}"))),
    }
}

/// To the hundredth: more is noise.
fn millis(time: Duration) -> f64 {
    (time.as_secs_f64() * 100_000.0).round() / 100.0
}

/// Asks one target, which has been checked.
pub(super) async fn visit(
    prober: &Prober,
    target: &Target,
    deadline: Instant,
) -> Result<Visit, ProbeError> {
    let start = Instant::now();
    let gate = &prober.gate;
    let resolve = async { gate.resolve(target).await.map_err(refused) };
    let (pinned, dns_ms) = phase(deadline, "resolving the name", resolve).await?;
    let connect = async { gate.connect(&pinned).await.map_err(|error| unreachable(&error)) };
    let ((stream, address), connect_ms) = phase(deadline, "connecting", connect).await?;
    let mut timing = Timing { dns_ms, connect_ms, ..Timing::default() };
    let mut encrypted = None;
    let ((response, driven), first_byte_ms) = if target.is_https() {
        let handshake = tls::connect(prober.trust(), target, stream);
        let ((stream, seen), tls_ms) = phase(deadline, "encrypting", handshake).await?;
        timing.tls_ms = Some(tls_ms);
        let is_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
        encrypted = Some(seen);
        let ask = ask(prober, target, TokioIo::new(stream), is_http2);
        phase(deadline, "waiting for the answer", ask).await?
    } else {
        let ask = ask(prober, target, TokioIo::new(stream), false);
        phase(deadline, "waiting for the answer", ask).await?
    };
    timing.first_byte_ms = first_byte_ms;
    let mut resolved: Vec<String> =
        pinned.addresses().iter().map(|it| it.ip().to_string()).collect();
    resolved.sort();
    let mut hop = Hop {
        url: redacted_url(target.url().as_str()),
        status: response.status().as_u16(),
        protocol: protocol(response.version()).to_owned(),
        resolved,
        address: address.to_string(),
        timing,
        tls: encrypted,
    };
    let end = match redirect(&response) {
        Some(location) => End::Redirect(location),
        None => End::Answer(Box::new(read(prober, target, response, deadline).await)),
    };
    drop(driven);
    hop.timing.total_ms = millis(start.elapsed());
    Ok(Visit { hop, end })
}

fn unreachable(error: &io::Error) -> ProbeError {
    let is_late = error.kind() == io::ErrorKind::TimedOut;
    let code = if is_late { ProbeErrorCode::Timeout } else { ProbeErrorCode::FetchError };
    failed(code, format!("no connection: {error}"))
}

fn protocol(version: Version) -> &'static str {
    match version {
        Version::HTTP_10 => "HTTP/1.0",
        Version::HTTP_2 => "HTTP/2",
        _ => "HTTP/1.1",
    }
}

/// Sends the request and waits for the head of the answer.
async fn ask<S>(
    prober: &Prober,
    target: &Target,
    stream: S,
    is_http2: bool,
) -> Result<(Response<Incoming>, Driven), ProbeError>
where
    S: Read + Write + Unpin + Send + 'static,
{
    let broken = |error: hyper::Error| {
        let message = format!("no answer that can be read: {}", chain(&error));
        failed(ProbeErrorCode::FetchError, message)
    };
    let request = request(prober, target, is_http2)?;
    let driver = Driver::default();
    let driven = Driven(driver.clone());
    let response = if is_http2 {
        let mut builder = http2::Builder::new(driver.clone());
        builder.max_header_list_size(HEAD_BYTES_MAX as u32);
        // No more of a body than that is in memory before it is read.
        builder.initial_stream_window_size(WINDOW_BYTES);
        builder.initial_connection_window_size(WINDOW_BYTES);
        let (mut sender, connection) = builder.handshake(stream).await.map_err(broken)?;
        driver.execute(connection);
        sender.send_request(request).await
    } else {
        let mut builder = http1::Builder::new();
        builder.max_buf_size(HEAD_BYTES_MAX).max_headers(HEADERS_MAX);
        let (mut sender, connection) = builder.handshake(stream).await.map_err(broken)?;
        driver.execute(connection);
        sender.send_request(request).await
    };
    Ok((response.map_err(broken)?, driven))
}

/// An error with its causes: hyper keeps the interesting part to itself.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        text = format!("{text}: {cause}");
        next = cause.source();
    }
    text
}

/// The request. Its host comes from the URL alone, and it offers no upgrade.
fn request(
    prober: &Prober,
    target: &Target,
    is_http2: bool,
) -> Result<Request<Empty<Bytes>>, ProbeError> {
    let url = target.url();
    let host = url.host_str().unwrap_or_default();
    let authority = match url.port() {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    };
    let path = &url[url::Position::BeforePath..url::Position::AfterQuery];
    let uri = if is_http2 { format!("https://{authority}{path}") } else { path.to_owned() };
    let method = match prober.options.method {
        Method::Get => http::Method::GET,
        Method::Head => http::Method::HEAD,
    };
    let mut builder = Request::builder()
        .method(method)
        .uri(uri)
        .header(header::USER_AGENT, &prober.options.user_agent)
        .header(header::ACCEPT, "*/*")
        .header(header::ACCEPT_ENCODING, "gzip");
    if !is_http2 {
        builder = builder.header(header::HOST, authority);
    }
    builder.body(Empty::new()).map_err(|error| {
        failed(ProbeErrorCode::InvalidUrl, format!("the URL makes no request: {error}"))
    })
}

/// The `Location` of a redirect, if the answer is one.
fn redirect(response: &Response<Incoming>) -> Option<Option<String>> {
    let is_redirect = matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308);
    is_redirect.then(|| location(response.headers()))
}

fn location(headers: &HeaderMap) -> Option<String> {
    let bytes = headers.get(header::LOCATION)?.as_bytes();
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text.trim().to_owned(),
        // Bytes of another encoding mean themselves, as they do to browsers.
        Err(_) => percent_encode(bytes, &AsciiSet::EMPTY).to_string(),
    };
    (!text.is_empty()).then_some(text)
}

/// Reads the last response.
async fn read(
    prober: &Prober,
    target: &Target,
    response: Response<Incoming>,
    deadline: Instant,
) -> Answer {
    let (head, incoming) = response.into_parts();
    let sorted = headers::sort(&head.headers);
    let length = head.headers.get(header::CONTENT_LENGTH).and_then(|it| it.to_str().ok());
    let length = length.and_then(|it| it.trim().parse().ok());
    let encoding = head.headers.get(header::CONTENT_ENCODING).map(|it| it.as_bytes());
    let encoding = body::Encoding::of(encoding.unwrap_or_default());
    let mut answer = Answer {
        response: ResponseMetadata {
            status: head.status.as_u16(),
            final_url: redacted_url(target.url().as_str()),
            content_type: sorted.groups.core.get("content-type").cloned(),
            headers: sorted.groups,
            cookies: sorted.cookies,
            content_length: length,
            body_hash: None,
            hashed_bytes: None,
            body_error: None,
        },
        platform: sorted.platform,
        place: sorted.place,
    };
    if prober.options.method == Method::Head {
        // As below.
        answer.response.content_length = length.filter(|_| encoding == body::Encoding::Plain);
        return answer;
    }
    let max = prober.options.body_bytes_max;
    let read = body::read(incoming, encoding, max, deadline).await;
    let response = &mut answer.response;
    match read {
        Ok(read) if read.is_whole => {
            response.content_length = Some(read.bytes);
            response.body_hash = Some(read.hash);
        }
        Ok(read) => {
            // The header tells of compressed bytes, which compare with nothing.
            response.content_length = length.filter(|_| encoding == body::Encoding::Plain);
            response.body_hash = Some(read.hash);
            response.hashed_bytes = Some(read.bytes);
        }
        Err(code) => {
            response.content_length = length.filter(|_| encoding == body::Encoding::Plain);
            response.body_error = Some(code);
        }
    }
    answer
}
