//! Runs the real binary.

use std::{
    io::{BufRead, BufReader, Read, Seek, Write},
    net::TcpStream,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

use crate::seed;

/// Timeout that ends a hanging test: a busy machine pauses for many seconds.
const PATIENCE: Duration = Duration::from_mins(2);

/// Waits until something holds, and looks more and more seldom.
#[track_caller]
pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let (mut pause, mut waited) = (Duration::from_millis(2), Duration::ZERO);
    while !holds() {
        assert!(waited < PATIENCE, "never: {what}");
        std::thread::park_timeout(pause);
        waited += pause;
        pause = (2 * pause).min(Duration::from_millis(100));
    }
}

/// The program, without the environment of the test.
pub(crate) fn steadfast() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_steadfast"));
    command.env_clear().stdin(Stdio::null());
    // Tests run in parallel, so each needs its own port for S3 too.
    command.env("STEADFAST_S3_LISTEN", "127.0.0.1:0");
    command
}

/// Runs the program to its end.
pub(crate) fn run(args: &[&str]) -> Output {
    output(steadfast().args(args))
}

/// Runs a command to its end.
pub(crate) fn output(command: &mut Command) -> Output {
    let child = spawn(command.stdout(Stdio::piped()).stderr(Stdio::piped()));
    child.wait_with_output().expect("the program ends")
}

/// Starts a command while no store is open in this process.
///
/// A new process holds our locks until it executes the program. A store that another test closes in
/// that moment would stay locked a moment longer, and the next server would be refused.
pub(crate) fn spawn(command: &mut Command) -> Child {
    let _alone = seed::alone();
    command.spawn().expect("the program starts")
}

/// Its standard output.
pub(crate) fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Its standard error.
pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Asserts that the program failed with one clear line.
#[track_caller]
pub(crate) fn assert_fails_with(output: &Output, words: &[&str]) {
    let text = stderr(output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    let complaints: Vec<&str> = text.lines().filter(|it| it.starts_with("error: ")).collect();
    assert_eq!(complaints.len(), 1, "{text}");
    for word in words {
        assert!(complaints[0].contains(word), "`{word}` is missing in {text}");
    }
}

/// Asserts that the command line refused its arguments.
pub(crate) fn assert_usage_error(output: &Output, words: &[&str]) {
    let text = stderr(output);
    assert_eq!(output.status.code(), Some(2), "{text}");
    for word in words {
        assert!(text.contains(word), "`{word}` is missing in {text}");
    }
}

/// A running server on its own folder.
pub(crate) struct Server {
    child: Child,
    folder: TempDir,
    /// Its output at the start.
    pub(crate) greeting: String,
    /// Its address, without a slash at the end.
    pub(crate) url: String,
    /// The header of its admin token, if requests have it.
    bearer: Option<Box<str>>,
}

impl Server {
    /// Serves a folder with the messages of `seed`.
    pub(crate) fn seeded() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        seed::fill(folder.path());
        Self::on(folder)
    }

    /// Serves this folder.
    pub(crate) fn on(folder: TempDir) -> Self {
        Self::with(folder, &[])
    }

    /// Serves an empty folder.
    pub(crate) fn empty() -> Self {
        Self::on(tempfile::tempdir().expect("a temporary folder"))
    }

    /// Serves this folder, or as these flags say.
    pub(crate) fn with(folder: TempDir, flags: &[&str]) -> Self {
        Self::at("127.0.0.1:0", folder, flags)
    }

    /// Serves this folder at the address of a server that has ended.
    pub(crate) fn again_at(host: &str, folder: TempDir) -> Self {
        Self::at(host, folder, &[])
    }

    /// Serves this folder at an address.
    pub(crate) fn at(host: &str, folder: TempDir, flags: &[&str]) -> Self {
        let mut command = steadfast();
        command.args(["--listen", host]).args(flags);
        Self::begin(command, folder).expect("it greets before it ends")
    }

    /// Serves this folder with a command; returns the folder if the server is killed before it
    /// prints its greeting.
    pub(crate) fn begin(mut command: Command, folder: TempDir) -> Result<Self, TempDir> {
        command.arg("--data").arg(folder.path());
        Self::greet(command, folder)
    }

    /// Waits for the greeting of a server that serves another folder.
    pub(crate) fn greet(command: Command, folder: TempDir) -> Result<Self, TempDir> {
        let mut log = tempfile::tempfile().expect("a temporary file");
        let own = log.try_clone().expect("a file");
        let said = || {
            let mut said = String::new();
            // The server may have written a part of a letter.
            let _ = log.rewind().and_then(|()| log.read_to_string(&mut said));
            said
        };
        Self::greet_and(command, folder, own.into(), said)
    }

    /// The same, with its log.
    pub(crate) fn greet_logging(
        command: Command,
        folder: TempDir,
        log: Stdio,
    ) -> Result<Self, TempDir> {
        Self::greet_and(command, folder, log, String::new)
    }

    fn greet_and(
        mut command: Command,
        folder: TempDir,
        log: Stdio,
        said: impl FnOnce() -> String,
    ) -> Result<Self, TempDir> {
        let mut child = spawn(command.stdout(Stdio::piped()).stderr(log));
        let mut lines = BufReader::new(child.stdout.take().expect("stdout is piped")).lines();
        let mut greeting = String::new();
        while !greeting.contains("Ctrl-C") {
            let Some(line) = lines.next() else {
                let status = child.wait().expect("it ends");
                assert_eq!(status.code(), None, "it ends before it greets: {greeting}{}", said());
                return Err(folder);
            };
            greeting.push_str(&line.expect("it prints text"));
            greeting.push('\n');
        }
        let address = greeting.split_whitespace().find(|it| it.contains("://"));
        let url = address.expect("it prints its address").trim_end_matches('/').to_owned();
        Ok(Self { child, folder, greeting, url, bearer: None })
    }

    /// The same server; from now on requests have its admin token, unless they have a credential.
    pub(crate) fn logged_in(mut self) -> Self {
        let token = std::fs::read_to_string(self.folder().join("admin.token")).expect("a token");
        self.bearer = Some(format!("Bearer {}", token.trim()).into());
        self
    }

    fn agent(&self) -> ureq::Agent {
        let Some(bearer) = self.bearer.clone() else { return agent() };
        let add = move |mut request: ureq::http::Request<ureq::SendBody<'_>>,
                        next: ureq::middleware::MiddlewareNext<'_>| {
            let value = bearer.parse().expect("a header");
            request.headers_mut().entry("authorization").or_insert(value);
            next.handle(request)
        };
        config().middleware(add).build().into()
    }

    /// Its folder.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Host and port.
    pub(crate) fn host(&self) -> &str {
        self.url.split_once("://").expect("a URL").1
    }

    /// The URL of its S3 API.
    pub(crate) fn s3_url(&self) -> &str {
        let line = self.greeting.lines().find(|it| it.trim_start().starts_with("S3 API"));
        let url = line.and_then(|it| it.split_whitespace().last());
        url.expect("it prints the address of its S3 API").trim_end_matches('/')
    }

    /// Runs a client verb against it.
    pub(crate) fn ask(&self, args: &[&str]) -> Output {
        let mut command = steadfast();
        let token = self.folder().join("admin.token");
        // As for a user who starts it beside the data folder.
        if token.exists() && std::env::var_os("STEADFAST_TOKEN").is_none() {
            command.env("STEADFAST_TOKEN_FILE", token);
        }
        output(command.args(args).args(["--server", &self.url]))
    }

    /// Sends GET.
    pub(crate) fn get(&self, path: &str) -> Answer {
        Answer::of(self.agent().get(format!("{}{path}", self.url)).call())
    }

    /// Sends GET; the server may end before it responds.
    pub(crate) fn try_get(&self, path: &str) -> Result<Answer, ureq::Error> {
        Answer::try_of(self.agent().get(format!("{}{path}", self.url)).call())
    }

    /// Sends GET; expects JSON and 200.
    #[track_caller]
    pub(crate) fn json(&self, path: &str) -> Value {
        let answer = self.get(path);
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
        answer.json()
    }

    /// Sends GET; expects bytes and 200, and returns the headers.
    #[track_caller]
    pub(crate) fn bytes(&self, path: &str) -> (Vec<u8>, ureq::http::HeaderMap) {
        let mut response =
            self.agent().get(format!("{}{path}", self.url)).call().expect("it answers");
        assert_eq!(response.status(), 200, "{path}");
        (response.body_mut().read_to_vec().expect("a body"), response.headers().clone())
    }

    /// Sends DELETE.
    pub(crate) fn delete(&self, path: &str) -> Answer {
        self.try_delete(path).expect("it answers")
    }

    /// The same; the server may end before it responds.
    pub(crate) fn try_delete(&self, path: &str) -> Result<Answer, ureq::Error> {
        Answer::try_of(self.agent().delete(format!("{}{path}", self.url)).call())
    }

    /// Sends DELETE with these headers.
    pub(crate) fn delete_with(&self, path: &str, headers: &[(&str, &str)]) -> Answer {
        let mut request = self.agent().delete(format!("{}{path}", self.url));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        Answer::of(request.call())
    }

    /// Sends POST without a body.
    pub(crate) fn post(&self, path: &str, headers: &[(&str, &str)]) -> Answer {
        let mut request = self.agent().post(format!("{}{path}", self.url));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        Answer::of(request.send_empty())
    }

    /// Sends POST with JSON.
    pub(crate) fn post_json(&self, path: &str, body: &str, headers: &[(&str, &str)]) -> Answer {
        self.try_post_json(path, body, headers).expect("it answers")
    }

    /// Sends PUT with JSON.
    pub(crate) fn put_json(&self, path: &str, body: &Value) -> Answer {
        let request = self.agent().put(format!("{}{path}", self.url));
        Answer::of(request.header("content-type", "application/json").send(body.to_string()))
    }

    /// Sends PUT with bytes.
    pub(crate) fn put_bytes(&self, path: &str, bytes: &[u8], headers: &[(&str, &str)]) -> Answer {
        self.try_put_bytes(path, bytes, headers).expect("it answers")
    }

    /// The same; the server may end before it responds.
    pub(crate) fn try_put_bytes(
        &self,
        path: &str,
        bytes: &[u8],
        headers: &[(&str, &str)],
    ) -> Result<Answer, ureq::Error> {
        let mut request = self.agent().put(format!("{}{path}", self.url));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        Answer::try_of(request.send(bytes))
    }

    /// Sends POST with bytes.
    pub(crate) fn post_bytes(&self, path: &str, bytes: &[u8], headers: &[(&str, &str)]) -> Answer {
        self.try_post_bytes(path, bytes, headers).expect("it answers")
    }

    /// The same; the server may end before it responds.
    pub(crate) fn try_post_bytes(
        &self,
        path: &str,
        bytes: &[u8],
        headers: &[(&str, &str)],
    ) -> Result<Answer, ureq::Error> {
        let mut request = self.agent().post(format!("{}{path}", self.url));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        Answer::try_of(request.send(bytes))
    }

    /// Sends GET with these headers.
    pub(crate) fn get_with(&self, path: &str, headers: &[(&str, &str)]) -> Answer {
        let mut request = self.agent().get(format!("{}{path}", self.url));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        Answer::of(request.call())
    }

    /// Sends POST with JSON; the server may end before it responds.
    pub(crate) fn try_post_json(
        &self,
        path: &str,
        body: &str,
        headers: &[(&str, &str)],
    ) -> Result<Answer, ureq::Error> {
        let mut request = self.agent().post(format!("{}{path}", self.url));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        Answer::try_of(request.header("content-type", "application/json").send(body))
    }

    /// Sends POST with a form.
    pub(crate) fn post_form(&self, path: &str, form: &str, headers: &[(&str, &str)]) -> Answer {
        let mut request = self.agent().post(format!("{}{path}", self.url));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        Answer::of(request.send(form))
    }

    /// Polls a path until its JSON is as expected, for a bounded time.
    #[track_caller]
    pub(crate) fn json_until(&self, path: &str, wished: impl Fn(&Value) -> bool) -> Value {
        let mut answer = Value::Null;
        until(path, || {
            answer = self.json(path);
            wished(&answer)
        });
        answer
    }

    /// Polls a path until its text is as expected, for a bounded time.
    #[track_caller]
    pub(crate) fn text_until(&self, path: &str, wished: impl Fn(&str) -> bool) {
        until(path, || wished(&self.get(path).body));
    }

    /// Sends raw text and reads until the connection ends.
    pub(crate) fn raw(&self, bytes: &str) -> String {
        self.raw_bytes(bytes.as_bytes())
    }

    /// The same with raw bytes.
    pub(crate) fn raw_bytes(&self, bytes: &[u8]) -> String {
        let mut stream = self.connect();
        stream.write_all(bytes).expect("it takes the request");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("it answers in time");
        answer
    }

    /// Opens a connection.
    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.host()).expect("it listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout can be set");
        stream
    }

    /// Sends a signal to it.
    pub(crate) fn signal(&self, signal: Signal) {
        let id = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        kill_process(id.expect("it has an id"), signal).expect("it can be signalled");
    }

    /// Waits for its end; returns the exit code.
    pub(crate) fn wait(&mut self) -> Option<i32> {
        self.child.wait().expect("it ends").code()
    }

    /// Stops it in order; returns its folder.
    pub(crate) fn stop(mut self) -> PathBuf {
        self.signal(Signal::TERM);
        assert_eq!(self.wait(), Some(0));
        let folder = std::mem::replace(&mut self.folder, tempfile::tempdir().expect("a folder"));
        folder.keep()
    }

    /// Kills it; returns its folder.
    pub(crate) fn kill(mut self) -> TempDir {
        self.child.kill().expect("it can be killed");
        self.child.wait().expect("it ends");
        self.into_folder()
    }

    /// The folder of a server that has ended.
    pub(crate) fn into_folder(mut self) -> TempDir {
        std::mem::replace(&mut self.folder, tempfile::tempdir().expect("a folder"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends GET to a URL of another port.
pub(crate) fn get_url(url: &str) -> Answer {
    Answer::of(agent().get(url).call())
}

/// The same with these headers.
pub(crate) fn get_url_with(url: &str, headers: &[(&str, &str)]) -> Answer {
    let mut request = agent().get(url);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    Answer::of(request.call())
}

/// Sends PUT with bytes to a URL of another port.
pub(crate) fn put_url(url: &str, bytes: &[u8]) -> Answer {
    Answer::of(agent().put(url).send(bytes))
}

fn config() -> ureq::config::ConfigBuilder<ureq::typestate::AgentScope> {
    let config = ureq::Agent::config_builder().http_status_as_error(false).proxy(None);
    config.max_redirects(0).timeout_global(Some(PATIENCE))
}

fn agent() -> ureq::Agent {
    config().build().into()
}

/// An HTTP response.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: ureq::http::HeaderMap,
    pub(crate) body: String,
}

impl Answer {
    fn of(sent: Result<ureq::http::Response<ureq::Body>, ureq::Error>) -> Self {
        Self::try_of(sent).expect("it answers")
    }

    fn try_of(
        sent: Result<ureq::http::Response<ureq::Body>, ureq::Error>,
    ) -> Result<Self, ureq::Error> {
        let mut response = sent?;
        let body = response.body_mut().read_to_string()?;
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        Ok(Self { status, headers, body })
    }

    /// The body as JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).expect("JSON")
    }

    /// A header.
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |it| it.to_str().expect("a text"))
    }

    /// Asserts that this is a complete problem with this code.
    #[track_caller]
    pub(crate) fn assert_problem(&self, status: u16, code: &str) {
        assert_eq!(self.header("content-type"), "application/problem+json", "{}", self.body);
        let body = self.json();
        assert_eq!((self.status, body["code"].as_str()), (status, Some(code)), "{body}");
        assert_eq!(body["status"], status);
        assert_eq!(body["requestId"], self.header("x-request-id"));
        assert!(body["retryable"].is_boolean(), "{body}");
        for text in ["type", "title", "detail", "instance"] {
            assert!(body[text].as_str().is_some_and(|it| !it.is_empty()), "{text} in {body}");
        }
    }
}
