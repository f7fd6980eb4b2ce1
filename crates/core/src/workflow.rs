//! Workflows: async functions whose steps survive crashes. The result of a step is recorded before
//! the next one begins. After a crash or a long wait, the function runs again from its start and
//! reads the results from the record.

mod active;
mod begin;
mod branch;
mod call;
mod combine;
mod control;
mod ctx;
mod definition;
mod drive;
mod ended;
mod erase;
mod error;
mod fold;
mod fold_cache;
mod handle;
mod head;
mod history;
mod input;
mod list;
mod look;
mod record;
mod retry;
mod route;
mod run_limit;
mod runs;
mod send;
mod state;
mod status;
mod step;
mod view;
mod wait;
mod wake;
mod watchers;

use std::{fmt, marker::PhantomData};

pub(crate) use self::record::OnEnd;
pub use self::{
    begin::StartedRecord,
    combine::Either,
    ctx::Ctx,
    definition::RunOptions,
    ended::RunEnded,
    error::RunError,
    handle::{Event, RunEvent, RunHandle},
    history::HistoryEntry,
    list::{RunItem, RunPage, RunQuery, WorkflowCounts},
    record::{Progress, Report, StepInput},
    retry::{Backoff, Retry},
    runs::{Run, Runs},
    status::{Phase, StartOutcome, Status, StepStatus},
    step::Step,
    view::{AttemptView, EventView, FailureView, ProgressView, RunView, StepView, Time, WaitView},
};
use steadfast_store as store;

use crate::{Body, Result};

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
        runs::address(W::NAME, &self.id)
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
