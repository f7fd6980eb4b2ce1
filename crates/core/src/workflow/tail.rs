//! What a commit of a run ends with: it goes on, sleeps, stands still, or has ended.

use serde_json::Value;
use steadfast_store::{
    Commit, Due, Expect, Position, RunStatus, SettledAs, StoreError, Timestamp, Version, Write,
};

use super::{
    Status,
    ctx::Ctx,
    drive::Driver,
    record::{Entry, Progress, Report, Wait},
    state::State,
    wake::wake_up,
};
use crate::{Result, object::CallKey};

/// Bytes and entries of one commit; the rest comes with the next.
const BYTES_MAX: usize = 4_000_000;
const ENTRIES_MAX: usize = 400;

/// What is recorded of what a run waits for.
const WAITS_MAX: usize = 100;

pub(super) enum Tail {
    /// It goes on at once.
    GoesOn,
    /// It sleeps until one of these.
    Sleeps(Vec<Wait>),
    /// It is paused, and nothing is under way in it.
    Rests,
    /// It cannot go on.
    Stands(Report),
    /// It has ended.
    Ends(Result<Value>),
}

/// A commit of a run, on its way.
pub(super) struct Draft {
    pub(super) commit: Commit,
    /// How many of the new entries are in it, and whether that is all, with the tail.
    pub(super) taken: usize,
    pub(super) is_whole: bool,
    /// Which of its messages is the wake-up.
    pub(super) timer: Option<usize>,
    /// What it says of how far the run is.
    pub(super) told: Option<Progress>,
    /// What it expects.
    pub(super) version: Version,
}

impl Tail {
    /// How a run goes on that does nothing; `None` if it is time for something.
    pub(super) fn idle(ctx: &Ctx) -> Option<Self> {
        let state = ctx.state();
        if state.is_paused() {
            return Some(Tail::Rests);
        }
        let is_due = first(&state.waits).is_some_and(|it| it <= ctx.clock_now());
        if is_due {
            return None;
        }
        // The first of them tell why it sleeps; the record need not have them all.
        let mut waits = state.waits.clone();
        if WAITS_MAX < waits.len() {
            waits.sort_by_key(|it| it.until.unwrap_or(i64::MAX));
            waits.truncate(WAITS_MAX);
        }
        Some(Tail::Sleeps(waits))
    }

    /// Whether the run is over with it, at least for now.
    pub(super) fn is_last(&self) -> bool {
        !matches!(self, Tail::GoesOn)
    }

    /// Whether it depends on nothing having happened.
    pub(super) fn is_asked_again(&self) -> bool {
        matches!(self, Tail::Sleeps(_) | Tail::Rests)
    }

    /// The entry that it is recorded as, apart from wake-ups.
    fn entry(&self, state: &State) -> Option<Entry> {
        match self {
            Tail::GoesOn | Tail::Rests => None,
            Tail::Sleeps(waits) => {
                // A run that waits for a time is found by its wake-up.
                let is_known = first(waits).is_some()
                    || (matches!(state.fold.head.status, Status::Waiting) && state.new.is_empty());
                (!is_known).then(|| Entry::Waits { waits: waits.clone() })
            }
            Tail::Stands(report) => Some(Entry::Paused { report: Some(report.clone()) }),
            Tail::Ends(Ok(output)) => Some(Entry::Completed { output: output.clone() }),
            Tail::Ends(Err(error)) => Some(Entry::Errored { error: error.clone().shortened() }),
        }
    }

    /// What the table of runs says of it then, if that is something else.
    fn row(&self, driver: &Driver, state: &State) -> Option<Write> {
        let options = &driver.workflow.options;
        let (status, expires) = match self {
            Tail::GoesOn | Tail::Rests => return None,
            Tail::Sleeps(_) if matches!(state.fold.head.status, Status::Waiting) => {
                return None;
            }
            Tail::Sleeps(_) => (RunStatus::Waiting, None),
            Tail::Stands(_) => (RunStatus::Paused, None),
            Tail::Ends(Ok(_)) => (RunStatus::Complete, Some(options.keep_complete)),
            Tail::Ends(Err(_)) => (RunStatus::Errored, Some(options.keep_errored)),
        };
        Some(Write::Run { run: driver.run.clone(), status, expires })
    }

    /// It is durable.
    pub(super) fn fold(self, state: &mut State, at: Timestamp, timer: Option<Position>) {
        if !self.is_last() {
            return;
        }
        state.fold.head.timer = timer;
        match self.entry(state) {
            Some(entry) => state.fold.apply(0, at, entry),
            None if timer.is_some() => state.fold.head.waits(),
            None => {}
        }
    }
}

impl Driver {
    /// The next commit: what is new, then the tail with the end of what has woken the run.
    pub(super) fn draft(&self, ctx: &Ctx, tail: &Tail) -> Result<Draft, StoreError> {
        let state = ctx.state();
        let (stream, version) = (self.run.id(), state.fold.head.version);
        let (mut messages, mut taken, mut bytes) = (Vec::new(), 0, 0);
        let mut removals = Vec::new();
        for given in state.new.iter().take(ENTRIES_MAX) {
            let message = given.entry.message()?;
            bytes += message.bytes() + given.sends.as_ref().map_or(0, |it| it.bytes());
            if BYTES_MAX < bytes && 0 < taken {
                break;
            }
            messages.push(message);
            messages.extend(given.sends.clone());
            removals.extend(given.call.iter().flat_map(CallKey::remove));
            taken += 1;
        }
        let is_whole = taken == state.new.len();
        let (mut timer, mut ends) = (None, Vec::new());
        let told = state.untold().filter(|_| is_whole);
        if is_whole {
            let progress = told.clone().map(|it| Entry::Progress(it).message());
            messages.extend(progress.transpose()?);
            if let Some(entry) = tail.entry(&state) {
                // The end is the last entry of a record.
                if let Some(on_end) = &state.fold.head.on_end {
                    messages.extend(on_end.message(&self.run, &entry)?);
                }
                messages.push(entry.message()?);
            }
            if let Tail::Sleeps(waits) = tail
                && let Some(at) = first(waits)
            {
                timer = Some(messages.len());
                messages.push(wake_up(&self.run, Due::At(at), waits.clone())?);
            }
            if tail.is_last() {
                ends.extend(self.calls.iter().map(|it| it.settle()));
                ends.extend(self.stale_timer(&state));
                ends.extend(tail.row(self, &state));
            }
        }
        let mut commit = Commit::default().expect(Expect::Version { stream, version });
        if !messages.is_empty() {
            commit = commit.write(Write::Append { stream: self.run.clone(), messages });
        }
        let commit = removals.into_iter().chain(ends).fold(commit, Commit::write);
        Ok(Draft { commit, taken, is_whole, timer, told, version })
    }

    /// A wake-up for a time that the run no longer waits for, unless it is what has woken it.
    fn stale_timer(&self, state: &State) -> Option<Write> {
        let position = state.fold.head.timer?;
        let is_a_call = self.calls.iter().any(|it| it.position == position);
        let (lease, as_, error) = (None, SettledAs::Cancelled, None);
        (!is_a_call).then_some(Write::Settle { position, lease, as_, error })
    }
}

/// The first of the times among them.
pub(super) fn first(waits: &[Wait]) -> Option<Timestamp> {
    waits.iter().filter_map(|it| it.until).min().map(Timestamp)
}
