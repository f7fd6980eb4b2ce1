//! The state machine of a run that is driven. It does no I/O: the driver performs an action and
//! passes the outcome as the next event, so that a model can test every order of them.
//!
//! ```text
//! Begin  -- loaded -->    Drive
//! Drive  -- polled -->    Commit: entries, and how the run continues
//! Commit -- durable -->   Drive, or End: the run sleeps, is paused or has ended
//! Commit -- rejected -->  Wait: reads new entries, then Commit again or Drive
//! Commit -- busy -->      Wait, then Commit again
//! Drive  -- notified -->  SecondWakeUp: settles a second wake-up, reads new entries, then Drive
//! Drive, Wait -- restarted by others -->  Begin
//! Drive, Wait -- ended by others -->      Leave: settles the wake-ups, then End
//! ```

use std::{mem, time::Duration};

use steadfast_store::{
    Address, Commit, Expect, Outcome, Recorded, Rejection, StoreError, Timestamp,
};

use super::draft::{Draft, PollResult, Tail};
use crate::workflow::{
    RunOptions, Status,
    active::Notification,
    record::{Report, WakeUp},
    state::State,
};

/// Retry interval while the store is busy.
const PAUSE: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(5);

pub(super) enum Event {
    /// The state has the run as it is recorded, or is empty: there is nothing to drive.
    Loaded,
    /// The code of the run was polled.
    Polled(PollResult),
    /// A wake-up arrived, or others have appended entries.
    Notified(Notification),
    /// The messages after the last one in the fold.
    Refreshed(Vec<Recorded>),
    /// The answer of the store to a commit.
    Committed(Result<Outcome, StoreError>),
    /// The pause has ended.
    Paused,
}

pub(super) enum Action {
    /// Drop the code of the run, read the record and replay the code.
    Load,
    Poll,
    Refresh,
    Commit(Commit),
    /// The store is busy.
    Pause(Duration),
    /// The run sleeps, is paused or has ended, and the state has all of its record.
    Sleep,
    /// There is nothing to drive.
    Finish,
    /// The remaining wake-ups are delivered again.
    GiveUp(StoreError),
}

enum Phase {
    Begin,
    Drive,
    /// Settles a second wake-up.
    SecondWakeUp(WakeUp),
    Commit(Tail, Draft),
    /// Records this later.
    Wait(Tail),
    /// Settles all wake-ups, because there is nothing to do.
    Leave,
    End,
}

pub(super) struct Machine {
    run: Address,
    options: RunOptions,
    phase: Phase,
    /// The generation of the fold that the code was begun with.
    generation: u32,
    /// Wake-ups of the run. They stay pending until the run sleeps or ends, so that the next
    /// process wakes the run if this one crashes.
    pub(super) wake_ups: Vec<WakeUp>,
    /// Settled wake-ups whose deliveries must be notified.
    pub(super) settled: Vec<WakeUp>,
    pause: Duration,
}

impl Machine {
    pub(super) fn new(run: Address, options: RunOptions) -> Self {
        let (wake_ups, settled) = (Vec::new(), Vec::new());
        let (phase, generation, pause) = (Phase::End, 0, PAUSE);
        Self { run, options, phase, generation, wake_ups, settled, pause }
    }

    /// Drives the run; the first action is to load it.
    pub(super) fn begin(&mut self) {
        self.phase = Phase::Begin;
    }

    pub(super) fn step(&mut self, state: &mut State, event: Event, now: Timestamp) -> Action {
        match event {
            Event::Loaded => self.loaded(state),
            Event::Polled(polled) => self.polled(state, polled, now),
            Event::Notified(None) => Action::Refresh,
            Event::Notified(Some(wake_up)) => self.take_wake_up(wake_up),
            Event::Refreshed(messages) => self.refreshed(state, &messages),
            Event::Committed(answer) => self.committed(state, answer),
            Event::Paused => match mem::replace(&mut self.phase, Phase::Drive) {
                Phase::Wait(tail) => self.record(state, tail),
                Phase::Begin
                | Phase::Drive
                | Phase::SecondWakeUp(_)
                | Phase::Commit(..)
                | Phase::Leave
                | Phase::End => unreachable!("no commit of this run waits"),
            },
        }
    }

    fn loaded(&mut self, state: &State) -> Action {
        let head = &state.fold.head;
        if head.version == 0 || !head.can_continue() {
            return self.leave();
        }
        self.generation = state.fold.generation;
        self.go_on(state)
    }

    /// Polls the code, unless others have ended or restarted the run.
    fn go_on(&mut self, state: &State) -> Action {
        // A restart of an ended run has a wake-up of its own.
        if state.fold.head.status.is_final() {
            return self.leave();
        }
        if state.fold.generation != self.generation {
            self.phase = Phase::Begin;
            return Action::Load;
        }
        self.phase = Phase::Drive;
        Action::Poll
    }

    fn polled(&mut self, state: &mut State, polled: PollResult, now: Timestamp) -> Action {
        let tail = match polled {
            PollResult::Due => return Action::Poll,
            PollResult::Record => Tail::Continue,
            PollResult::Idle => match Tail::idle(state, now) {
                Some(tail) => tail,
                None => return Action::Poll,
            },
            PollResult::Stuck(report) => Tail::Stuck(report),
            PollResult::Ended(result) => Tail::End(result),
        };
        self.pause = PAUSE;
        self.record(state, tail)
    }

    /// One wake-up keeps the run alive; another is settled when the run has processed it, so that
    /// it does not take a permit of other runs. But only while the first is pending: others may
    /// have cancelled it.
    fn take_wake_up(&mut self, wake_up: WakeUp) -> Action {
        let Some(first) = self.wake_ups.first().map(|it| it.position) else {
            self.wake_ups.push(wake_up);
            self.phase = Phase::Drive;
            return Action::Refresh;
        };
        let commit = Commit::of(wake_up.settle()).expect(Expect::Pending { position: first });
        self.phase = Phase::SecondWakeUp(wake_up);
        Action::Commit(commit)
    }

    /// Settles the wake-ups one by one: one that is no longer pending does not affect the others.
    fn leave(&mut self) -> Action {
        match self.wake_ups.last() {
            Some(wake_up) => {
                self.phase = Phase::Leave;
                Action::Commit(Commit::of(wake_up.settle()))
            }
            None => {
                self.phase = Phase::End;
                Action::Finish
            }
        }
    }

    /// Records the new entries and the tail.
    fn record(&mut self, state: &mut State, tail: Tail) -> Action {
        let run = (&self.run, &self.options);
        match Draft::new(run, state, &self.wake_ups, &tail) {
            Ok((commit, _)) if commit.writes.is_empty() && tail.is_last() => self.sleep(),
            Ok((commit, _)) if commit.writes.is_empty() => self.go_on(state),
            Ok((commit, draft)) => {
                self.phase = Phase::Commit(tail, draft);
                Action::Commit(commit)
            }
            Err(error) => self.not_recorded(state, tail, error),
        }
    }

    fn sleep(&mut self) -> Action {
        self.settled.append(&mut self.wake_ups);
        self.phase = Phase::End;
        Action::Sleep
    }

    fn refreshed(&mut self, state: &mut State, messages: &[Recorded]) -> Action {
        if let Err(error) = state.refresh(messages) {
            return Action::GiveUp(error);
        }
        let is_same =
            !state.fold.head.status.is_final() && state.fold.generation == self.generation;
        if let Phase::Wait(tail) = mem::replace(&mut self.phase, Phase::Drive)
            && is_same
            && !tail.is_provisional()
        {
            return self.record(state, tail);
        }
        self.go_on(state)
    }

    fn committed(&mut self, state: &mut State, answer: Result<Outcome, StoreError>) -> Action {
        match mem::replace(&mut self.phase, Phase::Drive) {
            Phase::Commit(tail, draft) => self.recorded(state, tail, draft, answer),
            Phase::SecondWakeUp(wake_up) => self.took_wake_up(wake_up, answer),
            Phase::Leave => match answer {
                // One that is no longer pending is settled as well.
                Ok(_) => {
                    self.settled.extend(self.wake_ups.pop());
                    self.leave()
                }
                Err(error) => Action::GiveUp(error),
            },
            Phase::Begin | Phase::Drive | Phase::Wait(_) | Phase::End => {
                unreachable!("no commit of this run is in flight")
            }
        }
    }

    fn took_wake_up(&mut self, wake_up: WakeUp, answer: Result<Outcome, StoreError>) -> Action {
        let first = self.wake_ups.first().map(|it| it.position);
        match answer {
            Ok(Outcome::Rejected(Rejection::NotPending { position }))
                if Some(position) == first =>
            {
                self.settled.push(self.wake_ups.remove(0));
                self.take_wake_up(wake_up)
            }
            Ok(_) => {
                self.settled.push(wake_up);
                Action::Refresh
            }
            Err(error) => {
                self.wake_ups.push(wake_up);
                Action::GiveUp(error)
            }
        }
    }

    fn recorded(
        &mut self,
        state: &mut State,
        tail: Tail,
        draft: Draft,
        answer: Result<Outcome, StoreError>,
    ) -> Action {
        match answer {
            Ok(Outcome::Committed(receipt)) => {
                let is_whole = draft.is_whole;
                draft.apply(state, &receipt, &tail);
                match (is_whole, tail.is_last()) {
                    (false, _) => self.record(state, tail),
                    (true, false) => self.go_on(state),
                    (true, true) => self.sleep(),
                }
            }
            Ok(Outcome::Rejected(rejection)) => self.rejected(state, tail, rejection),
            Ok(Outcome::Duplicate(_)) => {
                Action::GiveUp(StoreError::Corrupt { reason: "a run has no keys".into() })
            }
            Err(error) => self.not_recorded(state, tail, error),
        }
    }

    fn rejected(&mut self, state: &mut State, tail: Tail, rejection: Rejection) -> Action {
        if let Rejection::Version { actual, .. } = rejection {
            if actual < state.fold.head.version {
                // The run was erased.
                state.fold.head.status = Status::Terminated;
                return self.leave();
            }
            self.phase = Phase::Wait(tail);
            return Action::Refresh;
        }
        let (Rejection::NotPending { position } | Rejection::LeaseLost { position }) = rejection
        else {
            return Action::GiveUp(StoreError::Corrupt { reason: rejection.to_string() });
        };
        // Others have settled this wake-up.
        if let Some(at) = self.wake_ups.iter().position(|it| it.position == position) {
            self.settled.push(self.wake_ups.remove(at));
        }
        state.fold.head.timer.take_if(|it| *it == position);
        if tail.is_provisional() { self.go_on(state) } else { self.record(state, tail) }
    }

    fn not_recorded(&mut self, state: &mut State, tail: Tail, error: StoreError) -> Action {
        // Steps must not be repeated because the store is busy.
        if error.is_retryable() {
            tracing::warn!(run = %self.run, error = %error, "commit is retried");
            let pause = self.pause;
            self.pause = (pause * 2).min(PAUSE_MAX);
            self.phase = Phase::Wait(tail);
            return Action::Pause(pause);
        }
        if let StoreError::Invalid(error) = &error
            && !matches!(tail, Tail::Stuck(_))
        {
            state.new.clear();
            let reason = format!("its result cannot be recorded: {error}");
            return self.record(state, Tail::Stuck(Report::new(&reason)));
        }
        Action::GiveUp(error)
    }
}
