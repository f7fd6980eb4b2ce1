//! What operators do to a queue as a whole.

use super::{QueueError, QueueSettings, Queues, desk::Rules};

/// So many dead-letter queues may lead from one to the next.
const CHAIN_MAX: usize = 16;

impl Queues {
    /// Makes a queue, or gives it other settings.
    pub async fn configure(&self, name: &str, settings: QueueSettings) -> Result<(), QueueError> {
        settings.check(name)?;
        self.check_circle(name, &settings).await?;
        let change = |it: &Rules| Some(Rules { settings: settings.clone(), ..it.clone() });
        let store = &*self.shared.store;
        self.desk(name).await?.change(store, "configured", change).await?;
        Ok(())
    }

    /// Delivers nothing more from a queue until it is resumed. What is under way ends.
    pub async fn pause(&self, name: &str) -> Result<(), QueueError> {
        let desk = self.known(name).await?;
        let change = |it: &Rules| (!it.paused).then(|| Rules { paused: true, ..it.clone() });
        desk.change(&*self.shared.store, "paused", change).await?;
        // It may lie for long; what is on the shelf would get old.
        desk.shelf().start_over();
        Ok(())
    }

    /// Goes on.
    pub async fn resume(&self, name: &str) -> Result<(), QueueError> {
        let desk = self.known(name).await?;
        let change = |it: &Rules| it.paused.then(|| Rules { paused: false, ..it.clone() });
        desk.change(&*self.shared.store, "resumed", change).await?;
        Ok(())
    }

    /// Dead letters must not come back to where they died.
    pub(super) async fn check_circle(
        &self,
        name: &str,
        settings: &QueueSettings,
    ) -> Result<(), QueueError> {
        let mut next = settings.dead_letter_queue.clone();
        let mut by = name.to_owned();
        for _ in 0..CHAIN_MAX {
            let Some(queue) = next else { return Ok(()) };
            if queue == name {
                return Err(QueueError::Circle { queue, by });
            }
            next = self.desk(&queue).await?.rules().settings.dead_letter_queue;
            by = queue;
        }
        Err(QueueError::Circle { queue: name.into(), by })
    }
}
