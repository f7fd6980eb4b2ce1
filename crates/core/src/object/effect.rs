//! Effects: work outside of a turn. The job is the contract, the performer holds the client, the
//! outcome comes back as a turn.

use std::{future::Future, pin::Pin, sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};
use steadfast_store::{Address, AddressError, EntityKind, RetryPolicy};

use crate::{Body, Error, Result, script::Says};

/// Work that a turn asks for. Of one kind, so many are under way at once as the dispatcher allows
/// for one target (16), or as its performer says.
pub trait Job: Body {
    /// Its name. It is stored: it may never change.
    const NAME: &'static str;
    /// How it is tried again.
    const RETRY: RetryPolicy = RetryPolicy::DEFAULT;
    /// How long one attempt may take.
    const TIMEOUT: Duration = Duration::from_mins(2);
    /// What it leads to.
    type Output: Body;
}

/// Performs jobs of one kind.
pub trait Perform<J: Job>: Send + Sync + 'static {
    /// Performs a job, at least once. `key` is the same for every attempt: pass it on as
    /// idempotency key.
    fn perform(&self, job: J, key: &str) -> impl Future<Output = Result<J::Output>> + Send;

    /// How many are under way at once. They have places of their own: they neither wait for other
    /// work nor keep it waiting.
    fn at_once(&self) -> Option<usize> {
        None
    }
}

/// How a job ended: an ordinary message. List it in `Calls` and `impl Handle<Outcome<J>>`.
#[derive(Debug, Serialize, Deserialize)]
#[serde(bound = "")]
pub struct Outcome<J: Job> {
    /// What was asked for.
    pub job: J,
    /// What came of it. An error has been tried again as often as [`Job::RETRY`] says.
    pub result: Result<J::Output>,
}

/// Jobs of a kind that are under way at once, unless their performer says otherwise.
const AT_ONCE: usize = 16;

/// A performer whose types are forgotten.
pub(super) struct Performer {
    pub(super) job: &'static str,
    pub(super) retry: RetryPolicy,
    pub(super) timeout: Duration,
    pub(super) at_once: usize,
    pub(super) run: Run,
    pub(super) fail: Fail,
    /// Performs an attempt as a test has scripted it.
    pub(super) act: fn(&str, Says) -> Performed,
}

type Run = Box<dyn Fn(String, String) -> Running + Send + Sync>;
type Running = Pin<Box<dyn Future<Output = Performed> + Send>>;

/// Makes the outcome of a job that failed for good.
type Fail = fn(&str, Error) -> Result<String, serde_json::Error>;

/// How one attempt went.
pub(super) struct Performed {
    /// The body of the outcome.
    pub(super) outcome: Result<String, serde_json::Error>,
    /// Why it failed, if it did and may be tried again.
    pub(super) again: Option<String>,
}

/// Where jobs of a kind wait. Not at the object that asks for them: what takes long outside must
/// not hold up its alarms, and jobs of one kind must not take all places there are.
pub(super) fn target(job: &str) -> Result<Address, AddressError> {
    Address::new(EntityKind::System, "effect", job)
}

impl Performer {
    pub(super) fn new<J: Job>(performer: impl Perform<J>) -> Self {
        let at_once = performer.at_once().unwrap_or(AT_ONCE);
        let performer = Arc::new(performer);
        let run: Run = Box::new(move |body, key| {
            let performer = performer.clone();
            Box::pin(async move { attempt::<J, _>(&*performer, &body, &key).await })
        });
        let fail = |body: &str, error: Error| outcome::<J>(body, Err(error));
        let act = |body: &str, says: Says| {
            let result = says.result().and_then(|it| {
                serde_json::from_value(it).map_err(|error| Error::terminal(error.to_string()))
            });
            performed::<J>(body, result)
        };
        Self { job: J::NAME, retry: J::RETRY, timeout: J::TIMEOUT, at_once, run, fail, act }
    }
}

async fn attempt<J: Job, P: Perform<J>>(performer: &P, body: &str, key: &str) -> Performed {
    let job: J = match serde_json::from_str(body) {
        Ok(job) => job,
        Err(error) => return Performed { outcome: Err(error), again: None },
    };
    performed::<J>(body, performer.perform(job, key).await)
}

fn performed<J: Job>(body: &str, result: Result<J::Output>) -> Performed {
    let again = result.as_ref().err().filter(|it| !it.is_terminal()).map(Error::to_string);
    Performed { outcome: outcome::<J>(body, result), again }
}

/// The outcome as it is recorded: the job as it was asked for, and the result.
fn outcome<J: Job>(body: &str, result: Result<J::Output>) -> Result<String, serde_json::Error> {
    let job: J = serde_json::from_str(body)?;
    serde_json::to_string(&Outcome { job, result })
}
