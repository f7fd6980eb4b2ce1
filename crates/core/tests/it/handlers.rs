//! Handlers that tests observe.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use steadfast_core::{
    Dispatcher, DispatcherBuilder, DispatcherOptions, Failure, Handler, Unknown,
    dispatch::HandlerDelivery,
    store::{Commit, Position, RetryPolicy, SeededEntropy},
};
use tokio::sync::Semaphore;

use crate::{lab::Lab, play::until};

/// The deliveries of a handler, in order: position and attempt.
#[derive(Clone, Default)]
pub(crate) struct Seen(Arc<Mutex<Vec<(Position, u32)>>>);

impl Seen {
    pub(crate) fn note(&self, delivery: &HandlerDelivery) {
        self.0.lock().unwrap().push((delivery.message.position, delivery.attempt));
    }

    pub(crate) fn all(&self) -> Vec<(Position, u32)> {
        self.0.lock().unwrap().clone()
    }

    pub(crate) fn positions(&self) -> Vec<Position> {
        self.all().into_iter().map(|it| it.0).collect()
    }
}

/// A handler made of a function.
pub(crate) struct Does<F>(pub(crate) Seen, pub(crate) F);

#[async_trait::async_trait]
impl<F> Handler for Does<F>
where
    F: Fn(&HandlerDelivery) -> Result<Commit, Failure> + Send + Sync + 'static,
{
    async fn handle(&self, delivery: HandlerDelivery) -> Result<Commit, Failure> {
        self.0.note(&delivery);
        self.1(&delivery)
    }
}

/// A handler whose consequences stay in the store, so it needs no claim.
pub(crate) struct Inside<F>(pub(crate) Seen, pub(crate) F);

#[async_trait::async_trait]
impl<F> Handler for Inside<F>
where
    F: Fn(&HandlerDelivery) -> Result<Commit, Failure> + Send + Sync + 'static,
{
    async fn handle(&self, delivery: HandlerDelivery) -> Result<Commit, Failure> {
        self.0.note(&delivery);
        self.1(&delivery)
    }

    fn leaves_the_process(&self) -> bool {
        false
    }
}

/// A handler that waits until the test opens it, and counts the concurrent waiters.
#[derive(Clone)]
pub(crate) struct Gate {
    pub(crate) seen: Seen,
    pub(crate) open: Arc<Semaphore>,
    pub(crate) inside: Arc<AtomicUsize>,
    pub(crate) most: Arc<AtomicUsize>,
}

impl Gate {
    pub(crate) fn closed() -> Self {
        Self {
            seen: Seen::default(),
            open: Arc::new(Semaphore::new(0)),
            inside: Arc::default(),
            most: Arc::default(),
        }
    }

    /// Waits until this many have arrived at the gate since it was made.
    pub(crate) async fn arrived(&self, count: usize) {
        until("deliveries arrive", async || count <= self.seen.all().len()).await;
    }
}

#[async_trait::async_trait]
impl Handler for Gate {
    async fn handle(&self, delivery: HandlerDelivery) -> Result<Commit, Failure> {
        let inside = 1 + self.inside.fetch_add(1, Ordering::SeqCst);
        self.most.fetch_max(inside, Ordering::SeqCst);
        self.seen.note(&delivery);
        self.open.acquire().await.map_err(|_| Failure::retry("closed"))?.forget();
        self.inside.fetch_sub(1, Ordering::SeqCst);
        Ok(Commit::default())
    }
}

pub(crate) fn ok(_: &HandlerDelivery) -> Result<Commit, Failure> {
    Ok(Commit::default())
}

pub(crate) const OPTIONS: DispatcherOptions = DispatcherOptions {
    concurrency: 8,
    concurrency_per_target: 4,
    lease: Duration::from_secs(30),
    retry: RetryPolicy {
        attempts_max: 3,
        delay: Duration::from_secs(1),
        delay_max: Duration::from_mins(1),
    },
    grace: Duration::from_secs(10),
    timers_max: 1_000,
    targets_max: 1_000,
    window: 16,
    page: 100,
    unknown: Unknown::Fails,
};

/// A dispatcher on the lab's store and clock.
pub(crate) fn dispatcher(lab: &Lab) -> DispatcherBuilder {
    Dispatcher::builder(lab.store.clone()).entropy(SeededEntropy::new(1)).options(OPTIONS)
}
