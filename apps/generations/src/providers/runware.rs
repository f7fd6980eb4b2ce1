//! Runware, over its HTTP interface.
//!
//! This relies on facts from its documents and its own clients: a task's id is ours; a
//! second submission of a task that still runs is refused with `conflictTaskUUID` and not billed;
//! `getResponse` knows tasks that were to be polled; a webhook comes once or more often, unsigned.
//! Nobody says that `getResponse` keeps what was delivered at once. So images are delivered later
//! as well, and a task that `getResponse` does not know was never taken ([`Reconcile::Response`]).
//! `getTaskDetails` knows tasks of both kinds, but no document has it; who wants it chooses it
//! ([`Reconcile::Details`]). There, a task that may have been taken ends in its refusal and is
//! not submitted again.

mod check;
mod client;
#[doc(hidden)]
pub mod fuzz;
mod taxonomy;
mod wire;

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use serde_json::{Map, Value, json};

use self::{
    client::Client,
    taxonomy::nonsense,
    wire::{Answer, reports},
};
use super::{
    error::{ErrorKind, GenerateError},
    fetch::{FetchOptions, Fetcher},
    provider::{
        Checked, Delivery, Model, OutputKind, OutputSource, Provider, Report, Request, Submitted,
        Task, TaskState,
    },
    stream::OutputStream,
};

/// Tasks that are asked about at a time.
const POLLED_AT_ONCE: usize = 50;

/// How it is found out whether a task was taken whose answer was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reconcile {
    /// By `getResponse`, which is documented for tasks that are delivered later.
    Response,
    /// By `getTaskDetails`, which is not documented.
    Details,
}

/// The account to use, and its limits.
#[derive(Clone)]
pub struct RunwareOptions {
    /// The key of the account.
    pub api_key: String,
    /// Where the interface is.
    pub base_url: String,
    /// How long one answer may take. An image that is delivered with it has to be done by then.
    pub timeout: Duration,
    /// How images are delivered.
    pub image_delivery: Delivery,
    /// How it is found out whether a task was taken.
    pub reconcile: Reconcile,
    /// Models to offer.
    pub models: Vec<Model>,
    /// Whether other models are refused. If not, all that are written like one are taken.
    pub only_listed: bool,
    /// Maximum number of requests in flight at a time; the others wait.
    pub concurrent: usize,
    /// Where outputs may be fetched from.
    pub fetch: FetchOptions,
}

impl RunwareOptions {
    /// For an account, with the address that the service documents.
    pub fn new(api_key: &str) -> Self {
        let flux = |id: &str, name: &str| Model {
            id: id.into(),
            name: name.into(),
            kind: OutputKind::Image,
        };
        Self {
            api_key: api_key.into(),
            base_url: "https://api.runware.ai/v1".into(),
            timeout: Duration::from_secs(120),
            image_delivery: Delivery::Async,
            reconcile: Reconcile::Response,
            models: vec![
                flux("runware:100@1", "FLUX.1 [schnell]"),
                flux("runware:101@1", "FLUX.1 [dev]"),
            ],
            only_listed: false,
            concurrent: 16,
            fetch: FetchOptions { hosts: vec!["runware.ai".into()], ..FetchOptions::default() },
        }
    }
}

impl std::fmt::Debug for RunwareOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RunwareOptions")
            .field("base_url", &self.base_url)
            .field("timeout", &self.timeout)
            .field("image_delivery", &self.image_delivery)
            .field("reconcile", &self.reconcile)
            .field("fetch", &self.fetch)
            .finish_non_exhaustive()
    }
}

/// Asks Runware. Clones are the same one.
#[derive(Clone, Debug)]
pub struct Runware {
    options: Arc<RunwareOptions>,
    client: Client,
    fetcher: Fetcher,
}

impl Runware {
    /// A client.
    pub fn new(options: RunwareOptions) -> Result<Self, GenerateError> {
        let client = Client::new(&options)?;
        let fetcher = Fetcher::new(&options.fetch);
        Ok(Self { options: Arc::new(options), client, fetcher })
    }

    /// The task as it is sent.
    fn request(&self, task: &Task) -> Map<String, Value> {
        let mut request = task.input.clone();
        let is_image = task.kind == OutputKind::Image;
        let is_sync = self.delivery(task.kind) == Delivery::Sync;
        // Ours come last: nothing in the input decides where results go or who pays twice.
        let ours = json!({
            "taskType": if is_image { "imageInference" } else { "videoInference" },
            "taskUUID": task.id,
            "model": task.model,
            "numberResults": 1,
            "outputType": "URL",
            "includeCost": true,
            "deliveryMethod": if is_sync { "sync" } else { "async" },
        });
        if let Value::Object(ours) = ours {
            request.extend(ours);
        }
        if let Some(url) = &task.webhook_url {
            request.insert("webhookURL".into(), json!(url));
        }
        request
    }

    /// Asks about a few tasks.
    async fn poll_some(&self, tasks: &[String]) -> Result<Vec<Report>, GenerateError> {
        let answer = self.ask("getResponse", tasks).await?;
        let found = reports(&answer);
        let nobodys = found.iter().find(|it| it.task.is_none()).map(|it| it.state.clone());
        let by_response = self.options.reconcile == Reconcile::Response;
        let mut all = Vec::with_capacity(tasks.len());
        for task in tasks {
            let ours = found.iter().find(|it| it.task.is_some() && it.concerns(task));
            let state = match (ours.map(|it| it.state.clone()), &nobodys) {
                (Some(state), _) => state,
                // An error that names no task is about the only one, or about one of several.
                (None, Some(state)) if tasks.len() == 1 => state.clone(),
                (None, Some(_)) => self.poll_alone(task).await?,
                // Not a word about it. That is no proof that it was never taken.
                (None, None) => nothing_known(),
            };
            let missing = match &state {
                TaskState::Failed(error) if taxonomy::is_missing(error) => Some(error),
                TaskState::Failed(_)
                | TaskState::Finished(_)
                | TaskState::InProgress { .. }
                | TaskState::Unknown => None,
            }
            .map(taxonomy::is_unknown);
            let state = match missing {
                None => state,
                Some(true) if by_response => TaskState::Unknown,
                // It was taken, and nobody knows what became of it: to submit it again could make
                // and bill it twice.
                Some(false) if by_response => state,
                Some(_) => match self.look_closer(task).await {
                    // Nothing is known of this one. That must not hide what is known of others.
                    Err(error) if 1 < tasks.len() && !error.is_retryable() => nothing_known(),
                    looked => looked?,
                },
            };
            all.push(Report { task: Some(task.clone()), state });
        }
        Ok(all)
    }

    async fn poll_alone(&self, task: &String) -> Result<TaskState, GenerateError> {
        let reports = Box::pin(self.poll_some(std::slice::from_ref(task))).await?;
        let state = reports.into_iter().next().map(|it| it.state);
        Ok(state.unwrap_or_else(nothing_known))
    }

    /// `getResponse` forgets, and never knew what was delivered with its answer. The account's
    /// records do not: only if they say that they have nothing either, a second submission makes
    /// nothing twice. Any other refusal is no word about the task.
    async fn look_closer(&self, task: &String) -> Result<TaskState, GenerateError> {
        let answer = self.ask("getTaskDetails", std::slice::from_ref(task)).await?;
        let Some(inner) = answer.details(task) else {
            let refusal = reports(&answer).into_iter().find_map(|it| match it.state {
                TaskState::Failed(error) => Some(error),
                TaskState::Finished(_) | TaskState::InProgress { .. } | TaskState::Unknown => None,
            });
            return match refusal {
                Some(error) if taxonomy::is_unknown(&error) => Ok(TaskState::Unknown),
                Some(error) => Err(error),
                None => Err(nonsense(&format!("it has no word about task {task}"))),
            };
        };
        let state = reports(&inner).into_iter().find(|it| it.concerns(task)).map(|it| it.state);
        Ok(match state {
            Some(TaskState::Finished(outputs)) => TaskState::Finished(outputs),
            Some(TaskState::Failed(error)) => TaskState::Failed(error),
            Some(TaskState::InProgress { .. } | TaskState::Unknown) | None => {
                let message = format!("Runware took task {task} and does not run it any more");
                TaskState::Failed(GenerateError::new(ErrorKind::Unavailable, message))
            }
        })
    }

    async fn ask(&self, task_type: &str, tasks: &[String]) -> Result<Answer, GenerateError> {
        let ask = |it: &String| json!({ "taskType": task_type, "taskUUID": it });
        let answer = self.client.post(tasks.iter().map(ask).collect()).await?.or_status()?;
        // The question was refused: that says nothing about the tasks.
        answer.refusal().map_or(Ok(answer), Err)
    }
}

fn nothing_known() -> TaskState {
    TaskState::InProgress { progress: None, outputs: Vec::new() }
}

#[async_trait]
impl Provider for Runware {
    fn name(&self) -> &'static str {
        "runware"
    }

    fn models(&self) -> Vec<Model> {
        self.options.models.clone()
    }

    fn check(&self, request: &Request) -> Result<Checked, GenerateError> {
        check::check(&self.options, request)
    }

    fn delivery(&self, kind: OutputKind) -> Delivery {
        match kind {
            OutputKind::Image => self.options.image_delivery,
            OutputKind::Video => Delivery::Async,
        }
    }

    /// `getResponse` does not keep what was delivered with the answer.
    fn unknown_is_proof(&self, delivery: Delivery) -> bool {
        delivery == Delivery::Async || self.options.reconcile == Reconcile::Details
    }

    async fn submit(&self, task: &Task) -> Result<Submitted, GenerateError> {
        if !check::is_uuid(&task.id) {
            return Err(GenerateError::input("taskUUID", "is no UUID"));
        }
        let request = Value::Object(self.request(task));
        let answer = self.client.post(vec![request]).await?.or_status()?;
        let report = reports(&answer).into_iter().find(|it| it.concerns(&task.id));
        match report.map(|it| it.state) {
            Some(TaskState::Finished(outputs)) => Ok(Submitted::Finished(outputs)),
            // It runs already: an earlier submission came through after all.
            Some(TaskState::Failed(error)) if taxonomy::is_conflict(&error) => {
                Ok(Submitted::Accepted)
            }
            Some(TaskState::Failed(error)) => Err(error),
            // Some tasks are taken without a word.
            Some(TaskState::InProgress { .. } | TaskState::Unknown) | None => {
                Ok(Submitted::Accepted)
            }
        }
    }

    async fn poll(&self, tasks: &[String]) -> Result<Vec<Report>, GenerateError> {
        let mut all = Vec::with_capacity(tasks.len());
        for tasks in tasks.chunks(POLLED_AT_ONCE) {
            all.extend(self.poll_some(tasks).await?);
        }
        Ok(all)
    }

    async fn open(
        &self,
        source: &OutputSource,
        bytes_max: u64,
    ) -> Result<OutputStream, GenerateError> {
        match source {
            OutputSource::Url { url } => self.fetcher.open(url, bytes_max).await,
            OutputSource::Inline { .. } => {
                let message = "the output is not at an address of Runware";
                Err(GenerateError::new(ErrorKind::OutputAddress, message))
            }
        }
    }

    fn parse_webhook(&self, body: &[u8]) -> Result<Vec<Report>, GenerateError> {
        Ok(reports(&Answer::parse(200, None, body)?))
    }
}
