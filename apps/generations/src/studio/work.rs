//! The work that turns ask for.

use std::sync::Arc;

use steadfast::{
    BucketError, Error, Object, Perform, Result,
    bucket::{Attributes, PutOptions},
    store::crash,
};
use steadfast_ai::generate::{ErrorKind, OutputSource, Provider, Submitted, Task};

use super::{Studio, at_provider, failure, made};
use crate::{
    AtProvider, Discard, Fetch, FetchHere, Fetched, GenerationManager, Poll, Progress, Submit,
    SubmitHere, Taken, Wanted, blob_key,
};

/// Metadata of a blob: the task that it was made for, and how its file is called.
const TASK: &str = "task";
const EXTENSION: &str = "extension";

impl Studio {
    /// Whether the manager still waits for this task: it may have waited here for long. Whose
    /// manager has asked from this process says so here, and need not be asked.
    async fn is_wanted(&self, job: &Submit) -> Result<bool> {
        if job.process == self.process {
            return Ok(!self.is_withdrawn(&job.task));
        }
        // Asked for before managers could be asked.
        if job.generation.is_empty() {
            return Ok(true);
        }
        let wanted = Wanted { index: job.index, task: job.task.clone() };
        let objects = self.objects()?;
        let answer = objects.call(GenerationManager::at(&job.generation), wanted).await;
        answer.map_err(Error::retryable)
    }

    /// What was made for an earlier round, if something was. Without that nobody pays again.
    async fn made_earlier(
        &self,
        provider: &Arc<dyn Provider>,
        job: &Submit,
    ) -> Result<Option<Taken>> {
        if job.earlier.is_empty() {
            return Ok(None);
        }
        let reports = match provider.poll(&job.earlier).await {
            Ok(reports) => reports,
            Err(error) if error.is_retryable() => return Err(failure(error)),
            // Who retries wants another one if there will never be a word about this one.
            Err(_) => return Ok(None),
        };
        let reports = job.earlier.iter().zip(reports);
        Ok(reports.into_iter().find_map(|(task, report)| match at_provider(report) {
            AtProvider::Made(made) => Some(Taken::MadeEarlier { task: task.clone(), made }),
            AtProvider::Working(_) | AtProvider::Failed(_) | AtProvider::Unknown => None,
        }))
    }

    /// What an earlier attempt has put for the same task, before its outcome was lost.
    async fn fetched_before(&self, job: &Fetch) -> Result<Option<Fetched>> {
        let blob = (self.place)().head(&blob_key(&job.artifact)).await?;
        let Some(blob) = blob.filter(|_| !job.task.is_empty()) else { return Ok(None) };
        let Attributes { content_type, metadata, .. } = blob.attributes;
        let of = |name: &str| metadata.get(name).cloned();
        Ok(match (of(TASK), of(EXTENSION), content_type) {
            (Some(task), Some(extension), Some(content_type)) if task == job.task => {
                Some(Fetched { size: blob.size, content_type, extension })
            }
            _ => None,
        })
    }
}

impl Perform<Submit> for Arc<Studio> {
    /// What may have been handed over is asked for before it is handed over again: nothing is paid
    /// for twice. What nobody waits for any more is not handed over at all.
    async fn perform(&self, job: Submit, _: &str) -> Result<Taken> {
        let provider = self.named(&job.provider)?;
        let _place = self.place_at(&job.provider).await?;
        if !self.is_wanted(&job).await? {
            return Ok(Taken::Withdrawn);
        }
        if let Some(taken) = self.made_earlier(provider, &job).await? {
            return Ok(taken);
        }
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
        let submitted = provider.submit(&task).await;
        if submitted.as_ref().is_err_and(|it| it.kind == ErrorKind::RateLimited) {
            // It was turned away at the door, so nobody has to be asked about it.
            self.end(&job.task);
        }
        let taken = match submitted.map_err(failure)? {
            Submitted::Finished(outputs) => made(outputs).map_or(Taken::Accepted, Taken::Made),
            Submitted::Accepted => Taken::Accepted,
        };
        crash::point("generation.submit.after");
        Ok(taken)
    }

    fn at_once(&self) -> Option<usize> {
        Some(self.places())
    }
}

impl Perform<SubmitHere> for Arc<Studio> {
    async fn perform(&self, job: SubmitHere, key: &str) -> Result<Taken> {
        self.perform(job.0, key).await
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
    /// Chunk by chunk: an artifact is never in memory as a whole. Done again, it is the same blob,
    /// which need not be at its provider any more.
    async fn perform(&self, job: Fetch, _: &str) -> Result<Fetched> {
        if let Some(fetched) = self.fetched_before(&job).await? {
            return Ok(fetched);
        }
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
        let mut attributes = Attributes::of_type(media.content_type());
        attributes.metadata.insert(TASK.into(), job.task);
        attributes.metadata.insert(EXTENSION.into(), media.extension().into());
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

impl Perform<FetchHere> for Arc<Studio> {
    async fn perform(&self, job: FetchHere, key: &str) -> Result<Fetched> {
        self.perform(job.0, key).await
    }

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
