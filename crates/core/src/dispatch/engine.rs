//! The loop behind every delivery: it starts deliveries and reads, processes their results, and
//! sleeps until a result, a notice or a timer wakes it. It never polls.
//!
//! One loop serves all targets but queues; each consumed queue has its own.

use std::{sync::Arc, time::Duration};

use steadfast_store::{NoticeBatch, Store, StoreClock, StoreError, Timestamp};
use tokio::{
    sync::watch,
    task::{JoinError, JoinSet},
};

use super::{
    attempt::{Leases, run_apart},
    waker::LoopWaker,
};
use crate::on_drop::on_drop;

/// Consecutive failed reads after which reads pause.
const FAILURES: u32 = 3;

/// Duration of that pause.
const PAUSE: Duration = Duration::from_secs(1);

/// A source of work for the loop: it knows which work is due, and delivers it.
pub(crate) trait Source: Send + 'static {
    /// The result of a delivery or a read.
    type Ended: Send + 'static;

    /// Whether it gets the notices of the store. Only one source can.
    const GETS_NOTICES: bool;

    /// For the log.
    fn name(&self) -> &str;

    /// Starts due deliveries and reads. It must not read while `is_paused`.
    fn start(&mut self, tasks: &mut JoinSet<Self::Ended>, is_paused: bool) -> IdleState;

    /// Processes the result of a delivery or a read, or its panic.
    fn ended(&mut self, ended: Result<Self::Ended, JoinError>) -> Effect;

    /// Processes notices of commits.
    fn on_notices(&mut self, batch: &NoticeBatch);

    /// The leases that are returned when the loop ends.
    fn leases(&self) -> &Leases;
}

/// The state of a source that has started everything it can start now.
pub(crate) struct IdleState {
    /// Whether nothing known is due.
    pub(crate) is_settled: bool,
    /// The time to run again, unless an event wakes the loop before.
    pub(crate) wake_at: Option<Timestamp>,
}

/// The effect of a result on the loop.
pub(crate) enum Effect {
    /// No effect.
    None,
    /// A read succeeded.
    Read,
    /// A read failed.
    Failed(StoreError),
    /// A decision is not recorded. Without a pause the message would be delivered again
    /// immediately.
    Unrecorded,
    /// The store can never be written again.
    Over,
}

pub(crate) struct Engine<S: Source> {
    source: S,
    store: Arc<dyn Store>,
    clock: Arc<StoreClock>,
    waker: Arc<LoopWaker>,
    tasks: JoinSet<S::Ended>,
    /// Consecutive failed reads.
    failures: u32,
    /// The last read failed with an error that lasts.
    is_lost: bool,
    /// The store can never be written again.
    is_over: bool,
    paused_until: Timestamp,
}

impl<S: Source> Engine<S> {
    pub(crate) fn new(source: S, store: Arc<dyn Store>, waker: Arc<LoopWaker>) -> Self {
        Self {
            source,
            clock: store.clock().clone(),
            store,
            waker,
            tasks: JoinSet::new(),
            failures: 0,
            is_lost: false,
            is_over: false,
            paused_until: Timestamp::MIN,
        }
    }

    /// Runs until `stopping` is set. Tasks in flight then have `grace` to end.
    pub(crate) async fn run(mut self, mut stopping: watch::Receiver<bool>, grace: Duration) {
        // Also if it panics.
        let waker = self.waker.clone();
        let _ended = on_drop(|| waker.end());
        // Without a store nothing new starts; running tasks end by themselves.
        while !(self.is_over && self.tasks.is_empty()) {
            let wake_at = self.step();
            let wakes = wake_at.is_some();
            let sleep = self.clock.sleep_until(wake_at.unwrap_or(Timestamp::MAX));
            let (waker, store) = (&self.waker, &self.store);
            tokio::select! {
                _ = stopping.wait_for(|it| *it) => break,
                Some(ended) = self.tasks.join_next() => self.ended(ended),
                it = store.notices().next(), if S::GETS_NOTICES => self.source.on_notices(&it),
                () = waker.woken() => {}
                () = sleep, if wakes => {}
            }
        }
        self.drain(grace).await;
    }

    /// Starts due deliveries and reads, and returns the time to run again.
    fn step(&mut self) -> Option<Timestamp> {
        // Read before the clock: a caller that wakes the loop later may have advanced the clock.
        let wakes = self.waker.wakes();
        if self.is_over {
            self.waker.sleep(wakes, false, None);
            return None;
        }
        let is_paused = self.clock.now() < self.paused_until;
        let IdleState { is_settled, wake_at } = self.source.start(&mut self.tasks, is_paused);
        // Without a store nothing is delivered, however much is due.
        let is_settled = is_settled || is_paused && self.is_lost;
        let resumes_at = is_paused.then_some(self.paused_until);
        let wake_at = wake_at.into_iter().chain(resumes_at).min();
        self.waker.sleep(wakes, is_settled && self.tasks.is_empty(), wake_at);
        wake_at
    }

    fn ended(&mut self, ended: Result<S::Ended, JoinError>) {
        match self.source.ended(ended) {
            Effect::None => {}
            Effect::Read => self.failures = 0,
            Effect::Unrecorded => self.pause(),
            Effect::Over => self.is_over = true,
            Effect::Failed(error) => {
                tracing::warn!(of = self.source.name(), error = %error, "work could not be read");
                self.failures += 1;
                (self.is_lost, self.is_over) = (!error.is_retryable(), error.is_over());
                // A single failed read causes no pause.
                if FAILURES <= self.failures || self.is_lost {
                    self.pause();
                }
            }
        }
    }

    fn pause(&mut self) {
        self.paused_until = self.clock.now().after(PAUSE);
    }

    /// Waits for running tasks. Tasks that take too long are cancelled, and their leases are
    /// returned.
    async fn drain(mut self, grace: Duration) {
        let finished = async { while self.tasks.join_next().await.is_some() {} };
        tokio::select! {
            () = finished => {}
            () = self.clock.sleep(grace) => {}
        }
        self.tasks.shutdown().await;
        self.source.leases().release_all(&*self.store).await;
    }
}

/// Reads in a task of its own: a panic becomes an error.
pub(crate) async fn read_apart<T: Send + 'static>(
    read: impl Future<Output = Result<T, StoreError>> + Send + 'static,
) -> Result<T, StoreError> {
    let read = run_apart("read", read, std::future::pending()).await;
    read.unwrap_or_else(|reason| Err(StoreError::Unavailable { reason }))
}
