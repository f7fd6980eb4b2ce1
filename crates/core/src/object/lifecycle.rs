//! The scheduler at work: it reads an object, runs bursts of its turns, and
//! evicts it. An evicted object is rows in the store: no file, no task.
//!
//! A burst is a number of consecutive turns of one object on one thread. Its commits are held back
//! until the thread has nothing else to run, so that turns of many objects share one transaction.

use std::{sync::Arc, time::Instant};

use steadfast_store::{Commit, OpaqueArc, OpaqueWeak, StoreError, futures::FutureExt};

use super::{
    CallError,
    executor::{TurnExecutor, TurnResult, TurnTime},
    pool::{Batch, DELAY_MAX, Runnable, in_turn},
    scheduler::{Completion, EndedTurn, ObjectEntry, PendingRequest, Scheduler},
    storage::{Extent, StoredPages, restore},
};

/// An object that is being read. If the task is cancelled, the requests in its mailbox fail.
struct Loading {
    scheduler: OpaqueArc<Scheduler>,
    entry: Option<Arc<ObjectEntry>>,
}

impl Loading {
    fn ended(&mut self, result: Result<Box<TurnExecutor>, CallError>) {
        if let Some(entry) = self.entry.take() {
            entry.loaded(&self.scheduler, result);
        }
    }
}

impl Drop for Loading {
    fn drop(&mut self) {
        self.ended(Err(CallError::Store(StoreError::Closed)));
    }
}

impl Scheduler {
    pub(super) fn load(scheduler: &OpaqueArc<Self>, entry: Arc<ObjectEntry>) {
        let mut loading = Loading { scheduler: scheduler.clone(), entry: Some(entry.clone()) };
        scheduler.tokio.spawn(
            async move {
                let result = loading.scheduler.read(&entry).await;
                if let Err(error) = &result {
                    let (id, now) = (entry.address.id(), loading.scheduler.clock.now());
                    loading.scheduler.failures.note(id, now, "wake up", error);
                }
                loading.ended(result);
            }
            .boxed(),
        );
    }

    async fn read(&self, entry: &ObjectEntry) -> Result<Box<TurnExecutor>, CallError> {
        let restored = restore(&*self.store, &entry.address, Extent::Needed).await?;
        let source = StoredPages::of(&self.store, &self.tokio, &entry.address, &restored);
        let (address, class) = (entry.address.clone(), entry.class.class.clone());
        Ok(Box::new(TurnExecutor::new(address, class, restored, source, self.options)))
    }
}

impl Scheduler {
    /// Checks once per idle time. Objects that were not used between two checks are evicted, so
    /// after one to two idle times.
    pub(super) async fn evict_idle(scheduler: OpaqueWeak<Self>) {
        steadfast_vfs::keep_no_memory();
        let (mut seen, mut unreturned) = (0, UnreturnedMemory::default());
        loop {
            let Some((clock, pause)) =
                scheduler.upgrade().map(|it| (it.clock.clone(), it.options.idle_time))
            else {
                return;
            };
            clock.sleep(pause).await;
            let Some(scheduler) = scheduler.upgrade() else { return };
            let calls = scheduler.table.calls();
            // Closing many databases would block other tasks on this thread.
            let sleep = move || scheduler.table.sleep(seen);
            let gone = tokio::task::spawn_blocking(sleep).await.unwrap_or_default();
            if unreturned.is_time(gone as u64, calls - seen) {
                let _ = tokio::task::spawn_blocking(steadfast_vfs::give_memory_back).await;
            }
            seen = calls;
        }
    }
}

/// Turns of one object before others get the thread.
const TURNS_MAX: usize = 32;

/// Bytes of a commit that count as another one.
const LARGE: usize = 64 << 10;

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
        in_turn(|| burst.run(&scheduler));
        Some(burst)
    }
}

impl Burst {
    #[expect(clippy::disallowed_methods, reason = "turns take real time, in tests as well")]
    fn run(&mut self, scheduler: &OpaqueArc<Scheduler>) {
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
    fn take(&mut self, scheduler: &OpaqueArc<Scheduler>) -> Option<PendingRequest> {
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
        scheduler: &OpaqueArc<Scheduler>,
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

/// Checks after which memory is returned to the system, even under load.
const LOOKS: u32 = 20;

/// Memory that is not yet returned to the system. Under load it is reused soon, and returning it
/// delays all calls.
#[derive(Default)]
struct UnreturnedMemory {
    /// Evicted objects.
    objects: u64,
    /// Checks since the first of them.
    looks: u32,
}

impl UnreturnedMemory {
    /// Whether to return it now.
    fn is_time(&mut self, gone: u64, calls: u64) -> bool {
        self.objects += gone;
        if self.objects == 0 {
            return false;
        }
        self.looks += 1;
        let is_time = calls < self.objects || LOOKS <= self.looks;
        if is_time {
            *self = Self::default();
        }
        is_time
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_given_back_when_it_is_quiet_and_sooner_or_later_all_the_same() {
        let mut unreturned = UnreturnedMemory::default();
        assert!(!unreturned.is_time(0, 0), "nothing has gone");
        assert!(unreturned.is_time(1_000, 200), "it is quiet");
        assert!(!unreturned.is_time(0, 0), "nothing is left");
        let busy = |unreturned: &mut UnreturnedMemory, gone| unreturned.is_time(gone, 5_000);
        assert!(!busy(&mut unreturned, 1_000));
        assert!(!busy(&mut unreturned, 1_000));
        assert!(unreturned.is_time(0, 1_999), "enough is unreturned by now");
        assert!(!busy(&mut unreturned, 1));
        let looks = (0..LOOKS).position(|_| busy(&mut unreturned, 0));
        assert_eq!(looks, Some(LOOKS as usize - 2));
    }
}
