//! Polls the code of a run until the driver has something to do.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    task::{Context, Poll},
};

use serde_json::Value;
use steadfast_store::{Clock, Sleep, Timestamp};

use super::draft::first;
use crate::{
    Error, Result,
    workflow::{ctx::Ctx, definition::Running, record::Report},
};

/// The result of polling the code.
#[derive(Debug)]
pub(super) enum PollResult {
    /// It has ended.
    Ended(Result<Value>),
    /// It needs something recorded before it continues.
    Record,
    /// It waits for times or events alone, or is paused.
    Idle,
    /// A body is in flight, and a timer of another branch is due.
    Due,
    /// It cannot continue.
    Stuck(Report),
}

/// Polls the code once. While a body is in flight, it is pending until the body or the alarm wakes
/// the task.
pub(super) fn poll(
    ctx: &Ctx,
    future: &mut Running,
    alarm: &mut Alarm<'_>,
    context: &mut Context<'_>,
) -> Poll<PollResult> {
    {
        let mut state = ctx.state();
        state.waits.clear();
        state.wants = false;
    }
    let polled = catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(context)));
    let mut state = ctx.state();
    if let Some(report) = state.stuck.take() {
        return Poll::Ready(PollResult::Stuck(report));
    }
    let is_busy = !state.in_flight.is_empty();
    Poll::Ready(match polled {
        Ok(Poll::Ready(result)) => match state.unasked() {
            Some(report) => PollResult::Stuck(report),
            None => PollResult::Ended(result),
        },
        // Entries are durable before a body begins, and are not held back while one is in flight.
        Ok(Poll::Pending) if !state.new.is_empty() && (state.wants || is_busy) => {
            PollResult::Record
        }
        Ok(Poll::Pending) if is_busy => {
            let at = first(&state.waits).filter(|_| !state.is_paused());
            return alarm.poll(at, context).map(|()| PollResult::Due);
        }
        Ok(Poll::Pending) if state.waits.is_empty() && !state.is_paused() => PollResult::Stuck(
            Report::new("the run awaits something that is not durable; do that in a step"),
        ),
        Ok(Poll::Pending) => PollResult::Idle,
        Err(panic) => {
            let text = crate::dispatch::panic_message(&*panic);
            let error = Error::terminal(format!("the run panicked: {text}"));
            PollResult::Ended(Err(error.with_code("run_panicked")))
        }
    })
}

/// Wakes the task at the first time that a branch waits for while a body is in flight.
pub(super) struct Alarm<'a> {
    clock: &'a dyn Clock,
    set: Option<(Timestamp, Sleep<'a>)>,
}

impl<'a> Alarm<'a> {
    pub(super) fn new(clock: &'a dyn Clock) -> Self {
        Self { clock, set: None }
    }

    /// Ready when the time has come, if there is one.
    fn poll(&mut self, at: Option<Timestamp>, context: &mut Context<'_>) -> Poll<()> {
        let Some(at) = at else {
            self.set = None;
            return Poll::Pending;
        };
        let sleep = match self.set.take() {
            Some((set, sleep)) if set == at => sleep,
            Some(_) | None => self.clock.sleep_until(at),
        };
        let (_, sleep) = self.set.insert((at, sleep));
        let polled = sleep.as_mut().poll(context);
        if polled.is_ready() {
            self.set = None;
        }
        polled
    }
}
