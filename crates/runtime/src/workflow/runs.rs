//! The runs of a program: started, looked at, told things, paused, ended.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use serde::Serialize;
use serde_json::Value;
use steadfast_store::{
    Address, Clock, Commit, EntityId, EntityKind, Entropy, Outcome, Rejection, Store, StoreError,
    Timestamp,
};
use tokio::sync::{Notify, mpsc};

use super::{
    RunAddress, RunError, Status, Workflow,
    drive::{AT_ONCE, Driver, Poke, wake_up},
    erased::{Erased, erase},
    journal::{Journal, Known},
    record::{Entry, Key},
};
use crate::Objects;

/// Characters of an id.
const ID_MAX: usize = 128;

/// The workflows of a program, and the runs of them that are under way.
#[derive(Clone)]
pub struct Runs {
    pub(super) shared: Arc<Shared>,
}

pub(super) struct Shared {
    pub(super) store: Arc<dyn Store>,
    objects: Objects,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
    pub(super) workflows: BTreeMap<&'static str, Erased>,
    active: Mutex<HashMap<EntityId, mpsc::UnboundedSender<Poke>>>,
    /// Something has ended, or stands still.
    changed: Notify,
}

/// What came of starting a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Started {
    /// Whether this has made it; if not, it was there.
    pub created: bool,
    /// How far it is.
    pub status: Status,
}

/// One run, as its record tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// How far it is.
    pub status: Status,
    /// What it began with.
    pub input: Value,
    /// What it has recorded outside of branches: what, and what came of it.
    pub steps: Vec<(String, Option<Value>)>,
}

impl Runs {
    /// Runs of no workflows yet, on a store.
    pub fn new(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        entropy: Arc<dyn Entropy>,
        objects: Objects,
    ) -> Self {
        let shared = Shared {
            objects,
            store,
            clock,
            entropy,
            workflows: BTreeMap::new(),
            active: Mutex::default(),
            changed: Notify::new(),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Also runs this workflow. Before anything is started.
    pub fn with<W: Workflow>(mut self, workflow: W) -> Self {
        let shared = Arc::get_mut(&mut self.shared).expect("nothing runs yet");
        let twice = shared.workflows.insert(W::NAME, erase(workflow));
        assert!(twice.is_none(), "workflow `{}` is registered twice", W::NAME);
        self
    }

    /// The workflows, in order.
    pub fn workflows(&self) -> impl Iterator<Item = &'static str> {
        self.shared.workflows.keys().copied()
    }

    /// Starts a run, or finds it there.
    pub async fn start<W: Workflow>(
        &self,
        run: &RunAddress<W>,
        input: &W::Input,
    ) -> Result<Started, RunError> {
        self.start_json(W::NAME, run.id(), to_json("the input", input)?).await
    }

    /// Starts a run by names.
    pub async fn start_json(
        &self,
        workflow: &str,
        id: &str,
        input: Value,
    ) -> Result<Started, RunError> {
        self.check(workflow)?;
        let run = address(workflow, id)?;
        match self.shared.store.commit(starting(&run, input)?).await? {
            Outcome::Committed(_) => Ok(Started { created: true, status: Status::Queued }),
            Outcome::Duplicate(_) | Outcome::Rejected(_) => {
                let status = self.load(&run).await?.status;
                Ok(Started { created: false, status })
            }
        }
    }

    /// One run.
    pub async fn run(&self, workflow: &str, id: &str) -> Result<Run, RunError> {
        let run = address(workflow, id)?;
        let journal = self.load(&run).await?;
        let root = journal.order.get("").cloned().unwrap_or_default();
        let step = |key: &Key| {
            let value = match journal.known.get(key) {
                Some(Known::Value(value)) => Some(value.clone()),
                Some(Known::Failed(_) | Known::Timer(_)) | None => None,
            };
            (key.to_string(), value)
        };
        let steps = root.iter().map(step).collect();
        let is_active = self.active().contains_key(&run.id());
        let goes_on = matches!(journal.status, Status::Queued | Status::Waiting);
        let status = if is_active && goes_on { Status::Running } else { journal.status };
        Ok(Run { status, input: journal.input, steps })
    }

    /// Waits until a run has ended or stands still.
    pub async fn wait(&self, workflow: &str, id: &str) -> Result<Status, RunError> {
        let run = address(workflow, id)?;
        loop {
            let changed = self.shared.changed.notified();
            let status = self.load(&run).await?.status;
            if status.is_final() || matches!(status, Status::Paused(_)) {
                return Ok(status);
            }
            changed.await;
        }
    }

    /// Tells a run of an event. It is kept until the run waits for one of this name.
    pub async fn send_event(
        &self,
        workflow: &str,
        id: &str,
        name: &str,
        payload: &impl Serialize,
    ) -> Result<(), RunError> {
        let payload = to_json("the event", payload)?;
        let event = Entry::Event { name: name.into(), payload };
        self.change(workflow, id, true, |journal, _| match journal.status.is_final() {
            true => Err("it takes no events any more"),
            false => Ok(Some(event.clone())),
        })
        .await
    }

    /// Has a run stand still. What is under way in it is begun again when it goes on.
    pub async fn pause(&self, workflow: &str, id: &str) -> Result<(), RunError> {
        self.change(workflow, id, false, |journal, _| match &journal.status {
            Status::Complete(_) | Status::Errored(_) | Status::Terminated => Err("it has ended"),
            Status::Paused(_) => Ok(None),
            Status::Queued | Status::Running | Status::Waiting => {
                Ok(Some(Entry::Paused { report: None }))
            }
        })
        .await
    }

    /// Lets a run go on that stands still. Its timers are as far away as they were.
    pub async fn resume(&self, workflow: &str, id: &str) -> Result<(), RunError> {
        self.change(workflow, id, true, |journal, now| match &journal.status {
            Status::Complete(_) | Status::Errored(_) | Status::Terminated => Err("it has ended"),
            Status::Paused(_) => Ok(Some(Entry::Resumed { shift_ms: journal.paused_for(now) })),
            Status::Queued | Status::Running | Status::Waiting => Ok(None),
        })
        .await
    }

    /// Ends a run.
    pub async fn terminate(&self, workflow: &str, id: &str) -> Result<(), RunError> {
        self.change(workflow, id, false, |journal, _| match journal.status.is_final() {
            true => Err("it has ended"),
            false => Ok(Some(Entry::Terminated)),
        })
        .await
    }

    /// Lets a run that has ended or stands still begin anew; with `from`, behind what it has
    /// recorded before that step.
    pub async fn restart(
        &self,
        workflow: &str,
        id: &str,
        from: Option<&str>,
    ) -> Result<(), RunError> {
        let run = address(workflow, id)?;
        let root = self.load(&run).await?.order.remove("").unwrap_or_default();
        let from = from.map(|step| {
            let found = root.iter().find(|it| it.kind == "step" && it.name == step);
            let missing = || RunError::UnknownStep { run: run.to_string(), step: step.into() };
            found.cloned().ok_or_else(missing)
        });
        let from = from.transpose()?;
        self.change(workflow, id, true, |journal, _| match &journal.status {
            Status::Queued | Status::Running | Status::Waiting => {
                Err("terminate or pause it first")
            }
            Status::Paused(_) | Status::Complete(_) | Status::Errored(_) | Status::Terminated => {
                Ok(Some(Entry::Restarted { from: from.clone() }))
            }
        })
        .await
    }

    // ---- inside --------------------------------------------------------------------------

    pub(super) fn check(&self, workflow: &str) -> Result<(), RunError> {
        match self.shared.workflows.contains_key(workflow) {
            true => Ok(()),
            false => Err(RunError::UnknownWorkflow { workflow: workflow.into() }),
        }
    }

    async fn load(&self, run: &Address) -> Result<Journal, RunError> {
        let journal = Journal::load(&*self.shared.store, run).await?;
        journal.ok_or_else(|| RunError::UnknownRun { run: run.to_string() })
    }

    /// Adds an entry, decided on what the run is now.
    async fn change(
        &self,
        workflow: &str,
        id: &str,
        wakes: bool,
        decide: impl Fn(&Journal, Timestamp) -> Result<Option<Entry>, &'static str>,
    ) -> Result<(), RunError> {
        let run = address(workflow, id)?;
        loop {
            let journal = self.load(&run).await?;
            let decided = decide(&journal, self.shared.clock.now());
            let entry = decided.map_err(|why| {
                let (run, status) = (run.to_string(), journal.status.tag());
                RunError::WrongStatus { run, status, why }
            })?;
            let Some(entry) = entry else { return Ok(()) };
            let mut messages = vec![entry.message().map_err(StoreError::from)?];
            if wakes {
                messages.push(wake_up(&run, AT_ONCE, Vec::new()).map_err(StoreError::from)?);
            }
            let commit = Commit::append(&run, journal.version, messages);
            match self.shared.store.commit(commit).await? {
                Outcome::Committed(_) | Outcome::Duplicate(_) => break,
                Outcome::Rejected(Rejection::Version { .. }) => {}
                Outcome::Rejected(rejection) => {
                    return Err(StoreError::Corrupt { reason: rejection.to_string() }.into());
                }
            }
        }
        if let Some(active) = self.active().get(&run.id()) {
            let _ = active.send(None);
        }
        self.shared.changed.notify_waiters();
        Ok(())
    }

    fn active(&self) -> MutexGuard<'_, HashMap<EntityId, mpsc::UnboundedSender<Poke>>> {
        self.shared.active.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has a run driven: by who drives it already, or by a new task.
    pub(super) fn wake(&self, run: &Address, poke: Poke) {
        let mut active = self.active();
        let poke = match active.get(&run.id()) {
            Some(driver) => match driver.send(poke) {
                Ok(()) => return,
                Err(back) => back.0,
            },
            None => poke,
        };
        let Some(workflow) = self.shared.workflows.get(run.class()) else { return };
        let (sender, pokes) = mpsc::unbounded_channel();
        active.insert(run.id(), sender);
        let driver = Driver {
            store: self.shared.store.clone(),
            clock: self.shared.clock.clone(),
            entropy: self.shared.entropy.clone(),
            objects: self.shared.objects.clone(),
            workflow: workflow.clone(),
            run: run.clone(),
            calls: Vec::from_iter(poke),
        };
        tokio::spawn(self.clone().keep_driving(driver, pokes));
    }

    /// Drives until nobody wants anything of the run.
    async fn keep_driving(self, mut driver: Driver, mut pokes: mpsc::UnboundedReceiver<Poke>) {
        loop {
            if let Err(error) = driver.drive(&mut pokes).await {
                let run = driver.run.to_string();
                tracing::warn!(run, error = %error, "run is driven again later");
                // Who waits for it hears that it was not done, and tries again.
                driver.calls.clear();
            }
            self.shared.changed.notify_waiters();
            let mut active = self.active();
            match pokes.try_recv() {
                Ok(poke) => driver.calls.extend(poke),
                Err(_) => {
                    active.remove(&driver.run.id());
                    return;
                }
            }
        }
    }
}

/// The commit that makes a run, unless it is there.
pub(super) fn starting(run: &Address, input: Value) -> Result<Commit, StoreError> {
    let started = Entry::Started { input }.message()?;
    Ok(Commit::append(run, 0, vec![started, wake_up(run, AT_ONCE, Vec::new())?]))
}

pub(super) fn address(workflow: &str, id: &str) -> Result<Address, RunError> {
    let fits = |it: char| it.is_ascii_alphanumeric() || "_-.:".contains(it);
    if id.is_empty() || ID_MAX < id.len() || !id.chars().all(fits) {
        return Err(RunError::InvalidId { id: id.chars().take(ID_MAX).collect() });
    }
    Ok(Address::new(EntityKind::Run, workflow, id)?)
}

fn to_json(what: &'static str, value: &impl Serialize) -> Result<Value, RunError> {
    serde_json::to_value(value)
        .map_err(|error| RunError::Malformed { what, detail: error.to_string() })
}
