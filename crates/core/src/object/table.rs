//! The table of objects in memory, and which of them are evicted first when there is no room.

use std::{
    collections::{HashMap, VecDeque},
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
};

use parking_lot::{Mutex, MutexGuard};
use steadfast_store::EntityId;

use super::{executor::TurnExecutor, options::ObjectOptions};

/// Evictions for one object that is loaded, if there is no room. Closing a database takes a while,
/// and callers wait for the load.
const EVICTIONS_PER_LOAD: usize = 2;
/// Attempts to evict: some candidates were used since they were chosen.
const TRIED_PER_LOAD: usize = 16;

/// The objects in memory, in parts, so that calls rarely wait for each other.
pub(super) struct ObjectTable<E> {
    entries: [Mutex<HashMap<EntityId, Arc<E>>>; 16],
    count: AtomicUsize,
    bytes: AtomicUsize,
    /// Counts the calls of all objects: the clock by which idle objects are found.
    calls: AtomicU64,
    /// The next candidates for eviction, with the time of their last use.
    leaving: Mutex<VecDeque<(u64, EntityId)>>,
}

/// An object in the table.
pub(super) trait Evict {
    fn id(&self) -> EntityId;

    /// When it was last used, if it can be evicted.
    fn idle_since(&self) -> Option<u64>;

    /// Evicts it if nothing is in flight and it was not used since. Returns the bytes that are
    /// free, and the executor, to be dropped when the table is unlocked.
    fn evict(&self, used: u64) -> Option<(usize, Option<Box<TurnExecutor>>)>;
}

impl<E> Default for ObjectTable<E> {
    fn default() -> Self {
        Self {
            entries: Default::default(),
            count: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
            calls: AtomicU64::new(0),
            leaving: Mutex::default(),
        }
    }
}

impl<E: Evict> ObjectTable<E> {
    /// The number of objects in memory.
    pub(super) fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// The number of calls.
    pub(super) fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    /// Updates the approximate size of all objects.
    pub(super) fn weigh(&self, before: usize, after: usize) {
        self.bytes.fetch_add(after, Ordering::Relaxed);
        self.bytes.fetch_sub(before, Ordering::Relaxed);
    }

    /// The entry of an object, created if necessary, and the number of this call.
    pub(super) fn entry(
        &self,
        id: EntityId,
        options: &ObjectOptions,
        create: impl FnOnce() -> E,
    ) -> (Arc<E>, u64) {
        let used = self.calls.fetch_add(1, Ordering::Relaxed);
        let mut entries = self.part(id);
        if let Some(entry) = entries.get(&id) {
            return (entry.clone(), used);
        }
        let entry = Arc::new(create());
        entries.insert(id, entry.clone());
        drop(entries);
        self.count.fetch_add(1, Ordering::Relaxed);
        self.make_room(options, id);
        (entry, used)
    }

    /// Evicts the least recently used objects if there are too many, but not the one that is being
    /// loaded.
    fn make_room(&self, options: &ObjectOptions, new: EntityId) {
        let is_full = || {
            options.awake_max < self.count()
                || options.awake_bytes_max < self.bytes.load(Ordering::Relaxed)
        };
        let mut gone = 0;
        for _ in 0..TRIED_PER_LOAD {
            let next =
                if gone < EVICTIONS_PER_LOAD && is_full() { self.next_to_go(new) } else { None };
            let Some((used, id)) = next else { return };
            gone += usize::from(self.evict(id, used));
        }
    }

    fn next_to_go(&self, new: EntityId) -> Option<(u64, EntityId)> {
        let mut leaving = self.leaving.lock();
        if leaving.is_empty() {
            let mut idle = self.idle(u64::MAX);
            idle.retain(|(_, id)| *id != new);
            idle.sort_unstable();
            // Keep some candidates, so that not every load has to search; the others may well be
            // used until then.
            idle.truncate(1 + idle.len() / 10);
            leaving.extend(idle);
        }
        leaving.pop_front()
    }

    /// Evicts the objects that were not used since a call, and returns their number.
    pub(super) fn sleep(&self, since: u64) -> usize {
        self.idle(since).iter().filter(|(used, id)| self.evict(*id, *used)).count()
    }

    /// The entries to evict, if they were not used since a call.
    fn idle(&self, since: u64) -> Vec<(u64, EntityId)> {
        let mut idle = Vec::new();
        for entries in &self.entries {
            let entries = entries.lock();
            idle.extend(entries.values().filter_map(|it| Some((it.idle_since()?, it.id()))));
        }
        idle.retain(|(used, _)| *used < since);
        idle
    }

    /// Evicts an object. `false` if it was used meanwhile.
    fn evict(&self, id: EntityId, used: u64) -> bool {
        let mut entries = self.part(id);
        let Some((memory, executor)) = entries.get(&id).and_then(|it| it.evict(used)) else {
            return false;
        };
        entries.remove(&id);
        drop(entries);
        self.count.fetch_sub(1, Ordering::Relaxed);
        self.weigh(memory, 0);
        drop(executor);
        true
    }

    /// Whether an object is in memory.
    pub(super) fn contains(&self, id: EntityId) -> bool {
        self.part(id).contains_key(&id)
    }

    fn part(&self, id: EntityId) -> MutexGuard<'_, HashMap<EntityId, Arc<E>>> {
        let part = usize::from(id.shard()) % self.entries.len();
        self.entries[part].lock()
    }
}
