//! Changes of a queue that are recorded under an idempotency key: a repetition changes nothing and
//! returns the answer of the first request.

use serde::de::DeserializeOwned;
use steadfast_store::{Commit, Outcome, Position, Rejection};

use super::{AckResult, QueueError, Queues, pull::Acknowledgement, state::QueueState};
use crate::{
    RequestKey,
    idempotency::{KeyGuard, read},
};

impl Queues {
    /// The recorded answer of the key of this handle, if there is one.
    pub(super) async fn before<T: DeserializeOwned>(&self) -> Result<Option<T>, QueueError> {
        match &self.key {
            Some(key) => Ok(key.answer(&*self.shared.store).await?),
            None => Ok(None),
        }
    }

    /// Serializes operations of several commits that have one key, so that the second finds the
    /// answer of the first, even for another queue.
    pub(super) async fn alone(&self) -> Option<KeyGuard<'_>> {
        match &self.key {
            Some(key) => Some(self.shared.keyed.lock(key).await),
            None => None,
        }
    }

    /// Acknowledges in one commit, which records the answer. A lost lease is left out.
    pub(super) async fn ack_once(
        &self,
        queue: &QueueState,
        mut acks: Vec<Acknowledgement>,
        lost: AckResult,
        key: &RequestKey,
    ) -> Result<AckResult, QueueError> {
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
                    let is_lost =
                        |it: &Acknowledgement| Some(it.id.position) == position_of(&rejection);
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
        | Rejection::Limit { .. }
        | Rejection::NotANumber { .. }
        | Rejection::Full { .. }
        | Rejection::NotVacant { .. } => None,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

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
