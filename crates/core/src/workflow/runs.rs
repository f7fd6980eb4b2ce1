//! The runs of a program: start, status, wait.

use std::sync::{Arc, atomic::AtomicI64};

use serde::Serialize;
use serde_json::Value;
use steadfast_store::{Address, Entropy, OpaqueArc, Store, StoreClock};
use tokio::sync::watch;

use super::{
    RunAddress, RunError, RunOptions, StartOutcome, Status, Workflow,
    active::{ActiveRuns, Stop, Watcher, Watchers},
    ctx::Environment,
    definition::{Definition, address},
    fold::RunFold,
    fold_cache::FoldCache,
    status::RunHead,
};
use crate::{Objects, RequestKey, name_map::NameMap, script::Script};

/// The workflows of a program, and their active runs.
#[derive(Clone)]
pub struct Runs {
    pub(super) shared: OpaqueArc<Shared>,
    pub(super) key: Option<RequestKey>,
}

pub(super) struct Shared {
    pub(super) store: Arc<dyn Store>,
    pub(super) clock: Arc<StoreClock>,
    pub(super) environment: Arc<Environment>,
    pub(super) workflows: NameMap<Arc<Definition>>,
    pub(super) active: ActiveRuns,
    pub(super) stop: watch::Sender<Stop>,
    pub(super) watchers: Watchers,
    pub(super) folds: FoldCache,
    /// Numbers of the leases of wake-ups that this process holds; those of deliveries increase from
    /// 0.
    pub(super) leases: AtomicI64,
}

impl Runs {
    /// A store without workflows.
    pub fn new(store: Arc<dyn Store>, entropy: Arc<dyn Entropy>, objects: Objects) -> Self {
        let (clock, script) = (store.clock().clone(), Script::default());
        Self::of(store, Environment { clock, entropy, objects, script, buckets: None })
    }

    /// The same with this environment.
    pub(crate) fn of(store: Arc<dyn Store>, environment: Environment) -> Self {
        let shared = Shared {
            clock: store.clock().clone(),
            store,
            environment: Arc::new(environment),
            workflows: NameMap::default(),
            active: ActiveRuns::default(),
            stop: watch::Sender::new(Stop::No),
            watchers: Watchers::default(),
            folds: FoldCache::default(),
            leases: AtomicI64::new(-1),
        };
        Self { shared: OpaqueArc::new(shared), key: None }
    }

    /// Records the next change under a key: a start, an event, pause, resume, terminate or restart.
    /// A repetition with the same key changes nothing. [`Runs::look_then`] and
    /// [`Runs::started_before`] return the result of the first.
    pub fn keyed(&self, key: impl Into<Option<RequestKey>>) -> Self {
        Self { shared: self.shared.clone(), key: key.into() }
    }

    /// Adds a workflow. Call it before anything is started.
    pub fn with<W: Workflow>(mut self, workflow: W) -> Self {
        let shared = self.shared.get_mut().expect("nothing runs yet");
        let twice = shared.workflows.insert(W::NAME, Arc::new(Definition::of(workflow)));
        assert!(twice.is_none(), "workflow `{}` is registered twice", W::NAME);
        self
    }

    /// The workflows, in order.
    pub fn workflows(&self) -> impl Iterator<Item = (&'static str, RunOptions)> {
        self.shared.workflows.iter().map(|(name, it)| (*name, it.options))
    }

    /// Starts a run, or finds it.
    pub async fn start<W: Workflow>(
        &self,
        run: RunAddress<W>,
        input: W::Input,
    ) -> Result<StartOutcome, RunError> {
        self.start_json(W::NAME, run.id(), to_json("the input", &input)?).await
    }

    /// Starts a run by names.
    #[steadfast_store::boxed]
    pub async fn start_json(
        &self,
        workflow: &str,
        id: &str,
        input: Value,
    ) -> Result<StartOutcome, RunError> {
        self.check(workflow)?;
        self.begin(&address(workflow, id)?, input).await
    }

    /// Starts a run by names, or finds it, and waits until it has ended or is paused, or until the
    /// timeout.
    pub async fn start_json_and_wait(
        &self,
        workflow: &str,
        id: &str,
        input: Value,
        enough: impl Future<Output = ()>,
    ) -> Result<StartOutcome, RunError> {
        self.check(workflow)?;
        let run = address(workflow, id)?;
        let watcher = self.shared.watchers.watch(run.id());
        let mut started = self.start_json(workflow, id, input).await?;
        tokio::select! {
            status = self.ended(&run, watcher, started.status.clone()) => {
                // It is started, even if its status cannot be read.
                started.status = status.unwrap_or(started.status);
            }
            () = enough => {}
        }
        Ok(started)
    }

    /// The status of a run.
    #[steadfast_store::boxed]
    pub async fn status(&self, workflow: &str, id: &str) -> Result<Status, RunError> {
        let run = address(workflow, id)?;
        let status = self.head(&run).await?.status;
        let can_continue = matches!(status, Status::Queued | Status::Waiting);
        let is_awake = can_continue && self.shared.active.contains(run.id());
        Ok(if is_awake { Status::Running } else { status })
    }

    /// Waits until a run has ended or is paused.
    #[steadfast_store::boxed]
    pub async fn wait(&self, workflow: &str, id: &str) -> Result<Status, RunError> {
        let run = address(workflow, id)?;
        // Watch before the read, so that no change is missed.
        let watcher = self.shared.watchers.watch(run.id());
        let status = self.head(&run).await?.status;
        self.ended(&run, watcher, status).await
    }

    async fn ended(
        &self,
        run: &Address,
        mut watcher: Watcher<'_>,
        mut status: Status,
    ) -> Result<Status, RunError> {
        while !status.is_final() && !status.is_paused() {
            // The sender exists as long as the watcher.
            if watcher.updates.changed().await.is_err() {
                break;
            }
            let updates = watcher.updates.borrow_and_update().status.clone();
            status = match updates {
                Some(status) => status,
                None => self.head(run).await?.status,
            };
        }
        Ok(status)
    }

    // ---- inside --------------------------------------------------------------------------

    pub(super) fn check(&self, workflow: &str) -> Result<(), RunError> {
        match self.shared.workflows.contains_key(workflow) {
            true => Ok(()),
            false => Err(RunError::UnknownWorkflow { workflow: workflow.into() }),
        }
    }

    /// The current head of a run.
    pub(super) async fn head(&self, run: &Address) -> Result<RunHead, RunError> {
        let head = self.shared.folds.head(&*self.shared.store, run).await?;
        head.ok_or_else(|| RunError::UnknownRun { run: run.to_string() })
    }

    /// Reads the whole record.
    pub(super) async fn load(&self, run: &Address) -> Result<RunFold, RunError> {
        let fold = RunFold::load(&*self.shared.store, run).await?;
        fold.ok_or_else(|| RunError::UnknownRun { run: run.to_string() })
    }
}

pub(super) fn to_json(what: &'static str, value: &impl Serialize) -> Result<Value, RunError> {
    crate::body::to_value(value)
        .map_err(|error| RunError::Malformed { what, detail: error.to_string() })
}
