//! Views of one run, and waiting for new entries.

use steadfast_store::{Address, Timestamp, Version};

use super::{
    RunError, Runs,
    fold::RunFold,
    runs::address,
    view::{LiveState, RunView},
};

/// Entries of one read while bytes are counted: each may have 1 MiB.
pub(super) const BOUNDED_PAGE: usize = 50;

impl Runs {
    /// A view of a run.
    #[steadfast_store::boxed]
    pub async fn look(&self, workflow: &str, id: &str) -> Result<RunView, RunError> {
        let run = address(workflow, id)?;
        let live = self.live(&run);
        let fold = RunFold::for_view().read(&*self.shared.store, &run, Version::MAX);
        match fold.await? {
            Some(fold) => Ok(RunView::of(&fold, &run, &live)),
            None => Err(self.unknown(&run)),
        }
    }

    /// A view of a run, unless its record has more entries or bytes than this: then `None`, after a
    /// read of at most 50 more entries.
    #[steadfast_store::boxed]
    pub async fn look_within(
        &self,
        workflow: &str,
        id: &str,
        entries: Version,
        mut bytes: usize,
    ) -> Result<Option<RunView>, RunError> {
        let run = address(workflow, id)?;
        let live = self.live(&run);
        let mut fold = RunFold::for_view();
        loop {
            let from = fold.head.version + 1;
            let page = self.shared.store.read_stream(run.id(), from, BOUNDED_PAGE).await?;
            for message in &page {
                let len = message.data.as_str().len();
                if bytes < len || entries < message.version {
                    return Ok(None);
                }
                bytes -= len;
                fold.take(message)?;
            }
            if page.len() < BOUNDED_PAGE {
                fold.name_receivers(&*self.shared.store).await?;
                let view = (0 < fold.head.version).then(|| RunView::of(&fold, &run, &live));
                return view.map(Some).ok_or_else(|| self.unknown(&run));
            }
        }
    }

    /// The number of entries in the record of a run.
    #[steadfast_store::boxed]
    pub async fn length(&self, workflow: &str, id: &str) -> Result<Version, RunError> {
        let run = address(workflow, id)?;
        match self.shared.store.version(run.id()).await? {
            0 => Err(self.unknown(&run)),
            length => Ok(length),
        }
    }

    /// The error of a run without a record.
    pub(super) fn unknown(&self, run: &Address) -> RunError {
        let unknown = RunError::UnknownRun { run: run.to_string() };
        self.check(run.class()).err().unwrap_or(unknown)
    }

    /// A view of a run after the change that was made under the key of this handle; without a key,
    /// the current view. A repetition gets the same view as the first request: it is made from the
    /// record alone, and leaves out attempts in flight.
    #[steadfast_store::boxed]
    pub async fn look_then(&self, workflow: &str, id: &str) -> Result<RunView, RunError> {
        let run = address(workflow, id)?;
        let Some(changed) = self.changed_before().await? else {
            return self.look(workflow, id).await;
        };
        let unknown = || RunError::UnknownRun { run: run.to_string() };
        let fold = RunFold::for_view().read(&*self.shared.store, &run, changed.version).await?;
        // Another run may have this id since.
        let fold = fold.filter(|it| it.head.first == changed.first).ok_or_else(unknown)?;
        let (now, in_flight, progress) = (Timestamp(changed.at), None, None);
        let live = LiveState { now, in_flight, progress, running: 0, served: true };
        Ok(RunView::of(&fold, &run, &live))
    }

    /// Waits until the record of a run has more than `after` entries.
    #[steadfast_store::boxed]
    pub async fn grown(&self, workflow: &str, id: &str, after: Version) -> Result<(), RunError> {
        let run = address(workflow, id)?;
        // Watch before the read, so that no change is missed.
        let mut watcher = self.shared.watchers.watch(run.id());
        if self.shared.store.version(run.id()).await? <= after {
            // The sender exists as long as the watcher.
            let _ = watcher.updates.wait_for(|it| after < it.version).await;
        }
        Ok(())
    }

    fn live(&self, run: &Address) -> LiveState {
        let (in_flight, progress) = self.shared.active.in_flight(run.id()).unzip();
        LiveState {
            now: self.shared.clock.now(),
            in_flight,
            progress: progress.flatten(),
            running: self.shared.active.of(run.class()).len(),
            served: self.check(run.class()).is_ok(),
        }
    }
}
