//! Changes of a queue that are recorded under an idempotency key: a repetition changes nothing and
//! gives what the first request gave.

use std::time::Duration;

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use steadfast_store::{Commit, Letter, Outcome, Position, Rejection, Timestamp, Write};
use tokio::sync::MutexGuard;

use super::{
    Acked, LeaseId, Pulled, QueueError, Queues, meter::Happening, pull::AckOf, state::QueueState,
};
use crate::{RequestKey, dispatch::window::End, idempotency::read};

/// What is recorded of a pulled message. Its body stays where it is.
#[derive(Serialize, Deserialize)]
struct PulledRecord {
    lease: LeaseId,
    attempt: u32,
    until: i64,
}

impl Queues {
    /// What the key of this handle was recorded with, if it has one.
    pub(super) async fn before<T: DeserializeOwned>(&self) -> Result<Option<T>, QueueError> {
        match &self.key {
            Some(key) => Ok(key.answer(&*self.shared.store).await?),
            None => Ok(None),
        }
    }

    /// Serializes operations of several commits that have one key, so that the second finds the
    /// answer of the first, also if it is for another queue.
    pub(super) async fn alone(&self) -> Option<MutexGuard<'_, ()>> {
        match &self.key {
            Some(key) => Some(self.shared.keyed.lock(key).await),
            None => None,
        }
    }

    /// Pulls in one commit, which records the leases. A pull that finds nothing records nothing.
    pub(super) async fn pull_once(
        &self,
        queue: &QueueState,
        max: usize,
        lasts: Duration,
        key: &RequestKey,
    ) -> Result<Vec<Pulled>, QueueError> {
        loop {
            if let Some(before) = self.before().await? {
                return self.pulled_before(before).await;
            }
            let letters = self.take_due(queue, max, true).await?;
            if letters.is_empty() {
                return Ok(Vec::new());
            }
            if let Some(pulled) = self.lend_once(queue, letters, lasts, key).await? {
                queue.meter.count(Happening::Delivered, pulled.len(), self.shared.clock.now());
                return Ok(pulled);
            }
        }
    }

    /// `None` if somebody else was first, with the key or with a message.
    async fn lend_once(
        &self,
        queue: &QueueState,
        letters: Vec<Letter>,
        lasts: Duration,
        key: &RequestKey,
    ) -> Result<Option<Vec<Pulled>>, QueueError> {
        let (mut held, letters) = self.hold_all(queue, letters).await?;
        if letters.is_empty() {
            return Ok(None);
        }
        // The store counts from the commit, which is later: a lease does not end before this.
        let until = self.shared.clock.now().after(lasts);
        let lend = |letter: &Letter| {
            let lease = LeaseId::new(letter.message.position, self.shared.entropy.next(), queue);
            Pulled { letter: letter.clone(), attempt: letter.tries() + 1, lease, until }
        };
        let pulled: Vec<Pulled> = letters.iter().map(lend).collect();
        let record =
            |it: &Pulled| PulledRecord { lease: it.lease, attempt: it.attempt, until: it.until.0 };
        let records: Vec<_> = pulled.iter().map(record).collect();
        let mut commit = Commit::of(key.write_answer(&records)?);
        for it in &pulled {
            let (position, lease) = (it.lease.position, it.lease.lease());
            commit = commit.write(Write::Claim { position, lease, lasts });
        }
        match self.shared.store.commit(commit).await? {
            Outcome::Committed(receipt) => {
                for it in receipt.claimed {
                    held.finish(it.position, End::Again(it.until));
                }
                Ok(Some(pulled))
            }
            Outcome::Rejected(Rejection::KeyReused { key }) => Err(QueueError::KeyReused { key }),
            Outcome::Rejected(_) | Outcome::Duplicate(_) => Ok(None),
        }
    }

    /// Messages that were pulled before, without those that retention has removed since.
    async fn pulled_before(&self, records: Vec<PulledRecord>) -> Result<Vec<Pulled>, QueueError> {
        let mut pulled = Vec::new();
        for it in records {
            let found = self.shared.store.message(it.lease.position).await?;
            let Some(message) = found else { continue };
            let queue = message.target.unwrap_or(message.stream);
            let letter = Letter { queue, attempts: it.attempt, message };
            let (attempt, until) = (it.attempt, Timestamp(it.until));
            pulled.push(Pulled { letter, attempt, lease: it.lease, until });
        }
        Ok(pulled)
    }

    /// Acknowledges in one commit, which records the answer. A lease that is lost is left out.
    pub(super) async fn ack_once(
        &self,
        queue: &QueueState,
        mut acks: Vec<AckOf>,
        lost: Acked,
        key: &RequestKey,
    ) -> Result<Acked, QueueError> {
        let mut base = lost;
        loop {
            let mut answer = base.clone();
            acks.iter().for_each(|it| answer.count(it));
            let mut commit = Commit::of(key.write_answer(&answer)?);
            let acks_written = acks.iter().filter_map(|it| it.written.commit.clone());
            commit.writes.extend(acks_written.flat_map(|it| it.writes));
            match self.shared.store.commit(commit).await? {
                Outcome::Committed(receipt) => {
                    acks.iter().for_each(|it| self.acked(queue, it, &receipt));
                    return Ok(answer);
                }
                Outcome::Duplicate(before) => return Ok(read(&before)?),
                Outcome::Rejected(Rejection::KeyReused { key }) => {
                    return Err(QueueError::KeyReused { key });
                }
                Outcome::Rejected(rejection) => {
                    // The last one of this message: the first of two equal leases counts.
                    let is_lost = |it: &AckOf| Some(it.id.position) == position_of(&rejection);
                    let Some(index) = acks.iter().rposition(is_lost) else {
                        let reason = rejection.to_string();
                        return Err(steadfast_store::StoreError::Corrupt { reason }.into());
                    };
                    base.lost.push(acks.remove(index).id);
                }
            }
        }
    }
}

/// The message that a settlement was rejected for.
fn position_of(rejection: &Rejection) -> Option<Position> {
    match rejection {
        Rejection::NotPending { position }
        | Rejection::NotDue { position, .. }
        | Rejection::LeaseLost { position }
        | Rejection::NotSettled { position } => Some(*position),
        Rejection::Version { .. }
        | Rejection::KeyReused { .. }
        | Rejection::Head { .. }
        | Rejection::Part { .. }
        | Rejection::HasWork { .. }
        | Rejection::JustWritten { .. }
        | Rejection::Revision { .. }
        | Rejection::NotVacant { .. } => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{
        App,
        queue::{Outgoing, Redrive},
    };

    #[tokio::test]
    async fn keyed_operations_wait_for_those_with_their_own_key_only() {
        let app = App::new("shop").test().await.unwrap();
        let queues = app.queues();
        for name in ["mail", "other"] {
            let body = steadfast_store::Json::of(&json!(1)).unwrap();
            let one = Outgoing { body, delay: Duration::ZERO };
            queues.send_json(name, vec![one], None).await.unwrap();
        }
        let keyed = |key| queues.keyed(RequestKey::new("Test", None, key, b"").unwrap());
        let held = keyed("held");
        let alone = held.alone().await;
        assert_eq!(keyed("one").purge("other", None, None).await.unwrap(), 1);
        let preview = Redrive { dry_run: true, to: Some("third".into()), ..Redrive::default() };
        assert_eq!(held.redrive("mail", &preview).await.unwrap().matched, 1);
        let queue = keyed("held");
        let mut purge = Box::pin(queue.purge("mail", None, None));
        tokio::select! {
            biased;
            purged = &mut purge => panic!("it did not wait: {purged:?}"),
            () = tokio::task::yield_now() => {}
        }
        drop(alone);
        assert_eq!(purge.await.unwrap(), 1);
    }
}
