//! A workflow as a program declares it, the addresses of its runs, and its type-erased form: JSON
//! in, JSON out. The limit of its active runs admits resumed runs before new ones.

use std::{collections::VecDeque, fmt, marker::PhantomData, pin::Pin, sync::Arc, time::Duration};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use steadfast_store::{self as store, Address, EntityKind};
use tokio::sync::oneshot;

use super::{ctx::Ctx, error::RunError, record::Key};
use crate::{Body, Error, Result, body};

/// A workflow. It is a value: its fields are the dependencies of its steps.
pub trait Workflow: Send + Sync + Sized + 'static {
    /// Its name. It is stored: it may never change.
    const NAME: &'static str;
    /// The input of a run.
    type Input: Body;
    /// The output of a run.
    type Output: Body;

    /// Runs the workflow. Write it as `async fn run(&self, ctx: &Ctx, input: …) -> Result<…>`.
    ///
    /// Everything in here but the bodies of steps must be deterministic: it runs again after a
    /// crash and after every wait. Take time, randomness and everything from outside from `ctx`.
    fn run(
        &self,
        ctx: &Ctx,
        input: Self::Input,
    ) -> impl Future<Output = Result<Self::Output>> + Send;

    /// Concurrency and retention of its runs.
    fn options(&self) -> RunOptions {
        RunOptions::DEFAULT
    }

    /// The address of one run: plain data.
    fn at(id: impl Into<String>) -> RunAddress<Self> {
        RunAddress { id: id.into(), workflow: PhantomData }
    }
}

/// Names one run of a workflow.
pub struct RunAddress<W> {
    id: String,
    workflow: PhantomData<fn() -> W>,
}

impl<W> RunAddress<W> {
    /// Its id within the workflow.
    pub fn id(&self) -> &str {
        &self.id
    }
}

impl<W: Workflow> RunAddress<W> {
    /// Its address in the store; an id that no run can have is refused.
    pub(crate) fn resolve(&self) -> Result<store::Address, RunError> {
        address(W::NAME, &self.id)
    }
}

impl<W> Clone for RunAddress<W> {
    fn clone(&self) -> Self {
        Self { id: self.id.clone(), workflow: PhantomData }
    }
}

impl<W: Workflow> fmt::Debug for RunAddress<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "run/{}/{}", W::NAME, self.id)
    }
}

/// Characters of an id.
const ID_MAX: usize = 128;

pub(super) fn address(workflow: &str, id: &str) -> Result<Address, RunError> {
    let fits = |it: char| it.is_ascii_alphanumeric() || "_-.:".contains(it);
    if id.is_empty() || ID_MAX < id.len() || !id.chars().all(fits) {
        return Err(RunError::InvalidId { id: id.chars().take(ID_MAX).collect() });
    }
    Ok(Address::new(EntityKind::Run, workflow, id)?)
}

const DAY: Duration = Duration::from_hours(24);

/// Concurrency of the runs, and retention of ended runs in seconds.
// Runs over the limit are queued, resumed runs before new ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "openapi", schema(as = WorkflowLimits))]
pub struct RunOptions {
    /// Maximum number of executing runs; sleeping runs do not count.
    pub concurrency: usize,
    /// Seconds that complete runs are kept.
    #[serde(with = "body::seconds")]
    #[cfg_attr(feature = "openapi", schema(value_type = u64))]
    pub keep_complete: Duration,
    /// Seconds that failed runs are kept.
    #[serde(with = "body::seconds")]
    #[cfg_attr(feature = "openapi", schema(value_type = u64))]
    pub keep_errored: Duration,
    /// Seconds that terminated runs are kept.
    #[serde(with = "body::seconds")]
    #[cfg_attr(feature = "openapi", schema(value_type = u64))]
    pub keep_terminated: Duration,
}

impl RunOptions {
    /// 256 active runs; retention of one month, of three for failed ones.
    pub const DEFAULT: RunOptions = RunOptions {
        concurrency: 256,
        keep_complete: DAY.saturating_mul(30),
        keep_errored: DAY.saturating_mul(90),
        keep_terminated: DAY.saturating_mul(30),
    };
}

impl Default for RunOptions {
    fn default() -> Self {
        Self::DEFAULT
    }
}

pub(super) type Running = Pin<Box<dyn Future<Output = Result<Value>> + Send>>;
type Erased = Box<dyn Fn(Ctx) -> Running + Send + Sync>;

pub(super) struct Definition {
    pub(super) run: Erased,
    pub(super) options: RunOptions,
    pub(super) limit: Arc<RunLimit>,
}

impl Definition {
    pub(super) fn of<W: Workflow>(workflow: W) -> Self {
        let options = workflow.options();
        let workflow = Arc::new(workflow);
        let run: Erased = Box::new(move |ctx| {
            let workflow = workflow.clone();
            Box::pin(async move {
                // Types of programs are read outside of the lock.
                let text = ctx.state().fold.input.to_string();
                let input = serde_json::from_str(&text).map_err(|error| {
                    let text = format!("the input does not match that of `{}`: {error}", W::NAME);
                    Error::terminal(text).with_code("malformed_input")
                })?;
                let output = workflow.run(&ctx, input).await?;
                super::record::encode(&Key::of_the_run(), &output)
            })
        });
        Self { run, options, limit: RunLimit::new(options.concurrency) }
    }
}

/// The permits of one workflow.
pub(super) struct RunLimit(Mutex<PermitQueues>);

struct PermitQueues {
    free: usize,
    resumed: VecDeque<oneshot::Sender<RunPermit>>,
    new: VecDeque<oneshot::Sender<RunPermit>>,
}

/// One permit, until it is dropped.
pub(super) struct RunPermit(Arc<RunLimit>);

impl RunLimit {
    pub(super) fn new(permits: usize) -> Arc<Self> {
        let (resumed, new) = (VecDeque::new(), VecDeque::new());
        Arc::new(Self(Mutex::new(PermitQueues { free: permits.max(1), resumed, new })))
    }

    /// Waits for a permit.
    pub(super) async fn permit(self: &Arc<Self>, new: bool) -> RunPermit {
        let waiting = {
            let mut permits = self.0.lock();
            if 0 < permits.free {
                permits.free -= 1;
                return RunPermit(self.clone());
            }
            let (given, waiting) = oneshot::channel();
            let queue = if new { &mut permits.new } else { &mut permits.resumed };
            queue.push_back(given);
            waiting
        };
        // The queue that has the sender is never dropped while a task waits.
        waiting.await.unwrap_or_else(|_| RunPermit(self.clone()))
    }

    /// A permit, if one is free.
    pub(super) fn try_permit(self: &Arc<Self>) -> Option<RunPermit> {
        let mut permits = self.0.lock();
        permits.free = permits.free.checked_sub(1)?;
        Some(RunPermit(self.clone()))
    }
}

impl Drop for RunPermit {
    fn drop(&mut self) {
        let mut permits = self.0.0.lock();
        // Skip waiters that were dropped.
        let next = loop {
            match permits.resumed.pop_front().or_else(|| permits.new.pop_front()) {
                Some(next) if next.is_closed() => {}
                next => break next,
            }
        };
        match next {
            None => permits.free += 1,
            Some(next) => {
                drop(permits);
                // If the waiter was dropped just now, the permit is returned and goes to the next
                // one.
                let _ = next.send(RunPermit(self.0.clone()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        future::Future,
        pin::pin,
        task::{Context, Waker},
    };

    use super::*;

    #[test]
    fn resumed_runs_are_admitted_before_new_ones_and_dropped_waiters_are_skipped() {
        let (limit, mut context) = (RunLimit::new(1), Context::from_waker(Waker::noop()));
        let mut poll =
            |it: std::pin::Pin<&mut dyn Future<Output = RunPermit>>| it.poll(&mut context);
        let first = poll(pin!(limit.permit(true))).map(Some);
        let mut new = pin!(limit.permit(true));
        assert!(poll(new.as_mut()).is_pending());
        {
            let mut gone = pin!(limit.permit(false));
            assert!(poll(gone.as_mut()).is_pending());
        }
        let mut resumed = pin!(limit.permit(false));
        assert!(poll(resumed.as_mut()).is_pending());
        drop(first);
        assert!(poll(new.as_mut()).is_pending());
        let second = poll(resumed.as_mut());
        assert!(second.is_ready());
        assert!(poll(new.as_mut()).is_pending());
        drop(second);
        assert!(poll(new.as_mut()).is_ready());
    }
}
