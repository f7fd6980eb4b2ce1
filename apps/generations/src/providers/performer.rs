//! The jobs that turns ask for, performed at a provider.

use std::{sync::Arc, time::Duration};

use steadfast_core::{
    BucketError, Error, Object, Perform, Result,
    bucket::{Attributes, PutOptions},
    store::crash,
};

use super::{
    ErrorKind, FETCHES_HERE, GenerateError, MediaSize, OutputSource, Provider, Providers,
    Submitted, Task, at_provider, failure, made,
};
use crate::{
    AtProvider, Begin, Begun, CountCost, DeleteGeneration, Discard, Fetch, FetchHere, Fetched,
    GenerationManager, Library, Poll, Progress, Record, Submit, SubmitHere, Taken, blob_key,
    orphans::{GENERATION, WORKSPACE},
};

/// Metadata of a blob: the task that it was made for, and how its file is called.
const TASK: &str = "task";
const EXTENSION: &str = "extension";
/// And how many pixels it has.
const WIDTH: &str = "width";
const HEIGHT: &str = "height";

impl Providers {
    /// Tells the manager that the provider is about to be asked.
    async fn begin(&self, job: &Submit) -> Result<Begun> {
        let delivery = self.named(&job.provider)?.delivery(job.kind);
        let begin = Begin { index: job.index, task: job.task.clone(), delivery };
        let manager = GenerationManager::at(&job.generation);
        self.objects()?.call(manager, begin).await.map_err(Error::retryable)
    }

    /// Submits a task, unless an earlier attempt or round has made it.
    async fn submit(&self, job: Submit, begun: Begun) -> Result<Taken> {
        let provider = self.named(&job.provider)?;
        let may_be_known = begun != Begun::First;
        if !job.earlier.is_empty() {
            match self.made_earlier(provider, &job).await {
                Ok(None) => {}
                Ok(Some(taken)) => return Ok(taken),
                Err(error) => return later(error, may_be_known),
            }
        }
        if may_be_known {
            let reports = match provider.poll(std::slice::from_ref(&job.task)).await {
                Ok(reports) => reports,
                Err(error) => return later(error, may_be_known),
            };
            match reports.into_iter().next().map(at_provider) {
                Some(AtProvider::Made(made)) => return Ok(Taken::Made(made)),
                Some(AtProvider::Working(_)) => return Ok(Taken::Accepted),
                Some(AtProvider::Failed(error)) => {
                    return Err(Error::terminal(error.message).with_code(&error.code));
                }
                Some(AtProvider::Unknown | AtProvider::Busy(_)) | None => {}
            }
        }
        if begun == Begun::PollOnly {
            return Err(answer_lost(&job));
        }
        // Polls take a while, in which somebody may have cancelled the task.
        if may_be_known || !job.earlier.is_empty() {
            match self.begin(&job).await? {
                Begun::First | Begun::Again | Begun::PollOnly => {}
                Begun::Unwanted => return Ok(Taken::Withdrawn),
                Begun::Held { after_ms, .. } => {
                    return Ok(Taken::Later { after_ms, may_be_known, is_held: true });
                }
            }
        }
        self.hand_over(provider, job).await
    }

    async fn hand_over(&self, provider: &Arc<dyn Provider>, job: Submit) -> Result<Taken> {
        let webhook_url = self.webhook_of(&job);
        let task =
            Task { id: job.task, model: job.model, kind: job.kind, input: job.input, webhook_url };
        crash::point("generation.submit.before");
        let taken = match provider.submit(&task).await {
            Ok(Submitted::Finished(outputs)) => made(outputs).map_or(Taken::Accepted, Taken::Made),
            Ok(Submitted::Accepted) => Taken::Accepted,
            // A task that is turned away is not taken, so nobody has to be asked about it. After
            // any other error it may have been taken.
            Err(error) => {
                let may_be_known = error.kind != ErrorKind::RateLimited;
                return later(error, may_be_known);
            }
        };
        crash::point("generation.submit.after");
        Ok(taken)
    }

    /// The output of an earlier round, if there is one. It is used instead of paying again.
    async fn made_earlier(
        &self,
        provider: &Arc<dyn Provider>,
        job: &Submit,
    ) -> Result<Option<Taken>, GenerateError> {
        let reports = match provider.poll(&job.earlier).await {
            Ok(reports) => reports,
            Err(error) if error.is_retryable() => return Err(error),
            // A retry wants another output if nothing will ever be known of this one.
            Err(_) => return Ok(None),
        };
        let reports = job.earlier.iter().zip(reports);
        Ok(reports.into_iter().find_map(|(task, report)| match at_provider(report) {
            AtProvider::Made(made) => Some(Taken::MadeEarlier { task: task.clone(), made }),
            AtProvider::Working(_)
            | AtProvider::Failed(_)
            | AtProvider::Unknown
            | AtProvider::Busy(_) => None,
        }))
    }

    /// The blob that an earlier attempt put for the same task, before its outcome was lost.
    async fn fetched_before(&self, job: &Fetch) -> Result<Option<Fetched>> {
        let found = self.bucket().head(&blob_key(&job.workspace, &job.artifact)).await?;
        let Some(blob) = found else { return Ok(None) };
        let Attributes { content_type, metadata, .. } = blob.attributes;
        let of = |name: &str| metadata.get(name).cloned();
        Ok(match (of(TASK), of(EXTENSION), content_type) {
            (Some(task), Some(extension), Some(content_type)) if task == job.task => {
                let pixels = |name| of(name).and_then(|it| it.parse().ok());
                let (width, height) = (pixels(WIDTH), pixels(HEIGHT));
                Some(Fetched { size: blob.size, content_type, extension, width, height })
            }
            _ => None,
        })
    }

    /// Chunk by chunk: an artifact is never in memory as a whole.
    async fn fetch(&self, job: Fetch) -> Result<Fetched> {
        let provider = self.named(&job.provider)?;
        let source: OutputSource = serde_json::from_value(job.made.source)?;
        let max = self.options.artifact_bytes_max;
        crash::point("generation.fetch.before");
        let mut stream = provider.open(&source, max).await.map_err(failure)?;
        let media = stream.media();
        let key = blob_key(&job.workspace, &job.artifact);
        let mut writer = self.bucket().writer(&key).await?;
        let mut size = MediaSize::new(media);
        while let Some(chunk) = stream.chunk().await.map_err(failure)? {
            size.add(&chunk);
            writer.write(&chunk).await?;
            crash::point("generation.fetch.half");
        }
        let mut attributes = Attributes::of_type(media.content_type());
        for (name, value) in [
            (TASK, job.task),
            (GENERATION, job.generation),
            (WORKSPACE, job.workspace),
            (EXTENSION, media.extension().into()),
        ] {
            attributes.metadata.insert(name.into(), value);
        }
        let size = size.find();
        for (name, pixels) in size.into_iter().flat_map(|it| [(WIDTH, it.0), (HEIGHT, it.1)]) {
            attributes.metadata.insert(name.into(), pixels.to_string());
        }
        let put = PutOptions { attributes, ..PutOptions::default() };
        let blob = writer.finish(put).await?;
        crash::point("generation.fetch.after");
        Ok(Fetched {
            size: blob.size,
            content_type: media.content_type().into(),
            extension: media.extension().into(),
            width: size.map(|it| it.0),
            height: size.map(|it| it.1),
        })
    }
}

fn millis(duration: Option<Duration>) -> u64 {
    duration.map_or(0, |it| u64::try_from(it.as_millis()).unwrap_or(u64::MAX))
}

/// Whether a provider has too many requests, or says when to ask again.
fn is_busy(error: &GenerateError) -> bool {
    let says_when = error.is_retryable() && error.retry_after.is_some();
    error.kind == ErrorKind::RateLimited || says_when
}

/// A provider that has too many requests, or says how long it wants to be left alone, is asked
/// later. Other errors are tried again or end the task.
fn later(error: GenerateError, may_be_known: bool) -> Result<Taken> {
    if !is_busy(&error) {
        return Err(failure(error));
    }
    Ok(Taken::Later { after_ms: millis(error.retry_after), may_be_known, is_held: false })
}

fn answer_lost(job: &Submit) -> Error {
    let text = format!(
        "the answer of provider `{}` to task `{}` was lost, and the provider cannot tell whether \
         it made the output; a retry makes it, and may pay for it, again",
        job.provider, job.task
    );
    Error::terminal(text).with_code("provider_answer_lost")
}

impl Perform<Submit> for Arc<Providers> {
    /// A task that may have been submitted is polled before it is submitted again: nothing is paid
    /// for twice. A task that is not wanted any more is not submitted at all.
    async fn perform(&self, job: Submit, _: &str) -> Result<Taken> {
        self.named(&job.provider)?;
        let _place = self.place_at(&job.provider).await?;
        match self.begin(&job).await? {
            Begun::Unwanted => Ok(Taken::Withdrawn),
            Begun::Held { after_ms, may_be_known } => {
                Ok(Taken::Later { after_ms, may_be_known, is_held: true })
            }
            begun @ (Begun::First | Begun::Again | Begun::PollOnly) => {
                self.submit(job, begun).await
            }
        }
    }

    fn at_once(&self) -> Option<usize> {
        Some(self.places())
    }
}

impl Perform<SubmitHere> for Arc<Providers> {
    /// Outputs of this machine cost nothing, and take no time before they are drawn.
    async fn perform(&self, job: SubmitHere, _: &str) -> Result<Taken> {
        let provider = self.named(&job.0.provider)?;
        self.hand_over(provider, job.0).await
    }

    fn at_once(&self) -> Option<usize> {
        Some(self.places())
    }
}

impl Perform<Poll> for Arc<Providers> {
    /// A poll takes a place as well: a submission that has begun waits for nobody.
    async fn perform(&self, job: Poll, _: &str) -> Result<Vec<Progress>> {
        let provider = self.named(&job.provider)?;
        let _place = self.place_at(&job.provider).await?;
        let reports = match provider.poll(&job.tasks).await {
            Ok(reports) => reports,
            Err(error) if is_busy(&error) => {
                let state = AtProvider::Busy(millis(error.retry_after));
                let busy = |task| Progress { task, state: state.clone() };
                return Ok(job.tasks.into_iter().take(1).map(busy).collect());
            }
            Err(error) => return Err(failure(error)),
        };
        let with_task = |(task, report)| Progress { task, state: at_provider(report) };
        Ok(job.tasks.into_iter().zip(reports).map(with_task).collect())
    }
}

impl Perform<Fetch> for Arc<Providers> {
    /// Done again, it is the same blob, which need not be at its provider any more.
    async fn perform(&self, job: Fetch, _: &str) -> Result<Fetched> {
        if let Some(fetched) = self.fetched_before(&job).await? {
            return Ok(fetched);
        }
        self.fetch(job).await
    }

    /// Finished outputs must not pile up.
    fn at_once(&self) -> Option<usize> {
        Some(self.places())
    }
}

impl Perform<FetchHere> for Arc<Providers> {
    /// A job that waited here for long would take one of the permits of other workspaces.
    async fn perform(&self, job: FetchHere, _: &str) -> Result<Option<Fetched>> {
        let FetchHere(job) = job;
        if let Some(fetched) = self.fetched_before(&job).await? {
            return Ok(Some(fetched));
        }
        let place = self.drawing.take_soon(&job.workspace, self.objects()?.clock()).await;
        let Some(_place) = place else { return Ok(None) };
        self.fetch(job).await.map(Some)
    }

    fn at_once(&self) -> Option<usize> {
        Some(FETCHES_HERE)
    }
}

impl Perform<Record> for Arc<Providers> {
    async fn perform(&self, job: Record, _: &str) -> Result<()> {
        let (objects, library) = (self.objects()?, Library::at(&job.workspace));
        let recorded = match job.changed {
            Some(changed) => objects.call(library, *changed).await,
            None => objects.call(library, DeleteGeneration { id: job.generation }).await,
        };
        recorded.map_err(|error| {
            let code = error.code().to_owned();
            Error::retryable(error).with_code(&code)
        })
    }
}

impl Perform<Discard> for Arc<Providers> {
    async fn perform(&self, job: Discard, _: &str) -> Result<()> {
        for artifact in &job.artifacts {
            match self.bucket().delete(&blob_key(&job.workspace, artifact)).await {
                Ok(_) | Err(BucketError::UnknownBlob { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

impl Perform<CountCost> for Arc<Providers> {
    async fn perform(&self, job: CountCost, _: &str) -> Result<()> {
        self.bucket().spend(&job.workspace, &job.task, job.micros).await?;
        Ok(())
    }
}
