//! What earlier owners were delivering when they ended.

use std::collections::HashMap;

use steadfast_store::{Address, Commit, EntityId, StoreError, Work, Write};

use super::{
    Queues,
    delivery::Verdict,
    desk::lock,
    settle::{self, Ending},
};

impl Queues {
    /// Counts the attempts that ended with their process. Those messages are delivered again, each
    /// without another one beside it that could be to blame; or they are given up.
    pub(super) async fn take_over_orphans(&self) -> Result<(), StoreError> {
        let store = &self.shared.store;
        loop {
            let orphans = store.orphans(store.owner().epoch, true, 500).await?;
            if orphans.is_empty() {
                return Ok(());
            }
            let names = self.queues_of(&orphans).await?;
            for work in orphans {
                let Some(queue) = names.get(&work.target) else {
                    let reason = format!("message {} is in an unknown queue", work.position);
                    return Err(StoreError::Corrupt { reason });
                };
                let settings = self.open(queue.class()).await?.rules().settings;
                let tries = work.tries();
                // Most were only near when another one ended the process: at once.
                let after = Some(std::time::Duration::ZERO);
                let error = format!("the process ended during attempt {tries}");
                let verdict = Verdict::Retry { after, error };
                let (position, lease) = (work.position, work.claim.map(|(lease, _)| lease));
                lock(&self.shared.blamed).insert(position);
                // Its last attempt, with others beside it: it is not given up for what they did.
                if let Some(lease) = lease.filter(|it| 0 < it.number)
                    && settings.attempts_max() <= tries
                {
                    store.commit(Commit::of(Write::Release { position, lease })).await?;
                    continue;
                }
                let ending = Ending { position, attempt: tries, lease, verdict };
                let written = settle::write(&ending, &settings, &*self.shared.entropy);
                settle::commit(&**store, &[written]).await?;
            }
        }
    }

    async fn queues_of(&self, works: &[Work]) -> Result<HashMap<EntityId, Address>, StoreError> {
        let ids: Vec<EntityId> = works.iter().map(|it| it.target).collect();
        self.shared.store.addresses(&ids).await
    }
}
