//! Who makes what: the providers, and the work that turns ask for.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use serde_json::{Map, Value};
use steadfast::{
    BucketError, BucketHandle, Error, Perform, Result,
    bucket::{Attributes, PutOptions},
    store::crash,
};
use steadfast_ai::generate::{
    Checked, GenerateError, Model, Output, OutputKind, OutputSource, Provider, Providers, Report,
    Request as Asked, Submitted, Task, TaskState as State,
};
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::{
    AtProvider, Discard, Fetch, Fetched, Made, Poll, Progress, Submit, Taken, TaskError, blob_key,
};

/// What can be set.
#[derive(Clone, Debug)]
pub struct StudioOptions {
    /// Where providers reach this server, if they do: without a slash at the end.
    pub public_url: Option<String>,
    /// How long a picture may take.
    pub image_timeout: Duration,
    /// How long a clip may take.
    pub video_timeout: Duration,
    /// Bytes that an artifact may have.
    pub artifact_bytes_max: u64,
    /// Requests to one provider that are under way at a time.
    pub at_once: usize,
}

impl Default for StudioOptions {
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

/// Where artifacts are put.
pub type Place = Arc<dyn Fn() -> BucketHandle + Send + Sync>;

/// The providers, and what they need.
pub struct Studio {
    providers: Providers,
    options: StudioOptions,
    place: Place,
    /// Names this process.
    process: String,
    /// Places at each provider.
    limits: HashMap<&'static str, Semaphore>,
    /// Tasks that this process has handed over, or has begun to.
    begun: Mutex<HashSet<String>>,
}

impl Studio {
    /// A studio of these providers. `process` is another one for each process.
    pub fn new(
        providers: Providers,
        options: StudioOptions,
        place: Place,
        process: impl Into<String>,
    ) -> Self {
        let limit = |it: &Arc<dyn Provider>| (it.name(), Semaphore::new(options.at_once.max(1)));
        let limits = providers.iter().map(limit).collect();
        let (process, begun) = (process.into(), Mutex::default());
        Self { providers, options, place, process, limits, begun }
    }

    /// Names this process.
    pub fn process(&self) -> &str {
        &self.process
    }

    /// Models to offer.
    pub fn models(&self) -> Vec<Model> {
        self.providers.models()
    }

    /// What a request comes to, or why it cannot be served: who makes it, and from what.
    pub fn check(
        &self,
        model: &str,
        input: Map<String, Value>,
        provider: Option<&str>,
    ) -> Result<(String, Checked), GenerateError> {
        let asked = Asked { model: model.into(), input };
        let Some(name) = provider else {
            let (provider, checked) = self.providers.check(&asked)?;
            return Ok((provider.name().into(), checked));
        };
        let unknown = || {
            let kind = steadfast_ai::generate::ErrorKind::UnknownModel;
            GenerateError::new(kind, format!("there is no provider `{name}`"))
        };
        let provider = self.providers.named(name).ok_or_else(unknown)?;
        Ok((name.into(), provider.check(&asked)?))
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
        self.options.public_url.clone()
    }

    /// What a provider tells in a webhook about one task.
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

    fn named(&self, provider: &str) -> Result<&Arc<dyn Provider>> {
        self.providers.named(provider).ok_or_else(|| {
            let text = format!("provider `{provider}` is not configured any more");
            Error::terminal(text).with_code("provider_unknown")
        })
    }

    /// A place at a provider. Who waits for one has not begun.
    async fn place_at(&self, provider: &str) -> Result<SemaphorePermit<'_>> {
        let limit = self.limits.get(provider);
        let limit = limit.ok_or_else(|| Error::terminal(format!("no provider `{provider}`")))?;
        limit.acquire().await.map_err(Error::retryable)
    }

    /// Places of all providers together. Each has its own limit; here nobody is to wait for one.
    fn places(&self) -> usize {
        self.options.at_once.max(1).saturating_mul(self.limits.len().max(1))
    }

    /// Whether a task may be known to its provider: another process may have handed it over, and
    /// this one may have, without an answer.
    fn may_be_known(&self, job: &Submit) -> bool {
        let mut begun = self.begun.lock().unwrap_or_else(PoisonError::into_inner);
        !begun.insert(job.task.clone()) || job.process != self.process
    }

    fn end(&self, task: &str) {
        self.begun.lock().unwrap_or_else(PoisonError::into_inner).remove(task);
    }
}

impl Perform<Submit> for Arc<Studio> {
    /// What may have been handed over is asked for before it is handed over again: nothing is paid
    /// for twice.
    async fn perform(&self, job: Submit, _: &str) -> Result<Taken> {
        let provider = self.named(&job.provider)?;
        let _place = self.place_at(&job.provider).await?;
        if self.may_be_known(&job) {
            let reports = provider.poll(std::slice::from_ref(&job.task)).await.map_err(failure)?;
            match reports.into_iter().next().map(at_provider) {
                Some(AtProvider::Made(made)) => return Ok(Taken::Made(made)),
                Some(AtProvider::Working(_)) => return Ok(Taken::Accepted),
                Some(AtProvider::Failed(error)) => {
                    return Err(Error::terminal(error.message).with_code(&error.code));
                }
                Some(AtProvider::Unknown) | None => {}
            }
        }
        let task = Task {
            id: job.task.clone(),
            model: job.model,
            kind: job.kind,
            input: job.input,
            webhook_url: job.webhook,
        };
        crash::point("generation.submit.before");
        let taken = match provider.submit(&task).await.map_err(failure)? {
            Submitted::Finished(outputs) => made(outputs).map_or(Taken::Accepted, Taken::Made),
            Submitted::Accepted => Taken::Accepted,
        };
        crash::point("generation.submit.after");
        self.end(&job.task);
        Ok(taken)
    }

    fn at_once(&self) -> Option<usize> {
        Some(self.places())
    }
}

impl Perform<Poll> for Arc<Studio> {
    async fn perform(&self, job: Poll, _: &str) -> Result<Vec<Progress>> {
        let reports = self.named(&job.provider)?.poll(&job.tasks).await.map_err(failure)?;
        let with_task = |(task, report)| Progress { task, state: at_provider(report) };
        Ok(job.tasks.into_iter().zip(reports).map(with_task).collect())
    }
}

impl Perform<Fetch> for Arc<Studio> {
    /// Chunk by chunk: an artifact is never in memory as a whole. Done again, it is the same blob.
    async fn perform(&self, job: Fetch, _: &str) -> Result<Fetched> {
        let provider = self.named(&job.provider)?;
        let source: OutputSource = serde_json::from_value(job.made.source)?;
        let max = self.options.artifact_bytes_max;
        crash::point("generation.fetch.before");
        let mut stream = provider.open(&source, max).await.map_err(failure)?;
        let media = stream.media();
        let mut writer = (self.place)().writer(&blob_key(&job.artifact)).await?;
        while let Some(chunk) = stream.chunk().await.map_err(failure)? {
            writer.write(&chunk).await?;
            crash::point("generation.fetch.half");
        }
        let attributes = Attributes::of_type(media.content_type());
        let put = PutOptions { attributes, ..PutOptions::default() };
        let blob = writer.finish(put).await?;
        crash::point("generation.fetch.after");
        Ok(Fetched {
            size: blob.size,
            content_type: media.content_type().into(),
            extension: media.extension().into(),
        })
    }

    /// What is made must not pile up.
    fn at_once(&self) -> Option<usize> {
        Some(self.places())
    }
}

impl Perform<Discard> for Arc<Studio> {
    async fn perform(&self, job: Discard, _: &str) -> Result<()> {
        for artifact in &job.artifacts {
            match (self.place)().delete(&blob_key(artifact)).await {
                Ok(_) | Err(BucketError::UnknownBlob { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
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
        State::Finished(outputs) => {
            made(outputs).map_or(AtProvider::Working(None), AtProvider::Made)
        }
        // A part of a result is none yet.
        State::InProgress { progress, .. } => AtProvider::Working(progress),
        State::Failed(error) => {
            AtProvider::Failed(TaskError { code: error.code().into(), message: error.message })
        }
        State::Unknown => AtProvider::Unknown,
    }
}
