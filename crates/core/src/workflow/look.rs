//! Looking at one run from outside, and waiting until it grows.

use steadfast_store::{Address, StoreError, Timestamp, Version};

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
        match self.story(&run, Version::MAX).await? {
            Some(story) => Ok(story.view(&run, &around)),
            None => {
                self.check(workflow)?;
                Err(RunError::UnknownRun { run: run.to_string() })
            }
        }
    }

    /// What a run looked like after the change that was made under the key of this handle; without
    /// a key, what it looks like now. A repetition gets the same view as the first request: it is
    /// made from the record alone, and leaves out what was in progress.
    pub async fn look_then(&self, workflow: &str, id: &str) -> Result<RunView, RunError> {
        let run = address(workflow, id)?;
        let Some(changed) = self.changed_before().await? else {
            return self.look(workflow, id).await;
        };
        let unknown = || RunError::UnknownRun { run: run.to_string() };
        let first = self.shared.store.read_stream(run.id(), 1, 1).await?.pop();
        // Another run may have this id since.
        first.filter(|it| it.position == changed.first).ok_or_else(unknown)?;
        let story = self.story(&run, changed.version).await?.ok_or_else(unknown)?;
        let (now, under_way, progress) = (Timestamp(changed.at), None, None);
        let around = Present { now, under_way, progress, running: 0, served: true };
        Ok(story.view(&run, &around))
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

    /// The record of a run up to a version.
    async fn story(&self, run: &Address, to: Version) -> Result<Option<Story>, StoreError> {
        let mut story = Story::new();
        loop {
            let page = self.shared.store.read_stream(run.id(), story.version() + 1, PAGE).await?;
            for message in page.iter().filter(|it| it.version <= to) {
                story.take(message)?;
            }
            if page.len() < PAGE || to <= story.version() {
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
