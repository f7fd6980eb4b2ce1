//! Operations on a whole queue: settings, pause, purge, expiry, and changes of many messages that
//! are not in flight, in one commit. A change that is recorded under an idempotency key changes
//! nothing when it is repeated.

use std::time::Duration;

use serde::{Serialize, de::DeserializeOwned};
use steadfast_store::{Commit, DueCursor, Outcome, Position, QueuedMessage, Rejection, Timestamp};

use super::{
    error::QueueError,
    name::QueueSettings,
    pull::{AckResult, Acknowledgement},
    queues::Queues,
    redrive::{CHUNK, Candidate, Scan, taken_out},
    state::{HeldMessages, QueueState, Rules},
    views::PeekState,
};
use crate::{
    RequestKey,
    commit::{commit_each, to_end},
    dispatch::{cancelled, window::End},
    idempotency::{KeyGuard, read},
};

/// Maximum length of a chain of dead-letter queues.
const CHAIN_MAX: usize = 16;

impl Queues {
    /// Creates a queue, or changes its settings.
    #[steadfast_store::boxed]
    pub async fn configure(&self, name: &str, settings: QueueSettings) -> Result<(), QueueError> {
        settings.check(name)?;
        let (queues, name) = (self.clone(), name.to_owned());
        to_end(async move {
            // Two concurrent changes could form a cycle that neither of them detects.
            let _alone = queues.shared.configuring.lock().await;
            queues.check_cycle(&name, &settings).await?;
            let change = |it: &Rules| Some(Rules { settings: settings.clone(), ..it.clone() });
            queues.change_rules(&*queues.queue(&name).await?, "configured", change).await
        })
        .await
    }

    /// Stops delivery from a queue until it is resumed. Deliveries in flight continue.
    #[steadfast_store::boxed]
    pub async fn pause(&self, name: &str) -> Result<(), QueueError> {
        let (queues, queue) = (self.clone(), self.known(name).await?);
        to_end(async move {
            let change = |it: &Rules| (!it.paused).then(|| Rules { paused: true, ..it.clone() });
            queues.change_rules(&queue, "paused", change).await?;
            // It may be paused for long; its window would become stale.
            queue.window().start_over();
            Ok(())
        })
        .await
    }

    /// Resumes delivery.
    #[steadfast_store::boxed]
    pub async fn resume(&self, name: &str) -> Result<(), QueueError> {
        let (queues, queue) = (self.clone(), self.known(name).await?);
        to_end(async move {
            let change = |it: &Rules| it.paused.then(|| Rules { paused: false, ..it.clone() });
            queues.change_rules(&queue, "resumed", change).await
        })
        .await
    }

    async fn change_rules(
        &self,
        queue: &QueueState,
        what: &'static str,
        change: impl Fn(&Rules) -> Option<Rules>,
    ) -> Result<(), QueueError> {
        queue.change(&*self.shared.store, what, self.key.as_ref(), change).await
    }

    /// Whether it is paused.
    #[steadfast_store::boxed]
    pub async fn is_paused(&self, name: &str) -> Result<bool, QueueError> {
        Ok(self.known(name).await?.rules().paused)
    }

    /// Rejects a cycle of dead-letter queues.
    async fn check_cycle(&self, name: &str, settings: &QueueSettings) -> Result<(), QueueError> {
        let mut next = settings.dead_letter_queue.clone();
        let mut by = name.to_owned();
        for _ in 0..CHAIN_MAX {
            let Some(queue) = next else { return Ok(()) };
            if queue == name {
                return Err(QueueError::Cycle { queue, by });
            }
            next = self.queue(&queue).await?.rules().settings.dead_letter_queue;
            by = queue;
        }
        Err(QueueError::Cycle { queue: name.into(), by })
    }
}

impl Queues {
    /// Cancels the messages of a queue that are not in flight: all, the pending ones, or the dead
    /// ones. Their records stay until their retention is over. Returns the number of cancelled
    /// messages.
    ///
    /// The last commit, of at most 100 messages, records the key of this handle. After a crash
    /// before it, a repetition cancels the remaining messages and counts only those.
    #[steadfast_store::boxed]
    pub async fn purge(
        &self,
        name: &str,
        only: Option<PeekState>,
        ids: Option<&[Position]>,
    ) -> Result<u64, QueueError> {
        let _alone = self.alone().await;
        if let Some(before) = self.before().await? {
            return Ok(before);
        }
        let queue = self.known(name).await?;
        let (mut purged, mut changes) = (0, Vec::new());
        let mut scan = Scan::new(ids);
        while let Some(page) = self.next_page(&queue, &mut scan).await? {
            let meant = page.into_iter().filter(|it| {
                let state = match it.queued {
                    Some(_) => PeekState::Pending,
                    None => PeekState::Dead,
                };
                only.is_none_or(|it| it == state)
            });
            changes.extend(meant.map(|it| cancelling(it, "purged")));
            purged += self.change_first(&queue, &mut changes).await?;
        }
        self.change_last(&queue, &changes, |last| purged + last).await
    }

    /// Cancels messages that were deliverable for longer than the retention of their queue. Returns
    /// their number: none while the clock is not reliable.
    #[steadfast_store::boxed]
    pub async fn sweep(&self) -> Result<u64, QueueError> {
        let Some(now) = self.shared.clock.deletion_time() else { return Ok(0) };
        let (mut expired, mut last) = (0, None);
        loop {
            let names = self.names_behind(last.as_deref(), CHUNK).await?;
            for name in &names {
                expired += self.expire(&*self.queue(name).await?, now).await?;
            }
            last = names.last().cloned();
            if names.len() < CHUNK {
                return Ok(expired);
            }
        }
    }

    async fn expire(&self, queue: &QueueState, now: Timestamp) -> Result<u64, QueueError> {
        let Some(keep) = queue.rules().settings.retention_ms else { return Ok(0) };
        // Strictly longer than that.
        let keep_ms = i64::try_from(keep).unwrap_or(i64::MAX);
        let before = Timestamp(now.0.saturating_sub(keep_ms).saturating_sub(1));
        let why = format!("expired: not consumed within {:?}", Duration::from_millis(keep));
        let (mut expired, mut after) = (0, DueCursor::START);
        // In due order: the retention of a delayed, retried or moved message begins at its due
        // time.
        loop {
            let page =
                self.shared.store.queue_messages(queue.address.id(), after, before, CHUNK).await?;
            let Some(last) = page.last() else { return Ok(expired) };
            after = DueCursor { due_at: last.due_at(), position: last.message.position };
            let candidate =
                |it: QueuedMessage| Candidate { message: it.message.clone(), queued: Some(it) };
            let changes = page.into_iter().map(|it| cancelling(candidate(it), &why));
            let changes: Vec<_> = changes.collect();
            for some in changes.chunks(TOGETHER) {
                expired += self.change_some(queue, some).await?;
            }
        }
    }
}

/// Cancels a message.
fn cancelling(it: Candidate, why: &str) -> (Candidate, Commit) {
    let settle = cancelled(it.message.position, it.lease(), Some(why.to_owned()));
    let commit = taken_out(&it).write(settle);
    (it, commit)
}

/// Messages changed in one commit.
const TOGETHER: usize = 100;

impl Queues {
    /// Commits changes of messages that no consumer holds, and returns how many succeeded. The last
    /// 1 to 100 changes stay, for [`Self::change_last`].
    pub(super) async fn change_first(
        &self,
        queue: &QueueState,
        changes: &mut Vec<(Candidate, Commit)>,
    ) -> Result<u64, QueueError> {
        let mut changed = 0;
        while TOGETHER < changes.len() {
            let some: Vec<_> = changes.drain(..TOGETHER).collect();
            changed += self.change_some(queue, &some).await?;
        }
        Ok(changed)
    }

    /// Commits the last changes, and records the answer with them under the key of this handle. The
    /// answer is made from the number of changes that succeeded.
    pub(super) async fn change_last<T: Serialize + DeserializeOwned>(
        &self,
        queue: &QueueState,
        changes: &[(Candidate, Commit)],
        answer: impl Fn(u64) -> T,
    ) -> Result<T, QueueError> {
        let Some(key) = &self.key else {
            return Ok(answer(self.change_some(queue, changes).await?));
        };
        let mut held = HeldMessages::new(queue, Vec::new());
        let ours: Vec<_> = changes.iter().filter(|it| take(&mut held, &it.0)).collect();
        let all = answer(ours.len() as u64);
        let mut together = Commit::of(key.write_answer(&all)?);
        for (_, commit) in &ours {
            together.expects.extend_from_slice(&commit.expects);
            together.writes.extend_from_slice(&commit.writes);
        }
        match self.shared.store.commit(together).await? {
            Outcome::Committed(_) => {
                ours.iter().for_each(|it| held.finish(it.0.message.position, End::Gone));
                queue.wake();
                return Ok(all);
            }
            Outcome::Duplicate(before) => return Ok(read(&before)?),
            Outcome::Rejected(Rejection::KeyReused { key }) => {
                return Err(QueueError::KeyReused { key });
            }
            // Another commit has changed one of them: commit one by one.
            Outcome::Rejected(_) => drop(held),
        }
        let done = answer(self.change_some(queue, changes).await?);
        match self.shared.store.commit(Commit::of(key.write_answer(&done)?)).await? {
            Outcome::Committed(_) => Ok(done),
            Outcome::Duplicate(before) => Ok(read(&before)?),
            Outcome::Rejected(Rejection::KeyReused { key }) => Err(QueueError::KeyReused { key }),
            // Nothing else is expected.
            Outcome::Rejected(_) => Ok(done),
        }
    }

    /// Commits changes together, and returns how many succeeded.
    async fn change_some(
        &self,
        queue: &QueueState,
        changes: &[(Candidate, Commit)],
    ) -> Result<u64, QueueError> {
        let mut held = HeldMessages::new(queue, Vec::new());
        let ours: Vec<_> = changes.iter().filter(|it| take(&mut held, &it.0)).collect();
        let commits: Vec<Commit> = ours.iter().map(|it| it.1.clone()).collect();
        let outcomes = commit_each(&*self.shared.store, &commits).await?;
        let mut changed = 0;
        for ((candidate, _), outcome) in ours.into_iter().zip(outcomes) {
            if let Outcome::Committed(_) = outcome {
                held.finish(candidate.message.position, End::Gone);
                changed += 1;
            }
        }
        queue.wake();
        Ok(changed)
    }
}

/// Whether no consumer holds it. A dead message is in no window.
fn take(held: &mut HeldMessages<&QueueState>, candidate: &Candidate) -> bool {
    candidate.queued.as_ref().is_none_or(|it| held.hold(it))
}

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
    use Rejection::{LeaseLost, NotDue, NotPending, NotSettled};
    let (NotPending { position }
    | NotDue { position, .. }
    | LeaseLost { position }
    | NotSettled { position }) = rejection
    else {
        return None;
    };
    Some(*position)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{
        App,
        queue::{redrive::Redrive, send::Outgoing},
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
