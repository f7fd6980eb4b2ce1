//! Looking at one run from outside, and waiting until it grows.

use steadfast_store::{Address, StoreError, Version};

use super::{
    RunError, Runs,
    runs::address,
    view::{Present, RunView, Story},
};

/// Entries read at once.
const PAGE: usize = 500;

impl Runs {
    /// What a run looks like.
    pub async fn look(&self, workflow: &str, id: &str) -> Result<RunView, RunError> {
        let run = address(workflow, id)?;
        let around = self.around(&run);
        match self.story(&run).await? {
            Some(story) => Ok(story.view(&run, &around)),
            None => {
                self.check(workflow)?;
                Err(RunError::UnknownRun { run: run.to_string() })
            }
        }
    }

    /// Waits until more is recorded of a run than `after` entries.
    pub async fn grown(&self, workflow: &str, id: &str, after: Version) -> Result<(), RunError> {
        let run = address(workflow, id)?;
        // First the watcher, then the look: nothing falls between them.
        let mut watcher = self.shared.watchers.watch(run.id());
        if self.shared.store.version(run.id()).await? <= after {
            // The sender is there as long as the watcher.
            let _ = watcher.news.wait_for(|it| after < it.version).await;
        }
        Ok(())
    }

    async fn story(&self, run: &Address) -> Result<Option<Story>, StoreError> {
        let mut story = Story::new();
        loop {
            let page = self.shared.store.read_stream(run.id(), story.version() + 1, PAGE).await?;
            for message in &page {
                story.take(message)?;
            }
            if page.len() < PAGE {
                return Ok((0 < story.version()).then_some(story));
            }
        }
    }

    fn around(&self, run: &Address) -> Present {
        let (under_way, progress) = self.under_way(run).unzip();
        Present {
            now: self.shared.clock.now(),
            under_way,
            progress: progress.flatten(),
            running: self.awake(run.class()).len(),
            served: self.check(run.class()).is_ok(),
        }
    }
}
