//! Handlers of messages, and routers that find them.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use parking_lot::Mutex;
use steadfast_store::{
    Commit, EntityId, Lease, Outcome, Position, Recorded, Rejection, RetryPolicy, SettledAs, Store,
    StoreError, Work, Write,
};

use super::pools::StartOrder;

/// Handles messages of a type.
#[async_trait]
pub trait Handler: Send + Sync + 'static {
    /// Handles one message and returns the commit of its consequences. The message is settled in
    /// the same transaction, so the consequences happen exactly once.
    ///
    /// Effects outside of the process happen at least once, with [`HandlerDelivery::id`] as their
    /// idempotency key.
    async fn handle(&self, delivery: HandlerDelivery) -> Result<Commit, Failure>;

    /// Whether the handler has effects outside of the process. Then each attempt is claimed and
    /// counted before it begins; otherwise the commit of the consequences is enough.
    fn leaves_the_process(&self) -> bool {
        true
    }

    /// Its retry policy, if it is not that of the dispatcher.
    fn retry(&self) -> Option<RetryPolicy> {
        None
    }

    /// The commit that gives a message up: the message is settled with it. Without one the message
    /// is dead.
    fn give_up(&self, message: &Recorded, error: &str) -> Option<Commit> {
        let _ = (message, error);
        None
    }

    /// The number of crashes during its delivery after which a message is delivered alone. A
    /// handler that takes long sets it higher, because it would delay other such messages.
    fn apart_after(&self) -> u32 {
        0
    }

    /// Maximum duration of one attempt, if it is not that of the dispatcher.
    fn lease(&self) -> Option<Duration> {
        None
    }

    /// Whether an attempt that exceeds its lease has failed. If not, the attempt must end by
    /// itself.
    fn is_timed(&self) -> bool {
        true
    }

    /// The pool that its deliveries take permits from.
    fn pool(&self) -> PermitPool {
        PermitPool::OfType
    }

    /// Whether the next delivery to the same target waits for [`HandlerDelivery::begun`].
    fn in_order(&self) -> bool {
        false
    }
}

/// The pool that deliveries take permits from. Deliveries of different pools never wait for each
/// other. Targets that share a pool queue for its permits, each with one message at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PermitPool {
    /// The pool of the message type, with [`DispatcherOptions::concurrency`] permits.
    ///
    /// [`DispatcherOptions::concurrency`]: super::DispatcherOptions::concurrency
    OfType,
    /// The pool of a kind of work with a name.
    Of {
        /// The kind.
        kind: &'static str,
        /// The name.
        name: &'static str,
        /// Its number of permits, if it is not that of a message type.
        max: Option<usize>,
    },
    /// The pool of the target: see [`Router::own_pools`].
    OfTarget,
}

/// Finds the handlers of messages whose type is not registered.
pub trait Router: Send + Sync + 'static {
    /// The handler of a message, if this router knows it.
    fn route(&self, message: &Recorded) -> Option<Arc<dyn Handler>>;

    /// Targets with pools of their own, and their permits. Their deliveries may take long, so they
    /// share no permits with other targets.
    fn own_pools(&self) -> Vec<(EntityId, usize)> {
        Vec::new()
    }
}

/// A message that is being delivered to its handler.
#[derive(Clone)]
pub struct HandlerDelivery {
    /// The message.
    pub message: Recorded,
    /// The number of the attempt, from 1.
    pub attempt: u32,
    pub(super) lease: Option<Lease>,
    pub(super) store: Arc<dyn Store>,
    pub(super) end: Arc<AtomicU8>,
    pub(super) turn: Arc<Mutex<Option<StartOrder>>>,
}

/// Settles a delivery as done.
pub(crate) fn done(position: Position, lease: Option<Lease>) -> Write {
    Write::Settle { position, lease, as_: SettledAs::Done, error: None }
}

/// Settles a message as cancelled.
pub(crate) fn cancelled(position: Position, lease: Option<Lease>, error: Option<String>) -> Write {
    Write::Settle { position, lease, as_: SettledAs::Cancelled, error }
}

/// The end of a delivery that its handler settled.
pub(super) const SETTLED: u8 = 1;
const LOST: u8 = 2;

impl HandlerDelivery {
    /// Commits and settles the delivery in the same commit, for a handler that needs the outcome,
    /// for example to decide again after a conflict. The commit that the handler returns afterwards
    /// is ignored.
    #[steadfast_store::boxed]
    pub async fn settle(&self, commit: Commit) -> Result<Outcome, StoreError> {
        let (position, lease) = (self.message.position, self.lease);
        let done = done(position, lease);
        let outcome = self.store.commit(commit.write(done.clone())).await?;
        match &outcome {
            Outcome::Committed(_) => self.end.store(SETTLED, Ordering::Release),
            // The consequences were recorded before, so the delivery is done.
            Outcome::Duplicate(_) => {
                self.store.commit(Commit::of(done)).await?;
                self.end.store(SETTLED, Ordering::Release);
            }
            Outcome::Rejected(
                Rejection::NotPending { position: at } | Rejection::LeaseLost { position: at },
            ) if *at == position => self.end.store(LOST, Ordering::Release),
            Outcome::Rejected(_) => {}
        }
        Ok(outcome)
    }

    /// Lets the next delivery to the same target begin, for a handler that is
    /// [`in_order`](Handler::in_order).
    pub fn begun(&self) {
        self.turn.lock().take();
    }

    /// The lease of the delivery, if it was claimed: the commit that settles it must hold the
    /// lease.
    pub(crate) fn lease(&self) -> Option<Lease> {
        self.lease
    }

    /// Records that a commit of the handler has settled the delivery.
    pub(crate) fn was_settled(&self) {
        self.end.store(SETTLED, Ordering::Release);
    }

    /// Whether another owner has settled it.
    pub fn is_lost(&self) -> bool {
        self.end.load(Ordering::Acquire) == LOST
    }

    /// The same for every delivery of this message: the idempotency key for effects outside.
    pub fn id(&self) -> String {
        self.message.id()
    }
}

/// Why a message could not be handled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// For the attempt log.
    pub error: String,
    /// Whether a retry cannot succeed.
    pub is_final: bool,
    /// Whether the attempt did not begin: then it does not count.
    pub(super) is_untried: bool,
}

impl Failure {
    /// A failure that may be retried.
    pub fn retry(error: impl Into<String>) -> Self {
        Self { error: error.into(), is_final: false, is_untried: false }
    }

    /// A failure before the attempt began, for lack of capacity or store: it is retried soon and
    /// does not count.
    pub(crate) fn untried(error: impl Into<String>) -> Self {
        Self { is_untried: true, ..Self::retry(error) }
    }

    /// A failure that is not retried: the message is dead.
    pub fn fatal(error: impl Into<String>) -> Self {
        Self { error: error.into(), is_final: true, is_untried: false }
    }
}

impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::retry(error.to_string())
    }
}

/// Plain settings of a dispatcher.
#[derive(Clone, Copy, Debug)]
pub struct DispatcherOptions {
    /// Maximum concurrent deliveries of one message type or one kind of work. Different kinds take
    /// permits from different pools, see [`PermitPool`].
    pub concurrency: usize,
    /// Maximum concurrent deliveries to one target.
    pub concurrency_per_target: usize,
    /// Maximum duration of one delivery; a longer one fails.
    pub lease: Duration,
    /// The retry policy of failed deliveries.
    pub retry: RetryPolicy,
    /// The time that a stop waits for deliveries in flight before it returns their leases.
    pub grace: Duration,
    /// Maximum timers in memory. Later work is read from the store when its time comes near.
    pub timers_max: usize,
    /// Maximum targets with due work in memory that neither deliver nor wait for a permit, and
    /// maximum targets that wait for permits of one pool. Others are read from the store later.
    pub targets_max: usize,
    /// Maximum due work in memory for one target.
    pub window: usize,
    /// Rows of one scan.
    pub page: usize,
    /// The policy for a message without a handler.
    pub unknown: Unknown,
}

/// The policy for a message without a handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unknown {
    /// The attempt fails: it is retried, then dead. For a program that owns all its messages.
    Fails,
    /// The message stays pending. For a program that shares its store with others.
    Waits,
}

impl Default for DispatcherOptions {
    fn default() -> Self {
        Self {
            concurrency: 128,
            concurrency_per_target: 16,
            lease: Duration::from_secs(30),
            retry: RetryPolicy::DEFAULT,
            grace: Duration::from_secs(10),
            timers_max: 10_000,
            targets_max: 10_000,
            window: 64,
            page: 1_000,
            unknown: Unknown::Fails,
        }
    }
}

/// Gets notices of work in queues. Each queue has a loop of its own that delivers it.
pub(crate) trait QueueListener: Send + Sync + 'static {
    /// This work was written, in this order.
    fn on_work(&self, works: &[Work]);
    /// Some notices were lost.
    fn on_lost_notices(&self);
}
