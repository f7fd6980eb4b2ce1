//! Sends requests to a server, or to the same routes in this process.

mod local;

use std::io::{Read, Write};

use axum::{body::Bytes, http::Uri};
use futures_util::{Stream, StreamExt, stream};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use steadfast_api::{
    ApiError, ApiFuture, BrokenBody, Connection, Operation, Payload, connect, payload,
};
use steadfast_core::App;
use steadfast_web::{Ask, printable};
use tokio::runtime::Runtime;

use self::local::Local;
use crate::{
    args::Source,
    cli::{output, to_error},
    failure::Failure,
    location::redacted,
    network::is_own_name,
};

/// Bytes per read of a file.
const PIECE: u64 = 256 << 10;

/// Receives a piece of a file, and the length of the whole file.
pub(crate) type Take<'a> = &'a mut dyn FnMut(&[u8], Option<u64>) -> Result<(), Failure>;

/// Sends requests to a server or a folder.
pub(crate) struct Client {
    // Stops before the runtime that it runs on.
    local: Option<Local>,
    connection: Connection,
    runtime: Runtime,
}

impl Client {
    /// Connects to a server, or opens a folder in this process.
    pub(crate) fn open(
        source: Source,
        app: Option<steadfast_core::Result<App>>,
    ) -> Result<Self, Failure> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        match (source, app) {
            (Source::Server { url, ca, token }, _) => {
                if !url.starts_with("http://") && !url.starts_with("https://") {
                    let (url, example) = (redacted(&url), crate::args::SERVER);
                    return Err(Failure::new(format!("--server `{url}` must be like {example}")));
                }
                if token.is_some() && is_in_the_clear(&url) {
                    let url = printable(&redacted(&url));
                    // This is advice: ignore output errors.
                    let _ = writeln!(
                        std::io::stderr(),
                        "warning: the token is sent to {url} in the clear; use https://"
                    );
                }
                let connection = match ca {
                    Some(ca) => connect(url).ca_file(ca),
                    None => Ok(connect(url)),
                };
                let connection =
                    connection.map_err(|error| Failure::new(format!("--ca: {error}")))?;
                let connection = match token {
                    Some(token) => connection.token(token.expose()),
                    None => connection,
                };
                Ok(Self { local: None, connection, runtime })
            }
            (Source::Folder(folder), Some(app)) => {
                let local = Local::open(&runtime, &folder, app?)?;
                Ok(Self { connection: local.connection(), local: Some(local), runtime })
            }
            (Source::Folder(_), None) => Err(Failure::new("this verb asks a server")),
        }
    }

    /// Runs a program in this process, in memory.
    pub(crate) fn here(app: App) -> Result<Self, Failure> {
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = runtime.worker_threads(2).enable_all().build()?;
        let local = Local::here(&runtime, app)?;
        Ok(Self { connection: local.connection(), local: Some(local), runtime })
    }

    /// Sends GET; returns the body of a successful response.
    pub(crate) fn get(&self, path: &str, json: bool) -> Result<String, Failure> {
        self.text(self.download(path, json)?)
    }

    /// Sends GET for a file.
    pub(crate) fn download(&self, path: &str, json: bool) -> Result<Vec<u8>, Failure> {
        self.ask("GET", path, None, json)
    }

    /// Uploads a file in pieces; returns the body of a successful response.
    pub(crate) fn upload(
        &self,
        path: &str,
        content_type: Option<&str>,
        (file, length): (impl Read + Send + 'static, u64),
        json: bool,
    ) -> Result<String, Failure> {
        let mut request = self.connection.start("PUT", path).header("content-length", length);
        // The server may refuse the file before it is sent.
        request = request.header("expect", "100-continue");
        if let Some(content_type) = content_type {
            request = request.header("content-type", content_type);
        }
        let request = request.body(BodyExt::boxed_unsync(StreamBody::new(pieces(file))));
        self.text(self.wait(self.connection.bytes(request?), json)?.into())
    }

    /// Downloads a file and passes its pieces to `take`, with the length of the file.
    pub(crate) fn fetch(&self, path: &str, json: bool, take: Take<'_>) -> Result<(), Failure> {
        self.runtime.block_on(async {
            let request = self.connection.start("GET", path).body(payload(""))?;
            let answer = self.accept(self.connection.exchange(request).await, json)?;
            let length = answer.headers().get("content-length");
            let length = length.and_then(|it| it.to_str().ok()?.parse().ok());
            let mut pieces = answer.into_body().into_data_stream();
            while let Some(piece) = pieces.next().await {
                take(&piece.map_err(|error| Failure::new(error.to_string()))?, length)?;
            }
            Ok(())
        })
    }

    /// Sends an operation; returns the body of a successful response.
    pub(crate) fn request<O: Operation>(&self, it: &O, json: bool) -> Result<String, Failure> {
        self.wait(self.connection.request(it), json)
    }

    /// Sends an operation and parses the response.
    pub(crate) fn send<O: Operation>(&self, it: &O, json: bool) -> Result<O::Response, Failure> {
        self.parse::<O>(&self.wait(self.connection.request(it), json)?)
    }

    fn wait<T>(&self, answer: ApiFuture<'_, T>, json: bool) -> Result<T, Failure> {
        self.accept(self.runtime.block_on(answer), json)
    }

    /// The address of the server.
    pub(crate) fn url(&self) -> String {
        self.connection.url()
    }

    /// Whether requests go to a server.
    pub(crate) fn is_server(&self) -> bool {
        self.local.is_none()
    }

    /// Reads the lines of a streamed response as they arrive, until `take` returns false or the
    /// stream ends.
    pub(crate) fn follow(
        &self,
        path: &str,
        json: bool,
        mut take: impl FnMut(&str) -> Result<bool, Failure>,
    ) -> Result<(), Failure> {
        if !self.is_server() {
            return Err(Failure::new("only a server can be followed"));
        }
        self.runtime.block_on(async {
            let request = self.connection.start("GET", path).header("accept", "text/event-stream");
            let request = request.body(payload(""))?;
            let answer = self.accept(self.connection.exchange(request).await, json)?;
            let mut lines = std::pin::pin!(lines(answer.into_body()));
            while let Some(line) = lines.next().await {
                if !take(&line)? {
                    break;
                }
            }
            Ok(())
        })
    }

    fn ask(
        &self,
        method: &str,
        path: &str,
        body: Option<&str>,
        json: bool,
    ) -> Result<Vec<u8>, Failure> {
        let mut request = self.connection.start(method, path);
        if body.is_some() {
            request = request.header("content-type", "application/json");
        }
        let request = request.body(payload(body.unwrap_or_default().to_owned()))?;
        Ok(self.wait(self.connection.bytes(request), json)?.into())
    }

    /// Reports an error; with `--json`, as the problem of the response.
    fn accept<T>(&self, answer: Result<T, ApiError>, json: bool) -> Result<T, Failure> {
        answer.map_err(|error| self.failure(&error, json))
    }

    fn failure(&self, error: &ApiError, json: bool) -> Failure {
        if let Some(problem) = error.problem().filter(|_| json) {
            let problem = serde_json::to_string(problem).unwrap_or_default();
            if let Err(failure) = output::print_json(&problem) {
                return failure;
            }
        }
        let advice = match error {
            // A server answered, but its certificate is not accepted, or it speaks no TLS.
            ApiError::NoAnswer { cause, .. } if cause.reason.contains("TLS: ") => "",
            ApiError::NoAnswer { .. } if self.is_server() => {
                "; start a server with `steadfast serve`, name another with --server URL, or open \
                 a folder that no server holds with --data DIR"
            }
            ApiError::Unreadable { .. } => "; check --server",
            ApiError::NoAnswer { .. } | ApiError::Problem(_) | ApiError::Invalid { .. } => "",
        };
        Failure::new(format!("{error}{advice}"))
    }

    /// Parses the response to an operation.
    pub(crate) fn parse<O: Operation>(&self, body: &str) -> Result<O::Response, Failure> {
        let parsed = O::parse_response(if body.is_empty() { "null" } else { body });
        self.accept(parsed.map_err(|error| self.unreadable(&error.to_string())), false)
    }

    /// Parses a response.
    pub(crate) fn read<T: serde::de::DeserializeOwned>(&self, body: &str) -> Result<T, Failure> {
        let read = serde_json::from_str(body);
        self.accept(read.map_err(|error| self.unreadable(&error.to_string())), false)
    }

    fn text(&self, body: Vec<u8>) -> Result<String, Failure> {
        let text = String::from_utf8(body);
        self.accept(text.map_err(|error| self.unreadable(&error.to_string())), false)
    }

    fn unreadable(&self, reason: &str) -> ApiError {
        ApiError::Unreadable { url: self.connection.url(), reason: reason.into() }
    }
}

/// Releases the folder.
impl Drop for Client {
    fn drop(&mut self) {
        if let Some(local) = self.local.take() {
            self.runtime.block_on(local.stop());
        }
    }
}

impl Ask for Client {
    fn get(&self, path: &str, json: bool) -> steadfast_core::Result<String> {
        Client::get(self, path, json).map_err(to_error)
    }

    fn post(&self, path: &str, body: &str, json: bool) -> steadfast_core::Result<String> {
        let answer = self.ask("POST", path, Some(body), json);
        answer.and_then(|it| self.text(it)).map_err(to_error)
    }
}

/// Whether requests to a URL pass a network without TLS.
fn is_in_the_clear(url: &str) -> bool {
    let uri = url.strip_prefix("http://").and_then(|_| url.parse::<Uri>().ok());
    uri.is_some_and(|it| !it.authority().is_some_and(|it| is_own_name(it.as_str())))
}

/// Reads a file in pieces. Blocking is fine: nothing else runs in this process.
fn pieces(
    mut file: impl Read + Send + 'static,
) -> impl Stream<Item = Result<Frame<Bytes>, BrokenBody>> + Send {
    stream::iter(std::iter::from_fn(move || {
        let mut piece = Vec::new();
        match file.by_ref().take(PIECE).read_to_end(&mut piece) {
            Ok(0) => None,
            Ok(_) => Some(Ok(Frame::data(piece.into()))),
            Err(error) => Some(Err(BrokenBody::because(error))),
        }
    }))
}

/// The lines of a body as they arrive. An incomplete body ends them.
fn lines(body: Payload) -> impl Stream<Item = String> {
    let start = (body.into_data_stream(), Vec::new());
    stream::unfold(start, async |(mut pieces, mut read)| {
        loop {
            if let Some(end) = read.iter().position(|it| *it == b'\n') {
                let rest = read.split_off(end + 1);
                let line = String::from_utf8_lossy(&read[..end]).trim_end_matches('\r').to_owned();
                return Some((line, (pieces, rest)));
            }
            read.extend_from_slice(&pieces.next().await?.ok()?);
        }
    })
}
