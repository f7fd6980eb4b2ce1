//! Places for deliveries, and their order. Kinds of work that may wait for different things share
//! no places: one that hangs takes its own places and no others.

use std::{
    collections::{HashMap, VecDeque},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use parking_lot::{Mutex, MutexGuard};
use steadfast_store::EntityId;
use tokio::sync::oneshot;

use super::{bell::Bell, index::TargetKey};

/// Which places a delivery takes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Pool {
    /// Those of its message type.
    Type(Box<str>),
    /// Those of a kind of work, of a name.
    Of(&'static str, &'static str),
    /// The one of a target.
    Target(EntityId),
}

/// All pools. A target that finds no place waits in line for it.
pub(super) struct Pools {
    pools: Mutex<HashMap<Pool, Places>>,
    /// Targets that got a place while they waited.
    granted: Mutex<Vec<(TargetKey, Place)>>,
    /// Wakes the loop when a target has got a place.
    bell: Arc<Bell>,
}

#[derive(Default)]
struct Places {
    taken: usize,
    waiting: VecDeque<TargetKey>,
}

/// One place, until it is dropped; then the next in line has it.
pub(super) struct Place {
    pool: Pool,
    pools: Arc<Pools>,
}

impl Pools {
    pub(super) fn new(bell: Arc<Bell>) -> Arc<Self> {
        Arc::new(Self { pools: Mutex::default(), granted: Mutex::default(), bell })
    }

    /// A place of `max`; if there is none, the target waits in line. `given` is one of this pool
    /// that the target has waited for.
    pub(super) fn enter(
        self: &Arc<Self>,
        pool: &Pool,
        max: usize,
        target: TargetKey,
        given: Option<Place>,
    ) -> Option<Place> {
        if given.is_some() {
            return given;
        }
        let mut pools = self.lock();
        let places = pools.entry(pool.clone()).or_default();
        if places.waiting.is_empty() && places.taken < max.max(1) {
            places.taken += 1;
            return Some(Place { pool: pool.clone(), pools: self.clone() });
        }
        if !places.waiting.contains(&target) {
            places.waiting.push_back(target);
        }
        None
    }

    /// Whether a target waits in line.
    pub(super) fn is_waiting(&self, target: TargetKey) -> bool {
        self.lock().values().any(|it| it.waiting.contains(&target))
    }

    /// Targets that got a place since the last time.
    pub(super) fn granted(&self) -> Vec<(TargetKey, Place)> {
        std::mem::take(&mut *self.granted.lock())
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Pool, Places>> {
        self.pools.lock()
    }
}

impl Place {
    /// Whether it is one of this pool.
    pub(super) fn is_of(&self, pool: &Pool) -> bool {
        self.pool == *pool
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut pools = self.pools.lock();
        let Some(places) = pools.get_mut(&self.pool) else { return };
        let Some(target) = places.waiting.pop_front() else {
            places.taken -= 1;
            return;
        };
        drop(pools);
        let place = Place { pool: self.pool.clone(), pools: self.pools.clone() };
        let mut granted = self.pools.granted.lock();
        granted.push((target, place));
        drop(granted);
        self.pools.bell.ring();
    }
}

/// Places to load and route messages, which takes no time to speak of.
pub(super) struct Loading {
    free: AtomicUsize,
    is_wanted: AtomicBool,
    /// Wakes the loop when one is given back that was wanted.
    bell: Arc<Bell>,
}

/// One of them, until it is dropped.
pub(super) struct LoadingPlace(Arc<Loading>);

impl Loading {
    pub(super) fn new(places: usize, bell: Arc<Bell>) -> Arc<Self> {
        let free = AtomicUsize::new(places.max(1));
        Arc::new(Self { free, is_wanted: AtomicBool::new(false), bell })
    }

    /// Whether there is one. Only one task takes them.
    pub(super) fn is_free(&self) -> bool {
        if 0 < self.free.load(Ordering::SeqCst) {
            return true;
        }
        self.is_wanted.store(true, Ordering::SeqCst);
        // One may have been given back before it was wanted.
        0 < self.free.load(Ordering::SeqCst)
    }

    pub(super) fn take(self: &Arc<Self>) -> LoadingPlace {
        self.free.fetch_sub(1, Ordering::SeqCst);
        LoadingPlace(self.clone())
    }
}

impl Drop for LoadingPlace {
    fn drop(&mut self) {
        self.0.free.fetch_add(1, Ordering::SeqCst);
        if self.0.is_wanted.swap(false, Ordering::SeqCst) {
            self.0.bell.ring();
        }
    }
}

/// Where one delivery waits for the one before it to the same target. Deliveries begin in the order
/// of their messages, although each is loaded on its own: each waits until the one before has
/// begun, or has ended without. If that one found no place and goes back, those behind it go back,
/// too. Dropped, it lets the next one go.
pub(super) struct Turnstile {
    before: Option<oneshot::Receiver<()>>,
    next: oneshot::Sender<()>,
}

impl Turnstile {
    /// Behind `before`, with what the next one waits for.
    pub(super) fn new(before: Option<oneshot::Receiver<()>>) -> (Self, oneshot::Receiver<()>) {
        let (next, waits) = oneshot::channel();
        (Self { before, next }, waits)
    }

    /// Returns when the one before has begun; `false` if it went back.
    pub(super) async fn come(&mut self) -> bool {
        match self.before.take() {
            // It is dropped when it has begun, and says so if it goes back.
            Some(before) => before.await.is_err(),
            None => true,
        }
    }

    /// Says that it goes back.
    pub(super) fn go_back(self) {
        // That nobody is behind it is no matter.
        let _ = self.next.send(());
    }
}
