//! Sends requests to a server, or to the same routes in this process.

mod http;
mod local;

use std::io::Read;

use steadfast_api::Operation;
use steadfast_core::App;
use steadfast_web::Ask;

use self::{http::HttpClient, local::LocalClient};
use crate::{
    api::problem::ProblemBody,
    args::Source,
    cli::{output, told},
    failure::Failure,
};

/// Takes a piece of a file, and hears how long the whole is.
pub(super) type Take<'a> = &'a mut dyn FnMut(&[u8], Option<u64>) -> Result<(), Failure>;

/// What was answered.
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) body: Vec<u8>,
}

/// Asks a server or a folder.
pub(crate) enum Client {
    Server(HttpClient),
    Folder(Box<LocalClient>),
}

impl Client {
    /// Makes ready to ask a server, or a folder on which this program answers.
    pub(crate) fn open(
        source: Source,
        app: Option<steadfast_core::Result<App>>,
    ) -> Result<Self, Failure> {
        match (source, app) {
            (Source::Server(url), _) => HttpClient::new(&url).map(Client::Server),
            (Source::Folder(folder), Some(app)) => {
                LocalClient::open(&folder, app?).map(|it| Client::Folder(Box::new(it)))
            }
            (Source::Folder(_), None) => Err(Failure::new("this verb asks a server")),
        }
    }

    /// Makes ready to ask a program that works in this process and keeps nothing.
    pub(crate) fn here(app: App) -> Result<Self, Failure> {
        LocalClient::here(app).map(|it| Client::Folder(Box::new(it)))
    }

    /// Gets a path; returns the body of a good answer.
    pub(super) fn get(&self, path: &str, json: bool) -> Result<String, Failure> {
        self.ask("GET", path, None, None, json)
    }

    /// Gets a path that answers with a file.
    pub(super) fn download(&self, path: &str, json: bool) -> Result<Vec<u8>, Failure> {
        self.exchange("GET", path, None, None, json)
    }

    /// Puts a file at a path, piece by piece; returns the body of a good answer.
    pub(super) fn upload(
        &self,
        path: &str,
        content_type: Option<&str>,
        (file, length): (impl Read + Send + 'static, u64),
        json: bool,
    ) -> Result<String, Failure> {
        let answer = match self {
            Client::Server(client) => client.upload(path, content_type, (file, length))?,
            Client::Folder(client) => client.upload(path, content_type, (file, length))?,
        };
        let body = self.accept(answer, json)?;
        String::from_utf8(body).map_err(|error| self.not_ours(&error.to_string()))
    }

    /// Gets a path that answers with a file, and gives its pieces to `take`, with the length of
    /// the whole.
    pub(super) fn fetch(&self, path: &str, json: bool, take: Take<'_>) -> Result<(), Failure> {
        let answer = match self {
            Client::Server(client) => client.fetch(path, take)?,
            Client::Folder(client) => client.fetch(path, take)?,
        };
        answer.map_or(Ok(()), |answer| self.accept(answer, json).map(|_| ()))
    }

    /// Sends an operation; returns the body of a good answer.
    pub(super) fn request<O: Operation>(&self, it: &O, json: bool) -> Result<String, Failure> {
        let uri = it.uri().map_err(|error| Failure::new(error.to_string()))?;
        let body = match O::METHOD.has_body() {
            true => {
                Some(serde_json::to_string(it).map_err(|error| Failure::new(error.to_string()))?)
            }
            false => None,
        };
        self.ask(O::METHOD.name(), &uri, body.as_deref(), it.key(), json)
    }

    /// Sends an operation, and reads the answer.
    pub(super) fn send<O: Operation>(&self, it: &O, json: bool) -> Result<O::Response, Failure> {
        self.read(&self.request(it, json)?)
    }

    /// Whether a server is asked.
    pub(super) fn is_server(&self) -> bool {
        matches!(self, Client::Server(_))
    }

    /// Reads the lines of an answer of a server as they come, until `take` has enough of them or
    /// there are no more.
    pub(super) fn follow(
        &self,
        path: &str,
        json: bool,
        mut take: impl FnMut(&str) -> Result<bool, Failure>,
    ) -> Result<(), Failure> {
        let Client::Server(client) = self else {
            return Err(Failure::new("only a server can be followed"));
        };
        let lines = match client.follow(path)? {
            Ok(lines) => lines,
            Err(answer) => return self.accept(answer, json).map(|_| ()),
        };
        for line in lines {
            // A line that breaks is taken up again by who follows.
            let Ok(line) = line else { break };
            if !take(&line)? {
                break;
            }
        }
        Ok(())
    }

    fn ask(
        &self,
        method: &str,
        path: &str,
        body: Option<&str>,
        key: Option<&str>,
        json: bool,
    ) -> Result<String, Failure> {
        let body = self.exchange(method, path, body, key, json)?;
        String::from_utf8(body).map_err(|error| self.not_ours(&error.to_string()))
    }

    fn exchange(
        &self,
        method: &str,
        path: &str,
        body: Option<&str>,
        key: Option<&str>,
        json: bool,
    ) -> Result<Vec<u8>, Failure> {
        let answer = match self {
            Client::Server(client) => client.send(method, path, body, key)?,
            Client::Folder(client) => client.send(method, path, body, key)?,
        };
        self.accept(answer, json)
    }

    fn accept(&self, answer: Answer, json: bool) -> Result<Vec<u8>, Failure> {
        if (200..300).contains(&answer.status) {
            return Ok(answer.body);
        }
        let body = String::from_utf8_lossy(&answer.body);
        let Ok(problem) = serde_json::from_str::<ProblemBody>(&body) else {
            return Err(self.not_ours(&format!("it answered with status {}", answer.status)));
        };
        if json {
            output::print_json(&body)?;
        }
        Err(Failure::new(format!("{} ({})", problem.detail, problem.code)))
    }

    /// Reads an answer as what it should be.
    pub(super) fn read<T: serde::de::DeserializeOwned>(&self, body: &str) -> Result<T, Failure> {
        serde_json::from_str(body).map_err(|error| self.not_ours(&error.to_string()))
    }

    fn not_ours(&self, reason: &str) -> Failure {
        let who = match self {
            Client::Server(client) => client.url(),
            Client::Folder(_) => "this program",
        };
        Failure::new(format!(
            "{who} does not answer like a steadfast server of this version: {reason}; \
             check --server"
        ))
    }
}

impl Ask for Client {
    fn get(&self, path: &str, json: bool) -> steadfast_core::Result<String> {
        self.ask("GET", path, None, None, json).map_err(told)
    }

    fn post(&self, path: &str, body: &str, json: bool) -> steadfast_core::Result<String> {
        self.ask("POST", path, Some(body), None, json).map_err(told)
    }
}
