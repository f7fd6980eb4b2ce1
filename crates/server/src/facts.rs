//! The facts of a request that its response, its metrics, its log line and its audit record need.
//! They are collected once, before the request is consumed.

use std::{
    borrow::Cow,
    io::Write,
    net::IpAddr,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Uri, header, request::Parts};
use steadfast_store::{Entropy, SeededEntropy};

use crate::{
    listener::ConnectionInfo,
    network::{Scheme, is_own_name},
    path::base_path,
    transport::ClientInfo,
    waiting::asks_to_wait,
};

/// The facts of one request.
pub(crate) struct RequestFacts {
    /// The id of the request.
    pub(crate) id: RequestId,
    /// The method.
    pub(crate) method: Method,
    /// The URL, without the prefix of a host program.
    pub(crate) uri: Uri,
    /// The path of the route, with the prefix of a host program; `None` if no route matches.
    pub(crate) route: Option<Cow<'static, str>>,
    /// The path prefix under which a host program serves the routes, or nothing.
    pub(crate) base: String,
    /// The connection, if the request came through a port.
    pub(crate) connection: Option<ConnectionInfo>,
    /// Whether browsers shall ask this host over TLS only.
    pub(crate) is_strict: bool,
    /// Whether a browser would run the response as a script or apply it as a style.
    pub(crate) is_for_code: bool,
    /// Whether the client is a browser that follows a link: it gets pages.
    pub(crate) wants_page: bool,
    /// Whether the request waits by design: then its duration is not a latency.
    pub(crate) waits: bool,
    /// When it arrived, by the clock of the store.
    pub(crate) begun: Duration,
}

impl RequestFacts {
    /// The facts of a request to a route.
    pub(crate) fn of(
        (ids, begun): (&RequestIds, Duration),
        route: Option<Cow<'static, str>>,
        parts: &Parts,
        connection: Option<ConnectionInfo>,
    ) -> Self {
        let (uri, headers) = (&parts.uri, &parts.headers);
        Self {
            id: ids.of(headers),
            method: parts.method.clone(),
            uri: uri.clone(),
            base: base_path(parts).to_owned(),
            is_strict: connection.as_ref().is_some_and(|it| is_strict(&it.client)),
            connection,
            is_for_code: fetches_code(headers),
            wants_page: wants_page(uri.path(), headers),
            waits: waits(route.as_deref().unwrap_or_default(), uri.query()),
            route,
            begun,
        }
    }

    /// The path, without the prefix of a host program.
    pub(crate) fn path(&self) -> &str {
        self.uri.path()
    }

    /// The address of the client, if the request came through a port.
    pub(crate) fn address(&self) -> Option<IpAddr> {
        self.connection.as_ref().map(|it| it.client.address)
    }
}

/// The id of a request. It matches its response, log lines and reports.
#[derive(Clone, Debug)]
pub(crate) struct RequestId(HeaderValue);

impl RequestId {
    /// The header of the id in requests and responses.
    pub(crate) const HEADER: HeaderName = HeaderName::from_static("x-request-id");

    /// The id as text.
    pub(crate) fn as_str(&self) -> &str {
        self.0.to_str().unwrap_or_default()
    }

    /// The id as the value of a header.
    pub(crate) fn into_header(self) -> HeaderValue {
        self.0
    }
}

/// Maximum length of an id from a caller, in bytes.
const LEN_MAX: usize = 64;

/// Maximum length of a new id: 16 hexadecimal digits, a dash and a number of 64 bits.
const NEW_LEN_MAX: usize = 16 + 1 + 20;

/// Makes request ids, unique across processes.
#[derive(Debug)]
pub(crate) struct RequestIds {
    start: u64,
    count: AtomicU64,
}

impl RequestIds {
    /// Starts at a random number.
    pub(crate) fn new() -> Self {
        Self { start: SeededEntropy::from_system().next(), count: AtomicU64::new(1) }
    }

    /// The id of a request: its own if it is safe to repeat, else a new one.
    pub(crate) fn of(&self, headers: &HeaderMap) -> RequestId {
        let given = headers.get(RequestId::HEADER);
        if let Some(given) = given.filter(|it| it.to_str().is_ok_and(is_harmless)) {
            return RequestId(given.clone());
        }
        let count = self.count.fetch_add(1, Ordering::Relaxed);
        let mut text = [0_u8; NEW_LEN_MAX];
        let mut rest = &mut text[..];
        // The text fits, and has only digits and a dash.
        let _ = write!(rest, "{:016x}-{count}", self.start);
        let length = NEW_LEN_MAX - rest.len();
        let id = HeaderValue::from_bytes(&text[..length]);
        RequestId(id.unwrap_or(HeaderValue::from_static("-")))
    }
}

fn is_harmless(id: &str) -> bool {
    let fits = |it: u8| it.is_ascii_alphanumeric() || matches!(it, b'-' | b'_' | b'.');
    (1..=LEN_MAX).contains(&id.len()) && id.bytes().all(fits)
}

/// Uses of a response that run it, in the header `Sec-Fetch-Dest`.
const CODE: [&str; 8] = [
    "script",
    "style",
    "worker",
    "sharedworker",
    "serviceworker",
    "audioworklet",
    "paintworklet",
    "xslt",
];

/// Whether a browser would run the response as a script or apply it as a style.
pub(crate) fn fetches_code(headers: &HeaderMap) -> bool {
    let dest = headers.get("sec-fetch-dest").and_then(|it| it.to_str().ok());
    dest.is_some_and(|it| CODE.contains(&it))
}

/// Whether a client asks for a media type.
pub(crate) fn accepts(headers: &HeaderMap, media_type: &str) -> bool {
    let accept = headers.get(header::ACCEPT).and_then(|it| it.to_str().ok());
    accept.is_some_and(|it| it.contains(media_type))
}

/// Browsers that follow a link get a page; all other clients get JSON.
fn wants_page(path: &str, headers: &HeaderMap) -> bool {
    !path.starts_with("/v1/") && accepts(headers, "text/html")
}

/// Whether browsers shall ask this host over TLS only. Every port of a name of this machine would
/// be meant, also those of other programs.
fn is_strict(client: &ClientInfo) -> bool {
    client.scheme == Scheme::Https && !client.host.as_deref().is_some_and(is_own_name)
}

/// Whether a request waits by design: then its duration is not a latency.
fn waits(route: &str, query: Option<&str>) -> bool {
    let by_route = ["/connect", "/events", "/pull"].iter().any(|it| route.ends_with(it));
    by_route || query.is_some_and(asks_to_wait)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id_for(given: &'static str) -> String {
        let headers = HeaderMap::from_iter([(RequestId::HEADER, HeaderValue::from_static(given))]);
        RequestIds::new().of(&headers).as_str().to_owned()
    }

    #[test]
    fn a_valid_request_id_is_kept_and_an_invalid_one_is_replaced() {
        assert_eq!(id_for("trace-1.A_b"), "trace-1.A_b");
        for strange in [
            "",
            "a b",
            "<script>",
            "0123456789012345678901234567890123456789012345678901234567890123x",
        ] {
            assert_ne!(id_for(strange), strange);
        }
    }

    #[test]
    fn two_requests_have_two_ids() {
        let ids = RequestIds::new();
        let (one, other) = (ids.of(&HeaderMap::new()), ids.of(&HeaderMap::new()));
        assert_ne!(one.as_str(), other.as_str());
        assert!(one.as_str().len() == 18 && one.as_str().ends_with("-1"), "{one:?}");
        // The largest number fits.
        let last = RequestIds { start: u64::MAX, count: AtomicU64::new(u64::MAX) };
        assert_eq!(last.of(&HeaderMap::new()).as_str(), format!("{:x}-{}", u64::MAX, u64::MAX));
    }
}
