//! The transport of a [`Client`](crate::Client) to a program in another process.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use serde_json::Value;
use steadfast_bucket::{Blob, ListOptions, Listing, PutOptions};
use steadfast_store::{Code, RemoteProblem, StoreError};

use crate::{
    CallError, Error,
    process::{Decided, InputError, Refused},
    workflow::{StartOutcome, Status},
};

/// A program in this process, or in another one.
#[derive(Clone)]
pub(crate) enum Backend<L> {
    Local(L),
    Remote(Arc<dyn RemoteProgram>),
}

impl<L> Backend<L> {
    pub(crate) fn map<T>(self, part: impl FnOnce(L) -> T) -> Backend<T> {
        match self {
            Self::Local(it) => Backend::Local(part(it)),
            Self::Remote(transport) => Backend::Remote(transport),
        }
    }
}

/// A change of a run that [`RunHandle`](crate::RunHandle) makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunChange {
    /// Pause it.
    Pause,
    /// Resume it.
    Resume,
    /// Terminate it.
    Terminate,
}

/// Carries the verbs of a [`Client`](crate::Client) to a program in another process. Bodies are
/// JSON. Every error is [`StoreError::Remote`]; a run is named by its workflow and its id.
///
/// `steadfast::connect` gives the one over HTTP.
#[async_trait]
pub trait RemoteProgram: Send + Sync + 'static {
    /// Calls the object with this class and name; gives the reply.
    async fn call(
        &self,
        object: (&str, &str),
        message: &str,
        body: &str,
        key: Option<&str>,
    ) -> Result<String, StoreError>;

    /// Deletes the object with this class and name; `false` if it did not exist.
    async fn delete_object(&self, object: (&str, &str)) -> Result<bool, StoreError>;

    /// Sends a message to a queue.
    async fn send(&self, queue: &str, body: &str, delay: Duration) -> Result<(), StoreError>;

    /// Starts a run, or finds it.
    async fn start(&self, run: (&str, &str), input: &str) -> Result<StartOutcome, StoreError>;

    /// The status of a run.
    async fn status(&self, run: (&str, &str)) -> Result<Status, StoreError>;

    /// Waits until a run has ended or is paused.
    async fn wait(&self, run: (&str, &str)) -> Result<Status, StoreError>;

    /// Sends an event to a run.
    async fn send_event(
        &self,
        run: (&str, &str),
        event: &str,
        payload: &str,
    ) -> Result<(), StoreError>;

    /// Changes a run.
    async fn change_run(&self, run: (&str, &str), change: RunChange) -> Result<(), StoreError>;

    /// Gives an input to the instance of a process.
    async fn input(
        &self,
        instance: (&str, &str),
        message_type: &str,
        data: Value,
    ) -> Result<Decided, StoreError>;

    /// Writes the blob with this bucket and key.
    async fn put_blob(
        &self,
        blob: (&str, &str),
        bytes: &[u8],
        put: PutOptions,
    ) -> Result<Blob, StoreError>;

    /// The bytes of a blob; `None` if there is none.
    async fn get_blob(&self, blob: (&str, &str)) -> Result<Option<Vec<u8>>, StoreError>;

    /// Deletes a blob; the number of the deletion, or `None` if there was none.
    async fn delete_blob(&self, blob: (&str, &str)) -> Result<Option<i64>, StoreError>;

    /// Lists the blobs of a bucket.
    async fn list_blobs(&self, bucket: &str, list: &ListOptions) -> Result<Listing, StoreError>;
}

/// The error of a method that is not available for a program in another process.
pub(crate) fn not_remote(advice: &str) -> StoreError {
    StoreError::Remote(Box::new(RemoteProblem {
        code: Code::Conflict,
        detail: format!("the program runs in another process: {advice}"),
        refusal: None,
        is_retryable: false,
    }))
}

/// An object that refuses is [`CallError::Refused`], for a local and a remote program alike.
pub(crate) fn call_error(error: StoreError) -> CallError {
    if let StoreError::Remote(problem) = &error
        && let Some(code) = &problem.refusal
    {
        let refused = match problem.is_retryable {
            true => Error::retryable(&problem.detail),
            false => Error::terminal(&problem.detail),
        };
        return CallError::Refused(refused.with_code(code));
    }
    error.into()
}

/// A process that refuses is [`InputError::Refused`], for a local and a remote program alike.
pub(crate) fn input_error(error: StoreError) -> InputError {
    if let StoreError::Remote(problem) = &error
        && problem.refusal.is_some()
    {
        return InputError::Refused(Refused::because(&*problem.detail));
    }
    error.into()
}
