//! A burst: consecutive turns of one object on one thread. Its commits are held back until the
//! thread has nothing else to run, so that turns of many objects share one transaction.

use std::{sync::Arc, time::Instant};

use steadfast_store::Commit;

use super::{
    Scheduler,
    entry::{Completion, EndedTurn, ObjectEntry, PendingRequest},
    pool::{Batch, DELAY_MAX, Runnable},
};
use crate::object::executor::{TurnExecutor, TurnResult, TurnTime};

/// Turns of one object before others get the thread.
const TURNS_MAX: usize = 32;

/// Bytes of a commit that count as another one.
const LARGE: usize = 64 << 10;

thread_local! {
    static IN_TURN: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

/// Whether this thread runs turns: then it must not wait for another one.
pub(super) fn is_in_turn() -> bool {
    IN_TURN.get()
}

/// Turns that have run. No other thread runs the object meanwhile, so its commits are submitted in
/// their order.
pub(super) struct Burst {
    entry: Arc<ObjectEntry>,
    executor: Box<TurnExecutor>,
    commits: Vec<(u64, Commit)>,
    usable: bool,
}

impl Runnable for ObjectEntry {
    type Batch = Burst;

    fn is_slow(&self) -> bool {
        self.class.duration.is_slow()
    }

    fn run(self: Arc<Self>) -> Option<Burst> {
        let scheduler = self.scheduler.upgrade()?;
        let executor = self.dispatched(&scheduler)?;
        let mut burst = Burst { entry: self, executor, commits: Vec::new(), usable: true };
        IN_TURN.set(true);
        burst.run(&scheduler);
        IN_TURN.set(false);
        Some(burst)
    }
}

impl Burst {
    #[expect(clippy::disallowed_methods, reason = "turns take real time, in tests as well")]
    fn run(&mut self, scheduler: &Arc<Scheduler>) {
        let began = Instant::now();
        let mut next = self.take(scheduler);
        let mut turns = 0;
        while let Some(pending) = next {
            let result = self.turn(scheduler, &pending);
            turns += 1;
            // The reply to the first turn does not wait for all, nor for one that may take long.
            let has_slow =
                self.entry.is_slow() && !(self.commits.is_empty() && result.commits.is_empty());
            let is_last = TURNS_MAX <= turns || DELAY_MAX <= began.elapsed() || has_slow;
            let takes = !is_last && result.usable && !self.executor.may_have_lost_connections();
            next = self.end_turn(scheduler, result, Some(pending), takes);
            if !takes && !is_last && self.usable {
                next = self.take(scheduler);
            }
        }
    }

    fn turn(&mut self, scheduler: &Scheduler, pending: &PendingRequest) -> TurnResult {
        let report = scheduler.clock.report();
        let (now, keys_expired) = (report.now, report.keys_expired());
        let at = TurnTime { now, keys_expired, entropy: &*scheduler.entropy };
        let PendingRequest { request, settle, .. } = pending;
        let run = || self.executor.run(request, *settle, at);
        let result = self.entry.class.duration.measure(run);
        if let Err(error) = &result.reply {
            let object = self.entry.address.id();
            scheduler.failures.note(object, now, request.label(), error);
        }
        result
    }

    /// Takes the next request. Connections that ended with an earlier process are closed first; a
    /// delete closes all of them anyway.
    fn take(&mut self, scheduler: &Arc<Scheduler>) -> Option<PendingRequest> {
        while self.executor.may_have_lost_connections() {
            if self.entry.is_delete_next()? {
                break;
            }
            let (first, now) = (scheduler.connections.first(), scheduler.clock.now());
            let Some(result) = self.executor.close_lost_connections(first, now) else { break };
            // If their ends cannot be recorded, the next request fails.
            let failed = result.reply.is_err() && !result.usable;
            let pending = if failed { self.entry.take(scheduler) } else { None };
            self.end_turn(scheduler, result, pending, false);
            if !self.usable {
                return None;
            }
        }
        self.entry.take(scheduler)
    }

    /// Holds the commits of a turn until the burst is submitted.
    fn end_turn(
        &mut self,
        scheduler: &Arc<Scheduler>,
        result: TurnResult,
        pending: Option<PendingRequest>,
        takes: bool,
    ) -> Option<PendingRequest> {
        let TurnResult { reply, commits, connection_ops, again, usable } = result;
        self.usable = usable;
        let (done, requeue) = if again { (None, pending) } else { (pending, None) };
        let reply = done.map(|pending| (pending.reply, reply));
        let completion = Completion { reply, connection_ops, is_read: commits.is_empty() };
        let sizes = commits.iter().map(Commit::bytes).collect();
        let ended = EndedTurn { commits: sizes, completion, requeue };
        let (first, next) = self.entry.turn_ended(scheduler, ended, takes);
        self.commits.extend((first..).zip(commits));
        next
    }
}

impl Batch for Burst {
    /// The number of commits; a large one counts as several.
    fn len(&self) -> usize {
        self.commits.iter().map(|(_, commit)| 1 + commit.bytes() / LARGE).sum()
    }

    fn submit(self) {
        let Self { entry, executor, commits, usable } = self;
        let Some(scheduler) = entry.scheduler.upgrade() else { return };
        debug_assert!(commits.is_sorted_by_key(|(number, _)| *number));
        for (number, commit) in commits {
            let answered = entry.clone();
            let answer = move |result| answered.answered(number, result);
            scheduler.store.submit(commit, Box::new(answer));
        }
        entry.burst_ended(&scheduler, executor, usable);
    }
}
