//! What earlier owners were delivering when they ended.

use std::collections::HashMap;

use steadfast_store::{Address, Commit, EntityId, StoreError, Work, Write};

use super::{
    QueueSettings, Queues,
    delivery::Verdict,
    settle::{self, Ending},
};
use crate::commit_each::commit_each;

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
            // Nothing else that is suspect was under way when the process ended.
            let is_alone = orphans.len() == 1 && self.shared.blamed.lock().is_empty();
            let names = self.queues_of(&orphans).await?;
            let mut commits = Vec::new();
            for work in orphans {
                let Some(queue) = names.get(&work.target) else {
                    let reason = format!("message {} is in an unknown queue", work.position);
                    return Err(StoreError::Corrupt { reason });
                };
                let settings = self.open(queue.class()).await?.rules().settings;
                self.shared.blamed.lock().insert(work.position);
                commits.extend(self.take_over(&work, &settings, is_alone).map(Commit::of));
            }
            commit_each(&**store, &commits).await?;
        }
    }

    /// What becomes of a message whose process ended.
    fn take_over(&self, work: &Work, settings: &QueueSettings, is_alone: bool) -> Option<Write> {
        let (position, tries) = (work.position, work.tries());
        let (lease, _) = work.claim?;
        // Its last attempt, with others beside it: it is not given up for what they did.
        if !is_alone && settings.attempts_max() <= tries {
            return Some(Write::Release { position, lease });
        }
        // Most were only near when another one ended the process: at once.
        let after = Some(std::time::Duration::ZERO);
        let error = format!("the process ended during attempt {tries}");
        let verdict = Verdict::Retry { after, error };
        let ending = Ending { position, attempt: tries, lease: Some(lease), verdict };
        settle::write(&ending, settings, &*self.shared.entropy).write
    }

    async fn queues_of(&self, works: &[Work]) -> Result<HashMap<EntityId, Address>, StoreError> {
        let ids: Vec<EntityId> = works.iter().map(|it| it.target).collect();
        self.shared.store.addresses(&ids).await
    }
}
