//! Permits for deliveries, and the order in which they begin. Kinds of work that may wait for
//! different resources share no pool: a delivery that hangs holds only permits of its own pool.

use std::{
    collections::{HashMap, VecDeque},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use parking_lot::Mutex;
use steadfast_store::EntityId;
use tokio::sync::oneshot;

use super::{index::TargetKey, waker::LoopWaker};

/// Identifies the pool that a delivery takes a permit from.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum PoolKey {
    /// The pool of its message type.
    Type(Box<str>),
    /// The pool of a kind of work, with a name.
    Of(&'static str, &'static str),
    /// The pool of a target.
    Target(EntityId),
}

/// All pools. A target that gets no permit queues for one.
pub(super) struct Pools {
    pools: Mutex<HashMap<PoolKey, PermitQueue>>,
    /// Targets that got a permit while they waited.
    granted: Mutex<Vec<(TargetKey, Permit)>>,
    /// Maximum targets that queue for one pool.
    waiting_max: usize,
    /// A pool that has left targets has capacity again.
    has_capacity: AtomicBool,
    /// Wakes the loop when a target has got a permit.
    waker: Arc<LoopWaker>,
}

#[derive(Default)]
struct PermitQueue {
    taken: usize,
    waiting: VecDeque<TargetKey>,
    /// It was full, and targets were left in the store. Until half of it is free, others are left
    /// as well: they must not overtake those.
    has_left: bool,
}

/// One permit. When it is dropped, the next target in the queue gets it.
pub(super) struct Permit {
    pool: PoolKey,
    pools: Arc<Pools>,
}

impl Pools {
    pub(super) fn new(waiting_max: usize, waker: Arc<LoopWaker>) -> Arc<Self> {
        let (pools, granted) = (Mutex::default(), Mutex::default());
        let has_capacity = AtomicBool::new(false);
        Arc::new(Self { pools, granted, waiting_max, has_capacity, waker })
    }

    /// A permit of `max`; if there is none, the target queues for one. `given` is a permit of this
    /// pool that the target has waited for.
    pub(super) fn enter(
        self: &Arc<Self>,
        pool: &PoolKey,
        max: usize,
        target: TargetKey,
        given: Option<Permit>,
    ) -> Option<Permit> {
        if given.is_some() {
            return given;
        }
        let mut pools = self.pools.lock();
        let permits = pools.entry(pool.clone()).or_default();
        if permits.waiting.is_empty() && permits.taken < max.max(1) {
            permits.taken += 1;
            return Some(Permit { pool: pool.clone(), pools: self.clone() });
        }
        if !permits.waiting.contains(&target) {
            permits.waiting.push_back(target);
        }
        None
    }

    /// Whether a target queues for a permit.
    pub(super) fn is_waiting(&self, target: TargetKey) -> bool {
        self.pools.lock().values().any(|it| it.waiting.contains(&target))
    }

    /// Takes a target out of a queue that is too long: it is left in the store until
    /// [`Self::has_capacity`]. Only the loop calls this.
    pub(super) fn leave(&self, target: TargetKey) -> bool {
        let mut is_left = false;
        for permits in self.pools.lock().values_mut() {
            let at = permits.waiting.iter().rposition(|it| *it == target);
            if let Some(at) = at.filter(|it| permits.has_left || self.waiting_max <= *it) {
                permits.waiting.remove(at);
                (permits.has_left, is_left) = (true, true);
            }
        }
        is_left
    }

    /// Whether targets are left in the store.
    pub(super) fn has_left(&self) -> bool {
        self.pools.lock().values().any(|it| it.has_left)
    }

    /// Whether a pool that has left targets has capacity again since the last call.
    pub(super) fn has_capacity(&self) -> bool {
        self.has_capacity.swap(false, Ordering::SeqCst)
    }

    /// Targets that got a permit since the last call.
    pub(super) fn granted(&self) -> Vec<(TargetKey, Permit)> {
        std::mem::take(&mut *self.granted.lock())
    }
}

impl Permit {
    /// Whether it is a permit of this pool.
    pub(super) fn is_of(&self, pool: &PoolKey) -> bool {
        self.pool == *pool
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut pools = self.pools.pools.lock();
        let Some(permits) = pools.get_mut(&self.pool) else { return };
        let next = permits.waiting.pop_front();
        if permits.has_left && permits.waiting.len() <= self.pools.waiting_max / 2 {
            permits.has_left = false;
            self.pools.has_capacity.store(true, Ordering::SeqCst);
            self.pools.waker.wake();
        }
        let Some(target) = next else {
            permits.taken -= 1;
            return;
        };
        drop(pools);
        let permit = Permit { pool: self.pool.clone(), pools: self.pools.clone() };
        let mut granted = self.pools.granted.lock();
        granted.push((target, permit));
        drop(granted);
        self.pools.waker.wake();
    }
}

/// Permits to load and route messages, which is quick.
pub(super) struct LoadPermits {
    free: AtomicUsize,
    is_wanted: AtomicBool,
    /// Wakes the loop when a permit is returned that the loop waited for.
    waker: Arc<LoopWaker>,
}

/// One of them, until it is dropped.
pub(super) struct LoadPermit(Arc<LoadPermits>);

impl LoadPermits {
    pub(super) fn new(permits: usize, waker: Arc<LoopWaker>) -> Arc<Self> {
        let free = AtomicUsize::new(permits.max(1));
        Arc::new(Self { free, is_wanted: AtomicBool::new(false), waker })
    }

    /// Whether a permit is free. Only one task takes them.
    pub(super) fn is_free(&self) -> bool {
        if 0 < self.free.load(Ordering::SeqCst) {
            return true;
        }
        self.is_wanted.store(true, Ordering::SeqCst);
        // A permit may have been returned before `wanted` was set.
        0 < self.free.load(Ordering::SeqCst)
    }

    pub(super) fn take(self: &Arc<Self>) -> LoadPermit {
        self.free.fetch_sub(1, Ordering::SeqCst);
        LoadPermit(self.clone())
    }
}

impl Drop for LoadPermit {
    fn drop(&mut self) {
        self.0.free.fetch_add(1, Ordering::SeqCst);
        if self.0.is_wanted.swap(false, Ordering::SeqCst) {
            self.0.waker.wake();
        }
    }
}

/// Starts deliveries to one target in the order of their messages, although each is loaded on its
/// own. Each waits until the previous one has begun, or has ended without beginning. If the
/// previous one got no permit and is requeued, the following ones are requeued as well. Dropping
/// this lets the next one begin.
pub(super) struct StartOrder {
    before: Option<oneshot::Receiver<()>>,
    next: oneshot::Sender<()>,
}

impl StartOrder {
    /// Waits for `before`. Also returns the receiver that the next delivery waits for.
    pub(super) fn new(before: Option<oneshot::Receiver<()>>) -> (Self, oneshot::Receiver<()>) {
        let (next, waits) = oneshot::channel();
        (Self { before, next }, waits)
    }

    /// Returns when the previous delivery has begun; `false` if it was requeued.
    pub(super) async fn wait(&mut self) -> bool {
        match self.before.take() {
            // The sender is dropped when that delivery has begun, and sends if it is requeued.
            Some(before) => before.await.is_err(),
            None => true,
        }
    }

    /// Requeues the following deliveries as well.
    pub(super) fn requeue(self) {
        // Ignore a receiver that was dropped: no delivery follows.
        let _ = self.next.send(());
    }
}
