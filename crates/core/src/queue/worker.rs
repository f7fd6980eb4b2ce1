//! One delivery of a batch to a consumer: claim if necessary, run the consumer, commit its
//! decisions. A process may crash at any line; no message is lost.

use std::{sync::Arc, time::Duration};

use steadfast_store::{
    Lease, OpaqueArc, Outcome, Position, QueuedMessage, State, StoreError, crash,
};

use super::{
    consumer::{Consume, ConsumerTime, Decisions, RawDelivery},
    meter::MessageEvent,
    state::{HeldMessages, QueueState, Shared},
};
use crate::dispatch::{
    attempt::{self, Claim, Ending, EndingCommit, ErrorText, Verdict, run_apart},
    suspects::AdmissionGuard,
    window::End,
};

/// The points of a delivery, in order. `./test` kills a process at each of them.
pub const QUEUE_CRASH_POINTS: &[&str] = &[
    "queue.claim.before",
    "queue.claim.after",
    "queue.consume.before",
    "queue.consume.after",
    "queue.settle.before",
    "queue.settle.after",
];

/// Delivers messages together to a consumer.
pub(super) struct BatchWorker {
    pub(super) shared: OpaqueArc<Shared>,
    pub(super) queue: Arc<QueueState>,
    pub(super) consumer: Arc<dyn Consume>,
    /// Each attempt is counted before it begins.
    pub(super) is_claimed: bool,
    pub(super) timeout: Duration,
}

/// A message whose attempt has begun.
struct Attempt {
    queued: QueuedMessage,
    number: u32,
    lease: Option<Lease>,
}

impl BatchWorker {
    /// Delivers a batch, and records the decisions of the consumer.
    pub(super) async fn deliver(
        &self,
        messages: Vec<QueuedMessage>,
        admitted: AdmissionGuard,
    ) -> Result<(), StoreError> {
        let positions: Vec<Position> = messages.iter().map(|it| it.message.position).collect();
        // Messages that are not finished are read again.
        let held = HeldMessages::new(self.queue.clone(), positions);
        let attempt = self.attempt(messages, held);
        let recorded = admitted.run(&self.shared.clock, attempt).await;
        if let Err(error) = &recorded {
            let queue = &*self.queue.name;
            tracing::warn!(queue, error = %error, "decisions of a consumer were not recorded");
        }
        recorded
    }

    async fn attempt(
        &self,
        messages: Vec<QueuedMessage>,
        mut held: HeldMessages<Arc<QueueState>>,
    ) -> Result<(), StoreError> {
        let attempts = self.claim(messages, &mut held).await?;
        if attempts.is_empty() {
            return Ok(());
        }
        let now = self.shared.clock.now();
        self.queue.meter.count(MessageEvent::Delivered, attempts.len(), now);
        crash::point("queue.consume.before");
        let endings = self.consume(attempts).await;
        crash::point("queue.consume.after");
        let policy = self.queue.rules().settings.policy();
        let entropy = &*self.shared.entropy;
        let written: Vec<EndingCommit> =
            endings.iter().map(|it| attempt::write(it, &policy, entropy)).collect();
        crash::point("queue.settle.before");
        let outcomes = match self.commit(&written).await {
            Err(StoreError::Invalid(_)) => {
                return self.settle_each(endings, &written, &mut held).await;
            }
            recorded => recorded?,
        };
        crash::point("queue.settle.after");
        let now = self.shared.clock.now();
        for (it, outcome) in written.iter().zip(outcomes) {
            self.queue.leases.ended(it.position);
            let end = match outcome {
                None => End::Gone,
                Some(Outcome::Committed(receipt)) => {
                    it.due_again(&receipt).map_or(End::Gone, End::Again)
                }
                // Another owner has settled or claimed it.
                Some(Outcome::Rejected(_) | Outcome::Duplicate(_)) => End::Unknown,
            };
            self.queue.meter.count(it.kind.into(), 1, now);
            held.finish(it.position, end);
        }
        Ok(())
    }

    /// Counts the attempts before they begin, if necessary.
    async fn claim(
        &self,
        messages: Vec<QueuedMessage>,
        held: &mut HeldMessages<Arc<QueueState>>,
    ) -> Result<Vec<Attempt>, StoreError> {
        if !self.is_claimed {
            let plain = |queued: QueuedMessage| {
                let number = queued.tries() + 1;
                Attempt { queued, number, lease: None }
            };
            return Ok(messages.into_iter().map(plain).collect());
        }
        let (mut attempts, messages) = self.used_up(messages);
        if messages.is_empty() {
            return Ok(attempts);
        }
        crash::point("queue.claim.before");
        let positions: Vec<Position> = messages.iter().map(|it| it.message.position).collect();
        let store = &*self.shared.store;
        let claims = self.queue.leases.claim(store, &positions, self.timeout).await?;
        for (queued, claim) in messages.into_iter().zip(claims) {
            match claim {
                Claim::Held { attempt, lease, .. } => {
                    attempts.push(Attempt { queued, number: attempt, lease: Some(lease) });
                }
                Claim::NotDue(_) | Claim::Lost => {
                    held.finish(queued.message.position, End::Unknown);
                }
            }
        }
        crash::point("queue.claim.after");
        Ok(attempts)
    }

    /// Messages whose last lease has expired: they become dead letters under it, without another
    /// attempt.
    fn used_up(&self, messages: Vec<QueuedMessage>) -> (Vec<Attempt>, Vec<QueuedMessage>) {
        let attempts_max = self.queue.rules().settings.attempts_max();
        let (mut over, mut rest) = (Vec::new(), Vec::new());
        for queued in messages {
            match queued.message.state {
                Some(State::InFlight { lease, attempts, .. }) if attempts_max <= attempts => {
                    over.push(Attempt { queued, number: attempts + 1, lease: Some(lease) });
                }
                Some(State::InFlight { .. } | State::Pending { .. } | State::Settled(_)) | None => {
                    rest.push(queued);
                }
            }
        }
        (over, rest)
    }

    /// Runs the consumer in a task of its own, so that neither a panic nor a consumer that hangs
    /// affects others.
    async fn consume(&self, attempts: Vec<Attempt>) -> Vec<Ending> {
        let decisions = Decisions::default();
        let time = ConsumerTime::new(self.shared.clock.clone());
        let mut ends = Vec::new();
        let mut raw_deliveries = Vec::new();
        let attempts_max = self.queue.rules().settings.attempts_max();
        for Attempt { queued, number, lease } in attempts {
            let position = queued.message.position;
            ends.push((position, number, lease));
            if attempts_max < number {
                let error = "the attempts before ended without an answer".into();
                decisions.decide(position, Verdict::Retry { after: None, error });
                continue;
            }
            raw_deliveries.push(RawDelivery {
                queued,
                attempt: number,
                lease,
                queue: self.queue.name.clone(),
                decisions: decisions.clone(),
                time: time.clone(),
                objects: self.shared.objects.clone(),
                client: self.shared.client.clone(),
            });
        }
        let failed =
            if raw_deliveries.is_empty() { None } else { self.run(raw_deliveries, time).await };
        let error: ErrorText = failed.as_deref().unwrap_or("the consumer gave no answer").into();
        let ending = |(position, attempt, lease): (Position, u32, Option<Lease>)| {
            let verdict = decisions.take(position);
            let verdict =
                verdict.unwrap_or_else(|| Verdict::Retry { after: None, error: error.clone() });
            Ending { position, attempt, lease, verdict }
        };
        ends.into_iter().map(ending).collect()
    }

    /// Returns the error, if it failed.
    async fn run(&self, raw_deliveries: Vec<RawDelivery>, time: ConsumerTime) -> Option<String> {
        let over = async {
            time.over(self.timeout).await;
            format!("no answer within {} s", self.timeout.as_secs_f32())
        };
        run_apart("consumer", self.consumer.clone().consume(raw_deliveries), over).await.err()
    }

    /// Settles messages one by one whose commit the store has refused: those that it refuses again
    /// are given up. Otherwise they would be delivered for ever.
    async fn settle_each(
        &self,
        endings: Vec<Ending>,
        written: &[EndingCommit],
        held: &mut HeldMessages<Arc<QueueState>>,
    ) -> Result<(), StoreError> {
        let (rules, entropy) = (self.queue.rules(), &*self.shared.entropy);
        for (ending, it) in endings.into_iter().zip(written) {
            let policy = rules.settings.policy();
            let due_again = attempt::settle(&*self.shared.store, ending, policy, entropy).await?;
            self.queue.leases.ended(it.position);
            self.queue.meter.count(it.kind.into(), 1, self.shared.clock.now());
            held.finish(it.position, due_again.map_or(End::Gone, End::Again));
        }
        Ok(())
    }

    /// Retries a busy store: the decisions must not be lost.
    async fn commit(&self, written: &[EndingCommit]) -> Result<Vec<Option<Outcome>>, StoreError> {
        let mut tried = 0;
        loop {
            match attempt::commit(&*self.shared.store, written).await {
                Err(error) if error.is_retryable() && tried < 12 => {
                    tried += 1;
                    if 3 < tried {
                        let wait = Duration::from_millis(100 << (tried - 3).min(6));
                        self.shared.clock.sleep(wait).await;
                    }
                }
                ended => return ended,
            }
        }
    }
}
