//! Providers of images and clips: one trait, two implementations, and the limits of each.
//!
//! A provider gets a task under an id that the caller chose and stored before. So after a crash it
//! can be asked what became of it: [`Provider::poll`] comes before any second
//! [`Provider::submit`]. An output is read as a stream within limits, wherever it is stored.

mod embedded;
mod error;
mod fetch;
mod input;
mod media;
mod performer;
mod provider;
mod runware;
mod stream;
mod token;

use std::{
    collections::HashMap,
    sync::{Arc, OnceLock},
    time::Duration,
};

use parking_lot::Mutex;
use serde_json::{Map, Value};
use steadfast_core::{
    BucketHandle, Error, Objects, Places, Result,
    store::{Seal, Timestamp},
};
use tokio::sync::{Semaphore, SemaphorePermit};

#[doc(hidden)]
pub use self::runware::fuzz;
pub use self::{
    embedded::{Drawing, Embedded},
    error::{ErrorKind, GenerateError},
    fetch::FetchOptions,
    media::{MediaKind, MediaSize, SNIFF_BYTES, sniff_media},
    provider::{
        Checked, Delivery, Model, Output, OutputKind, OutputSource, Provider, Report, Request,
        Submitted, Task, TaskState,
    },
    runware::{Reconcile, Runware, RunwareOptions},
    stream::OutputStream,
    token::{verify_webhook_token, webhook_token},
};
use crate::{AtProvider, Begun, Made, Progress, Submit, TaskError, jobs::is_here, task::COUNT_MAX};

/// Limits of the providers.
#[derive(Clone, Debug)]
pub struct ProvidersOptions {
    /// Where providers reach this server, if they do: without a slash at the end.
    pub public_url: Option<String>,
    /// How long a picture may take.
    pub image_timeout: Duration,
    /// How long a clip may take.
    pub video_timeout: Duration,
    /// Bytes that an artifact may have.
    pub artifact_bytes_max: u64,
    /// Maximum number of requests to one provider in flight at a time.
    pub at_once: usize,
}

impl Default for ProvidersOptions {
    fn default() -> Self {
        Self {
            public_url: None,
            image_timeout: Duration::from_mins(5),
            video_timeout: Duration::from_mins(10),
            artifact_bytes_max: 256 << 20,
            at_once: 16,
        }
    }
}

/// The longest wait that a provider can ask for, in milliseconds.
pub(crate) const WAIT_MAX_MS: u64 = 3_600_000;

/// Outputs of this machine that are drawn, or wait for a thread, at a time: two whole requests, of
/// which one workspace has one.
const DRAWN_MAX: usize = 2 * COUNT_MAX as usize;

/// Jobs that draw, or look for a place to draw, at a time. Jobs without a place must be able to end
/// while all places are taken: half of the rest waits at most (see [`Places::take_soon`]).
const FETCHES_HERE: usize = 2 * DRAWN_MAX;

/// The bucket of artifacts, once the program runs.
pub type ArtifactBucket = Arc<dyn Fn() -> BucketHandle + Send + Sync>;

/// The managers, while the program runs.
type Managers = Arc<dyn Fn() -> Option<Objects> + Send + Sync>;

/// The providers in the order in which they are asked for a model, with their limits.
pub struct Providers {
    providers: Vec<Arc<dyn Provider>>,
    options: ProvidersOptions,
    bucket: ArtifactBucket,
    /// Places at each provider.
    limits: HashMap<&'static str, Semaphore>,
    /// Places for what is drawn here. One workspace has at most half of them.
    drawing: Places,
    /// Until when each provider wants no tasks. It is known to this process alone: another one
    /// hears it from the provider.
    holds: Mutex<HashMap<String, Timestamp>>,
    /// Asked whether a task is still wanted.
    managers: Mutex<Option<Managers>>,
    /// Gives the key of webhook tokens.
    seal: OnceLock<Seal>,
}

impl Providers {
    /// These providers, within limits.
    pub fn new(
        providers: Vec<Arc<dyn Provider>>,
        options: ProvidersOptions,
        bucket: ArtifactBucket,
    ) -> Self {
        let limit = |it: &Arc<dyn Provider>| (it.name(), Semaphore::new(options.at_once.max(1)));
        let limits = providers.iter().map(limit).collect();
        let (holds, managers, seal) = Default::default();
        let drawing = Places::new(DRAWN_MAX);
        Self { providers, options, bucket, limits, drawing, holds, managers, seal }
    }

    /// Says where managers are asked whether they still want something. Without it nothing is
    /// handed over: it could be something that nobody wants to pay for any more.
    pub fn connect(&self, managers: impl Fn() -> Option<Objects> + Send + Sync + 'static) {
        *self.managers.lock() = Some(Arc::new(managers));
    }

    /// Takes the key of webhook tokens from here. Without one providers are polled.
    pub fn seal_with(&self, seal: Seal) {
        // A second one is the same program.
        let _ = self.seal.set(seal);
    }

    /// The keys of webhook tokens, the current one first. They are derived, and stored nowhere.
    fn webhook_keys(&self) -> Vec<[u8; 32]> {
        let keys = self.seal.get().map(|it| it.derived("generation webhooks"));
        keys.and_then(Result::ok).unwrap_or_default()
    }

    /// Whether the address of a task's webhook is ours.
    pub(crate) fn verify_webhook(&self, generation: &str, task: &str, token: &str) -> bool {
        let is_of = |key: &[u8; 32]| verify_webhook_token(key, generation, task, token);
        self.webhook_keys().iter().any(is_of)
    }

    /// The address that the provider gets. The job has it without its token, because jobs are
    /// recorded.
    fn webhook_of(&self, job: &Submit) -> Option<String> {
        let url = job.webhook.as_ref()?;
        let keys = self.webhook_keys();
        let token = webhook_token(keys.first()?, &job.generation, &job.task);
        Some(format!("{url}/{token}"))
    }

    /// The bucket of artifacts.
    pub(crate) fn bucket(&self) -> BucketHandle {
        (self.bucket)()
    }

    pub(crate) fn objects(&self) -> Result<Objects> {
        let managers = self.managers.lock().clone();
        let objects = managers.and_then(|it| it());
        objects.ok_or_else(|| Error::retryable("managers cannot be asked; it is tried again"))
    }

    /// Models to offer, of all providers.
    pub fn models(&self) -> Vec<Model> {
        self.providers.iter().flat_map(|it| it.models()).collect()
    }

    /// The provider of a request and its checked input, or why it cannot be served. Without a name,
    /// the first provider that knows the model makes it.
    pub fn check(
        &self,
        model: &str,
        input: Map<String, Value>,
        provider: Option<&str>,
    ) -> Result<(String, Checked), GenerateError> {
        let request = Request { model: model.into(), input };
        if let Some(name) = provider {
            let unknown = || {
                let message = format!("there is no provider `{name}`");
                GenerateError::new(ErrorKind::UnknownModel, message)
            };
            let provider = self.find(name).ok_or_else(unknown)?;
            return Ok((name.into(), provider.check(&request)?));
        }
        for provider in &self.providers {
            match provider.check(&request) {
                Ok(checked) => return Ok((provider.name().into(), checked)),
                Err(error) if error.kind == ErrorKind::UnknownModel => {}
                Err(error) => return Err(error),
            }
        }
        Err(GenerateError::unknown_model(model))
    }

    /// How long the tasks of a request may take.
    pub fn timeout(&self, kind: OutputKind) -> Duration {
        match kind {
            OutputKind::Image => self.options.image_timeout,
            OutputKind::Video => self.options.video_timeout,
        }
    }

    /// Where webhooks come in, if they can.
    pub fn webhooks(&self) -> Option<String> {
        self.options.public_url.clone().filter(|_| !self.webhook_keys().is_empty())
    }

    /// Reads the reports about one task from the body of a webhook.
    pub(crate) fn parse_webhook(
        &self,
        provider: &str,
        task: &str,
        body: &str,
    ) -> Result<Vec<Progress>> {
        let malformed = |error: GenerateError| {
            Error::terminal(error.to_string()).with_code("malformed_webhook")
        };
        let reports = self.named(provider)?.parse_webhook(body.as_bytes()).map_err(malformed)?;
        let about_it = reports.into_iter().filter(|it| it.concerns(task));
        Ok(about_it.map(|it| Progress { task: task.into(), state: at_provider(it) }).collect())
    }

    fn find(&self, name: &str) -> Option<&Arc<dyn Provider>> {
        self.providers.iter().find(|it| it.name() == name)
    }

    /// The provider with the name that is stored with a task.
    fn named(&self, provider: &str) -> Result<&Arc<dyn Provider>> {
        self.find(provider).ok_or_else(|| {
            let text = format!("provider `{provider}` is not configured any more");
            Error::terminal(text).with_code("provider_unknown")
        })
    }

    /// A provider wants no tasks until then.
    pub(crate) fn hold(&self, provider: &str, until: Timestamp) {
        let mut holds = self.holds.lock();
        let hold = holds.entry(provider.into()).or_insert(until);
        *hold = until.max(*hold);
    }

    /// How long a provider wants no tasks, in milliseconds, if it does not want any now.
    pub(crate) fn hold_of(&self, provider: &str, now: Timestamp) -> Option<u64> {
        let mut holds = self.holds.lock();
        let left = holds.get(provider)?.since(now);
        // A clock that was set back must not make it longer.
        let left = u64::try_from(left.as_millis()).unwrap_or(u64::MAX).min(WAIT_MAX_MS);
        if left == 0 {
            holds.remove(provider);
        }
        (0 < left).then_some(left)
    }

    /// The next step for a task that an earlier attempt may have submitted.
    pub(crate) fn begun_again(&self, provider: &str, delivery: Option<Delivery>) -> Result<Begun> {
        let provider = self.named(provider)?;
        let is_proof = delivery.is_some_and(|it| provider.unknown_is_proof(it));
        Ok(if is_proof { Begun::Again } else { Begun::PollOnly })
    }

    /// The pause after which a workspace that had no place to draw looks for one again.
    pub(crate) fn pause(&self, workspace: &str, now: Timestamp) -> Duration {
        self.drawing.pause(workspace, now)
    }

    /// A place at a provider. A task that waits for one has not begun.
    async fn place_at(&self, provider: &str) -> Result<SemaphorePermit<'_>> {
        let limit = self.limits.get(provider);
        let limit = limit.ok_or_else(|| Error::terminal(format!("no provider `{provider}`")))?;
        limit.acquire().await.map_err(Error::retryable)
    }

    /// Places of all providers elsewhere together. No job that holds a lease waits long for one.
    fn places(&self) -> usize {
        let elsewhere = self.limits.keys().filter(|it| !is_here(it)).count();
        self.options.at_once.max(1).saturating_mul(elsewhere.max(1))
    }
}

fn failure(error: GenerateError) -> Error {
    let code = error.code();
    match error.is_retryable() {
        true => Error::retryable(error).with_code(code),
        false => Error::terminal(error).with_code(code),
    }
}

/// One task has one output.
fn made(outputs: Vec<Output>) -> Option<Made> {
    let output = outputs.into_iter().next()?;
    Some(Made {
        source: serde_json::to_value(&output.source).unwrap_or_default(),
        seed: output.seed,
        cost: output.cost,
        response: output.raw,
    })
}

fn at_provider(report: Report) -> AtProvider {
    match report.state {
        TaskState::Finished(outputs) => {
            made(outputs).map_or(AtProvider::Working(None), AtProvider::Made)
        }
        // A part of a result is none yet.
        TaskState::InProgress { progress, .. } => AtProvider::Working(progress),
        TaskState::Failed(error) => {
            AtProvider::Failed(TaskError { code: error.code().into(), message: error.message })
        }
        TaskState::Unknown => AtProvider::Unknown,
    }
}
