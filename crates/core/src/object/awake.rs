//! The objects that are in memory, and which of them go first when there is no room.

use std::{
    collections::{HashMap, VecDeque},
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
};

use parking_lot::{Mutex, MutexGuard};
use steadfast_store::{self as store, EntityId};

use super::{
    ObjectOptions,
    cell::Cell,
    objects::{Class, Shared},
};

/// So many go for one that comes, if there is no room. To close one takes a while, and somebody
/// waits for the one that comes.
const GO_FOR_ONE: usize = 2;
/// And so many are tried at most: some were used since they were chosen.
const TRIED_FOR_ONE: usize = 16;

/// The objects in memory, in parts, so that calls rarely wait for each other.
#[derive(Default)]
pub(super) struct Awake {
    cells: [Mutex<HashMap<EntityId, Arc<Cell>>>; 16],
    count: AtomicUsize,
    bytes: AtomicUsize,
    /// Counts the calls of all objects: the time by which those are told that were not used.
    calls: AtomicU64,
    /// Which go next when there is no room, and when they were last used.
    leaving: Mutex<VecDeque<(u64, EntityId)>>,
}

impl Awake {
    /// How many objects are in memory.
    pub(super) fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// Calls so far.
    pub(super) fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    /// Takes note that an object takes more or less than before.
    pub(super) fn weigh(&self, before: usize, after: usize) {
        self.bytes.fetch_add(after, Ordering::Relaxed);
        self.bytes.fetch_sub(before, Ordering::Relaxed);
    }

    /// The cell of an object, made if it is not there, and the number of this call.
    pub(super) fn cell(
        &self,
        shared: &Arc<Shared>,
        address: &store::Address,
        class: &Arc<Class>,
    ) -> (Arc<Cell>, u64) {
        let used = self.calls.fetch_add(1, Ordering::Relaxed);
        let mut cells = self.part(address.id());
        if let Some(cell) = cells.get(&address.id()) {
            return (cell.clone(), used);
        }
        let cell = Arc::new(Cell::new(address.clone(), class.clone(), Arc::downgrade(shared)));
        cells.insert(address.id(), cell.clone());
        drop(cells);
        self.count.fetch_add(1, Ordering::Relaxed);
        self.make_room(&shared.options, address.id());
        (cell, used)
    }

    /// Puts objects out of memory if there are too many, those first that were not used for the
    /// longest time; not the one that room is made for.
    fn make_room(&self, options: &ObjectOptions, new: EntityId) {
        let is_full = || {
            options.awake_max < self.count()
                || options.awake_bytes_max < self.bytes.load(Ordering::Relaxed)
        };
        let mut gone = 0;
        for _ in 0..TRIED_FOR_ONE {
            let next = if gone < GO_FOR_ONE && is_full() { self.next_to_go(new) } else { None };
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
            // Some, so that not every new one has to look; the rest may well be used until then.
            idle.truncate(1 + idle.len() / 10);
            leaving.extend(idle);
        }
        leaving.pop_front()
    }

    /// Puts those out of memory that were not used since a call, and says how many.
    pub(super) fn sleep(&self, since: u64) -> usize {
        self.idle(since).iter().filter(|(used, id)| self.evict(*id, *used)).count()
    }

    /// What could go, if it was not used since a call.
    fn idle(&self, since: u64) -> Vec<(u64, EntityId)> {
        let mut idle = Vec::new();
        for cells in &self.cells {
            let cells = cells.lock();
            idle.extend(cells.values().filter_map(|it| Some((it.idle_since()?, it.address.id()))));
        }
        idle.retain(|(used, _)| *used < since);
        idle
    }

    /// Puts one out of memory. `false` if it was used meanwhile.
    fn evict(&self, id: EntityId, used: u64) -> bool {
        let mut cells = self.part(id);
        let is_gone = cells.get(&id).is_some_and(|it| it.evict(used));
        if is_gone {
            cells.remove(&id);
            self.count.fetch_sub(1, Ordering::Relaxed);
        }
        is_gone
    }

    /// Whether an object is in memory.
    pub(super) fn contains(&self, id: EntityId) -> bool {
        self.part(id).contains_key(&id)
    }

    fn part(&self, id: EntityId) -> MutexGuard<'_, HashMap<EntityId, Arc<Cell>>> {
        let part = usize::from(id.shard()) % self.cells.len();
        self.cells[part].lock()
    }
}
