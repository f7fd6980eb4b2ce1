//! A running program on one store.

mod client;
mod parts;
mod run_handle;

use std::{
    ops::Deref,
    sync::{
        Arc, OnceLock, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use steadfast_store::{OpaqueArc, Position, Seal, Store, StoreError, futures::FutureExt};
use tokio::{
    runtime::Handle,
    sync::{OnceCell, watch},
    task::JoinSet,
    time::timeout,
};

pub(crate) use self::parts::{Extensions, Parts};
pub use self::{
    parts::{Extension, Unserved},
    run_handle::RunHandle,
};
use crate::{
    Audit, BucketError, Buckets, Dispatcher, Objects, Queues, Result, RetentionSettings, Runs,
    Sessions, StartError, Tokens,
    client::{AnyProgram, Client},
    on_drop::on_drop,
    open,
    process::Processes,
};

/// A check before the first delivery.
pub(crate) type BeforeWork = Box<dyn Fn() -> Result<()> + Send + Sync>;

/// Runs all checks; fails with every reason.
pub(crate) fn check_all(checks: &[BeforeWork]) -> Result<(), StartError> {
    let problems: Vec<String> =
        checks.iter().filter_map(|check| check().err()).map(|it| it.to_string()).collect();
    if problems.is_empty() { Ok(()) } else { Err(StartError::Program { problems }) }
}

/// Retry interval while the disk is full.
const WORK_AGAIN: Duration = Duration::from_secs(1);

/// Timeout for closing the buckets, and for closing the store. Acknowledged commits are durable
/// without it.
pub const CLOSE_TIMEOUT: Duration = Duration::from_secs(10);

/// A running program. Cheap to clone. It derefs to a [`Client`].
///
/// [`Runtime::stop`] shuts it down in order: connections, deliveries in flight, buckets, and the
/// store if the program opened it. Dropping the last clone begins the same shutdown in the
/// background. Work that is interrupted resumes at the next start.
#[derive(Clone)]
pub struct Runtime {
    client: Client,
    running: Arc<RunningProgram>,
}

/// Keeps a program running: the program stops when the last one is dropped.
pub(crate) struct RunningProgram(OpaqueArc<State>);

impl RunningProgram {
    /// Begins the shutdown, once.
    fn begin_stop(&self) {
        if !self.0.stop_began.swap(true, Ordering::Relaxed) {
            let (state, stopped) = (self.0.clone(), self.0.clone());
            // Callers of `stop` are woken even if the shutdown panics.
            let stopped = on_drop(move || {
                stopped.ended.send_replace(true);
                stopped.closed.send_replace(true);
            });
            let stop = async move {
                state.stop().await;
                drop(stopped);
            };
            self.0.tokio.spawn(stop.boxed());
        }
    }
}

impl Deref for RunningProgram {
    type Target = State;

    fn deref(&self) -> &State {
        &self.0
    }
}

impl Drop for RunningProgram {
    fn drop(&mut self) {
        self.begin_stop();
    }
}

/// A program and the state of its start and shutdown.
pub(crate) struct State {
    parts: Parts,
    /// Set when the program has begun to work.
    dispatcher: OnceLock<Dispatcher>,
    queues_work: OnceCell<()>,
    /// Checks before the first work. The lock serializes calls of `work` with `stop`.
    beginning: tokio::sync::Mutex<Vec<BeforeWork>>,
    /// Retention, and the retry of `work` on a full disk; `None` once the program stops.
    background: Mutex<Option<JoinSet<()>>>,
    hung_up: OnceCell<()>,
    /// Whether the store names this program as its owner.
    is_ours: AtomicBool,
    stop_began: AtomicBool,
    sweeps: AtomicBool,
    /// Set when no delivery is in flight any more; clients get `closed` from then on.
    pub(crate) ended: watch::Sender<bool>,
    /// Set when buckets and store are closed.
    closed: watch::Sender<bool>,
    /// Set if the program opened the store and must close it.
    owns_store: AtomicBool,
    /// The async runtime of the program.
    tokio: Handle,
}

impl Deref for State {
    type Target = Parts;

    fn deref(&self) -> &Parts {
        &self.parts
    }
}

impl State {
    fn new(parts: Parts, before_work: Vec<BeforeWork>, is_ours: bool) -> Self {
        Self {
            parts,
            dispatcher: OnceLock::new(),
            queues_work: OnceCell::new(),
            beginning: tokio::sync::Mutex::new(before_work),
            background: Mutex::new(Some(JoinSet::new())),
            hung_up: OnceCell::new(),
            is_ours: AtomicBool::new(is_ours),
            stop_began: AtomicBool::new(false),
            sweeps: AtomicBool::new(false),
            ended: watch::Sender::new(false),
            closed: watch::Sender::new(false),
            owns_store: AtomicBool::new(false),
            tokio: Handle::current(),
        }
    }

    pub(crate) fn has_ended(&self) -> bool {
        *self.ended.borrow()
    }

    /// Whether the program is stopping and starts no new work.
    fn is_stopping(&self) -> bool {
        self.background.lock().is_none()
    }

    async fn work(&self) -> Result<(), StartError> {
        let mut checks = self.beginning.lock().await;
        if self.is_stopping() || self.dispatcher.get().is_some() {
            return Ok(());
        }
        check_all(&checks)?;
        checks.clear();
        if !self.is_ours.load(Ordering::Relaxed) {
            open::write_owner(&self.store, &self.name).await?;
            self.is_ours.store(true, Ordering::Relaxed);
        }
        // Retention runs on a full disk too: it may free space.
        if !self.sweeps.swap(true, Ordering::Relaxed) {
            self.in_background(self.sweeper().run());
            if let Some(buckets) = &self.buckets {
                self.in_background(buckets.clone().check_in_background());
            }
        }
        self.seal_secrets().await?;
        if let Some(buckets) = &self.buckets {
            for spec in &self.declared_buckets {
                spec.declare(buckets).await?;
            }
        }
        let options = self.dispatcher_options;
        self.queues_work.get_or_try_init(|| self.queues.begin(options.grace)).await?;
        let dispatcher = Dispatcher::builder(self.store.clone())
            .shared_entropy(self.entropy.clone())
            .options(options)
            .route(self.processes.clone())
            .route(self.objects.clone())
            .route(self.runs.clone())
            .queue_listener(self.queues.clone());
        let _ = self.dispatcher.set(dispatcher.start().await?);
        Ok(())
    }

    fn in_background(&self, task: impl Future<Output = ()> + Send + 'static) {
        let mut tasks = self.background.lock();
        if let Some(tasks) = &mut *tasks {
            tasks.spawn(task.boxed());
        }
    }

    /// Closes all live connections; later calls return immediately.
    async fn hang_up(&self) {
        let hang_up = async || {
            let grace = self.dispatcher_options.grace;
            if timeout(grace, self.objects.hang_up()).await.is_err() {
                let count = self.objects.connections();
                tracing::warn!(count, "live connections cut off at the deadline");
            }
        };
        self.hung_up.get_or_init(hang_up).await;
    }

    async fn stop(&self) {
        let background = self.background.lock().take();
        if let Some(mut background) = background {
            background.shutdown().await;
        }
        // Wait for a concurrent call of `work`.
        let _one = self.beginning.lock().await;
        self.hang_up().await;
        let dispatcher = async {
            if let Some(dispatcher) = self.dispatcher.get() {
                dispatcher.end().await;
            }
        };
        let grace = self.dispatcher_options.grace;
        tokio::join!(dispatcher, self.runs.stop(grace), self.queues.stop());
        // Handlers could use their clients until here.
        self.ended.send_replace(true);
        let close = async {
            if let Some(buckets) = &self.buckets {
                buckets.close().await;
            }
            if self.owns_store.swap(false, Ordering::Relaxed) {
                self.store.close().await;
            }
        };
        if timeout(CLOSE_TIMEOUT, close).await.is_err() {
            tracing::warn!("store not closed in time");
        }
    }
}

fn is_disk_full(error: &StartError) -> bool {
    match error {
        StartError::Store(error) => matches!(error, StoreError::DiskFull),
        StartError::Bucket(error) => {
            matches!(error, BucketError::DiskFull | BucketError::Store(StoreError::DiskFull))
        }
        StartError::Open(_) | StartError::Program { .. } | StartError::Foreign { .. } => false,
    }
}

fn any_program(running: &Arc<RunningProgram>) -> Weak<AnyProgram> {
    Arc::downgrade(running) as Weak<AnyProgram>
}

impl Runtime {
    pub(crate) fn of(running: Arc<RunningProgram>) -> Self {
        let client = Client::default();
        client.attach(any_program(&running));
        Self { client, running }
    }

    /// A program that delivers nothing yet. Its own client and the others can use it.
    pub(crate) fn new(
        parts: Parts,
        before_work: Vec<BeforeWork>,
        is_ours: bool,
        client: Client,
        clients: &[Client],
    ) -> Self {
        let running =
            Arc::new(RunningProgram(OpaqueArc::new(State::new(parts, before_work, is_ours))));
        clients.iter().chain([&client]).for_each(|it| it.attach(any_program(&running)));
        Self { client, running }
    }

    /// Has the program close the store when it stops.
    pub(crate) fn own_store(&self) {
        self.running.owns_store.store(true, Ordering::Relaxed);
    }

    /// Returns the program, or stops it if `work` failed.
    pub(crate) async fn or_stop(self, began: Result<(), StartError>) -> Result<Self, StartError> {
        match began {
            Ok(()) => Ok(self),
            Err(error) => {
                self.stop().await;
                Err(error)
            }
        }
    }

    /// Creates the declared buckets, takes over unfinished work of the previous process, and starts
    /// delivering on the current async runtime. On a full disk it retries in the background until
    /// there is space; reads are served meanwhile.
    #[steadfast_store::boxed]
    pub async fn work(&self) -> Result<(), StartError> {
        let began = self.running.work().await;
        match began {
            Err(error) if is_disk_full(&error) => {}
            began => return began,
        }
        tracing::warn!("disk is full: reads are served; delivery starts when there is space");
        let state = self.running.0.downgrade();
        let clock = self.running.store.clock().clone();
        self.running.in_background(async move {
            loop {
                clock.sleep(WORK_AGAIN).await;
                let Some(state) = state.upgrade() else { return };
                match state.work().await {
                    Err(error) if is_disk_full(&error) => {}
                    Ok(()) if state.is_stopping() => return,
                    Ok(()) => return tracing::info!("delivery started"),
                    Err(error) => return tracing::error!(error = %error, "delivery did not start"),
                }
            }
        });
        Ok(())
    }

    /// For tests: ends as a process does that is killed, unless a clone keeps it running.
    pub(crate) fn end_at_once(&self) {
        if Arc::strong_count(&self.running) == 1 {
            self.running.stop_began.store(true, Ordering::Relaxed);
        }
    }

    /// The name of the program.
    pub fn name(&self) -> &str {
        &self.running.name
    }

    /// For extensions: the part of this type, if the program has one.
    pub fn extension<E: Extension>(&self) -> Option<&E> {
        self.running.extensions.get()
    }

    /// The dispatcher, while the program works.
    pub(crate) fn dispatcher(&self) -> Option<&Dispatcher> {
        self.running.dispatcher.get().filter(|_| !self.running.has_ended())
    }

    /// Finds pending work that no timer and no notice will wake; there must be none.
    #[steadfast_store::boxed]
    pub async fn forgotten(&self) -> Result<Vec<Position>, StoreError> {
        match self.dispatcher() {
            Some(dispatcher) => dispatcher.forgotten().await,
            None => Ok(Vec::new()),
        }
    }

    /// Pending messages for classes, workflows, processes, queues and jobs that this program does
    /// not declare.
    #[steadfast_store::boxed]
    pub async fn unserved(&self) -> Result<Vec<Unserved>, StoreError> {
        self.running.unserved().await
    }

    /// The objects.
    pub fn objects(&self) -> &Objects {
        &self.running.objects
    }

    /// The processes.
    pub fn processes(&self) -> &Processes {
        &self.running.processes
    }

    /// The runs of workflows.
    pub fn runs(&self) -> &Runs {
        &self.running.runs
    }

    /// All buckets, if the program has any.
    pub fn buckets(&self) -> Option<Buckets> {
        self.running.buckets.clone()
    }

    /// The queues.
    pub fn queues(&self) -> &Queues {
        &self.running.queues
    }

    /// The tokens of principals.
    pub fn tokens(&self) -> &Tokens {
        &self.running.tokens
    }

    /// The audit log.
    pub fn audit(&self) -> &Audit {
        &self.running.audit
    }

    /// The sessions of browsers.
    pub fn sessions(&self) -> &Sessions {
        &self.running.sessions
    }

    /// Seals secrets and opens them.
    pub fn seal(&self) -> &Seal {
        &self.running.seal
    }

    /// The store.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.running.store
    }

    /// The default retention.
    pub fn retention(&self) -> RetentionSettings {
        self.running.retention
    }

    /// Whether it delivers messages.
    pub fn works(&self) -> bool {
        self.dispatcher().is_some()
    }

    /// Deletes expired data now. The program also does this once an hour.
    #[steadfast_store::boxed]
    pub async fn sweep(&self) {
        self.running.sweeper().sweep().await;
    }

    /// Stops retention and pending retries of [`Runtime::work`]. Deliveries in flight continue
    /// until [`Runtime::stop`].
    pub fn drain(&self) {
        drop(self.running.background.lock().take());
    }

    /// Closes all live connections. [`Runtime::stop`] does it as well.
    #[steadfast_store::boxed]
    pub async fn hang_up(&self) {
        self.running.hang_up().await;
    }

    /// Shuts the program down: closes connections, waits for deliveries in flight, closes buckets,
    /// and the store if the program opened it. The shutdown completes even if this future is
    /// dropped. A handler that awaits it is aborted when the grace period is over.
    #[steadfast_store::boxed]
    pub async fn stop(self) {
        let mut closed = self.running.closed.subscribe();
        self.running.begin_stop();
        let _ = closed.wait_for(|it| *it).await;
    }
}

impl Deref for Runtime {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}
