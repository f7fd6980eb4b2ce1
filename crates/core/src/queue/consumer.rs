//! Consumers of queues.

use std::{collections::VecDeque, pin::Pin, sync::Arc, time::Duration};

use steadfast_store::Commit;

use super::{
    Delivery, Settled,
    delivery::{Decisions, RawDelivery, verdict_of},
};
use crate::{
    Body, Result,
    dispatch::attempt::Verdict,
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

pub(super) type ConsumeFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A consumer whose types are erased. Each delivery carries the list that its decision goes to.
pub(super) trait Consume: Send + Sync + 'static {
    fn is_batch(&self) -> bool;
    fn consume(self: Arc<Self>, raw_deliveries: Vec<RawDelivery>) -> ConsumeFuture;
}

pub(super) struct SingleAdapter<C>(pub(super) C);

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

pub(super) struct BatchAdapter<C>(pub(super) C);

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
