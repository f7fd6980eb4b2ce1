//! Consumers of queues, and the messages that they get. Settling a delivery consumes it, so it is
//! settled once. The wait for the mailbox of an object does not count towards the timeout of a
//! consumer.

use std::{
    collections::{HashMap, VecDeque},
    fmt,
    ops::Deref,
    pin::Pin,
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use steadfast_store::{Commit, Lease, Position, QueuedMessage, StoreClock, Timestamp};
use tokio::sync::Notify;

use crate::{
    Address, Body, CallError, Client, Error, Handle, Objects, Result,
    dispatch::attempt::Verdict,
    object::Lists,
    script::{Script, ScriptKey},
};

/// Consumes the messages of a queue one by one, several at a time.
pub trait Consumer: Send + Sync + 'static {
    /// The type of the messages.
    type Message: Body;

    /// Handles one message and settles it. An error or a panic is a retry; after a terminal error
    /// the message is a dead letter.
    fn deliver(
        &self,
        delivery: Delivery<Self::Message>,
    ) -> impl Future<Output = Result<Settled>> + Send;
}

/// Consumes the messages of a queue in batches, by size and time.
pub trait BatchConsumer: Send + Sync + 'static {
    /// The type of the messages.
    type Message: Body;

    /// Handles a batch: settle single messages, and all others at the end. An error or a panic is a
    /// retry of the messages that are not settled.
    fn deliver(
        &self,
        batch: Batch<Self::Message>,
    ) -> impl Future<Output = Result<SettledBatch>> + Send;
}

/// Concurrency and timeout of a consumer.
#[derive(Clone, Copy, Debug)]
pub struct ConsumeOptions {
    /// Maximum concurrent messages or batches.
    pub concurrency: usize,
    /// Maximum duration of one; a longer one fails.
    pub timeout: Duration,
}

impl Default for ConsumeOptions {
    fn default() -> Self {
        Self { concurrency: 16, timeout: Duration::from_mins(5) }
    }
}

/// Messages that are delivered together. As an iterator it yields them one by one; settling the
/// batch settles those that were not taken.
pub struct Batch<T> {
    deliveries: VecDeque<Delivery<T>>,
    decisions: Decisions,
}

/// Proof that a batch was settled.
#[must_use = "give it back from the consumer"]
#[derive(Debug)]
pub struct SettledBatch(Verdict);

impl<T> Batch<T> {
    /// The messages that were not taken out.
    pub fn messages(&self) -> impl Iterator<Item = &T> {
        self.deliveries.iter().map(|it| &it.message)
    }

    /// The number of messages that are left.
    pub fn len(&self) -> usize {
        self.deliveries.len()
    }

    /// Whether none is left.
    pub fn is_empty(&self) -> bool {
        self.deliveries.is_empty()
    }

    /// Settles one that was taken out.
    pub fn settle(&mut self, settled: Settled) {
        self.decisions.decide(settled.position, settled.verdict);
    }

    /// Settles the remaining messages as done.
    pub fn done(self) -> SettledBatch {
        SettledBatch(Verdict::Done(Commit::default()))
    }

    /// Retries the remaining messages after this delay.
    pub fn retry_after(self, delay: Duration) -> SettledBatch {
        let error = "the consumer asked for a retry".into();
        SettledBatch(Verdict::Retry { after: Some(delay), error })
    }

    /// Moves the remaining messages to the dead letters.
    pub fn bury(self, why: impl Into<String>) -> SettledBatch {
        let why: String = why.into();
        SettledBatch(Verdict::Bury { why: why.into() })
    }
}

impl<T> Iterator for Batch<T> {
    type Item = Delivery<T>;

    fn next(&mut self) -> Option<Delivery<T>> {
        self.deliveries.pop_front()
    }
}

pub(crate) type ConsumeFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A consumer whose types are erased. Each delivery carries the list that its decision goes to.
pub(crate) trait Consume: Send + Sync + 'static {
    fn is_batch(&self) -> bool;
    fn consume(self: Arc<Self>, raw_deliveries: Vec<RawDelivery>) -> ConsumeFuture;
}

pub(crate) struct SingleAdapter<C>(pub(crate) C);

impl<C: Consumer> Consume for SingleAdapter<C> {
    fn is_batch(&self) -> bool {
        false
    }

    fn consume(self: Arc<Self>, raw_deliveries: Vec<RawDelivery>) -> ConsumeFuture {
        Box::pin(async move {
            for raw in raw_deliveries {
                let (position, decisions) = (raw.queued.message.position, raw.decisions.clone());
                let Some(delivery) = Delivery::open(raw) else { continue };
                let verdict = match self.0.deliver(delivery).await {
                    Ok(settled) => settled.verdict,
                    Err(error) => verdict_of(&error),
                };
                decisions.decide(position, verdict);
            }
        })
    }
}

/// A consumer in a test: deliveries end as scripted, and reach the consumer when the script is
/// over.
pub(super) struct ScriptedConsumer {
    pub(super) queue: &'static str,
    pub(super) consumer: Arc<dyn Consume>,
    pub(super) script: Script,
}

impl Consume for ScriptedConsumer {
    fn is_batch(&self) -> bool {
        self.consumer.is_batch()
    }

    fn consume(self: Arc<Self>, raw_deliveries: Vec<RawDelivery>) -> ConsumeFuture {
        let mut rest = Vec::new();
        for raw in raw_deliveries {
            let Some(scripted) = self.script.next(|| ScriptKey::Consumer(self.queue)) else {
                rest.push(raw);
                continue;
            };
            let done = Verdict::Done(Commit::default());
            let verdict = scripted.result().map_or_else(|error| verdict_of(&error), |_| done);
            raw.decisions.decide(raw.queued.message.position, verdict);
        }
        match rest.is_empty() {
            true => Box::pin(async {}),
            false => self.consumer.clone().consume(rest),
        }
    }
}

pub(crate) struct BatchAdapter<C>(pub(crate) C);

impl<C: BatchConsumer> Consume for BatchAdapter<C> {
    fn is_batch(&self) -> bool {
        true
    }

    fn consume(self: Arc<Self>, raw_deliveries: Vec<RawDelivery>) -> ConsumeFuture {
        Box::pin(async move {
            let Some(first) = raw_deliveries.first() else { return };
            let decisions = first.decisions.clone();
            let all: Vec<_> = raw_deliveries.iter().map(|it| it.queued.message.position).collect();
            let deliveries: VecDeque<_> =
                raw_deliveries.into_iter().filter_map(Delivery::open).collect();
            if deliveries.is_empty() {
                return;
            }
            let batch = Batch { deliveries, decisions: decisions.clone() };
            let rest = match self.0.deliver(batch).await {
                Ok(SettledBatch(verdict)) => verdict,
                Err(error) => verdict_of(&error),
            };
            all.into_iter().for_each(|it| decisions.decide(it, rest.clone()));
        })
    }
}

/// The verdict for an error of a consumer.
fn verdict_of(error: &Error) -> Verdict {
    let text = format!("{error:?}");
    if error.is_terminal() {
        Verdict::Bury { why: text.into() }
    } else {
        Verdict::Retry { after: None, error: text.into() }
    }
}

/// The decisions on the messages of one delivery.
#[derive(Clone, Default)]
pub(super) struct Decisions(Arc<Mutex<HashMap<Position, Verdict>>>);

impl Decisions {
    /// The first decision counts.
    pub(super) fn decide(&self, position: Position, verdict: Verdict) {
        self.0.lock().entry(position).or_insert(verdict);
    }

    pub(super) fn take(&self, position: Position) -> Option<Verdict> {
        self.0.lock().remove(&position)
    }
}

/// A message in delivery, with everything that is needed to settle it.
pub(crate) struct RawDelivery {
    pub(super) queued: QueuedMessage,
    pub(super) attempt: u32,
    pub(super) lease: Option<Lease>,
    pub(super) queue: Arc<str>,
    pub(super) decisions: Decisions,
    pub(super) time: ConsumerTime,
    pub(super) objects: Objects,
    pub(super) client: Client,
}

/// A message for a consumer. Exactly one of [`done`](Delivery::done),
/// [`retry_after`](Delivery::retry_after), [`bury`](Delivery::bury) and
/// [`settle_with`](Delivery::settle_with) ends it; an error or a panic of the consumer is a retry.
pub struct Delivery<T> {
    /// The message.
    pub message: T,
    raw: RawDelivery,
}

/// Proof that a delivery was settled.
#[must_use = "give it back from the consumer, or to its batch"]
#[derive(Debug)]
pub struct Settled {
    pub(super) position: Position,
    pub(super) verdict: Verdict,
}

impl<T: Body> Delivery<T> {
    /// Reads the message; one that cannot be read becomes a dead letter.
    pub(super) fn open(raw: RawDelivery) -> Option<Self> {
        match serde_json::from_str(raw.queued.message.data.as_str()) {
            Ok(message) => Some(Self { message, raw }),
            Err(error) => {
                let why = format!("the message does not match the type of the consumer: {error}");
                let position = raw.queued.message.position;
                raw.decisions.decide(position, Verdict::Bury { why: why.into() });
                None
            }
        }
    }
}

/// A client of the program: starts runs, calls objects, sends messages.
impl<T> Deref for Delivery<T> {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.raw.client
    }
}

impl<T> Delivery<T> {
    /// The same for every delivery of this message, and for no other: the idempotency key for
    /// effects outside.
    pub fn id(&self) -> String {
        self.position().to_string()
    }

    fn position(&self) -> Position {
        self.raw.queued.message.position
    }

    /// The number of the attempt, from 1.
    pub fn attempt(&self) -> u32 {
        self.raw.attempt
    }

    /// The last error, including attempts in the queue that it was moved from.
    pub fn last_error(&self) -> Option<&str> {
        self.raw.queued.message.last_error.as_deref()
    }

    /// When it was sent.
    pub fn enqueued_at(&self) -> Timestamp {
        self.raw.queued.message.created_at
    }

    /// The name of its queue.
    pub fn queue(&self) -> &str {
        &self.raw.queue
    }

    /// Settles the message as done.
    pub fn done(self) -> Settled {
        self.settled(Verdict::Done(Commit::default()))
    }

    /// Retries the message after this delay, if it has retries left.
    pub fn retry_after(self, delay: Duration) -> Settled {
        let error = "the consumer asked for a retry".into();
        self.settled(Verdict::Retry { after: Some(delay), error })
    }

    /// Moves the message to the dead letters.
    pub fn bury(self, why: impl Into<String>) -> Settled {
        let why: String = why.into();
        self.settled(Verdict::Bury { why: why.into() })
    }

    fn settled(self, verdict: Verdict) -> Settled {
        Settled { position: self.position(), verdict }
    }

    /// Calls an object; the commit of its turn settles this message. If the object refuses, the
    /// message is not settled. The time that the object takes does not count against the timeout of
    /// the consumer.
    pub async fn settle_with<C: Handle<M>, M: Body, I>(
        self,
        to: Address<C>,
        msg: M,
    ) -> Result<Settled>
    where
        C::Calls: Lists<M, I>,
    {
        let (position, lease) = (self.position(), self.raw.lease);
        let _waiting = self.raw.time.pause();
        let turn = self.raw.objects.settle(to, msg, position, lease).await;
        match turn {
            Ok(()) => {
                self.raw.decisions.decide(position, Verdict::Settled);
                Ok(Settled { position, verdict: Verdict::Settled })
            }
            Err(CallError::Refused(error)) => Err(error),
            Err(error) => Err(error.into()),
        }
    }
}

impl<T: fmt::Debug> fmt::Debug for Delivery<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (id, attempt) = (self.position(), self.raw.attempt);
        write!(f, "{}/{id}, attempt {attempt}: {:?}", self.raw.queue, self.message)
    }
}

/// The elapsed time of one delivery.
#[derive(Clone)]
pub(super) struct ConsumerTime(Arc<Shared>);

struct Shared {
    clock: Arc<StoreClock>,
    began: Duration,
    paused: Mutex<Paused>,
    changed: Notify,
}

#[derive(Default)]
struct Paused {
    /// The number of waits in progress, and since when there are any.
    waiting: usize,
    since: Duration,
    /// The duration of earlier waits.
    total: Duration,
}

/// While it exists, time does not count.
pub(super) struct TimePause(Arc<Shared>);

impl ConsumerTime {
    /// Starts to count.
    pub(super) fn new(clock: Arc<StoreClock>) -> Self {
        let (paused, changed) = (Mutex::default(), Notify::new());
        let began = clock.elapsed();
        Self(Arc::new(Shared { clock, began, paused, changed }))
    }

    pub(super) fn pause(&self) -> TimePause {
        let mut paused = self.0.paused.lock();
        if paused.waiting == 0 {
            paused.since = self.0.clock.elapsed();
        }
        paused.waiting += 1;
        TimePause(self.0.clone())
    }

    /// Returns when this much time has counted.
    pub(super) async fn over(&self, timeout: Duration) {
        let shared = &*self.0;
        loop {
            let changed = shared.changed.notified();
            let (is_paused, total) = {
                let paused = shared.paused.lock();
                (0 < paused.waiting, paused.total)
            };
            if is_paused {
                changed.await;
                continue;
            }
            let spent = shared.clock.elapsed().saturating_sub(shared.began + total);
            let left = timeout.saturating_sub(spent);
            if left.is_zero() {
                return;
            }
            // A pause that begins meanwhile is noticed after this sleep.
            shared.clock.sleep(left).await;
        }
    }
}

impl Drop for TimePause {
    fn drop(&mut self) {
        let mut paused = self.0.paused.lock();
        paused.waiting -= 1;
        if paused.waiting == 0 {
            let waited = self.0.clock.elapsed().saturating_sub(paused.since);
            paused.total += waited;
            self.0.changed.notify_one();
        }
    }
}
