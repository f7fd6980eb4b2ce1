//! Operations on a whole queue.

use super::{
    QueueError, QueueSettings, Queues,
    state::{QueueState, Rules},
};
use crate::to_end::to_end;

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
    pub(super) async fn check_cycle(
        &self,
        name: &str,
        settings: &QueueSettings,
    ) -> Result<(), QueueError> {
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
