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
    Commit, EntityId, Lease, Outcome, Recorded, Rejection, RetryPolicy, SettledAs, Store,
    StoreError, Write,
};

use super::pools::Turnstile;

/// Handles messages of a type.
#[async_trait]
pub trait Handler: Send + Sync + 'static {
    /// Handles one message and returns what is to be committed with its settlement: both become
    /// durable together, so the consequences happen exactly once.
    ///
    /// Effects outside of the process happen at least once, with [`Delivery::id`] as its
    /// idempotency key.
    async fn handle(&self, delivery: Delivery) -> Result<Commit, Failure>;

    /// Whether handling leaves the process. If it does, each attempt is claimed and counted before
    /// it begins; if not, the commit of the consequences is enough.
    fn leaves_the_process(&self) -> bool {
        true
    }

    /// How its failed attempts are repeated, if not as the dispatcher does.
    fn retry(&self) -> Option<RetryPolicy> {
        None
    }

    /// The commit with which a message is given up: then it counts as done. Without it the
    /// message is dead.
    fn give_up(&self, message: &Recorded, error: &str) -> Option<Commit> {
        let _ = (message, error);
        None
    }

    /// How often the process must have ended during its delivery before it is delivered apart from
    /// all others of which that is true. What takes long must not hold them up at once.
    fn apart_after(&self) -> u32 {
        0
    }

    /// How long one attempt may take, if not as long as the dispatcher says.
    fn lease(&self) -> Option<Duration> {
        None
    }

    /// Whether an attempt that takes longer than its lease has failed. If not, it must end by
    /// itself.
    fn is_timed(&self) -> bool {
        true
    }

    /// Which places its deliveries take.
    fn places(&self) -> Places {
        Places::OfType
    }

    /// Whether the next delivery to the same target begins only after [`Delivery::begun`].
    fn in_order(&self) -> bool {
        false
    }
}

/// Which places deliveries take. Those that take different ones never wait for each other, however
/// long they take; those that take the same wait in line, each target for one message at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Places {
    /// Those of the message type, as many as [`DispatcherOptions::concurrency`] says.
    ///
    /// [`DispatcherOptions::concurrency`]: super::DispatcherOptions::concurrency
    OfType,
    /// Those of a kind of work with a name.
    Of {
        /// The kind.
        kind: &'static str,
        /// The name.
        name: &'static str,
        /// How many there are, if not as many as for a message type.
        max: Option<usize>,
    },
    /// As many as the target has: see [`Router::own_places`].
    OfTarget,
}

/// Finds the handlers of messages that are not known by their type alone.
pub trait Router: Send + Sync + 'static {
    /// The handler of a message, if this router knows it.
    fn route(&self, message: &Recorded) -> Option<Arc<dyn Handler>>;

    /// Targets whose deliveries have places of their own, and how many: because they may take long,
    /// they neither wait for those of others nor keep them waiting.
    fn own_places(&self) -> Vec<(EntityId, usize)> {
        Vec::new()
    }
}

/// A message on its way to its handler.
#[derive(Clone)]
pub struct Delivery {
    /// The message.
    pub message: Recorded,
    /// Which attempt this is, from 1.
    pub attempt: u32,
    pub(super) lease: Option<Lease>,
    pub(super) store: Arc<dyn Store>,
    pub(super) end: Arc<AtomicU8>,
    pub(super) turn: Arc<Mutex<Option<Turnstile>>>,
}

/// How a delivery ended that its handler ended itself.
pub(super) const SETTLED: u8 = 1;
const LOST: u8 = 2;

impl Delivery {
    /// Commits and ends the delivery in the same commit, for a handler that must know how the
    /// commit ended, to decide again if another one came first. What it returns afterwards is not
    /// needed.
    pub async fn settle(&self, commit: Commit) -> Result<Outcome, StoreError> {
        let (position, lease) = (self.message.position, self.lease);
        let done = Write::Settle { position, lease, as_: SettledAs::Done, error: None };
        let outcome = self.store.commit(commit.write(done.clone())).await?;
        match &outcome {
            Outcome::Committed(_) => self.end.store(SETTLED, Ordering::Release),
            // Its consequences were recorded before, so it is done.
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

    /// Says that it has begun, so that the next message to the same target may: for a handler that
    /// is [`in_order`](Handler::in_order).
    pub fn begun(&self) {
        self.turn.lock().take();
    }

    /// The lease under which it is delivered, if it was claimed: the commit that ends it must be
    /// made under it.
    pub(crate) fn lease(&self) -> Option<Lease> {
        self.lease
    }

    /// Says that a commit of the handler's own has ended it.
    pub(crate) fn was_settled(&self) {
        self.end.store(SETTLED, Ordering::Release);
    }

    /// Whether somebody else has ended it, so that it is no longer ours.
    pub fn is_lost(&self) -> bool {
        self.end.load(Ordering::Acquire) == LOST
    }

    /// The same for every delivery of this message: the key for what must not happen twice.
    pub fn id(&self) -> String {
        self.message.id()
    }
}

/// Why a message could not be handled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// For the attempt log.
    pub error: String,
    /// Whether another attempt would fail as well.
    pub is_final: bool,
    /// Whether it was not even tried: then it does not count.
    pub(super) is_untried: bool,
}

impl Failure {
    /// It may work another time.
    pub fn retry(error: impl Into<String>) -> Self {
        Self { error: error.into(), is_final: false, is_untried: false }
    }

    /// There was no room or no store to try it: soon again, and it does not count.
    pub(crate) fn untried(error: impl Into<String>) -> Self {
        Self { is_untried: true, ..Self::retry(error) }
    }

    /// It never will: the message is dead at once.
    pub fn fatal(error: impl Into<String>) -> Self {
        Self { error: error.into(), is_final: true, is_untried: false }
    }
}

impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::retry(error.to_string())
    }
}
