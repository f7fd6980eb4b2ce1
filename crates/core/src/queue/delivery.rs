//! A message that is delivered to its consumer. Settling consumes it, so it is settled once.

use std::{collections::HashMap, fmt, ops::Deref, sync::Arc, time::Duration};

use parking_lot::{Mutex, MutexGuard};
use steadfast_store::{Commit, Lease, Position, QueuedMessage, Timestamp};

use super::consumer_time::ConsumerTime;
use crate::{
    Address, Body, CallError, Client, Error, Handle, Objects, Result, dispatch::attempt::Verdict,
    object::Lists,
};

/// The verdict for an error of a consumer.
pub(super) fn verdict_of(error: &Error) -> Verdict {
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
        self.lock().entry(position).or_insert(verdict);
    }

    pub(super) fn take(&self, position: Position) -> Option<Verdict> {
        self.lock().remove(&position)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Position, Verdict>> {
        self.0.lock()
    }
}

/// A message in delivery, with everything that is needed to settle it.
pub(super) struct RawDelivery {
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
