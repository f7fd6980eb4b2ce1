//! The active runs, each driven by one task, which other tasks notify, and the tasks that wait for
//! changes of a run.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::Arc,
};

use parking_lot::Mutex;
use steadfast_store::{EntityId, Version};
use tokio::sync::{Notify, mpsc, watch};

use super::{
    ctx::Ctx,
    record::{Progress, WakeUp},
    state::AttemptInFlight,
    status::{RunHead, Status},
};

/// A notification of a driver: a wake-up, or new entries in the record.
pub(super) type Notification = Option<WakeUp>;

/// Whether the drivers stop.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Stop {
    No,
    Soon,
    Now,
}

/// By run.
#[derive(Default)]
pub(super) struct ActiveRuns {
    runs: Mutex<HashMap<EntityId, ActiveRun>>,
    /// A run has become inactive.
    asleep: Notify,
}

struct ActiveRun {
    workflow: &'static str,
    notifications: mpsc::UnboundedSender<Notification>,
    shared_run: SharedRun,
}

/// The state of an active run that its driver shares with other tasks.
#[derive(Clone, Default)]
pub(super) struct SharedRun {
    /// Serializes commits of the run, so that others can change a run that records continuously.
    pub(super) turn: Arc<tokio::sync::Mutex<()>>,
    /// For views.
    ctx: Arc<Mutex<Option<Ctx>>>,
}

impl SharedRun {
    pub(super) fn show(&self, ctx: Option<&Ctx>) {
        *self.ctx.lock() = ctx.cloned();
    }
}

impl ActiveRuns {
    /// The attempts in flight and the progress of a run; `None` if it is not active.
    pub(super) fn in_flight(
        &self,
        run: EntityId,
    ) -> Option<(Vec<AttemptInFlight>, Option<Progress>)> {
        let shown = self.runs.lock().get(&run)?.shared_run.ctx.clone();
        let Some(ctx) = shown.lock().clone() else { return Some((Vec::new(), None)) };
        let state = ctx.state();
        Some((state.in_flight.clone(), state.progress.clone()))
    }

    pub(super) fn turn(&self, run: EntityId) -> Option<Arc<tokio::sync::Mutex<()>>> {
        Some(self.runs.lock().get(&run)?.shared_run.turn.clone())
    }

    pub(super) fn contains(&self, run: EntityId) -> bool {
        self.runs.lock().contains_key(&run)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.runs.lock().is_empty()
    }

    /// The runs of a workflow.
    pub(super) fn of(&self, workflow: &str) -> Vec<EntityId> {
        let runs = self.runs.lock();
        runs.iter().filter(|it| it.1.workflow == workflow).map(|it| *it.0).collect()
    }

    /// Notifies the driver of a run. The notification is returned if the run is not active.
    pub(super) fn notify(
        &self,
        run: EntityId,
        notification: Notification,
    ) -> Result<(), Notification> {
        match self.runs.lock().get(&run) {
            Some(awake) => awake.notifications.send(notification).map_err(|it| it.0),
            None => Err(notification),
        }
    }

    /// Makes a run active; `None` if it already is.
    pub(super) fn enter(
        &self,
        run: EntityId,
        workflow: &'static str,
    ) -> Option<(SharedRun, mpsc::UnboundedReceiver<Notification>)> {
        let mut runs = self.runs.lock();
        let Entry::Vacant(entry) = runs.entry(run) else { return None };
        let (notifications, notified) = mpsc::unbounded_channel();
        let shared_run = SharedRun::default();
        entry.insert(ActiveRun { workflow, notifications, shared_run: shared_run.clone() });
        Some((shared_run, notified))
    }

    /// Makes a run inactive, unless it was notified meanwhile.
    pub(super) fn leave(
        &self,
        run: EntityId,
        notifications: &mut mpsc::UnboundedReceiver<Notification>,
    ) -> Option<Notification> {
        let mut runs = self.runs.lock();
        let notification = notifications.try_recv().ok();
        if notification.is_none() {
            runs.remove(&run);
        }
        notification
    }

    /// The driver of a run has ended; after a panic the run is still in the table.
    pub(super) fn left(&self, run: EntityId, has_panicked: bool) {
        if has_panicked {
            self.runs.lock().remove(&run);
        }
        self.asleep.notify_waiters();
    }

    /// Waits until this run, or every run, is inactive.
    pub(super) async fn until_asleep(&self, run: Option<EntityId>) {
        loop {
            let asleep = self.asleep.notified();
            if run.map_or_else(|| self.is_empty(), |it| !self.contains(it)) {
                return;
            }
            asleep.await;
        }
    }
}

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
        let updates = self.0.lock().entry(run).or_default().subscribe();
        Watcher { of: self, run, updates }
    }

    /// Notifies all tasks that wait for this run.
    pub(super) fn notify(&self, run: EntityId, head: &RunHead) {
        if let Some(sender) = self.0.lock().get(&run) {
            sender.send_if_modified(|updates| {
                // Notifications may be concurrent; the newest counts.
                let is_newer = updates.version <= head.version;
                if is_newer {
                    let (version, status) = (head.version, Some(head.status.clone()));
                    *updates = RunUpdate { version, status };
                }
                is_newer
            });
        }
    }

    /// The outcome of a commit is unknown: waiting tasks have to read.
    pub(super) fn is_unknown(&self, run: EntityId) {
        if let Some(sender) = self.0.lock().get(&run) {
            sender.send_modify(|updates| updates.status = None);
        }
    }

    /// A run was deleted; the next one of this id has versions of its own.
    pub(super) fn start_over(&self, run: EntityId) {
        if let Some(sender) = self.0.lock().get(&run) {
            sender.send_replace(RunUpdate::default());
        }
    }
}

impl Drop for Watcher<'_> {
    fn drop(&mut self) {
        let mut entries = self.of.0.lock();
        // This receiver is still counted.
        if entries.get(&self.run).is_some_and(|it| it.receiver_count() <= 1) {
            entries.remove(&self.run);
        }
    }
}
