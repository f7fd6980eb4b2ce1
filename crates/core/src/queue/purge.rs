//! Emptying a queue, and what is too old to stay in one.

use std::time::Duration;

use steadfast_store::{DueCursor, Letter, Position, SettledAs, Timestamp, Write};

use super::{
    PeekState, QueueError, Queues,
    desk::Desk,
    redrive::{CHUNK, Candidate, Walk, taken_out},
};

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
        let mut walk = Walk::new(ids);
        while let Some(page) = self.next_page(&desk, &mut walk).await? {
            let mut meant = page;
            meant.retain(|it| {
                let state = match it.letter {
                    Some(_) => PeekState::Pending,
                    None => PeekState::Dead,
                };
                only.is_none_or(|it| it == state)
            });
            purged += self.cancel(&desk, meant, "purged").await?;
        }
        Ok(purged)
    }

    async fn cancel(
        &self,
        desk: &Desk,
        candidates: Vec<Candidate>,
        why: &str,
    ) -> Result<u64, QueueError> {
        let changes = candidates.into_iter().map(|it| {
            let (position, as_, lease) = (it.message.position, SettledAs::Cancelled, it.lease());
            let error = Some(why.to_owned());
            let commit = taken_out(&it).write(Write::Settle { position, lease, as_, error });
            (it, commit)
        });
        let changed = self.change_all(desk, &changes.collect::<Vec<_>>()).await?;
        Ok(changed.into_iter().filter(|it| *it).count() as u64)
    }

    /// Cancels what could have been delivered for longer than its queue keeps messages. Says how
    /// many: none while the clock cannot be trusted.
    pub async fn sweep(&self) -> Result<u64, QueueError> {
        let Some(now) = self.shared.clock.deletion_time() else { return Ok(0) };
        let mut expired = 0;
        for name in self.names().await? {
            let desk = self.desk(&name).await?;
            let Some(keep) = desk.rules().settings.retention_ms else { continue };
            // Longer than that, not just as long.
            let keep_ms = i64::try_from(keep).unwrap_or(i64::MAX);
            let before = Timestamp(now.0.saturating_sub(keep_ms).saturating_sub(1));
            let why = format!("expired: nobody consumed it within {:?}", kept(keep));
            let mut after = DueCursor::START;
            // In due order: what is delayed, tried again or moved has its time from then on.
            loop {
                let store = &self.shared.store;
                let page = store.letters(desk.address.id(), after, before, CHUNK).await?;
                let Some(last) = page.last() else { break };
                after = DueCursor { due_at: last.due_at(), position: last.message.position };
                let candidate =
                    |it: Letter| Candidate { message: it.message.clone(), letter: Some(it) };
                let candidates = page.into_iter().map(candidate).collect();
                expired += self.cancel(&desk, candidates, &why).await?;
            }
        }
        Ok(expired)
    }
}

fn kept(ms: u64) -> Duration {
    Duration::from_millis(ms)
}
