//! The objects that are in memory, and which of them go first when there is no room.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
};

use steadfast_store::{self as store, EntityId};

use super::{
    ObjectOptions,
    cell::Cell,
    objects::{Class, Shared},
};

/// The objects in memory, in parts, so that calls rarely wait for each other.
#[derive(Default)]
pub(super) struct Awake {
    cells: [Mutex<HashMap<EntityId, Arc<Cell>>>; 16],
    count: AtomicUsize,
    bytes: AtomicUsize,
    /// Counts the calls of all objects: the time by which those are told that were not used.
    calls: AtomicU64,
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
        let is_full = |spare: usize| {
            options.awake_max - options.awake_max / spare < self.count()
                || options.awake_bytes_max - options.awake_bytes_max / spare
                    < self.bytes.load(Ordering::Relaxed)
        };
        if !is_full(usize::MAX) {
            return;
        }
        let mut idle = self.idle(u64::MAX);
        idle.retain(|(_, id)| *id != new);
        idle.sort_unstable();
        // Some more than is needed, so that not every new one has to look for room.
        for (_, id) in idle {
            if !is_full(10) {
                return;
            }
            self.evict(id);
        }
    }

    /// Puts those out of memory that were not used since a call, and says how many.
    pub(super) fn sleep(&self, since: u64) -> usize {
        let idle = self.idle(since);
        idle.iter().for_each(|(_, id)| self.evict(*id));
        idle.len()
    }

    /// What could go, if it was not used since a call.
    fn idle(&self, since: u64) -> Vec<(u64, EntityId)> {
        let mut idle = Vec::new();
        for cells in &self.cells {
            let cells = cells.lock().unwrap_or_else(PoisonError::into_inner);
            idle.extend(cells.values().filter_map(|it| Some((it.idle_since()?, it.address.id()))));
        }
        idle.retain(|(used, _)| *used < since);
        idle
    }

    fn evict(&self, id: EntityId) {
        let mut cells = self.part(id);
        if cells.get(&id).is_some_and(|it| it.evict()) {
            cells.remove(&id);
            self.count.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Whether an object is in memory.
    pub(super) fn contains(&self, id: EntityId) -> bool {
        self.part(id).contains_key(&id)
    }

    fn part(&self, id: EntityId) -> MutexGuard<'_, HashMap<EntityId, Arc<Cell>>> {
        let part = usize::from(id.shard()) % self.cells.len();
        self.cells[part].lock().unwrap_or_else(PoisonError::into_inner)
    }
}
