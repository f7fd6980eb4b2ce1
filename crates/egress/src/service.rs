//! Clients of services that the operator named and that get a secret: providers of models.

use std::{sync::Arc, time::Duration};

use serde_json::Value;
use tokio::sync::Semaphore;
use ureq::{
    Agent,
    http::HeaderMap,
    tls::{Certificate, RootCerts, TlsConfig},
};

/// Options of a [`Service`].
#[derive(Clone, Copy)]
pub struct ServiceOptions<'a> {
    /// The URL that requests are posted to.
    pub url: &'a str,
    /// The secret, sent as a bearer token.
    pub key: Option<&'a str>,
    /// Timeout of one request, from the first byte sent to the last one read.
    pub timeout: Duration,
    /// Maximum concurrent requests; further ones wait.
    pub concurrent: usize,
    /// Maximum bytes of a response.
    pub answer_bytes_max: u64,
}

/// A service behind an HTTP API. Clones share its limit of concurrent requests.
#[derive(Clone)]
pub struct Service {
    poster: Arc<Poster>,
    places: Arc<Semaphore>,
}

impl std::fmt::Debug for Service {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Service").field("url", &self.poster.url).finish_non_exhaustive()
    }
}

impl Service {
    /// A client; `None` if the URL is not plain http or https, or the key has other characters than
    /// visible ASCII.
    pub fn new(options: ServiceOptions<'_>) -> Option<Self> {
        let ServiceOptions { url, key, timeout, concurrent, answer_bytes_max } = options;
        let is_plain = |it: &str| !it.is_empty() && it.bytes().all(|it| it.is_ascii_graphic());
        let is_web = url.starts_with("https://") || url.starts_with("http://");
        // A user, a query or a fragment in front of what is appended would change its meaning.
        let is_bare = !url.contains(['?', '#']) && !has_user(url);
        if !is_web || !is_bare || !is_plain(url) || !key.is_none_or(is_plain) {
            return None;
        }
        let authorization = key.map(|it| format!("Bearer {it}"));
        let (agent, url) = (agent(url, timeout), url.to_owned());
        let poster = Arc::new(Poster { agent, url, authorization, answer_bytes_max });
        Some(Self { poster, places: Arc::new(Semaphore::new(concurrent.max(1))) })
    }

    /// Waits for a place, then makes the work and runs it on a blocking thread: callers that wait
    /// hold no request in memory. `None` if the work panicked or the program ends.
    ///
    /// Dropping the future does not stop work that has begun: the service may have the request.
    pub async fn run<T, W>(&self, work: impl FnOnce() -> W) -> Option<T>
    where
        T: Send + 'static,
        W: FnOnce(&Poster) -> T + Send + 'static,
    {
        let place = Arc::clone(&self.places).acquire_owned().await.ok()?;
        let (poster, work) = (Arc::clone(&self.poster), work());
        let run = move || {
            let _place = place;
            work(&poster)
        };
        tokio::task::spawn_blocking(run).await.ok()
    }
}

/// Whether the authority of a URL names a user.
fn has_user(url: &str) -> bool {
    let authority = url.split("://").nth(1).and_then(|it| it.split('/').next());
    authority.is_some_and(|it| it.contains('@'))
}

/// Posts requests on the current thread.
pub struct Poster {
    agent: Agent,
    url: String,
    authorization: Option<String>,
    answer_bytes_max: u64,
}

impl Poster {
    /// Posts a body and reads the whole response, whatever its status is. Redirects are not
    /// followed: no other host may get the secret.
    pub fn post(&self, content_type: &str, body: &[u8]) -> Result<Answer, ServiceError> {
        let mut request = self.agent.post(&self.url).header("content-type", content_type);
        if let Some(authorization) = &self.authorization {
            request = request.header("authorization", authorization);
        }
        let mut response = request.send(body).map_err(|error| self.failure(&error))?;
        let read = response.body_mut().with_config().limit(self.answer_bytes_max).read_to_vec();
        let body = read.map_err(|error| self.failure(&error))?;
        let (head, _) = response.into_parts();
        Ok(Answer { status: head.status.as_u16(), headers: head.headers, body })
    }

    fn failure(&self, error: &ureq::Error) -> ServiceError {
        if matches!(error, ureq::Error::BodyExceedsLimit(_)) {
            return ServiceError::TooLarge { max: self.answer_bytes_max };
        }
        let reason = error.to_string();
        match matches!(error, ureq::Error::Timeout(_)) {
            true => ServiceError::Timeout { reason },
            false => ServiceError::Unavailable { reason },
        }
    }
}

/// The response of a service.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The status code.
    pub status: u16,
    /// The body.
    pub body: Vec<u8>,
    headers: HeaderMap,
}

impl Answer {
    /// An answer with this body, for fuzz targets.
    #[doc(hidden)]
    pub fn of_body(body: &[u8]) -> Self {
        Self { status: 200, body: body.into(), headers: HeaderMap::new() }
    }

    /// The body as JSON; null if it is not JSON.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// The message of an error, wherever a service puts it.
    pub fn error_message(&self) -> Option<String> {
        let body = self.json();
        let places = ["/error/message", "/errors/0/message", "/detail/0/msg", "/error", "/message"];
        let text = places.iter().find_map(|it| body.pointer(it).and_then(Value::as_str));
        text.or_else(|| body.get("detail").and_then(Value::as_str)).map(str::to_owned)
    }

    /// Its status and the message of its error, shortened, because it is text of a stranger.
    pub fn refusal(&self) -> String {
        let clean = |it: String| it.chars().filter(|it| !it.is_control()).take(200).collect();
        let message = self.error_message().map(clean).map(|it: String| format!(" ({it})"));
        format!("status {}{}", self.status, message.unwrap_or_default())
    }

    /// A header, if it is there and is text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }
}

/// Why there is no response. The service may have got the request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ServiceError {
    /// The response did not end in time.
    #[error("{reason}")]
    Timeout {
        /// Which part timed out.
        reason: String,
    },
    /// The response has too many bytes.
    #[error("the response has more than {max} bytes")]
    TooLarge {
        /// The limit.
        max: u64,
    },
    /// The connection failed.
    #[error("{reason}")]
    Unavailable {
        /// The error of the connection.
        reason: String,
    },
}

fn agent(url: &str, timeout: Duration) -> Agent {
    let mut config = Agent::config_builder()
        .tls_config(tls())
        .http_status_as_error(false)
        .max_redirects(0)
        .max_redirects_will_error(false)
        .timeout_connect(Some(Duration::from_secs(10)))
        .timeout_global(Some(timeout));
    if url.starts_with("http://") {
        // A gateway on this machine or beside it, where no proxy can reach it.
        config = config.proxy(None);
    }
    config.build().into()
}

/// TLS with the certificates that the system trusts; they include a company's own proxy.
pub(crate) fn tls() -> TlsConfig {
    let found = rustls_native_certs::load_native_certs();
    for error in &found.errors {
        tracing::warn!(%error, "some certificates of the system cannot be read");
    }
    let own = |it: &[u8]| Certificate::from_der(it).to_owned();
    let roots: Vec<Certificate> = found.certs.iter().map(|it| own(it)).collect();
    TlsConfig::builder()
        .root_certs(RootCerts::new_with_certs(&roots))
        .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .build()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_message_of_an_error_is_found_wherever_a_service_puts_it() {
        let refusal = |body: &str| {
            let body = body.as_bytes().to_vec();
            Answer { status: 401, body, headers: HeaderMap::new() }.refusal()
        };
        for body in [
            r#"{"error":{"message":"no"}}"#,
            r#"{"errors":[{"code":1,"message":"no"}]}"#,
            r#"{"detail":[{"msg":"no"}]}"#,
            r#"{"error":"n\u0007o"}"#,
            r#"{"message":"no"}"#,
            r#"{"detail":"no"}"#,
        ] {
            assert_eq!(refusal(body), "status 401 (no)", "{body}");
        }
        assert_eq!(refusal("<html>"), "status 401");
        assert_eq!(refusal(&format!(r#"{{"error":"{}"}}"#, "x".repeat(300))).len(), 213);
    }

    #[test]
    fn only_plain_addresses_and_keys_are_accepted() {
        let service = |url, key| {
            let (timeout, concurrent, answer_bytes_max) = (Duration::from_secs(1), 1, 1);
            Service::new(ServiceOptions { url, key, timeout, concurrent, answer_bytes_max })
        };
        assert!(service("https://a.example/run/@cf/model", Some("s3cret")).is_some());
        assert!(service("http://127.0.0.1:9/v1", None).is_some());
        for (url, key) in [
            ("", None),
            ("ftp://a", None),
            ("https://a b", None),
            ("https://u:p@a/v1", None),
            ("https://a?x=/v1", None),
            ("https://a#x/v1", None),
            ("https://a", Some("")),
            ("https://a", Some("a\r\nb: c")),
        ] {
            assert!(service(url, key).is_none(), "{url} {key:?}");
        }
    }
}
