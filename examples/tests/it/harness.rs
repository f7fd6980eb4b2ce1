//! Starts an example and sends HTTP requests to it.

use std::{
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, Command, Output, Stdio},
    time::Duration,
};

use serde_json::{Value, json};
use tempfile::TempDir;

/// A request that takes longer fails the test.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Requests until a condition counts as never met: about 30 seconds.
const ATTEMPTS_MAX: usize = 6_000;

/// A running example with its own data folder. Dropping it kills it.
pub(crate) struct Server {
    program: &'static str,
    child: Child,
    folder: TempDir,
    /// Its address, without a slash at the end.
    pub(crate) url: String,
}

impl Server {
    /// Starts a program on an empty folder.
    pub(crate) fn start(program: &'static str) -> Self {
        Self::start_on(program, tempfile::tempdir().expect("a temporary folder"))
    }

    fn start_on(program: &'static str, folder: TempDir) -> Self {
        let mut command = command(program, folder.path());
        command.args(["--listen", "127.0.0.1:0", "--s3-listen", "127.0.0.1:0"]);
        command.arg("--data").arg(folder.path()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().expect("the program starts");
        let mut lines = BufReader::new(child.stdout.take().expect("stdout is piped")).lines();
        let mut greeting = String::new();
        while !greeting.contains("Ctrl-C") {
            let line = lines.next().expect("it greets before it ends");
            greeting.push_str(&line.expect("the greeting is text"));
            greeting.push('\n');
        }
        let url = greeting.split_whitespace().find(|it| it.starts_with("http://"));
        let url = url.expect("it prints its address").trim_end_matches('/').to_owned();
        Self { program, child, folder, url }
    }

    /// Kills the process without a warning (SIGKILL), and starts the program on the same folder.
    pub(crate) fn kill_and_restart(mut self) -> Self {
        self.child.kill().expect("it can be killed");
        self.child.wait().expect("it ends");
        let empty = tempfile::tempdir().expect("a temporary folder");
        let folder = std::mem::replace(&mut self.folder, empty);
        Self::start_on(self.program, folder)
    }

    /// Host and port.
    pub(crate) fn host(&self) -> &str {
        self.url.trim_start_matches("http://")
    }

    /// Runs the command line of the program against this server.
    pub(crate) fn run(&self, args: &[&str]) -> Output {
        let mut command = command(self.program, self.folder.path());
        command.args(args).args(["--server", &self.url]).output().expect("the program runs")
    }

    pub(crate) fn get(&self, path: &str) -> Response {
        Response::of(agent().get(format!("{}{path}", self.url)).call())
    }

    /// The lines of a stream of server-sent events.
    pub(crate) fn events(&self, path: &str) -> impl Iterator<Item = String> + use<> {
        let request = agent().get(format!("{}{path}", self.url));
        let response = request.header("accept", "text/event-stream").call().expect("it answers");
        assert_eq!(response.status(), 200);
        let lines = BufReader::new(response.into_body().into_reader()).lines();
        lines.map_while(Result::ok)
    }

    /// Posts like `curl -d`: without a JSON content type.
    pub(crate) fn post(&self, path: &str, body: &Value) -> Response {
        Response::of(agent().post(format!("{}{path}", self.url)).send(body.to_string()))
    }

    pub(crate) fn post_json(&self, path: &str, body: &Value) -> Response {
        let request = agent().post(format!("{}{path}", self.url));
        Response::of(request.content_type("application/json").send(body.to_string()))
    }

    pub(crate) fn put(&self, path: &str, body: &[u8]) -> Response {
        Response::of(agent().put(format!("{}{path}", self.url)).send(body))
    }

    /// The rows of a query in the database of an object; none if the object does not exist yet.
    pub(crate) fn rows(&self, class: &str, name: &str, sql: &str) -> Value {
        let path = format!("/v1/objects/{class}/{name}/sql");
        let response = self.post(&path, &json!({ "sql": sql }));
        if response.status == 404 { json!([]) } else { response.json()["rows"].clone() }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The program without the environment of the test, in its own folder.
fn command(program: &str, folder: &Path) -> Command {
    let mut command = Command::new(program);
    command.env_clear().current_dir(folder).stdin(Stdio::null());
    command
}

fn agent() -> ureq::Agent {
    let config = ureq::Agent::config_builder().http_status_as_error(false).proxy(None);
    config.timeout_global(Some(TIMEOUT)).build().into()
}

/// An HTTP response.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) body: String,
}

impl Response {
    fn of(sent: Result<ureq::http::Response<ureq::Body>, ureq::Error>) -> Self {
        let mut response = sent.expect("it answers");
        let body = response.body_mut().read_to_string().expect("the body is text");
        Self { status: response.status().as_u16(), body }
    }

    /// The body of a success, as JSON.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        assert!((200..300).contains(&self.status), "{self:?}");
        serde_json::from_str(&self.body).expect("the body is JSON")
    }

    /// The code of a problem.
    #[track_caller]
    pub(crate) fn code(&self) -> String {
        let problem: Value = serde_json::from_str(&self.body).expect("a problem is JSON");
        problem["code"].as_str().expect("a problem has a code").to_owned()
    }
}

/// Polls until the response is the wanted one, for a bounded time.
#[track_caller]
pub(crate) fn until(wanted: &Value, ask: impl Fn() -> Value) {
    for _ in 0..ATTEMPTS_MAX {
        if ask() == *wanted {
            return;
        }
        std::thread::park_timeout(Duration::from_millis(5));
    }
    panic!("{wanted} never came; the last answer is {}", ask());
}
