//! All targets but queues, as the source of one loop: it starts the work that the index returns,
//! and gives the index the results.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use parking_lot::Mutex;
use steadfast_store::{
    DueCursor, Notice, NoticeBatch, Position, Store, StoreClock, StoreError, Timestamp, Work,
    futures::FutureExt,
};
use tokio::{
    sync::oneshot,
    task::{JoinError, JoinSet},
};

use super::{
    QueueListener,
    attempt::Leases,
    engine::{Effect, IdleState, Source, read_apart},
    index::{End, Index, TargetKey},
    pools::{LoadPermits, Permit, StartOrder},
    suspects::{Admission, Isolation, Suspects},
    waker::LoopWaker,
    worker::{Begin, Worker},
};

/// The results that the loop waits for.
pub(super) enum Ended {
    /// `None` if the store can never be written again.
    Delivery(Position, TargetKey, Option<End>),
    Scan(Result<Vec<Work>, StoreError>),
    Read(TargetKey, Result<Vec<Work>, StoreError>),
}

pub(super) struct Targets {
    store: Arc<dyn Store>,
    clock: Arc<StoreClock>,
    worker: Arc<Worker>,
    /// Shared with `Dispatcher::forgotten`.
    index: Arc<Mutex<Index>>,
    queues: Option<Arc<dyn QueueListener>>,
    loading: Arc<LoadPermits>,
    /// Permits that targets have waited for.
    given: HashMap<TargetKey, Permit>,
    /// The end of the last delivery to each target, which the next one waits for.
    turns: HashMap<TargetKey, oneshot::Receiver<()>>,
    /// Messages that were in flight when a process crashed. They are delivered one at a time.
    blamed: VecDeque<Work>,
    suspects: Suspects,
}

impl Targets {
    pub(super) fn new(
        worker: Arc<Worker>,
        index: Arc<Mutex<Index>>,
        queues: Option<Arc<dyn QueueListener>>,
        blamed: Vec<Work>,
        waker: Arc<LoopWaker>,
    ) -> Self {
        let suspects = Suspects::default();
        suspects.add_loop(waker.clone());
        Self {
            store: worker.store.clone(),
            clock: worker.store.clock().clone(),
            loading: LoadPermits::new(worker.options.concurrency, waker),
            worker,
            index,
            queues,
            given: HashMap::new(),
            turns: HashMap::new(),
            blamed: VecDeque::from(blamed),
            suspects,
        }
    }

    fn start_deliveries(&mut self, tasks: &mut JoinSet<Ended>, now: Timestamp) {
        let mut index = self.index.lock();
        index.wake(now);
        if self.worker.pools.has_capacity() {
            index.scan_again();
        }
        for (target, permit) in self.worker.pools.granted() {
            // Not while a delivery of the target may be requeued: that row must be the next.
            if index.is_blocked(target) && index.unblock(target, now) {
                self.given.insert(target, permit);
            }
        }
        while let Some((position, target, is_shared)) = index.take(self.loading.is_free(), now) {
            let loading = is_shared.then(|| self.loading.take());
            let (turn, next) = StartOrder::new(self.turns.remove(&target));
            self.turns.insert(target, next);
            let permit = self.given.remove(&target);
            let begin = Begin { position, target, is_blamed: false, loading, permit, turn };
            let worker = self.worker.clone();
            tasks.spawn(
                async move {
                    let end = worker.deliver(begin).await;
                    Ended::Delivery(position, target, end)
                }
                .boxed(),
            );
        }
        // A target that does not need its permit any more passes it on.
        self.given.retain(|target, _| index.is_ready(*target));
    }

    /// Starts the next message that may have crashed a process, apart from all others.
    fn start_blamed(&mut self, tasks: &mut JoinSet<Ended>, now: Timestamp) {
        if self.blamed.is_empty() {
            return;
        }
        let isolation = Isolation::Blamed { is_last: false };
        let Admission::Yes(admitted) = self.suspects.admit(isolation, now) else { return };
        let Some(work) = self.blamed.pop_front() else { return };
        let (position, target) = (work.position, TargetKey::of(&work));
        let (turn, _) = StartOrder::new(None);
        let begin = Begin { position, target, is_blamed: true, loading: None, permit: None, turn };
        let (worker, clock) = (self.worker.clone(), self.clock.clone());
        tasks.spawn(
            async move {
                let end = admitted.run(&clock, worker.deliver(begin).boxed()).await;
                Ended::Delivery(position, target, end)
            }
            .boxed(),
        );
    }

    fn start_reads(&mut self, tasks: &mut JoinSet<Ended>, now: Timestamp) {
        let (options, mut index) = (self.worker.options, self.index.lock());
        if let Some(cursor) = index.begin_scan(now) {
            tasks.spawn(scan(self.store.clone(), cursor, options.page).boxed());
        }
        while let Some((key, after)) = index.begin_read(now) {
            tasks.spawn(read(self.store.clone(), key, after, options.window).boxed());
        }
    }
}

impl Source for Targets {
    type Ended = Ended;

    const GETS_NOTICES: bool = true;

    fn name(&self) -> &str {
        "targets"
    }

    fn start(&mut self, tasks: &mut JoinSet<Ended>, is_paused: bool) -> IdleState {
        let now = self.clock.now();
        self.start_deliveries(tasks, now);
        self.start_blamed(tasks, now);
        if !is_paused {
            self.start_reads(tasks, now);
        }
        let index = self.index.lock();
        let is_settled = index.is_settled(now) && self.store.notices().is_empty();
        IdleState { is_settled, wake_at: index.wake_at(now) }
    }

    fn ended(&mut self, ended: Result<Ended, JoinError>) -> Effect {
        // Deliveries catch panics, and reads run in tasks of their own: none reaches this task.
        let Ok(ended) = ended else { return Effect::None };
        let (options, now) = (self.worker.options, self.clock.now());
        let mut index = self.index.lock();
        match ended {
            Ended::Delivery(_, _, None) => Effect::Over,
            Ended::Delivery(position, target, Some(end)) => {
                index.finished(target, position, end, now);
                if index.is_blocked(target) {
                    let pools = &self.worker.pools;
                    // The permit may have come, and gone to another target, before this one waited
                    // for it.
                    if !pools.is_waiting(target) {
                        index.unblock(target, now);
                    } else if index.can_leave(target) && pools.leave(target) {
                        index.leave(target);
                    }
                }
                if index.is_at_rest(target) {
                    self.turns.remove(&target);
                }
                Effect::None
            }
            Ended::Scan(Ok(page)) => {
                index.scanned(&page, page.len() < options.page, now);
                Effect::Read
            }
            Ended::Scan(Err(error)) => {
                index.scan_failed();
                Effect::Failed(error)
            }
            Ended::Read(key, Ok(works)) => {
                index.read(key, &works, works.len() < options.window, now);
                Effect::Read
            }
            Ended::Read(key, Err(error)) => {
                index.read_failed(key, now);
                Effect::Failed(error)
            }
        }
    }

    fn on_notices(&mut self, batch: &NoticeBatch) {
        let now = self.clock.now();
        let mut index = self.index.lock();
        match batch {
            NoticeBatch::Notices(notices) => {
                let mut in_queues = Vec::new();
                for notice in notices {
                    match notice {
                        Notice::Due(work) if work.queued => in_queues.push(*work),
                        Notice::Due(_) | Notice::Unblocked(_) => index.learn(notice, now),
                    }
                }
                self.queues.iter().for_each(|it| it.on_work(&in_queues));
            }
            NoticeBatch::Overflow => {
                index.start_over(now);
                self.queues.iter().for_each(|it| it.on_lost_notices());
            }
        }
    }

    fn leases(&self) -> &Leases {
        &self.worker.leases
    }
}

/// A permit refers to the pools, which hold granted permits. Dropping a permit passes it on.
impl Drop for Targets {
    fn drop(&mut self) {
        self.given.clear();
        while !self.worker.pools.granted().is_empty() {}
    }
}

async fn scan(store: Arc<dyn Store>, cursor: DueCursor, page: usize) -> Ended {
    Ended::Scan(read_apart(async move { store.due(cursor, page).await }).await)
}

async fn read(store: Arc<dyn Store>, key: TargetKey, after: DueCursor, limit: usize) -> Ended {
    let read = async move { store.backlog(key.target, key.ordered, after, limit).await };
    Ended::Read(key, read_apart(read).await)
}
