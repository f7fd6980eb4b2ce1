//! What the handlers of one process share.

use std::{
    net::SocketAddr,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use steadfast::{
    Dispatcher, DispatcherOptions, Keep, ObjectOptions, Objects, Queues, Runs, Sweeper, Tokens,
    Unknown, process::Processes,
};
use steadfast_bucket::Buckets;
use steadfast_generations::Studio;
use steadfast_store::{Retention, Store, StoreError};
use tokio::sync::{Mutex, OnceCell, Semaphore};
use tokio_util::sync::CancellationToken;

use crate::{
    budget::Budget, catalog, classifier::Sight, drift::Drift, failure::Failure, generations,
    metrics::Metrics, place::Place, request_id::RequestIds,
};

/// While the disk is full, the beginning of work is tried so often.
const WORK_AGAIN: Duration = Duration::from_secs(1);

/// What the applications need beside the platform.
pub(crate) struct Apps {
    /// Who says what is on images.
    pub(crate) sight: Sight,
    /// Who makes pictures and clips.
    pub(crate) studio: Arc<Studio>,
    /// Who compares environments.
    pub(crate) drift: Drift,
    /// For how long messages are kept that were given up.
    pub(crate) keep_dead: Duration,
}

/// Who watches runs at one time; half of the connections are left for others.
const WATCHERS_MAX: usize = 512;

/// One process and the store it serves.
pub(crate) struct Node {
    /// The store.
    pub(crate) store: Arc<dyn Store>,
    /// The processes that take inputs here.
    pub(crate) processes: Processes,
    /// The objects that are called here.
    pub(crate) objects: Objects,
    /// The runs of workflows.
    pub(crate) runs: Runs,
    /// The queues.
    pub(crate) queues: Queues,
    /// The buckets.
    pub(crate) buckets: Buckets,
    /// Who may come in.
    pub(crate) tokens: Tokens,
    /// What the applications need.
    pub(crate) apps: Apps,
    /// Where the S3 port is, if there is one.
    pub(crate) s3_address: OnceLock<SocketAddr>,
    /// What delivers to all of them and executes their work; none where only questions are asked.
    pub(crate) dispatcher: Mutex<Option<Dispatcher>>,
    /// Where it is.
    pub(crate) place: Place,
    /// What is counted here.
    pub(crate) metrics: Metrics,
    /// Names of requests.
    pub(crate) request_ids: RequestIds,
    /// Set when queues are worked off.
    queues_work: OnceCell<()>,
    /// The memory for bodies of requests.
    pub(crate) budget: Budget,
    /// The API's description, written when the routes are known.
    pub(crate) openapi: OnceLock<String>,
    /// One examination at a time: it writes to the disk and scans tables.
    pub(crate) examination: Mutex<()>,
    /// Places for those who watch runs: each takes one of the connections that are served.
    pub(crate) watchers: Arc<Semaphore>,
    /// Ends those who would stay on the line.
    pub(crate) stopping: CancellationToken,
    draining: AtomicBool,
}

impl Node {
    /// A node that takes requests as is usual, on the async runtime that this is called in.
    pub(crate) fn new(
        store: Arc<dyn Store>,
        place: Place,
        buckets: Buckets,
    ) -> Result<Arc<Self>, Failure> {
        Self::small(store, place, buckets, Drift::none())
    }

    /// A node whose applications have nobody to ask but this one.
    pub(crate) fn small(
        store: Arc<dyn Store>,
        place: Place,
        buckets: Buckets,
        drift: Drift,
    ) -> Result<Arc<Self>, Failure> {
        let studio = generations::small_studio(&buckets)?;
        let keep_dead = Retention::DEFAULT.keep_dead;
        let apps = Apps { sight: Sight::none()?, studio, drift, keep_dead };
        let objects = catalog::objects(store.clone(), ObjectOptions::default(), &apps)?;
        Ok(Self::with(store, place, objects, buckets, apps))
    }

    /// A node with these objects and buckets.
    pub(crate) fn with(
        store: Arc<dyn Store>,
        place: Place,
        objects: Objects,
        buckets: Buckets,
        apps: Apps,
    ) -> Arc<Self> {
        apps.drift.compare.vault.keep_in(store.clone());
        let parts = (&apps.sight, apps.drift.compare.clone());
        let runs = catalog::runs(store.clone(), objects.clone(), buckets.clone(), parts);
        Arc::new(Self {
            processes: catalog::processes(store.clone(), apps.keep_dead),
            runs,
            tokens: Tokens::new(store.clone()),
            queues: catalog::queues(store.clone(), objects.clone(), &apps.sight),
            apps,
            objects,
            buckets,
            s3_address: OnceLock::new(),
            dispatcher: Mutex::new(None),
            store,
            place,
            metrics: Metrics::new(),
            request_ids: RequestIds::new(),
            queues_work: OnceCell::new(),
            budget: Budget::default(),
            openapi: OnceLock::new(),
            examination: Mutex::new(()),
            watchers: Arc::new(Semaphore::new(WATCHERS_MAX)),
            stopping: CancellationToken::new(),
            draining: AtomicBool::new(false),
        })
    }

    /// Begins to execute what is due.
    pub(crate) async fn work(self: &Arc<Self>) -> Result<(), StoreError> {
        let began = self.try_to_work().await;
        let Err(StoreError::DiskFull) = began else { return began };
        tracing::warn!("disk is full: reads are served, and work begins when there is space");
        let node = self.clone();
        tokio::spawn(async move {
            while !node.is_draining() {
                node.store.clock().sleep(WORK_AGAIN).await;
                match node.try_to_work().await {
                    Err(StoreError::DiskFull) => {}
                    Ok(()) => return tracing::info!("work begins"),
                    Err(error) => return tracing::error!(error = %error, "work does not begin"),
                }
            }
        });
        Ok(())
    }

    /// Takes over what the last process left unfinished, which writes, and begins.
    async fn try_to_work(&self) -> Result<(), StoreError> {
        // The folder may belong to a program with handlers of its own.
        let options = DispatcherOptions { unknown: Unknown::Waits, ..DispatcherOptions::default() };
        let dispatcher = Dispatcher::builder(self.store.clone())
            .route(self.processes.clone())
            .route(self.objects.clone())
            .route(self.runs.clone())
            .queues(self.queues.clone())
            .options(options);
        let objects = self.objects.clone();
        self.apps.studio.connect(move || Some(objects.clone()));
        let _ = self.apps.sight.runs.set(self.runs.clone());
        let queues = async || self.queues.work(&self.runs, options.grace).await;
        self.queues_work.get_or_try_init(queues).await?;
        let mut running = self.dispatcher.lock().await;
        if !self.is_draining() {
            *running = Some(dispatcher.start().await?);
        }
        Ok(())
    }

    /// Finishes what is under way and delivers nothing new. Requests were answered before this:
    /// calls are a way of their own to objects, and the turns that they began end with them.
    pub(crate) async fn rest(&self) {
        let dispatcher = self.dispatcher.lock().await.take();
        if let Some(dispatcher) = dispatcher {
            let grace = DispatcherOptions::default().grace;
            tokio::join!(dispatcher.stop(), self.runs.stop(grace), self.queues.stop());
            self.apps.studio.disconnect();
        }
    }

    /// What sweeps it.
    pub(crate) fn sweeper(&self, keep: Keep) -> Sweeper {
        Sweeper {
            store: self.store.clone(),
            runs: self.runs.clone(),
            queues: self.queues.clone(),
            buckets: Some(self.buckets.clone()),
            keep,
        }
    }

    /// Says that no more requests should come.
    pub(crate) fn drain(&self) {
        self.draining.store(true, Ordering::Relaxed);
        self.stopping.cancel();
    }

    /// Whether the node is on its way out.
    pub(crate) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }
}
