//! Consumers outside of the process: they pull messages under a lease and acknowledge them.
//!
//! An expired lease can still be acknowledged as long as no other consumer has got the message:
//! this avoids a second delivery. After that the acknowledgement is reported as lost.

use std::{fmt, str::FromStr, time::Duration};

use serde::{Deserialize, Serialize};
use steadfast_store::{
    Commit, GrantedClaim, Lease, Outcome, Position, QueuedMessage, Receipt, Rejection, State,
    Timestamp, Write,
};

use super::{
    QueueError, Queues,
    meter::MessageEvent,
    state::{HeldMessages, QueueState},
};
use crate::{
    RequestKey,
    commit::commit_each,
    dispatch::{
        attempt::{self, Ending, EndingCommit, Verdict},
        window::End,
    },
    on_drop::on_drop,
};

/// Messages that can be pulled at once.
pub const PULL_MAX: usize = 1_000;

/// The longest lease.
const LEASE_MAX: Duration = Duration::from_hours(24);

/// A message that was pulled.
#[derive(Clone, Debug)]
pub struct LeasedMessage {
    /// The message.
    pub queued: QueuedMessage,
    /// The number of the attempt, from 1.
    pub attempt: u32,
    /// The lease to acknowledge.
    pub lease: LeaseId,
    /// When the lease ends.
    pub until: Timestamp,
}

/// Names a lease: `position-number`, opaque to clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaseId {
    pub(super) position: Position,
    number: i64,
}

impl fmt::Display for LeaseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{:016x}", self.position, self.number)
    }
}

impl FromStr for LeaseId {
    type Err = QueueError;

    fn from_str(text: &str) -> Result<Self, QueueError> {
        let parts = text.split_once('-').filter(|it| it.1.len() == 16);
        let parsed = parts.and_then(|(position, number)| {
            let number = u64::from_str_radix(number, 16).ok()?.cast_signed();
            Some(Self { position: position.parse().ok()?, number })
        });
        parsed.ok_or_else(|| QueueError::Argument {
            field: "leaseId",
            rule: format!("`{text}` is not a lease id; send it unchanged"),
        })
    }
}

/// The result of acknowledgements.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AckResult {
    /// Messages that are done.
    pub acked: usize,
    /// Messages that are retried, or have become dead letters.
    pub retried: usize,
    /// Lost leases: another consumer got the message, or it was settled.
    pub lost: Vec<LeaseId>,
}

/// The record of a pulled message. Its body stays in the queue.
#[derive(Serialize, Deserialize)]
struct PulledRecord {
    lease: LeaseId,
    attempt: u32,
    until: i64,
}

impl LeaseId {
    pub(super) fn new(position: Position, chance: u64, queue: &QueueState) -> Self {
        let number = (chance & !0xffff) | u64::from(mark(queue));
        Self { position, number: number.cast_signed() }
    }

    /// Whether this queue issued it.
    fn is_of(self, queue: &QueueState) -> bool {
        self.number.cast_unsigned() & 0xffff == u64::from(mark(queue))
    }

    pub(super) fn lease(self) -> Lease {
        Lease { holder: 0, number: self.number }
    }
}

/// A commit that records which messages are pulled, and under which leases.
fn recording(key: &RequestKey, pulled: &[LeasedMessage]) -> Result<Commit, QueueError> {
    let record = |it: &LeasedMessage| PulledRecord {
        lease: it.lease,
        attempt: it.attempt,
        until: it.until.0,
    };
    let records: Vec<_> = pulled.iter().map(record).collect();
    Ok(Commit::of(key.write_answer(&records)?))
}

/// Distinguishes the leases of queues.
fn mark(queue: &QueueState) -> u16 {
    let id = queue.address.id().0;
    u16::from_be_bytes([id[14], id[15]])
}

impl Queues {
    /// Takes up to `max` due messages, each under a lease.
    #[steadfast_store::boxed]
    pub async fn pull(
        &self,
        name: &str,
        max: usize,
        lasts: Duration,
    ) -> Result<Vec<LeasedMessage>, QueueError> {
        if !(1..=PULL_MAX).contains(&max) {
            let rule = format!("must be 1 to {PULL_MAX}");
            return Err(QueueError::Argument { field: "batchSize", rule });
        }
        if lasts.is_zero() || LEASE_MAX < lasts {
            let rule = "must be 1 to 86400000, a day".into();
            return Err(QueueError::Argument { field: "leaseMs", rule });
        }
        let queue = self.known(name).await?;
        // Messages may have been read for the loop.
        let _woken = on_drop(|| queue.wake());
        let mut pulled = Vec::new();
        while pulled.len() < max {
            if let Some(before) = self.before().await? {
                return self.pulled_before(before).await;
            }
            let messages = self.take_due(&queue, max - pulled.len(), pulled.is_empty()).await?;
            if messages.is_empty() {
                break;
            }
            let Some(lent) = self.lend(&queue, messages, lasts).await? else { continue };
            pulled.extend(lent);
            // A key is recorded in one commit, with all messages that it stands for.
            if self.key.is_some() {
                break;
            }
        }
        let now = self.shared.clock.now();
        queue.meter.count(MessageEvent::Delivered, pulled.len(), now);
        Ok(pulled)
    }

    /// Takes due messages from the window, and fills it if necessary. None if there are none, or
    /// the queue is paused. The caller must finish them.
    pub(super) async fn take_due(
        &self,
        queue: &QueueState,
        wanted: usize,
        is_first: bool,
    ) -> Result<Vec<QueuedMessage>, QueueError> {
        let mut is_sure = !is_first;
        while !queue.rules().paused {
            let messages = queue.window().take(wanted, |_| true);
            if !messages.is_empty() {
                return Ok(messages);
            }
            // Notices of durable messages may be in flight. An empty result must be confirmed by
            // the store.
            if !is_sure {
                queue.window().look_again();
                is_sure = true;
            }
            let (store, clock) = (&*self.shared.store, &*self.shared.clock);
            let is_read = queue.fill(store, clock, 1, queue.fitting(wanted)).await?;
            // Another task may have read meanwhile.
            if !is_read && queue.window().len() == 0 {
                break;
            }
        }
        Ok(Vec::new())
    }

    /// Claims messages for a consumer outside; with a key in one commit, which records the leases.
    /// `None` if another commit was first, with the key or with a message, or if all messages
    /// became dead letters.
    async fn lend(
        &self,
        queue: &QueueState,
        messages: Vec<QueuedMessage>,
        lasts: Duration,
    ) -> Result<Option<Vec<LeasedMessage>>, QueueError> {
        let (mut held, messages) = self.hold_all(queue, messages).await?;
        if messages.is_empty() {
            return Ok(None);
        }
        // The store counts from the commit, which is later: a lease does not end before this.
        let until = self.shared.clock.now().after(lasts);
        let pull = |queued: QueuedMessage| {
            // The number must not be guessable, and must not be reused after a restart.
            let lease = LeaseId::new(queued.message.position, self.shared.entropy.next(), queue);
            LeasedMessage { attempt: queued.tries() + 1, queued, lease, until }
        };
        let pulled: Vec<LeasedMessage> = messages.into_iter().map(pull).collect();
        let claim = |it: &LeasedMessage| {
            let (position, lease) = (it.lease.position, it.lease.lease());
            Commit::of(Write::Claim { position, lease, lasts })
        };
        let claims: Vec<Commit> = pulled.iter().map(claim).collect();
        let store = &*self.shared.store;
        let outcomes = match &self.key {
            None => commit_each(store, &claims).await?,
            Some(key) => {
                let mut commit = recording(key, &pulled)?;
                commit.writes.extend(claims.into_iter().flat_map(|it| it.writes));
                match store.commit(commit).await? {
                    it @ Outcome::Committed(_) => vec![it; pulled.len()],
                    Outcome::Rejected(Rejection::KeyReused { key }) => {
                        return Err(QueueError::KeyReused { key });
                    }
                    Outcome::Rejected(_) | Outcome::Duplicate(_) => return Ok(None),
                }
            }
        };
        let mut lent = Vec::new();
        for (mut it, outcome) in pulled.into_iter().zip(outcomes) {
            let receipt = outcome.committed().ok();
            let is_it = |claimed: &&GrantedClaim| claimed.position == it.lease.position;
            let claimed = receipt.as_ref().and_then(|it| it.claimed.iter().find(is_it));
            let Some(claimed) = claimed else { continue };
            held.finish(claimed.position, End::Again(claimed.until));
            // With a key, the recorded answer is returned.
            if self.key.is_none() {
                (it.attempt, it.until) = (claimed.attempt, claimed.until);
            }
            lent.push(it);
        }
        Ok(Some(lent))
    }

    /// Messages that were pulled before, without those that retention has deleted since.
    async fn pulled_before(
        &self,
        records: Vec<PulledRecord>,
    ) -> Result<Vec<LeasedMessage>, QueueError> {
        let mut pulled = Vec::new();
        for it in records {
            let found = self.shared.store.message(it.lease.position).await?;
            let Some(message) = found else { continue };
            let queue = message.target.unwrap_or(message.stream);
            let queued = QueuedMessage { queue, attempts: it.attempt, message };
            let (attempt, until) = (it.attempt, Timestamp(it.until));
            pulled.push(LeasedMessage { queued, attempt, lease: it.lease, until });
        }
        Ok(pulled)
    }

    /// Holds messages. Those without attempts left become dead letters.
    pub(super) async fn hold_all<'a>(
        &self,
        queue: &'a QueueState,
        mut messages: Vec<QueuedMessage>,
    ) -> Result<(HeldMessages<&'a QueueState>, Vec<QueuedMessage>), QueueError> {
        let positions = messages.iter().map(|it| it.message.position).collect();
        let mut held = HeldMessages::new(queue, positions);
        let attempts_max = queue.rules().settings.attempts_max();
        let is_over = |it: &QueuedMessage| attempts_max <= it.tries();
        for queued in messages.iter().filter(|it| is_over(it)) {
            self.give_up(queue, queued).await?;
            held.finish(queued.message.position, End::Gone);
        }
        messages.retain(|it| !is_over(it));
        Ok((held, messages))
    }

    async fn give_up(&self, queue: &QueueState, queued: &QueuedMessage) -> Result<(), QueueError> {
        let lease = attempt::lease_of(&queued.message);
        let error = "the last lease ended without an answer".into();
        let verdict = Verdict::Retry { after: None, error };
        let (position, attempt) = (queued.message.position, queued.tries());
        let ending = Ending { position, attempt, lease, verdict };
        let policy = queue.rules().settings.policy();
        let written = attempt::write(&ending, &policy, &*self.shared.entropy);
        attempt::commit(&*self.shared.store, &[written]).await?;
        queue.meter.count(MessageEvent::Dead, 1, self.shared.clock.now());
        Ok(())
    }

    /// Settles pulled messages: `acks` are done, `retries` are delivered again after the given
    /// delay or that of the queue.
    #[steadfast_store::boxed]
    pub async fn ack(
        &self,
        name: &str,
        acks: &[LeaseId],
        retries: &[(LeaseId, Option<Duration>)],
    ) -> Result<AckResult, QueueError> {
        let queue = self.known(name).await?;
        if let Some(before) = self.before().await? {
            return Ok(before);
        }
        let mut endings = Vec::new();
        let mut answer = AckResult::default();
        for id in acks {
            endings.push((*id, Verdict::Done(Commit::default())));
        }
        for (id, after) in retries {
            let error = "the consumer asked for a retry".into();
            endings.push((*id, Verdict::Retry { after: *after, error }));
        }
        let policy = queue.rules().settings.policy();
        let mut commits = Vec::new();
        for (id, verdict) in endings {
            let is_ack = matches!(verdict, Verdict::Done(_));
            let attempt = match (id.is_of(&queue), is_ack) {
                (false, _) => None,
                (true, true) => Some(1),
                (true, false) => self.tries_of(id).await?,
            };
            let Some(attempt) = attempt else {
                answer.lost.push(id);
                continue;
            };
            let (position, lease) = (id.position, Some(id.lease()));
            let ending = Ending { position, attempt, lease, verdict };
            let written = attempt::write(&ending, &policy, &*self.shared.entropy);
            commits.push(Acknowledgement { id, is_ack, written });
        }
        if let Some(key) = &self.key {
            return self.ack_once(&queue, commits, answer, key).await;
        }
        // One commit if possible: lost leases must not affect the others.
        let written: Vec<_> = commits.iter().map(|it| it.written.clone()).collect();
        let outcomes = attempt::commit(&*self.shared.store, &written).await?;
        for (ack, outcome) in commits.into_iter().zip(outcomes) {
            match outcome.and_then(|it| it.committed().ok()) {
                None => answer.lost.push(ack.id),
                Some(receipt) => {
                    answer.count(&ack);
                    self.acked(&queue, &ack, &receipt);
                }
            }
        }
        Ok(answer)
    }

    /// Counts a settled delivery, and updates the window before the notice arrives.
    pub(super) fn acked(&self, queue: &QueueState, ack: &Acknowledgement, receipt: &Receipt) {
        let due_at = ack.written.due_again(receipt);
        queue.expect(due_at.map(|it| (ack.id.position, it)));
        queue.meter.count(ack.written.kind.into(), 1, self.shared.clock.now());
    }

    /// The attempt of a lease, if the lease is still valid in this queue.
    async fn tries_of(&self, id: LeaseId) -> Result<Option<u32>, QueueError> {
        let message = self.shared.store.message(id.position).await?;
        Ok(message.and_then(|it| match it.state {
            Some(State::InFlight { lease, attempts, .. }) if lease == id.lease() => Some(attempts),
            Some(State::InFlight { .. } | State::Pending { .. } | State::Settled(_)) | None => None,
        }))
    }
}

/// An acknowledgement, and its writes.
pub(super) struct Acknowledgement {
    pub(super) id: LeaseId,
    is_ack: bool,
    pub(super) written: EndingCommit,
}

impl AckResult {
    pub(super) fn count(&mut self, ack: &Acknowledgement) {
        *(if ack.is_ack { &mut self.acked } else { &mut self.retried }) += 1;
    }
}
