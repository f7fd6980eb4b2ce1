//! Purges a queue, and expires old messages.

use std::time::Duration;

use steadfast_store::{Commit, DueCursor, Position, QueuedMessage, SettledAs, Timestamp, Write};

use super::{
    PeekState, QueueError, Queues,
    change::TOGETHER,
    redrive::{CHUNK, Candidate, Scan, taken_out},
    state::QueueState,
};

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
    let (position, as_, lease) = (it.message.position, SettledAs::Cancelled, it.lease());
    let error = Some(why.to_owned());
    let commit = taken_out(&it).write(Write::Settle { position, lease, as_, error });
    (it, commit)
}
