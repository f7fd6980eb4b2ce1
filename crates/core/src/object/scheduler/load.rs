//! Reads objects, on other threads than those that run turns.

use std::sync::Arc;

use steadfast_store::{StoreError, futures::FutureExt};

use super::{Scheduler, entry::ObjectEntry};
use crate::object::{
    CallError,
    executor::TurnExecutor,
    storage::{Extent, StoredPages, restore},
};

/// An object that is being read. If the task is cancelled, the requests in its mailbox fail.
struct Loading {
    scheduler: Arc<Scheduler>,
    entry: Option<Arc<ObjectEntry>>,
}

impl Loading {
    fn ended(&mut self, result: Result<Box<TurnExecutor>, CallError>) {
        if let Some(entry) = self.entry.take() {
            entry.loaded(&self.scheduler, result);
        }
    }
}

impl Drop for Loading {
    fn drop(&mut self) {
        self.ended(Err(CallError::Store(StoreError::Closed)));
    }
}

impl Scheduler {
    pub(super) fn load(self: &Arc<Self>, entry: Arc<ObjectEntry>) {
        let mut loading = Loading { scheduler: self.clone(), entry: Some(entry.clone()) };
        self.tokio.spawn(
            async move {
                let result = loading.scheduler.read(&entry).await;
                if let Err(error) = &result {
                    let (id, now) = (entry.address.id(), loading.scheduler.clock.now());
                    loading.scheduler.failures.note(id, now, "wake up", error);
                }
                loading.ended(result);
            }
            .boxed(),
        );
    }

    async fn read(&self, entry: &ObjectEntry) -> Result<Box<TurnExecutor>, CallError> {
        let restored = restore(&*self.store, &entry.address, Extent::Needed).await?;
        let source = StoredPages::of(&self.store, &self.tokio, &entry.address, &restored);
        let (address, class) = (entry.address.clone(), entry.class.class.clone());
        Ok(Box::new(TurnExecutor::new(address, class, restored, source, self.options)))
    }
}
