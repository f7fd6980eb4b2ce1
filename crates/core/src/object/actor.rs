//! The actor: one object as a pure state machine. It owns the mailbox, the phase and the record of
//! commits in flight. Inputs go in, a list of outputs to perform comes out; nothing here waits,
//! sends or reads. `actor/model.rs` checks it against a model.
//!
//! | Phase | Input | Next phase | Outputs |
//! | --- | --- | --- | --- |
//! | Unloaded | Push | Loading | Load |
//! | Idle | Push | Ready | Run |
//! | Ready(Delivery) | Push of a call | Ready(Call) | Promote |
//! | other live phases | Push | same | – |
//! | Quarantined, Evicted, or mailbox full | Push | same | Refuse |
//! | Loading | Loaded(Ok) | Ready if mail, else Idle | Run |
//! | Loading | Loaded(Corrupt) | Quarantined | CloseConnections, Refuse all |
//! | Loading | Loaded(other error) | Unloaded | Refuse all |
//! | Ready | Dispatched | Running | – |
//! | Running | TakeMail | Running | RunTurn; EndBurst if empty, full or failed |
//! | Running | TurnEnded | Running | Complete if it made no commit and none is in flight |
//! | Running | BurstEnded, usable, none failed | Blocked if full, Ready if mail, else Idle | Run |
//! | Running | BurstEnded otherwise | Doomed | Unload |
//! | Blocked | Answered(Ok), below the limits | Ready if mail, else Idle | Complete, Run |
//! | Idle, Blocked | Answered(Err) | Doomed | Complete, Unload |
//! | Doomed | nothing in flight | Quarantined if damaged; Loading if mail; else Unloaded | Load |
//! | otherwise | Answered | same | Complete |
//! | Idle, Unloaded | Evict, nothing inside, `used` unchanged | Evicted | Unload |
//!
//! A completion leaves only when every commit that its turn has seen is durable.

#[cfg(test)]
mod model;

use std::collections::VecDeque;

use super::{
    CallError,
    priority::{Priority, PriorityQueue},
};

/// A request in a mailbox.
pub(super) trait Mail {
    fn priority(&self) -> Priority;

    /// Whether its receiver was dropped, so that it can be dropped as well.
    fn is_abandoned(&self) -> bool;
}

pub(super) struct Actor<M, R> {
    phase: Phase,
    mailbox: PriorityQueue<M>,
    in_flight: InFlightCommits<R>,
    /// When it was last used, in requests to all objects.
    used: u64,
}

#[derive(Clone, Debug)]
enum Phase {
    /// Not in memory.
    Unloaded,
    Loading,
    /// In memory, without mail.
    Idle,
    /// In the queue for a thread, with this priority.
    Ready(Priority),
    Running,
    /// Waits for its commits.
    Blocked,
    /// The memory differs from the store: the object is read again when no commit is in flight. If
    /// it was found to be damaged, it is quarantined instead.
    Doomed(Option<CallError>),
    /// Its stored data is damaged.
    Quarantined(CallError),
    /// Out of the table: callers must look the object up again.
    Evicted,
}

pub(super) enum Input<'a, M, R> {
    /// `limit` bounds the calls in the mailbox. Deliveries and ends of connections have none: their
    /// senders are bounded.
    Push {
        mail: M,
        limit: Option<usize>,
        used: u64,
    },
    Loaded(Result<(), CallError>),
    /// A thread begins a burst.
    Dispatched,
    TakeMail,
    /// A turn made commits of these sizes; its completion has `bytes`. `requeue` must run again.
    TurnEnded {
        commits: &'a [usize],
        completion: R,
        bytes: usize,
        requeue: Option<M>,
    },
    /// All commits of the burst are submitted.
    BurstEnded {
        usable: bool,
        damage: Option<CallError>,
    },
    Answered {
        commit: u64,
        result: Result<(), CallError>,
    },
    Evict {
        used: u64,
    },
}

pub(super) enum Output<M, R> {
    Load,
    /// Queue it for a thread.
    Run(Priority),
    /// It is in the queue as a delivery, and now has a call.
    Promote,
    RunTurn(M),
    EndBurst,
    Complete(R, Result<(), CallError>),
    Refuse(M, Refusal),
    /// Drop the executor.
    Unload,
    CloseConnections,
}

#[derive(Clone, Debug)]
pub(super) enum Refusal {
    Evicted,
    Busy,
    Failed(CallError),
}

impl<M, R> Default for Actor<M, R> {
    fn default() -> Self {
        Self {
            phase: Phase::Unloaded,
            mailbox: PriorityQueue::default(),
            in_flight: InFlightCommits::default(),
            used: 0,
        }
    }
}

impl<M: Mail, R> Actor<M, R> {
    pub(super) fn step(&mut self, input: Input<'_, M, R>, outputs: &mut Vec<Output<M, R>>) {
        match input {
            Input::Push { mail, limit, used } => self.push(mail, limit, used, outputs),
            Input::Loaded(result) => self.loaded(result, outputs),
            Input::Dispatched => {
                debug_assert!(matches!(self.phase, Phase::Ready(_)), "{:?}", self.phase);
                self.phase = Phase::Running;
            }
            Input::TakeMail => outputs.push(match self.take() {
                Some(mail) => Output::RunTurn(mail),
                None => Output::EndBurst,
            }),
            Input::TurnEnded { commits, completion, bytes, requeue } => {
                debug_assert!(matches!(self.phase, Phase::Running), "{:?}", self.phase);
                if let Some(mail) = requeue.filter(|it| !it.is_abandoned()) {
                    let priority = mail.priority();
                    self.mailbox.push(mail, priority);
                }
                let at_once = self.in_flight.add(commits, completion, bytes);
                outputs.extend(at_once.map(|(it, result)| Output::Complete(it, result)));
            }
            Input::BurstEnded { usable, damage } => self.burst_ended(usable, damage, outputs),
            Input::Answered { commit, result } => self.answered(commit, result, outputs),
            Input::Evict { used } => {
                if self.idle_since() == Some(used) {
                    self.phase = Phase::Evicted;
                    outputs.push(Output::Unload);
                }
            }
        }
    }

    /// The mail that `TakeMail` would return.
    pub(super) fn next_mail(&self) -> Option<&M> {
        self.can_run().then(|| self.mailbox.peek()).flatten()
    }

    /// The number of the next commit.
    pub(super) fn next_commit(&self) -> u64 {
        self.in_flight.next()
    }

    /// When it was last used, if it can be evicted. A quarantined one stays: its damage may not
    /// show when it is read again.
    pub(super) fn idle_since(&self) -> Option<u64> {
        let is_idle = matches!(self.phase, Phase::Idle | Phase::Unloaded)
            && self.mailbox.is_empty()
            && self.in_flight.is_empty();
        is_idle.then_some(self.used)
    }

    pub(super) fn is_evicted(&self) -> bool {
        matches!(self.phase, Phase::Evicted)
    }

    /// Whether the executor is in its slot: it is in memory, and no thread runs it.
    pub(super) fn holds_executor(&self) -> bool {
        matches!(self.phase, Phase::Idle | Phase::Ready(_) | Phase::Blocked)
    }

    fn can_run(&self) -> bool {
        matches!(self.phase, Phase::Running)
            && !self.in_flight.has_failed()
            && !self.in_flight.is_full()
    }

    fn take(&mut self) -> Option<M> {
        if !self.can_run() {
            return None;
        }
        self.mailbox.drop_front(Mail::is_abandoned);
        self.mailbox.take()
    }

    fn push(&mut self, mail: M, limit: Option<usize>, used: u64, outputs: &mut Vec<Output<M, R>>) {
        let refusal = match &self.phase {
            Phase::Evicted => Some(Refusal::Evicted),
            Phase::Quarantined(error) => Some(Refusal::Failed(error.clone())),
            Phase::Unloaded
            | Phase::Loading
            | Phase::Idle
            | Phase::Ready(_)
            | Phase::Running
            | Phase::Blocked
            | Phase::Doomed(_) => limit.filter(|it| !self.has_room(*it)).map(|_| Refusal::Busy),
        };
        if let Some(refusal) = refusal {
            outputs.push(Output::Refuse(mail, refusal));
            return;
        }
        let priority = mail.priority();
        self.mailbox.push(mail, priority);
        self.used = used;
        match self.phase {
            Phase::Unloaded => {
                self.phase = Phase::Loading;
                outputs.push(Output::Load);
            }
            Phase::Idle => self.make_ready(outputs),
            Phase::Ready(Priority::Delivery) if priority == Priority::Call => {
                self.phase = Phase::Ready(Priority::Call);
                outputs.push(Output::Promote);
            }
            Phase::Loading
            | Phase::Ready(_)
            | Phase::Running
            | Phase::Blocked
            | Phase::Doomed(_)
            | Phase::Quarantined(_)
            | Phase::Evicted => {}
        }
    }

    /// Whether the mailbox takes another call. Calls whose callers were dropped do not count.
    fn has_room(&mut self, limit: usize) -> bool {
        if limit <= self.mailbox.calls() {
            self.mailbox.retain_calls(|it| !it.is_abandoned());
        }
        self.mailbox.calls() < limit
    }

    /// Goes to `Ready` if there is mail, else to `Idle`.
    fn make_ready(&mut self, outputs: &mut Vec<Output<M, R>>) {
        if self.mailbox.is_empty() {
            self.phase = Phase::Idle;
            return;
        }
        let priority = self.mailbox.priority();
        self.phase = Phase::Ready(priority);
        outputs.push(Output::Run(priority));
    }

    fn loaded(&mut self, result: Result<(), CallError>, outputs: &mut Vec<Output<M, R>>) {
        debug_assert!(matches!(self.phase, Phase::Loading), "{:?}", self.phase);
        match result {
            Ok(()) => self.make_ready(outputs),
            Err(error) if matches!(error, CallError::Corrupt { .. }) => {
                self.quarantine(error, outputs);
            }
            Err(error) => {
                self.phase = Phase::Unloaded;
                self.refuse_all(&error, outputs);
            }
        }
    }

    fn quarantine(&mut self, error: CallError, outputs: &mut Vec<Output<M, R>>) {
        outputs.push(Output::CloseConnections);
        self.refuse_all(&error, outputs);
        self.phase = Phase::Quarantined(error);
    }

    fn refuse_all(&mut self, error: &CallError, outputs: &mut Vec<Output<M, R>>) {
        let refused = self.mailbox.drain();
        outputs.extend(refused.map(|it| Output::Refuse(it, Refusal::Failed(error.clone()))));
    }

    fn burst_ended(
        &mut self,
        usable: bool,
        damage: Option<CallError>,
        outputs: &mut Vec<Output<M, R>>,
    ) {
        debug_assert!(matches!(self.phase, Phase::Running), "{:?}", self.phase);
        if !usable || self.in_flight.has_failed() {
            self.doom(damage, outputs);
        } else if self.in_flight.is_full() {
            self.phase = Phase::Blocked;
        } else {
            self.make_ready(outputs);
        }
    }

    fn doom(&mut self, damage: Option<CallError>, outputs: &mut Vec<Output<M, R>>) {
        self.phase = Phase::Doomed(damage);
        outputs.push(Output::Unload);
        self.leave_doomed(outputs);
    }

    /// Leaves `Doomed` when the last commit is answered: the stored state is known then.
    fn leave_doomed(&mut self, outputs: &mut Vec<Output<M, R>>) {
        let Phase::Doomed(damage) = &mut self.phase else { return };
        if !self.in_flight.is_empty() {
            return;
        }
        let damage = damage.take();
        self.in_flight.start_over();
        if let Some(damage) = damage {
            self.quarantine(damage, outputs);
        } else if self.mailbox.is_empty() {
            self.phase = Phase::Unloaded;
        } else {
            self.phase = Phase::Loading;
            outputs.push(Output::Load);
        }
    }

    fn answered(
        &mut self,
        commit: u64,
        result: Result<(), CallError>,
        outputs: &mut Vec<Output<M, R>>,
    ) {
        let complete = |it, result| outputs.push(Output::Complete(it, result));
        self.in_flight.answered(commit, result, complete);
        match self.phase {
            // While it runs or waits for a thread, the burst detects the failure.
            Phase::Idle | Phase::Blocked if self.in_flight.has_failed() => {
                self.doom(None, outputs);
            }
            Phase::Blocked if !self.in_flight.is_full() => self.make_ready(outputs),
            Phase::Doomed(_) => self.leave_doomed(outputs),
            Phase::Unloaded
            | Phase::Loading
            | Phase::Idle
            | Phase::Ready(_)
            | Phase::Running
            | Phase::Blocked
            | Phase::Quarantined(_)
            | Phase::Evicted => {}
        }
    }
}

/// Commits of one object in flight.
const COMMITS_MAX: usize = 256;
/// Bytes of them.
const BYTES_MAX: usize = 8 << 20;
/// Completions that wait for them.
const WAITING_MAX: usize = 1_024;

pub(super) struct InFlightCommits<R> {
    commits: VecDeque<InFlightCommit<R>>,
    /// The number of the first commit.
    first: u64,
    bytes: usize,
    waiting: usize,
    failed: Option<CallError>,
}

struct InFlightCommit<R> {
    bytes: usize,
    answer: Option<Result<(), CallError>>,
    /// With the failure that a turn without a commit has seen.
    completions: Vec<(R, Option<CallError>)>,
}

impl<R> Default for InFlightCommits<R> {
    fn default() -> Self {
        Self { commits: VecDeque::new(), first: 0, bytes: 0, waiting: 0, failed: None }
    }
}

impl<R> InFlightCommits<R> {
    pub(super) fn is_empty(&self) -> bool {
        self.commits.is_empty()
    }

    pub(super) fn is_full(&self) -> bool {
        COMMITS_MAX <= self.commits.len() || BYTES_MAX <= self.bytes || WAITING_MAX <= self.waiting
    }

    /// Whether a commit has failed: the object in memory differs from the store.
    fn has_failed(&self) -> bool {
        self.failed.is_some()
    }

    /// The number of the next commit.
    pub(super) fn next(&self) -> u64 {
        self.first + self.commits.len() as u64
    }

    /// Adds the commits of a turn, of these sizes. The completion leaves with the first of them.
    /// Without a commit it waits for the last one in flight: the turn has seen it. It is returned
    /// if nothing is in flight.
    pub(super) fn add(
        &mut self,
        sizes: &[usize],
        completion: R,
        bytes: usize,
    ) -> Option<(R, Result<(), CallError>)> {
        let mut first = None;
        for (index, size) in sizes.iter().enumerate() {
            let commit = InFlightCommit { bytes: *size, answer: None, completions: Vec::new() };
            self.bytes += size;
            self.commits.push_back(commit);
            if index == 0 {
                first = Some(self.commits.len() - 1);
            }
        }
        let seen = if sizes.is_empty() { self.failed.clone() } else { None };
        let last = self.commits.len().checked_sub(1);
        let Some(commit) = first.or(last).and_then(|index| self.commits.get_mut(index)) else {
            return Some((completion, seen.map_or(Ok(()), Err)));
        };
        commit.bytes += bytes;
        commit.completions.push((completion, seen));
        self.bytes += bytes;
        self.waiting += 1;
        None
    }

    /// Records the answer to a commit, and returns the completions that no commit blocks any more,
    /// in turn order.
    pub(super) fn answered(
        &mut self,
        number: u64,
        answer: Result<(), CallError>,
        mut complete: impl FnMut(R, Result<(), CallError>),
    ) {
        if let (None, Err(error)) = (&self.failed, &answer) {
            self.failed = Some(error.clone());
        }
        let index = number.checked_sub(self.first).and_then(|it| usize::try_from(it).ok());
        if let Some(commit) = index.and_then(|it| self.commits.get_mut(it)) {
            commit.answer = Some(answer);
        }
        while let Some(commit) = self.commits.pop_front_if(|it| it.answer.is_some()) {
            self.first += 1;
            self.bytes -= commit.bytes;
            self.waiting -= commit.completions.len();
            let answer = commit.answer.unwrap_or(Ok(()));
            for (completion, seen) in commit.completions {
                complete(completion, answer.clone().and(seen.map_or(Ok(()), Err)));
            }
        }
    }

    /// Clears the failure, when nothing is in flight and the object is read again.
    pub(super) fn start_over(&mut self) {
        self.failed = None;
    }
}
