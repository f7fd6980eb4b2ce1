//! Looking at one run from outside, and waiting until it grows.

use steadfast_store::{Address, Timestamp, Version};

use super::{
    RunError, Runs,
    fold::RunFold,
    runs::address,
    view::{Present, RunView},
};

impl Runs {
    /// What a run looks like.
    pub async fn look(&self, workflow: &str, id: &str) -> Result<RunView, RunError> {
        let run = address(workflow, id)?;
        let around = self.around(&run);
        match RunFold::load(&*self.shared.store, &run).await? {
            Some(fold) => Ok(RunView::of(&fold, &run, &around)),
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
        let fold = RunFold::load_to(&*self.shared.store, &run, changed.version).await?;
        // Another run may have this id since.
        let fold = fold.filter(|it| it.head.first == changed.first).ok_or_else(unknown)?;
        let (now, under_way, progress) = (Timestamp(changed.at), None, None);
        let around = Present { now, under_way, progress, running: 0, served: true };
        Ok(RunView::of(&fold, &run, &around))
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

    fn around(&self, run: &Address) -> Present {
        let (under_way, progress) = self.shared.active.under_way(run.id()).unzip();
        Present {
            now: self.shared.clock.now(),
            under_way,
            progress: progress.flatten(),
            running: self.shared.active.of(run.class()).len(),
            served: self.check(run.class()).is_ok(),
        }
    }
}
