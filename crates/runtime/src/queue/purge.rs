//! Emptying a queue, and what is too old to stay in one.

use std::time::Duration;

use steadfast_store::{Commit, Expect, Position, SettledAs, StoreError, Timestamp, Write};

use super::{
    PeekState, QueueError, Queues,
    desk::Desk,
    redrive::{Candidate, Walk},
};

/// Messages looked at in one sweep of one queue.
const SWEEP_MAX: usize = 10_000;

impl Queues {
    /// Takes all messages out of a queue that nobody handles, or those that wait, or the dead ones.
    /// They are cancelled: their record stays for as long as records do. Says how many.
    pub async fn purge(
        &self,
        name: &str,
        only: Option<PeekState>,
        ids: Option<&[Position]>,
    ) -> Result<u64, QueueError> {
        let desk = self.known(name).await?;
        let mut purged = 0;
        let mut walk = Walk::default();
        while let Some(page) = self.next_page(&desk, &mut walk).await? {
            for candidate in page {
                let state = match candidate.letter {
                    Some(_) => PeekState::Pending,
                    None => PeekState::Dead,
                };
                let is_meant = only.is_none_or(|it| it == state)
                    && ids.is_none_or(|it| it.contains(&candidate.message.position));
                if is_meant && self.cancel(&desk, &candidate, "purged").await? {
                    purged += 1;
                }
            }
        }
        Ok(purged)
    }

    async fn cancel(
        &self,
        desk: &Desk,
        candidate: &Candidate,
        why: &str,
    ) -> Result<bool, QueueError> {
        let position = candidate.message.position;
        let error = Some(why.to_owned());
        let end = Write::Settle { position, lease: None, as_: SettledAs::Cancelled, error };
        let commit = match &candidate.letter {
            Some(_) => Commit::default().expect(Expect::Pending { position }).write(end),
            None => Commit::default()
                .expect(Expect::Settled { position, as_: SettledAs::Dead })
                .write(Write::Revive { position })
                .write(end),
        };
        self.change(desk, candidate, commit).await
    }

    /// Cancels what has waited for longer than its queue keeps messages. Says how many.
    pub async fn sweep(&self) -> Result<u64, QueueError> {
        let now = self.shared.clock.now();
        let mut expired = 0;
        for name in self.names().await? {
            let desk = self.desk(&name).await?;
            let Some(keep) = desk.rules().settings.retention_ms else { continue };
            let before = Timestamp(now.0.saturating_sub(i64::try_from(keep).unwrap_or(i64::MAX)));
            let Some(until) = self.last_before(before).await? else { continue };
            let store = &self.shared.store;
            for position in store.letters_up_to(desk.address.id(), until, SWEEP_MAX).await? {
                let Some(candidate) = self.candidate(&desk, position).await? else { continue };
                let why = format!("expired: nobody consumed it within {:?}", kept(keep));
                expired += u64::from(self.cancel(&desk, &candidate, &why).await?);
            }
        }
        Ok(expired)
    }

    /// The last message of the store that was written before a time, if there is one: positions and
    /// times ascend together.
    async fn last_before(&self, before: Timestamp) -> Result<Option<Position>, StoreError> {
        let store = &self.shared.store;
        let (mut low, mut high) = (0, store.totals().await?.position);
        while low < high {
            let middle = low + (high - low) / 2;
            // The first message behind it.
            match store.read_all(middle, 1).await?.first() {
                Some(it) if it.created_at < before => low = it.position,
                _ => high = middle,
            }
        }
        Ok((0 < low).then_some(low))
    }
}

fn kept(ms: u64) -> Duration {
    Duration::from_millis(ms)
}
