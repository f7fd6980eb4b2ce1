//! A message under way to its consumer: it is settled once, because settling takes it away.

use std::{collections::HashMap, fmt, ops::Deref, sync::Arc, time::Duration};

use parking_lot::{Mutex, MutexGuard};
use steadfast_store::{Commit, Lease, Letter, Position, Timestamp};

use super::patience::Patience;
use crate::{
    Address, Body, CallError, Client, Error, Handle, Objects, Result, dispatch::attempt::Verdict,
    object::Lists,
};

/// What an error of a consumer means.
pub(super) fn verdict_of(error: &Error) -> Verdict {
    let text = format!("{error:?}");
    if error.is_terminal() {
        Verdict::Bury { why: text }
    } else {
        Verdict::Retry { after: None, error: text }
    }
}

/// What was decided so far about the messages that one call of a consumer got.
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

/// A letter on its way, with all that is needed to end its delivery.
pub(super) struct RawDelivery {
    pub(super) letter: Letter,
    pub(super) attempt: u32,
    pub(super) lease: Option<Lease>,
    pub(super) queue: Arc<str>,
    pub(super) decisions: Decisions,
    pub(super) patience: Patience,
    pub(super) objects: Objects,
    pub(super) client: Client,
}

/// A message for a consumer. Exactly one of [`done`](Delivery::done),
/// [`retry_after`](Delivery::retry_after), [`bury`](Delivery::bury) and
/// [`settle_with`](Delivery::settle_with) ends it; an error or a panic of the consumer is a retry.
pub struct Delivery<T> {
    /// What was sent.
    pub message: T,
    raw: RawDelivery,
}

/// Says that a delivery was settled.
#[must_use = "give it back from the consumer, or to its batch"]
#[derive(Debug)]
pub struct Settled {
    pub(super) position: Position,
    pub(super) verdict: Verdict,
}

impl<T: Body> Delivery<T> {
    /// Reads the message; what cannot be read is buried.
    pub(super) fn open(raw: RawDelivery) -> Option<Self> {
        match serde_json::from_str(raw.letter.message.data.as_str()) {
            Ok(message) => Some(Self { message, raw }),
            Err(error) => {
                let why = format!("the message is not what the consumer takes: {error}");
                let position = raw.letter.message.position;
                raw.decisions.decide(position, Verdict::Bury { why });
                None
            }
        }
    }
}

/// Reaches the rest of the program: starts runs, calls objects, sends.
impl<T> Deref for Delivery<T> {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.raw.client
    }
}

impl<T> Delivery<T> {
    /// The same at every delivery of this message and for no other: the key for what must not
    /// happen twice.
    pub fn id(&self) -> String {
        self.position().to_string()
    }

    fn position(&self) -> Position {
        self.raw.letter.message.position
    }

    /// Which attempt this is, from 1.
    pub fn attempt(&self) -> u32 {
        self.raw.attempt
    }

    /// Why the last failed attempt failed, also one in the queue whose dead letter it is.
    pub fn last_error(&self) -> Option<&str> {
        self.raw.letter.message.last_error.as_deref()
    }

    /// When it was sent.
    pub fn enqueued_at(&self) -> Timestamp {
        self.raw.letter.message.created_at
    }

    /// The queue that it comes from.
    pub fn queue(&self) -> &str {
        &self.raw.queue
    }

    /// It was handled.
    pub fn done(self) -> Settled {
        self.settled(Verdict::Done(Commit::default()))
    }

    /// It is delivered again after so long, if it has retries left.
    pub fn retry_after(self, delay: Duration) -> Settled {
        let error = "the consumer asked for a retry".into();
        self.settled(Verdict::Retry { after: Some(delay), error })
    }

    /// It is given up at once: it moves to the dead letters.
    pub fn bury(self, why: impl Into<String>) -> Settled {
        self.settled(Verdict::Bury { why: why.into() })
    }

    fn settled(self, verdict: Verdict) -> Settled {
        Settled { position: self.position(), verdict }
    }

    /// Hands the work to an object: the delivery is done in the very commit of that turn. If the
    /// object refuses, it is not done. How long the object takes does not count against the time of
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
        let _waiting = self.raw.patience.pause();
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
