//! The dispatcher delivers due messages to their handlers. Commits and timers wake it.
//!
//! It never polls. The [`index`] holds its state; an idle node does not query the store.

pub(crate) mod attempt;
pub(crate) mod engine;
mod handler;
mod index;
mod pools;
mod shards;
pub(crate) mod suspects;
mod targets;
pub(crate) mod waker;
pub(crate) mod window;
mod worker;

use std::{collections::HashMap, sync::Arc};

use parking_lot::Mutex;
use steadfast_store::{
    DueCursor, Entropy, Position, Recorded, SeededEntropy, State, Store, StoreError,
    futures::FutureExt,
};
use tokio::{sync::watch, task::JoinHandle};

pub(crate) use self::{
    attempt::panic_message,
    handler::{QueueListener, cancelled, done},
};
use self::{
    engine::Engine,
    index::{Bounds, Index},
    shards::ShardSet,
    targets::Targets,
    waker::LoopWaker,
    worker::Worker,
};
pub use self::{
    handler::{DispatcherOptions, Failure, Handler, HandlerDelivery, PermitPool, Router, Unknown},
    worker::CRASH_POINTS,
};

/// Builds a [`Dispatcher`].
pub struct DispatcherBuilder {
    store: Arc<dyn Store>,
    entropy: Arc<dyn Entropy>,
    options: DispatcherOptions,
    handlers: HashMap<Box<str>, Arc<dyn Handler>>,
    routers: Vec<Arc<dyn Router>>,
    queues: Option<Arc<dyn QueueListener>>,
}

impl DispatcherBuilder {
    /// Handles messages of a type with `handler`.
    pub fn on(mut self, message_type: &str, handler: impl Handler) -> Self {
        self.handlers.insert(message_type.into(), Arc::new(handler));
        self
    }

    /// Asks a router for the handlers of messages whose type alone is not known.
    pub fn route(mut self, router: impl Router) -> Self {
        self.routers.push(Arc::new(router));
        self
    }

    pub(crate) fn queue_listener(mut self, queues: impl QueueListener) -> Self {
        self.queues = Some(Arc::new(queues));
        self
    }

    /// Sets the source of randomness.
    pub fn entropy(self, entropy: impl Entropy) -> Self {
        self.shared_entropy(Arc::new(entropy))
    }

    pub(crate) fn shared_entropy(mut self, entropy: Arc<dyn Entropy>) -> Self {
        self.entropy = entropy;
        self
    }

    /// Sets the options.
    pub fn options(mut self, options: DispatcherOptions) -> Self {
        self.options = options;
        self
    }

    /// Takes over the unfinished work of earlier owners, and starts.
    #[steadfast_store::boxed]
    pub async fn start(self) -> Result<Dispatcher, StoreError> {
        let Self { store, entropy, options, handlers, routers, queues } = self;
        let own_pools = routers.iter().flat_map(|it| it.own_pools()).collect();
        // Listen before the first read, so that no notice is missed.
        store.notices().listen();
        let waker = Arc::new(LoopWaker::default());
        let worker = Worker::new(store.clone(), entropy, options, handlers, routers, waker.clone());
        let blamed = worker.take_over().await?;
        let bounds = Bounds {
            in_flight: options.concurrency_per_target,
            window: options.window,
            targets: options.targets_max,
            timers: options.timers_max,
        };
        let mut index = Index::new(bounds, own_pools);
        index.own(ShardSet::ALL, store.clock().now());
        index.hold(&blamed);
        let (worker, index) = (Arc::new(worker), Arc::new(Mutex::new(index)));
        let targets = Targets::new(worker.clone(), index.clone(), queues, blamed, waker.clone());
        let engine = Engine::new(targets, store.clone(), waker.clone());
        let (stop, stopping) = watch::channel(false);
        let task = Mutex::new(Some(tokio::spawn(engine.run(stopping, options.grace).boxed())));
        Ok(Dispatcher { store, worker, index, waker, stop, task })
    }
}

/// A running dispatcher.
pub struct Dispatcher {
    store: Arc<dyn Store>,
    worker: Arc<Worker>,
    index: Arc<Mutex<Index>>,
    waker: Arc<LoopWaker>,
    stop: watch::Sender<bool>,
    /// Taken by the caller that stops it.
    task: Mutex<Option<JoinHandle<()>>>,
}

impl Dispatcher {
    /// Builds a dispatcher that owns all work of a store.
    pub fn builder(store: Arc<dyn Store>) -> DispatcherBuilder {
        DispatcherBuilder {
            store,
            entropy: Arc::new(SeededEntropy::from_system()),
            options: DispatcherOptions::default(),
            handlers: HashMap::new(),
            routers: Vec::new(),
            queues: None,
        }
    }

    /// Waits until nothing is in flight and nothing known is due, or the store cannot be read.
    #[steadfast_store::boxed]
    pub async fn settled(&self) {
        // The loop processes all notices of earlier commits before it is idle again.
        self.waker.wake();
        self.waker.settled(self.store.clock()).await;
    }

    /// Finds pending work that no timer and no notice will wake; there must be none.
    #[steadfast_store::boxed]
    pub async fn forgotten(&self) -> Result<Vec<Position>, StoreError> {
        let mut forgotten = Vec::new();
        let mut cursor = DueCursor::START;
        loop {
            let page = self.store.due(cursor, 1_000).await?;
            let Some(last) = page.last() else { break };
            cursor = DueCursor { due_at: last.due_at, position: last.position };
            let index = self.index.lock();
            forgotten.extend(page.iter().filter(|it| !index.covers(it)).map(|it| it.position));
        }
        // Skip work that was settled during the search.
        let mut still = Vec::new();
        for position in forgotten {
            let Some(message) = self.store.message(position).await? else { continue };
            if self.worker.leaves(&message) || self.worker.pools.has_left() {
                continue;
            }
            let Recorded { target: Some(target), ordered, state, .. } = message else { continue };
            // Ordered work waits for the first row of its target, and that row must be covered.
            let first = self.store.backlog(target, ordered, DueCursor::START, 1).await?;
            let waits = ordered && first.first().is_some_and(|it| it.position < position);
            if !waits && matches!(state, Some(State::Pending { .. } | State::InFlight { .. })) {
                still.push(position);
            }
        }
        Ok(still)
    }

    /// Starts nothing new, waits for deliveries in flight, cancels those that exceed the grace
    /// period, and ends.
    #[steadfast_store::boxed]
    pub async fn stop(self) {
        self.end().await;
    }

    pub(crate) async fn end(&self) {
        self.stop.send_replace(true);
        let task = self.task.lock().take();
        if let Some(task) = task {
            // A panic in the task has been reported; there is nothing left to stop.
            let _ = task.await;
        }
    }
}
