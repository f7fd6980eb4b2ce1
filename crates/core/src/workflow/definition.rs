//! A registered workflow: type-erased, JSON in, JSON out.

use std::{pin::Pin, sync::Arc, time::Duration};

use serde_json::Value;

use super::{Workflow, ctx::Ctx, record::Key, run_limit::RunLimit};
use crate::{Error, Result, body::from_value};

const DAY: Duration = Duration::from_hours(24);

/// Concurrency of the runs of a workflow, and their retention after the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunOptions {
    /// Maximum active runs; others are queued, resumed runs before new ones. Sleeping runs do not
    /// count.
    pub concurrency: usize,
    /// Retention of completed runs.
    pub keep_complete: Duration,
    /// Retention of failed runs.
    pub keep_errored: Duration,
    /// Retention of terminated runs.
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
type Erased = Box<dyn Fn(Ctx, Value) -> Running + Send + Sync>;

pub(super) struct Definition {
    pub(super) run: Erased,
    pub(super) options: RunOptions,
    pub(super) limit: Arc<RunLimit>,
}

impl Definition {
    pub(super) fn of<W: Workflow>(workflow: W) -> Self {
        let options = workflow.options();
        let workflow = Arc::new(workflow);
        let run: Erased = Box::new(move |ctx, input| {
            let workflow = workflow.clone();
            Box::pin(async move {
                let input = from_value(&input).map_err(|error| {
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
