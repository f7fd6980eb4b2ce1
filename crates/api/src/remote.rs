//! Implements the verbs of a `Client` with operations of the HTTP API.

use std::time::Duration;

use async_trait::async_trait;
use http::header;
use serde_json::Value;
use steadfast_bucket::{Blob, ExpectedContent, ListOptions, Listing, Match, PutOptions};
use steadfast_core::{
    Error, RemoteObjects, RemoteProgram, RunChange,
    process::Decided,
    workflow::{FailureView, Phase, RunView, StartOutcome, Status},
};
use steadfast_store::{Clock, StoreError, SystemClock};

use crate::{
    ApiError, Code, Connection, JsonText, LIMIT_MAX,
    buckets::{BlobPath, DeleteBlob, ListBlobs, blob_uri},
    objects::{CallObject, DeleteObject},
    payload,
    processes::SendInput,
    queues::SendMessages,
    runs::{PauseRun, ResumeRun, SendEvent, ShowRun, StartRun, TerminateRun, Wait},
};

/// Minimum time between two requests for the end of a run.
const POLL_PAUSE: Duration = Duration::from_secs(1);

fn json(text: &str) -> Result<JsonText, ApiError> {
    let invalid = |error: serde_json::Error| ApiError::Invalid { reason: error.to_string() };
    JsonText::parse(text.into()).map_err(invalid)
}

fn named((first, second): (&str, &str)) -> (String, String) {
    (first.into(), second.into())
}

/// Converts a "not found" code to `None`.
fn found<T>(result: Result<T, ApiError>, missing: Code) -> Result<Option<T>, StoreError> {
    match result {
        Ok(it) => Ok(Some(it)),
        Err(error) if error.kind() == Some(missing) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

#[async_trait]
impl RemoteObjects for Connection {
    async fn call(
        &self,
        object: (&str, &str),
        message: &str,
        body: &str,
        key: Option<&str>,
    ) -> Result<String, StoreError> {
        let (class, name) = named(object);
        let (message, body) = (message.into(), Some(json(body)?));
        let idempotency_key = key.map(str::to_owned);
        Ok(self.request(&CallObject { class, name, message, body, idempotency_key }).await?)
    }

    async fn delete_object(&self, object: (&str, &str)) -> Result<bool, StoreError> {
        let (class, name) = named(object);
        let answer = Connection::send(self, &DeleteObject { class, name }).await;
        Ok(found(answer, Code::ObjectNotFound)?.is_some_and(|it| it.deleted))
    }
}

#[async_trait]
impl RemoteProgram for Connection {
    async fn send(&self, queue: &str, body: &str, delay: Duration) -> Result<(), StoreError> {
        let delay_ms = (delay != Duration::ZERO).then(|| crate::time::millis(delay));
        let (queue, body) = (queue.into(), Some(json(body)?));
        let message = SendMessages { queue, body, delay_ms, ..SendMessages::default() };
        Connection::send(self, &message).await?;
        Ok(())
    }

    async fn start(&self, run: (&str, &str), input: &str) -> Result<StartOutcome, StoreError> {
        let (workflow, id) = named(run);
        let (id, input) = (Some(id), Some(json(input)?));
        let start = StartRun { workflow, id, input, ..StartRun::default() };
        let started = Connection::send(self, &start).await?;
        let status = status(started.status, started.output, started.error);
        Ok(StartOutcome { created: started.created, status })
    }

    async fn status(&self, run: (&str, &str)) -> Result<Status, StoreError> {
        let (workflow, id) = named(run);
        Ok(status_of(Connection::send(self, &ShowRun { workflow, id, wait: None }).await?))
    }

    async fn wait(&self, run: (&str, &str)) -> Result<Status, StoreError> {
        let (workflow, id) = named(run);
        let show = ShowRun { workflow, id, wait: Some(Wait::LONGEST) };
        loop {
            let asked = SystemClock.now();
            let status = status_of(Connection::send(self, &show).await?);
            if status.is_final() || status.is_paused() {
                return Ok(status);
            }
            // A server that is shutting down answers at once: pause before the next request.
            if SystemClock.now().since(asked) < POLL_PAUSE {
                SystemClock.sleep(POLL_PAUSE).await;
            }
        }
    }

    async fn send_event(
        &self,
        run: (&str, &str),
        event: &str,
        payload: &str,
    ) -> Result<(), StoreError> {
        let (workflow, id) = named(run);
        let (event, payload) = (event.into(), json(payload)?);
        let event = SendEvent { workflow, id, event, payload, idempotency_key: None };
        Connection::send(self, &event).await?;
        Ok(())
    }

    async fn change_run(&self, run: (&str, &str), change: RunChange) -> Result<(), StoreError> {
        let (workflow, id) = named(run);
        let idempotency_key = None;
        match change {
            RunChange::Pause => {
                Connection::send(self, &PauseRun { workflow, id, idempotency_key }).await?
            }
            RunChange::Resume => {
                Connection::send(self, &ResumeRun { workflow, id, idempotency_key }).await?
            }
            RunChange::Terminate => {
                Connection::send(self, &TerminateRun { workflow, id, idempotency_key }).await?
            }
        };
        Ok(())
    }

    async fn input(
        &self,
        instance: (&str, &str),
        message_type: &str,
        data: Value,
    ) -> Result<Decided, StoreError> {
        let (name, id) = named(instance);
        let (type_, data, idempotency_key) = (message_type.into(), Some(data), None);
        let sent = SendInput { name, id, type_, data, idempotency_key };
        Ok(Connection::send(self, &sent).await?)
    }

    async fn put_blob(
        &self,
        blob: (&str, &str),
        bytes: &[u8],
        put: PutOptions,
    ) -> Result<Blob, StoreError> {
        if put.expected != ExpectedContent::default() || put.once.is_some() {
            let reason = "checksums and keys of a blob need the program in this process";
            return Err(ApiError::Invalid { reason: reason.into() }.into());
        }
        let mut request = self.start("PUT", &blob_uri(blob.0, blob.1));
        if let Some(content_type) = put.attributes.content_type {
            request = request.header(header::CONTENT_TYPE, content_type);
        }
        for (name, value) in put.attributes.headers {
            request = request.header(name, value);
        }
        for (name, value) in put.attributes.metadata {
            request = request.header(format!("x-blob-meta-{name}"), value);
        }
        for (name, tags) in [
            (header::IF_MATCH, put.condition.if_match),
            (header::IF_NONE_MATCH, put.condition.if_none_match),
        ] {
            request = match tags {
                None => request,
                Some(Match::Any) => request.header(name, "*"),
                Some(Match::Etag(tags)) => {
                    let quoted: Vec<String> = tags.iter().map(|it| format!("\"{it}\"")).collect();
                    request.header(name, quoted.join(", "))
                }
                Some(Match::Version(_)) => {
                    let reason = "a condition on the version needs the program in this process";
                    return Err(ApiError::Invalid { reason: reason.into() }.into());
                }
            };
        }
        let invalid = |error: http::Error| ApiError::Invalid { reason: error.to_string() };
        let request = request.body(payload(bytes.to_vec())).map_err(invalid)?;
        let answer = self.bytes(request).await?;
        let unreadable = |reason: String| ApiError::Unreadable { url: self.url(), reason };
        let written = serde_json::from_str(&String::from_utf8_lossy(&answer));
        Ok(written.map_err(|it| unreadable(it.to_string()))?)
    }

    async fn get_blob(&self, blob: (&str, &str)) -> Result<Option<Vec<u8>>, StoreError> {
        let invalid = |error: http::Error| ApiError::Invalid { reason: error.to_string() };
        let request = self.start("GET", &blob_uri(blob.0, blob.1)).body(payload(""));
        let answer = self.bytes(request.map_err(invalid)?).await;
        Ok(found(answer, Code::BlobNotFound)?.map(Vec::from))
    }

    async fn delete_blob(&self, blob: (&str, &str)) -> Result<Option<i64>, StoreError> {
        let (bucket, key) = named(blob);
        let answer = Connection::send(self, &DeleteBlob { blob: BlobPath { bucket, key } }).await;
        Ok(found(answer, Code::BlobNotFound)?.map(|it| it.sequence))
    }

    async fn list_blobs(&self, bucket: &str, list: &ListOptions) -> Result<Listing, StoreError> {
        let (bucket, key) = (bucket.to_owned(), list.prefix.clone());
        if list.limit == Some(0) {
            return Ok(Listing::default());
        }
        let rows = list.limit.unwrap_or(usize::MAX).min(LIMIT_MAX as usize);
        let limit = rows.to_string().parse();
        let operation = ListBlobs {
            place: BlobPath { bucket, key },
            delimiter: list.delimiter.clone(),
            limit: limit.map_err(|reason| ApiError::Invalid { reason })?,
            cursor: list.after.clone(),
        };
        let page = Connection::send(self, &operation).await?;
        Ok(Listing { blobs: page.items, prefixes: page.prefixes, next: page.next })
    }
}

fn status_of(run: RunView) -> Status {
    if run.status == Phase::Paused {
        return Status::Paused(run.report);
    }
    status(run.status, run.output, run.error)
}

fn status(phase: Phase, output: Option<Value>, error: Option<FailureView>) -> Status {
    match phase {
        Phase::Queued => Status::Queued,
        Phase::Running => Status::Running,
        Phase::Waiting => Status::Waiting,
        Phase::Paused => Status::Paused(None),
        Phase::Complete => Status::Complete(output.unwrap_or_default()),
        Phase::Errored => {
            let FailureView { code, message } = error.unwrap_or_default();
            Status::Errored(Error::terminal(message).with_code(&code))
        }
        Phase::Terminated => Status::Terminated,
    }
}
