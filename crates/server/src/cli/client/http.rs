//! Asks a server over HTTP.

use std::{
    io::{BufRead, BufReader, ErrorKind, Read},
    time::Duration,
};

use ureq::{Agent, SendBody, http::Request};

use super::{Answer, Take};
use crate::failure::Failure;

/// An answer has so long; the doctor scans tables, and a start may wait for a minute.
const TIMEOUT: Duration = Duration::from_secs(90);

/// A server that does not take the connection by then is not there.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Bytes of an answer: an object has 256 MiB at most, unless its program says otherwise.
const BODY_BYTES_MAX: u64 = 1 << 30;

/// Bytes of a file that are read at once.
const PIECE: usize = 256 << 10;

/// Lines of an answer as they come.
pub(super) type Lines = Box<dyn Iterator<Item = std::io::Result<String>>>;

/// Asks one server.
pub(crate) struct HttpClient {
    url: String,
    agent: Agent,
}

impl HttpClient {
    /// A client for the server at `url`.
    pub(super) fn new(url: &str) -> Result<Self, Failure> {
        let url = url.trim_end_matches('/');
        if !url.starts_with("http://") {
            let example = crate::args::SERVER;
            return Err(Failure::new(format!("--server `{url}` must be like {example}")));
        }
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            // The server is on this machine, where no proxy can reach it.
            .proxy(None)
            .timeout_connect(Some(CONNECT_TIMEOUT))
            .timeout_global(Some(TIMEOUT))
            .build();
        Ok(Self { url: url.into(), agent: config.into() })
    }

    /// The address of the server.
    pub(super) fn url(&self) -> &str {
        &self.url
    }

    /// Sends a request with JSON or nothing in its body.
    pub(super) fn send(
        &self,
        method: &str,
        path: &str,
        body: Option<&str>,
        key: Option<&str>,
    ) -> Result<Answer, Failure> {
        let mut request = Request::builder().method(method).uri(format!("{}{path}", self.url));
        if let Some(key) = key {
            request = request.header("idempotency-key", key);
        }
        let failed = |error: ureq::http::Error| Failure::new(error.to_string());
        let sent = match body {
            Some(body) => {
                let request = request.header("content-type", "application/json");
                let request = request.body(body.to_owned()).map_err(failed)?;
                // Some operations are over many messages, and take as long as that takes.
                let request = self.agent.configure_request(request);
                self.agent.run(request.timeout_global(None).build())
            }
            None => self.agent.run(request.body(()).map_err(failed)?),
        };
        self.answer(sent)
    }

    fn answer(
        &self,
        sent: Result<ureq::http::Response<ureq::Body>, ureq::Error>,
    ) -> Result<Answer, Failure> {
        let mut response = sent.map_err(|error| self.silent(&error))?;
        let body = response.body_mut().with_config().limit(BODY_BYTES_MAX).read_to_vec();
        let body = body.map_err(|error| self.silent(&error))?;
        Ok(Answer { status: response.status().as_u16(), body })
    }

    /// Gets a path whose answer goes on; the answer itself if it is not good.
    pub(super) fn follow(&self, path: &str) -> Result<Result<Lines, Answer>, Failure> {
        let request = self.agent.get(format!("{}{path}", self.url));
        // It ends with the run, whenever that is.
        let request = request.config().timeout_global(None).build();
        let sent = request.header("accept", "text/event-stream").call();
        let mut response = sent.map_err(|error| self.silent(&error))?;
        let status = response.status().as_u16();
        if status == 200 {
            let lines: Lines = Box::new(BufReader::new(response.into_body().into_reader()).lines());
            return Ok(Ok(lines));
        }
        let body = response.body_mut().read_to_vec().map_err(|error| self.silent(&error))?;
        Ok(Err(Answer { status, body }))
    }

    /// Puts a file, and waits for as long as it takes. Whether it is wanted is asked before.
    pub(super) fn upload(
        &self,
        path: &str,
        content_type: Option<&str>,
        (mut file, length): (impl Read, u64),
    ) -> Result<Answer, Failure> {
        let request = self.agent.put(format!("{}{path}", self.url));
        let mut request = request.config().timeout_global(None).build();
        request = request.header("content-length", length.to_string());
        request = request.header("expect", "100-continue");
        if let Some(content_type) = content_type {
            request = request.header("content-type", content_type);
        }
        self.answer(request.send(SendBody::from_reader(&mut file)))
    }

    /// Gets a file piece by piece; the answer itself if it is not good.
    pub(super) fn fetch(&self, path: &str, take: Take<'_>) -> Result<Option<Answer>, Failure> {
        let request = self.agent.get(format!("{}{path}", self.url));
        let request = request.config().timeout_global(None).build();
        let response = request.call().map_err(|error| self.silent(&error))?;
        if response.status() != 200 {
            return self.answer(Ok(response)).map(Some);
        }
        let length = response.headers().get("content-length");
        let length = length.and_then(|it| it.to_str().ok()?.parse().ok());
        let mut reader = response.into_body().into_reader();
        let mut piece = vec![0; PIECE];
        loop {
            match reader.read(&mut piece) {
                Ok(0) => return Ok(None),
                Ok(count) => take(&piece[..count], length)?,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(self.silent(&error.into())),
            }
        }
    }

    fn silent(&self, error: &ureq::Error) -> Failure {
        Failure::new(format!(
            "no answer from {}: {error}; start a server with `steadfast serve`, name another with \
             --server URL, or open a folder that no server holds with --data DIR",
            self.url
        ))
    }
}
