//! Tasks that wait for changes of a run.

use std::collections::HashMap;

use parking_lot::{Mutex, MutexGuard};
use steadfast_store::{EntityId, Version};
use tokio::sync::watch;

use super::Status;

/// The last known state of a run: the length of its record, and its status if that is known.
#[derive(Clone, Debug, Default)]
pub(super) struct RunUpdate {
    pub(super) version: Version,
    pub(super) status: Option<Status>,
}

/// By run. An entry exists only while a task waits.
#[derive(Default)]
pub(super) struct Watchers(Mutex<HashMap<EntityId, watch::Sender<RunUpdate>>>);

/// A task that waits.
pub(super) struct Watcher<'a> {
    of: &'a Watchers,
    run: EntityId,
    pub(super) updates: watch::Receiver<RunUpdate>,
}

impl Watchers {
    pub(super) fn watch(&self, run: EntityId) -> Watcher<'_> {
        let updates = match self.entries().entry(run) {
            std::collections::hash_map::Entry::Occupied(it) => it.get().subscribe(),
            std::collections::hash_map::Entry::Vacant(it) => {
                let (sender, updates) = watch::channel(RunUpdate::default());
                it.insert(sender);
                updates
            }
        };
        Watcher { of: self, run, updates }
    }

    /// Notifies all tasks that wait for this run.
    pub(super) fn notify(&self, run: EntityId, version: Version, status: Option<Status>) {
        if let Some(sender) = self.entries().get(&run) {
            sender.send_if_modified(|updates| {
                // Notifications may be concurrent; the newest counts.
                let is_newer = updates.version <= version;
                if is_newer {
                    *updates = RunUpdate { version, status };
                }
                is_newer
            });
        }
    }

    /// The outcome of a commit is unknown: waiting tasks have to read.
    pub(super) fn is_unknown(&self, run: EntityId) {
        if let Some(sender) = self.entries().get(&run) {
            sender.send_modify(|updates| updates.status = None);
        }
    }

    /// A run was deleted; the next one of this id has versions of its own.
    pub(super) fn start_over(&self, run: EntityId) {
        if let Some(sender) = self.entries().get(&run) {
            sender.send_replace(RunUpdate::default());
        }
    }

    fn entries(&self) -> MutexGuard<'_, HashMap<EntityId, watch::Sender<RunUpdate>>> {
        self.0.lock()
    }
}

impl Drop for Watcher<'_> {
    fn drop(&mut self) {
        let mut entries = self.of.entries();
        // This receiver is still counted.
        if entries.get(&self.run).is_some_and(|it| it.receiver_count() <= 1) {
            entries.remove(&self.run);
        }
    }
}
