//! Messages and effects leave a turn. An effect is work outside of a turn. The job is the
//! contract, the performer has the client, and the outcome arrives as a turn.

use std::{future::Future, pin::Pin, sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};
use serde_json::json;
use steadfast_store::{
    self as store, Address, AddressError, Due, EntityKind, InvalidInput, Json, Message,
    RetryPolicy, Task,
};

use crate::{Body, Error, Result, body::from_value, script::ScriptedResult};

/// A message that a turn sends.
#[doc(hidden)]
pub struct Sending {
    pub(crate) target: store::Address,
    pub(crate) action: &'static str,
    pub(crate) message_type: &'static str,
    pub(crate) data: Json,
    pub(crate) metadata: Json,
    /// The delay before it may be delivered.
    pub(crate) delay: Duration,
    /// It waits for earlier ones to the same target.
    pub(crate) ordered: bool,
}

impl Sending {
    /// A message to an object or a run, which its metadata name.
    pub(crate) fn to(
        target: Address,
        action: &'static str,
        message_type: &'static str,
        data: Json,
    ) -> Result<Self, InvalidInput> {
        let (metadata, delay) = (receiver(&target)?, Duration::ZERO);
        Ok(Self { target, action, message_type, data, metadata, delay, ordered: false })
    }

    /// The stored form.
    pub(crate) fn message(self, due: Due) -> Result<Message, InvalidInput> {
        let Self { target, action, message_type, data, metadata, delay, ordered } = self;
        let due = if delay.is_zero() { due } else { Due::After(delay) };
        let message = Message::new(message_type, data)?.action(action).metadata(metadata)?;
        Ok(message.task(Task { target, ordered, due }))
    }
}

/// The metadata of a message to an object or a run.
fn receiver(to: &Address) -> Result<Json, InvalidInput> {
    Json::of(&json!({ "to": to.to_string() }))
}

/// A message that calls an object.
pub(crate) fn call_message(to: &Address, name: &str, data: Json) -> Result<Message, InvalidInput> {
    Ok(Message::new(name, data)?.action("call").metadata(receiver(to)?)?.to(to))
}

/// Work that a turn requests. The dispatcher runs at most 16 jobs of one kind concurrently, unless
/// the performer sets another limit.
pub trait Job: Body {
    /// Its name. It is stored: it may never change.
    const NAME: &'static str;
    /// The retry policy.
    const RETRY: RetryPolicy = RetryPolicy::DEFAULT;
    /// Maximum duration of one attempt.
    const TIMEOUT: Duration = Duration::from_mins(2);
    /// The result.
    type Output: Body;
}

/// Performs jobs of one kind.
pub trait Perform<J: Job>: Send + Sync + 'static {
    /// Performs a job, at least once. `key` is the same for every attempt: pass it on as
    /// idempotency key.
    fn perform(&self, job: J, key: &str) -> impl Future<Output = Result<J::Output>> + Send;

    /// Maximum concurrent jobs. They have a pool of their own: they share no permits with other
    /// work.
    fn at_once(&self) -> Option<usize> {
        None
    }
}

/// The end of a job: an ordinary message. List it in `Calls` and `impl Handle<Outcome<J>>`.
#[derive(Debug, Serialize, Deserialize)]
#[serde(bound = "")]
pub struct Outcome<J: Job> {
    /// The job that was requested.
    pub job: J,
    /// The result. An error is final: it was retried according to [`Job::RETRY`].
    pub result: Result<J::Output>,
}

/// Default maximum of concurrent jobs of one kind.
const AT_ONCE: usize = 16;

/// A type-erased performer.
pub(super) struct Performer {
    pub(super) job: &'static str,
    pub(super) retry: RetryPolicy,
    pub(super) timeout: Duration,
    pub(super) at_once: usize,
    pub(super) run: Run,
    pub(super) fail: Fail,
}

/// Runs an attempt with a body and a key, or ends it as a test has scripted it.
type Run = Box<dyn Fn(String, String, Option<ScriptedResult>) -> Running + Send + Sync>;
type Running = Pin<Box<dyn Future<Output = JobAttempt> + Send>>;

/// Makes the outcome of a job that failed for good.
type Fail = fn(&str, Error) -> Result<String, serde_json::Error>;

/// The result of one attempt.
pub(super) struct JobAttempt {
    /// The body of the outcome.
    pub(super) outcome: Result<String, serde_json::Error>,
    /// The error, if the attempt failed and may be retried.
    pub(super) again: Option<String>,
}

/// The target of jobs of one kind. It is not the object that requests them: slow effects must not
/// delay its alarms, and jobs of one kind must not take all permits.
pub(super) fn target(job: &str) -> Result<Address, AddressError> {
    Address::new(EntityKind::System, "effect", job)
}

impl Performer {
    pub(super) fn new<J: Job>(performer: impl Perform<J>) -> Self {
        let at_once = performer.at_once().unwrap_or(AT_ONCE);
        let performer = Arc::new(performer);
        let run: Run = Box::new(move |body, key, scripted| {
            let performer = performer.clone();
            Box::pin(async move { attempt::<J, _>(&*performer, &body, &key, scripted).await })
        });
        let fail = |body: &str, error: Error| outcome::<J>(body, Err(error));
        Self { job: J::NAME, retry: J::RETRY, timeout: J::TIMEOUT, at_once, run, fail }
    }
}

async fn attempt<J: Job, P: Perform<J>>(
    performer: &P,
    body: &str,
    key: &str,
    scripted: Option<ScriptedResult>,
) -> JobAttempt {
    let job: J = match serde_json::from_str(body) {
        Ok(job) => job,
        Err(error) => return JobAttempt { outcome: Err(error), again: None },
    };
    let result = match scripted {
        Some(it) => it.result().and_then(|it| from_value(&it).map_err(Error::terminal)),
        None => performer.perform(job, key).await,
    };
    let again = result.as_ref().err().filter(|it| !it.is_terminal()).map(Error::to_string);
    JobAttempt { outcome: outcome::<J>(body, result), again }
}

/// The recorded outcome: the job and its result.
fn outcome<J: Job>(body: &str, result: Result<J::Output>) -> Result<String, serde_json::Error> {
    let job: J = serde_json::from_str(body)?;
    serde_json::to_string(&Outcome { job, result })
}
