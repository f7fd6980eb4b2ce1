//! Operations on a whole queue.

use std::sync::Arc;

use steadfast_store::{StoreError, futures::FutureExt};

use super::{
    QueueError, QueueSettings, Queues,
    state::{QueueState, Rules},
};

/// Maximum length of a chain of dead-letter queues.
const CHAIN_MAX: usize = 16;

impl Queues {
    /// Creates a queue, or changes its settings.
    #[steadfast_store::boxed]
    pub async fn configure(&self, name: &str, settings: QueueSettings) -> Result<(), QueueError> {
        settings.check(name)?;
        // Two concurrent changes could form a cycle that neither of them detects.
        let _alone = self.shared.configuring.lock().await;
        self.check_cycle(name, &settings).await?;
        let change = move |it: &Rules| Some(Rules { settings: settings.clone(), ..it.clone() });
        self.change_rules(self.queue(name).await?, "configured", change).await
    }

    /// Stops delivery from a queue until it is resumed. Deliveries in flight continue.
    #[steadfast_store::boxed]
    pub async fn pause(&self, name: &str) -> Result<(), QueueError> {
        let queue = self.known(name).await?;
        let change = |it: &Rules| (!it.paused).then(|| Rules { paused: true, ..it.clone() });
        self.change_rules(queue.clone(), "paused", change).await?;
        // It may be paused for long; its window would become stale.
        queue.window().start_over();
        Ok(())
    }

    /// Resumes delivery.
    #[steadfast_store::boxed]
    pub async fn resume(&self, name: &str) -> Result<(), QueueError> {
        let queue = self.known(name).await?;
        let change = |it: &Rules| it.paused.then(|| Rules { paused: false, ..it.clone() });
        self.change_rules(queue, "resumed", change).await
    }

    /// In a task of its own: a recorded change must also take effect here if the caller is dropped.
    async fn change_rules(
        &self,
        queue: Arc<QueueState>,
        what: &'static str,
        change: impl Fn(&Rules) -> Option<Rules> + Send + Sync + 'static,
    ) -> Result<(), QueueError> {
        let (store, key) = (self.shared.store.clone(), self.key.clone());
        let task = tokio::spawn(
            async move { queue.change(&*store, what, key.as_ref(), change).await }.boxed(),
        );
        match task.await {
            Ok(changed) => changed,
            Err(error) => match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                // The program is stopping.
                Err(_) => Err(StoreError::Closed.into()),
            },
        }
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
