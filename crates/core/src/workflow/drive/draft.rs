//! One poll of the code of a run, until the driver has something to do, and the commit of what came
//! of it: the new entries, and in the last commit how the run continues.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    task::{Context, Poll},
};

use serde_json::Value;
use steadfast_store::{
    Address, Clock, Commit, Due, Expect, Receipt, RunStatus, Sleep, StoreError, Timestamp, Write,
    sort::sort_by_key,
};

use crate::{
    Error, Result,
    object::CallKey,
    workflow::{
        ctx::Ctx,
        definition::{RunOptions, Running},
        record::{Entry, Report, Wait, WakeUp, cancel_wake_up, wake_up},
        state::State,
        status::Status,
    },
};

/// Maximum bytes and entries of one commit; more go into the next.
const BYTES_MAX: usize = 4_000_000;
const ENTRIES_MAX: usize = 400;

/// Maximum recorded waits of a run.
const WAITS_MAX: usize = 100;

/// The state of a run after a commit.
#[derive(Debug)]
pub(super) enum Tail {
    /// It continues immediately.
    Continue,
    /// It sleeps until the first of these.
    Sleep(Vec<Wait>),
    /// It is paused, and nothing is in flight.
    Pause,
    /// It cannot continue.
    Stuck(Report),
    /// It has ended.
    End(Result<Value>),
}

impl Tail {
    /// The tail of an idle run; `None` if one of its waits is over.
    pub(super) fn idle(state: &State, now: Timestamp) -> Option<Self> {
        if state.is_paused() {
            return Some(Tail::Pause);
        }
        if first(&state.waits).is_some_and(|it| it <= now) {
            return None;
        }
        // The first of them explain the sleep; the record need not have them all.
        let mut waits = state.waits.clone();
        if WAITS_MAX < waits.len() {
            sort_by_key(&mut waits, |it| it.until.unwrap_or(i64::MAX));
            waits.truncate(WAITS_MAX);
        }
        Some(Tail::Sleep(waits))
    }

    /// Whether the driver ends after it.
    pub(super) fn is_last(&self) -> bool {
        !matches!(self, Tail::Continue)
    }

    /// Whether an entry of others may be a reason to continue.
    pub(super) fn is_provisional(&self) -> bool {
        matches!(self, Tail::Sleep(_) | Tail::Pause)
    }

    fn entry(&self, state: &State) -> Option<Entry> {
        match self {
            Tail::Continue | Tail::Pause => None,
            Tail::Sleep(waits) => {
                let is_known =
                    matches!(state.fold.head.status, Status::Waiting) && state.new.is_empty();
                // A run that waits for a time is found by its wake-up.
                let is_recorded = first(waits).is_some() || is_known;
                (!is_recorded).then(|| Entry::Waits { waits: waits.clone() })
            }
            Tail::Stuck(report) => Some(Entry::Paused { report: Some(report.clone()) }),
            Tail::End(Ok(output)) => Some(Entry::Completed { output: output.clone() }),
            Tail::End(Err(error)) => Some(Entry::Errored { error: error.clone().shortened() }),
        }
    }

    /// The row of the run in the table of runs, if it changes.
    fn row(&self, run: &Address, options: &RunOptions, state: &State) -> Option<Write> {
        let (status, expires) = match self {
            Tail::Continue | Tail::Pause => return None,
            Tail::Sleep(_) if matches!(state.fold.head.status, Status::Waiting) => return None,
            Tail::Sleep(_) => (RunStatus::Waiting, None),
            Tail::Stuck(_) => (RunStatus::Paused, None),
            Tail::End(Ok(_)) => (RunStatus::Complete, Some(options.keep_complete)),
            Tail::End(Err(_)) => (RunStatus::Errored, Some(options.keep_errored)),
        };
        Some(Write::Run { run: run.clone(), status, expires })
    }
}

/// The contents of a commit in flight, until its receipt arrives.
#[derive(Default)]
pub(super) struct Draft {
    /// The number of new entries in it.
    taken: usize,
    /// Whether these are all of them; only then it contains the tail.
    pub(super) is_whole: bool,
    /// Entries that the fold does not have yet.
    entries: Vec<Entry>,
    /// The index of the wake-up among the messages.
    timer: Option<usize>,
}

impl Draft {
    /// The next commit: new entries, then the tail, which also settles the wake-ups of the run.
    pub(super) fn new(
        (run, options): (&Address, &RunOptions),
        state: &State,
        wake_ups: &[WakeUp],
        tail: &Tail,
    ) -> Result<(Commit, Self), StoreError> {
        let (stream, version) = (run.id(), state.fold.head.version);
        let mut draft = Self::default();
        let (mut messages, mut writes, mut bytes) = (Vec::new(), Vec::new(), 0);
        for given in state.new.iter().take(ENTRIES_MAX) {
            let message = given.entry.message()?;
            bytes += message.bytes() + given.sends.as_ref().map_or(0, |it| it.bytes());
            if BYTES_MAX < bytes && 0 < draft.taken {
                break;
            }
            messages.push(message);
            messages.extend(given.sends.clone());
            writes.extend(given.call.iter().flat_map(CallKey::remove));
            draft.taken += 1;
        }
        draft.is_whole = draft.taken == state.new.len();
        if draft.is_whole {
            draft.entries.extend(state.unrecorded_progress().map(Entry::Progress));
            draft.entries.extend(tail.entry(state));
            for entry in &draft.entries {
                // The end is the last entry of a record.
                if let Some(on_end) = &state.fold.head.on_end {
                    messages.extend(on_end.message(run, entry)?);
                }
                messages.push(entry.message()?);
            }
            if let Tail::Sleep(waits) = tail
                && let Some(at) = first(waits)
            {
                draft.timer = Some(messages.len());
                messages.push(wake_up(run, Due::At(at), waits.clone())?);
                draft.entries.push(Entry::Wake { waits: waits.clone() });
            }
            if tail.is_last() {
                writes.extend(wake_ups.iter().map(WakeUp::settle));
                // A timer that the run no longer needs, unless it has woken the run.
                let timer = state.fold.head.timer;
                let stale = timer.filter(|it| wake_ups.iter().all(|wake| wake.position != *it));
                writes.extend(stale.map(cancel_wake_up));
                writes.extend(tail.row(run, options, state));
            }
        }
        let mut commit = Commit::default().expect(Expect::Version { stream, version });
        if !messages.is_empty() {
            commit = commit.write(Write::Append { stream: run.clone(), messages });
        }
        Ok((writes.into_iter().fold(commit, Commit::write), draft))
    }

    /// Updates the state when the commit is durable.
    pub(super) fn apply(self, state: &mut State, receipt: &Receipt, tail: &Tail) {
        state.is_durable(self.taken, receipt);
        for entry in self.entries {
            state.fold.apply(0, receipt.at, entry);
        }
        if self.is_whole && tail.is_last() {
            let timer = self.timer.and_then(|it| receipt.appended.get(it));
            state.fold.head.timer = timer.map(|it| it.1);
        }
    }
}

/// The first of the times.
pub(super) fn first(waits: &[Wait]) -> Option<Timestamp> {
    waits.iter().filter_map(|it| it.until).min().map(Timestamp)
}

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
